// The events of a watch of a small run, and the checker's result for the lines that the witness records.
#include "qm/witness/witness.hpp"

#include "qm/checker/checker.hpp"

#include <gtest/gtest.h>

namespace qm::witness {
namespace witness_test {

using std::chrono::seconds;

constexpr const char* kPrices = "instance_type,gpus,on_demand_usd_hour,spot_usd_hour\np5.48xlarge,8,98.32,36.5\n";

class WitnessTest : public ::testing::Test {
 protected:
  static Instant at(int second) { return from_micros(1'000'000'000'000) + seconds(second); }
  static Json parsed(const std::string& text) {
    auto json = Json::parse(text);
    EXPECT_TRUE(json) << text;
    return json.value_or(Json());
  }
  static Json job(const std::string& name, int ranks, bool suspended, const std::string& condition = "") {
    return parsed(fmt::format(
        R"({{"metadata":{{"name":"{0}","namespace":"team-a","uid":"uid-{0}","labels":{{"quartermaster.dev/team":"team-a"}}}},
            "spec":{{"suspend":{2},"parallelism":{1},"completions":{1},"completionMode":"Indexed"}},
            "status":{{"conditions":[{3}]}}}})",
        name, ranks, suspended, condition.empty() ? "" : R"({"type":")" + condition + R"(","status":"True"})"));
  }
  struct PodText {
    std::string uid, job, node, devices, phase;
    int index = 0, gpus = 1, attempt = 1;
    bool deleting = false;
  };
  static Json pod(const PodText& p) {
    return parsed(fmt::format(
        R"({{"metadata":{{"name":"{0}","namespace":"team-a","uid":"{0}",{8}"ownerReferences":[{{"kind":"Job","name":"{1}","uid":"uid-{1}"}}],
             "annotations":{{"quartermaster.dev/devices":"{3}","quartermaster.dev/attempt":"{7}","batch.kubernetes.io/job-completion-index":"{5}"}}}},
            "spec":{{"nodeName":"{2}","containers":[{{"resources":{{"limits":{{"nvidia.com/gpu":"{6}"}}}}}}]}},
            "status":{{"phase":"{4}"}}}})",
        p.uid, p.job, p.node, p.devices, p.phase, p.index, p.gpus, p.attempt,
        p.deleting ? R"("deletionTimestamp":"2026-01-01T00:00:00Z",)" : ""));
  }
  static Json node(const std::string& name) {
    return parsed(R"({"metadata":{"name":")" + name + R"("},"status":{"capacity":{"nvidia.com/gpu":"8"}}})");
  }
  void two_nodes() {
    witness_.see_node(node("n1"), false);
    witness_.see_node(node("n2"), false);
  }
  [[nodiscard]] checker::Report judged() const {
    auto history = checker::read_history(text_, 0);
    EXPECT_TRUE(history) << history.error().to_string() << "\n" << text_;
    checker::Inputs inputs;
    inputs.acked = {"team-a/j"};
    inputs.gang_grace_us = 60'000'000;
    return checker::check(*history, *checker::read_prices(kPrices), inputs);
  }

  std::string text_;
  int looked_up_ = 0;
  Witness witness_{[this](const std::string& line) { text_ += line + "\n"; },
                   [this](const std::string& /*ns*/, const std::string& name) {
                     ++looked_up_;
                     return job(name, 2, false);
                   }};
};

TEST_F(WitnessTest, AClaimSeenLateHasTheCreationTimeOfTheServer) {
  const auto claim = [](const std::string& name, Instant made) {
    return parsed(fmt::format(R"({{"metadata":{{"name":"{}","creationTimestamp":"{}"}}}})", name, to_rfc3339(made)));
  };
  witness_.see_claim(claim("late", at(3)), false, at(10));
  witness_.see_claim(claim("late", at(3)), true, at(11));
  witness_.see_claim(claim("ahead", at(13)), false, at(12));  // a server whose clock is ahead of ours
  const auto history = checker::read_history(text_, 0);
  ASSERT_TRUE(history) << history.error().to_string();
  ASSERT_EQ(history->claims.size(), 2U);
  EXPECT_EQ(history->claims.at("late"), micros(at(3)));
  EXPECT_EQ(history->claims.at("ahead"), micros(at(12)));
}

TEST_F(WitnessTest, AGangThatRanIsAGoodHistory) {
  two_nodes();
  witness_.see_job(job("j", 2, true), false, at(0));
  witness_.see_job(job("j", 2, false), false, at(2));
  witness_.see_pod(pod({"p0", "j", "", "", "Pending"}), false, at(2));
  EXPECT_EQ(witness_.counts().bound, 0);
  EXPECT_EQ(witness_.counts().admitted, 2);
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Pending"}), false, at(3));
  witness_.see_pod(pod({"p1", "j", "n2", "5", "Pending", 1}), false, at(4));
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Running"}), false, at(5));
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Running"}), false, at(5));  // a watch that started again
  EXPECT_EQ(witness_.counts().running, 1);
  EXPECT_EQ(witness_.counts().gpus_held, 2);
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Succeeded"}), false, at(60));
  witness_.see_pod(pod({"p1", "j", "n2", "5", "Succeeded", 1}), false, at(61));
  witness_.see_pod(pod({"p1", "j", "n2", "5", "Succeeded", 1}), true, at(70));
  witness_.see_job(job("j", 2, false, "Complete"), false, at(62));
  witness_.see_job(job("j", 2, false, "Complete"), true, at(71));
  const auto report = judged();
  EXPECT_TRUE(report.violations.empty()) << report.to_json().pretty();
  EXPECT_EQ(report.finished, 1);
  EXPECT_DOUBLE_EQ(report.wait.p50, 4);  // until the last rank is bound
  EXPECT_EQ(witness_.counts().ended, 1);
  EXPECT_EQ(witness_.counts().succeeded, 2);
  EXPECT_EQ(witness_.counts().gpus_held, 0);
}

