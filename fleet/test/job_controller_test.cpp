#include "job_controller.hpp"

#include "test/rig.hpp"

#include <gtest/gtest.h>

namespace qm::fleet {
namespace job_controller_test {

struct Jobs : ::testing::Test {
  Json job(const std::string& name = "j") { return rig.get("jobs", "team-a", name); }
  std::string condition(const std::string& type) { return condition_of(job(), type)["status"].string(); }
  void end_pod(const std::string& name, const char* phase, const char* reason = "") {
    rig.store.modify(kind_of("pods"), "team-a", name,
                     [&](Json& pod) { pod.set("status").set("phase", phase).set("reason", reason); });
    rig.settle();
  }
  Rig rig;
};

TEST(Indexes, AreWrittenAsRangesAndReadBack) {
  EXPECT_EQ(format_indexes({}), "");
  EXPECT_EQ(format_indexes({0, 1, 2, 3, 5, 8, 9}), "0-3,5,8-9");
  EXPECT_EQ(parse_indexes("0-3,5,8-9"), (std::set<std::int64_t>{0, 1, 2, 3, 5, 8, 9}));
  EXPECT_TRUE(parse_indexes("").empty());
  EXPECT_EQ(parse_indexes("x,4"), std::set<std::int64_t>{4});
}

TEST_F(Jobs, ASuspendedJobHasNoPodsUntilItIsResumed) {
  const auto made = rig.make_job("j", 3, 1, Json::object(), true);
  rig.settle();
  EXPECT_TRUE(rig.pods_of(made).empty());
  EXPECT_EQ(condition("Suspended"), "True");
  EXPECT_FALSE(job()["status"].contains("startTime"));

  rig.patch("jobs", "team-a", "j",
            R"({"spec":{"suspend":false,"template":{"metadata":{"annotations":{"quartermaster.dev/attempt":"1"}}}}})");
  rig.settle();
  const auto pods = rig.pods_of(made);
  ASSERT_EQ(pods.size(), 3u);
  EXPECT_EQ(condition("Suspended"), "False");
  EXPECT_EQ(job()["status"]["active"].integer(), 3);
  EXPECT_TRUE(job()["status"].contains("startTime"));
  const Json pod = rig.get("pods", "team-a", pods[2]);
  EXPECT_EQ(annotation_of(pod, words::kAttempt).string(), "1");
  EXPECT_EQ(annotation_of(pod, words::kJobIndex).string(), "2");
  EXPECT_EQ(label_of(pod, words::kJobIndex).string(), "2");
  EXPECT_EQ(label_of(pod, "job-name").string(), "j");
  EXPECT_TRUE(pods[2].starts_with("j-2-"));
  const Json& owner = pod["metadata"]["ownerReferences"].at(0);
  EXPECT_EQ(owner["uid"].string(), uid_of(*made));
  EXPECT_TRUE(owner["controller"].boolean());

  rig.patch("jobs", "team-a", "j", R"({"spec":{"suspend":true}})");
  rig.settle();
  EXPECT_TRUE(rig.pods_of(made).empty()) << "unbound pods go at once";
  EXPECT_FALSE(job()["status"].contains("startTime"));
  EXPECT_EQ(condition("Suspended"), "True");
}

TEST_F(Jobs, CompletesWhenEveryIndexSucceeded) {
  const auto made = rig.make_job("j", 2, 1);
  rig.settle();
  const auto pods = rig.pods_of(made);
  end_pod(pods[1], "Succeeded");
  EXPECT_EQ(job()["status"]["completedIndexes"].string(), "1");
  EXPECT_EQ(condition("Complete"), "");
  EXPECT_EQ(rig.pods_of(made).size(), 2u) << "an index that succeeded is not run again";
  end_pod(pods[0], "Succeeded");
  EXPECT_EQ(condition("Complete"), "True");
  EXPECT_TRUE(job()["status"].contains("completionTime"));
  ASSERT_EQ(rig.history("job_finish").size(), 1u);
  EXPECT_TRUE(rig.history("job_finish")[0]["ok"].boolean());
  EXPECT_EQ(rig.history("job_create")[0]["gang"].integer(), 2);
  EXPECT_EQ(rig.history("job_create")[0]["team"].string(), "a");
}

TEST_F(Jobs, WithoutCompletionsEndWithTheirPodsOnceOneSucceeded) {
  Json spec = Json::object({{"parallelism", 2}});
  spec.set("template").set("spec", Rig::pod_spec(1));
  const auto made =
      rig.make("jobs", "team-a", Json::object({{"metadata", Json::object({{"name", "j"}})}, {"spec", spec}}));
  EXPECT_TRUE(job()["spec"]["completions"].is_null());
  rig.settle();
  const auto pods = rig.pods_of(made);
  ASSERT_EQ(pods.size(), 2u);
  end_pod(pods[0], "Succeeded");
  EXPECT_EQ(condition("Complete"), "") << "the other one still works";
  EXPECT_EQ(rig.pods_of(made).size(), 2u) << "none is added";
  end_pod(pods[1], "Succeeded");
  EXPECT_EQ(condition("Complete"), "True");
}

TEST_F(Jobs, ReplacesDeletedPodsAtOnceAndFailedOnesAfterADelay) {
  const auto made = rig.make_job("j", 1, 1);
  rig.settle();
  ASSERT_TRUE(rig.store.remove(kind_of("pods"), "team-a", rig.pods_of(made)[0], {}));
  rig.settle();
  auto pods = rig.pods_of(made);
  ASSERT_EQ(pods.size(), 1u);
  EXPECT_EQ(job()["status"]["failed"].integer(), 0);
  end_pod(pods[0], "Failed");
  rig.advance(9);
  EXPECT_EQ(rig.pods_of(made).size(), 1u);
  rig.advance(2);
  EXPECT_EQ(rig.pods_of(made).size(), 2u);
  EXPECT_EQ(job()["status"]["failed"].integer(), 1);
}

TEST_F(Jobs, FailsPastItsBackoffLimitButNotForLostNodes) {
  const auto made = rig.make_job("j", 2, 1);
  rig.patch("jobs", "team-a", "j", R"({"spec":{"backoffLimit":1}})");
  rig.settle();
  for (int i = 0; i < 3; ++i) {
    end_pod(rig.pods_of(made).front(), "Failed", "NodeLost");
    rig.settle();
  }
  EXPECT_EQ(job()["status"]["failed"].integer(), 0);
  EXPECT_EQ(job()["status"]["active"].integer(), 2);
  for (int i = 0; i < 2; ++i) {
    for (const auto& name : rig.pods_of(made)) {
      if (rig.phase(name) != "Pending") continue;
      end_pod(name, "Failed");
      break;
    }
    rig.advance(30);
  }
  EXPECT_EQ(condition("Failed"), "True");
  EXPECT_EQ(condition_of(job(), "Failed")["reason"].string(), "BackoffLimitExceeded");
  for (const auto& name : rig.pods_of(made)) EXPECT_EQ(rig.phase(name), "Failed") << "what still ran was stopped";
  EXPECT_FALSE(rig.history("job_finish")[0]["ok"].boolean());
}

TEST_F(Jobs, FollowsParallelismAndRemovesItselfAfterItsTtl) {
  Json spec = (*rig.make_job("template", 1, 1, Json::object(), true))["spec"];
  spec.set("parallelism", 2).set("completions", 4).set("suspend", false).set("ttlSecondsAfterFinished", 30);
  const auto made =
      rig.make("jobs", "team-a", Json::object({{"metadata", Json::object({{"name", "j"}})}, {"spec", spec}}));
  rig.settle();
  EXPECT_EQ(rig.pods_of(made).size(), 2u);
  rig.patch("jobs", "team-a", "j", R"({"spec":{"parallelism":1}})");
  rig.settle();
  EXPECT_EQ(rig.pods_of(made).size(), 1u);
  for (int i = 0; i < 4; ++i) {
    for (const auto& name : rig.pods_of(made)) {
      if (rig.phase(name) == "Pending") end_pod(name, "Succeeded");
    }
  }
  EXPECT_EQ(condition("Complete"), "True");
  rig.advance(31);
  EXPECT_TRUE(job().is_null());
  EXPECT_TRUE(rig.pods_of(made).empty());
  EXPECT_EQ(rig.history("job_delete").size(), 1u);
}

}  // namespace job_controller_test
}  // namespace qm::fleet