TEST_F(WitnessTest, TwoPodsOnOneGpuAreSeen) {
  two_nodes();
  witness_.see_job(job("j", 1, false), false, at(0));
  witness_.see_job(job("k", 1, false), false, at(0));
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Running"}), false, at(1));
  witness_.see_pod(pod({"q0", "k", "n1", "0", "Pending"}), false, at(2));
  witness_.see_pod(pod({"q0", "k", "n1", "0", "Succeeded"}), false, at(9));
  EXPECT_EQ(judged().double_booked, 1);
}

TEST_F(WitnessTest, AfterABrokenWatchTheEndIsReadFromTheKubelet) {
  two_nodes();
  const auto ended = [](const char* finished) {
    auto p = pod({"p0", "j", "n1", "0", "Succeeded"});
    p.set("status").set("containerStatuses",
                        parsed(fmt::format(R"([{{"state":{{"terminated":{{"finishedAt":"{}"}}}}}}])", finished)));
    return p;
  };
  witness_.see_job(job("j", 1, false), false, at(0));
  witness_.see_job(job("k", 1, false), false, at(0));
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Running"}), false, at(1));
  // The new holder of the device is listed before the end of the old one is known.
  witness_.see_pod(pod({"q0", "k", "n1", "0", "Running"}), false, at(30));
  witness_.see_pod(ended(to_rfc3339(from_micros(micros(at(20)))).c_str()), false,
                   at(30) + std::chrono::milliseconds(1));
  EXPECT_EQ(judged().double_booked, 0);
  Witness other([this](const std::string& line) { text_ += line + "\n"; },
                [](const auto&, const auto&) { return Json(); });
  text_.clear();
  other.see_pod(pod({"p0", "j", "n1", "0", "Running"}), false, at(1));
  other.see_pod(pod({"q0", "k", "n1", "0", "Running"}), false, at(15));
  other.see_pod(ended(to_rfc3339(from_micros(micros(at(20)))).c_str()), false, at(30));
  EXPECT_EQ(judged().double_booked, 1) << "it ended after the other had begun";
}

TEST_F(WitnessTest, APodWithFewerDevicesThanItAskedForIsSeen) {
  two_nodes();
  witness_.see_job(job("j", 1, false), false, at(0));
  witness_.see_pod(pod({"p0", "j", "n1", "0,1,1", "Running", 0, 3}), false, at(1));
  EXPECT_EQ(judged().double_booked, 1);
}

TEST_F(WitnessTest, HalfAGangIsSeenThoughItsPodCameBeforeItsJob) {
  two_nodes();
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Running"}), false, at(1));
  EXPECT_EQ(looked_up_, 1);
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Failed"}), false, at(100));
  const auto report = judged();
  EXPECT_EQ(report.partial_gangs, 1);
  EXPECT_EQ(report.created, 1) << "the job is known by the look-up";
}

TEST_F(WitnessTest, AGangThatCanDoWithFewerIsWholeWithThose) {
  two_nodes();
  auto elastic = job("j", 3, false);
  elastic.set("metadata").set("annotations").set("kueue.x-k8s.io/job-min-parallelism", "2");
  witness_.see_job(elastic, false, at(0));
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Running"}), false, at(1));
  witness_.see_pod(pod({"p1", "j", "n2", "0", "Running", 1}), false, at(2));
  witness_.see_pod(pod({"p0", "j", "n1", "0", "Succeeded"}), false, at(200));
  witness_.see_pod(pod({"p1", "j", "n2", "0", "Succeeded", 1}), false, at(200));
  EXPECT_EQ(judged().partial_gangs, 0);
}

TEST_F(WitnessTest, TheReasonOfAPodsEndIsRecorded) {
  two_nodes();
  const auto run = [&](const std::string& uid, const std::string& phase, bool deleting, bool gone) {
    witness_.see_pod(pod({uid, "j", "n2", "0", "Running"}), false, at(1));
    witness_.see_pod(pod({uid, "j", "n2", "0", phase, 0, 1, 1, deleting}), gone, at(2));
    return parsed(text_.substr(text_.rfind("{\"t\"")))["reason"].string();
  };
  EXPECT_EQ(run("a", "Failed", false, false), "Failed");
  EXPECT_EQ(run("b", "Failed", true, false), "Deleted");
  EXPECT_EQ(run("c", "Running", false, true), "Deleted");
  EXPECT_EQ(run("d", "Succeeded", true, false), "Succeeded");
  witness_.see_node(node("n2"), true);
  EXPECT_EQ(run("e", "Failed", true, false), "NodeLost");
}

TEST(Pace, IsTakenOverAllTheMiddleAndTheBestTenSeconds) {
  std::vector<std::int64_t> at;
  for (int i = 0; i < 100; ++i) at.push_back(1'000'000 * (i < 50 ? i * 2 : 100 + i - 50));
  const Pace pace = pace_of(at);
  EXPECT_EQ(pace.n, 100);
  EXPECT_DOUBLE_EQ(pace.seconds, 149);
  EXPECT_DOUBLE_EQ(pace.per_second, 99.0 / 149);
  EXPECT_DOUBLE_EQ(pace.best, 1);
  EXPECT_EQ(pace_of({5}).per_second, 0);
  EXPECT_EQ(pace_of({}).n, 0);
}

}  // namespace witness_test
}  // namespace qm::witness
