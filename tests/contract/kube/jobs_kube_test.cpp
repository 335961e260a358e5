// Jobs: the rules of the API server, and the behavior of the Job controller.
#include "kube_under_test.hpp"

#include <algorithm>
#include <set>

namespace qm::kube {
namespace jobs_kube_test {

using namespace resources;

Json job(const std::string& name, int size, bool suspended) {
  return Json::object(
      {{"apiVersion", "batch/v1"},
       {"kind", "Job"},
       {"metadata", Json::object({{"name", name}})},
       {"spec",
        Json::object(
            {{"suspend", suspended},
             {"completionMode", "Indexed"},
             {"parallelism", size},
             {"completions", size},
             {"backoffLimit", 100},
             {"template",
              Json::object({{"metadata", Json::object({{"labels", Json::object({{"app", name}})}})},
                            {"spec", Json::object({{"restartPolicy", "Never"},
                                                   {"schedulerName", "contract"},
                                                   {"containers",
                                                    Json::array({Json::object(
                                                        {{"name", "main"}, {"image", "example/none:1"}})})}})}})}})}});
}

Json suspend(bool suspended) { return Json::object({{"spec", Json::object({{"suspend", suspended}})}}); }

Json unsuspend_with(const std::string& key, const std::string& value) {
  auto patch = suspend(false);
  patch.set("spec").set("template",
                        Json::object({{"metadata", Json::object({{"annotations", Json::object({{key, value}})}})}}));
  return patch;
}

class KubeJobs : public KubeContract {
 protected:
  std::vector<Json> pods_of(const std::string& job_name) {
    ListOptions options;
    options.label_selector = "job-name=" + job_name;
    const auto page = client().list(kPods, ns(), options);
    EXPECT_TRUE(page) << page.error().to_string();
    return page ? page->items : std::vector<Json>();
  }
  bool wait_for_pods(const std::string& job_name, std::size_t count) {
    return testing::wait_until([&] { return pods_of(job_name).size() == count; });
  }
};

TEST_F(KubeJobs, UnsuspendingMayAnnotateTheTemplate) {
  must_create(kJobs, job("j", 2, true));
  const auto patched = client().merge_patch(kJobs, ns(), "j", unsuspend_with("quartermaster.dev/attempt", "1"));
  ASSERT_TRUE(patched) << patched.error().to_string();
  EXPECT_FALSE(patched->path("spec.suspend").boolean(true));
  EXPECT_EQ((*patched)["spec"]["template"]["metadata"]["annotations"]["quartermaster.dev/attempt"].string(), "1");
}

TEST_F(KubeJobs, TheTemplateOfARunningJobIsImmutable) {
  must_create(kJobs, job("j", 1, false));
  auto patch = Json::object({{"spec", Json::object({{"template", unsuspend_with("a/b", "c").path("spec.template")}})}});
  const auto refused = client().merge_patch(kJobs, ns(), "j", patch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

TEST_F(KubeJobs, ItsImageIsImmutableEvenWhileSuspended) {
  must_create(kJobs, job("j", 1, true));
  auto containers = must_get(kJobs, "j").path("spec.template.spec.containers");
  containers.items_mut()[0].set("image", "example/other:2");
  // A patch, because the Job controller writes the status meanwhile.
  Json changed = Json::object();
  changed.set("spec").set("template").set("spec").set("containers", containers);
  const auto refused = client().merge_patch(kJobs, ns(), "j", changed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

TEST_F(KubeJobs, NeedsController_ASuspendedJobHasNoPods) {
  QM_NEEDS_CONTROLLERS();
  must_create(kJobs, job("j", 2, true));
  // The condition is the synchronization point: the controller has processed the job and left it suspended.
  ASSERT_TRUE(testing::wait_until([&] {
    const auto conditions = must_get(kJobs, "j").path("status.conditions");
    return std::ranges::any_of(conditions.items(), [](const Json& one) {
      return one["type"].string() == "Suspended" && one["status"].string() == "True";
    });
  }));
  EXPECT_TRUE(pods_of("j").empty());
  EXPECT_TRUE(must_get(kJobs, "j").path("status.startTime").is_null());
}

TEST_F(KubeJobs, NeedsController_UnsuspendedItMakesIndexedPods) {
  QM_NEEDS_CONTROLLERS();
  const auto made = must_create(kJobs, job("j", 3, true));
  ASSERT_TRUE(client().merge_patch(kJobs, ns(), "j", unsuspend_with("quartermaster.dev/attempt", "4")));
  ASSERT_TRUE(wait_for_pods("j", 3));
  std::set<std::string> indexes;
  for (const auto& one : pods_of("j")) {
    indexes.insert(annotation(one, "batch.kubernetes.io/job-completion-index"));
    EXPECT_EQ(label(one, "batch.kubernetes.io/job-completion-index"),
              annotation(one, "batch.kubernetes.io/job-completion-index"));
    EXPECT_EQ(annotation(one, "quartermaster.dev/attempt"), "4");
    EXPECT_EQ(label(one, "app"), "j");
    const auto& owner = one.path("metadata.ownerReferences").at(0);
    EXPECT_EQ(owner["uid"].string(), uid_of(made));
    EXPECT_EQ(owner["kind"].string(), "Job");
    EXPECT_TRUE(owner["controller"].boolean());
    EXPECT_TRUE(name_of(one).starts_with("j-" + annotation(one, "batch.kubernetes.io/job-completion-index") + "-"));
  }
  EXPECT_EQ(indexes, (std::set<std::string>{"0", "1", "2"}));
  EXPECT_TRUE(testing::wait_until([&] {
    const auto now = must_get(kJobs, "j");
    return from_rfc3339(now.path("status.startTime").string()) && now.path("status.active").integer() == 3;
  }));
}

TEST_F(KubeJobs, NeedsController_SuspendedAgainItsPodsAreDeletedAndItMayRestart) {
  QM_NEEDS_CONTROLLERS();
  must_create(kJobs, job("j", 2, false));
  ASSERT_TRUE(wait_for_pods("j", 2));
  std::set<std::string> first;
  for (const auto& one : pods_of("j")) first.insert(uid_of(one));
  ASSERT_TRUE(client().merge_patch(kJobs, ns(), "j", suspend(true)));
  ASSERT_TRUE(wait_for_pods("j", 0));
  ASSERT_TRUE(testing::wait_until([&] { return must_get(kJobs, "j").path("status.startTime").is_null(); }));
  // Not started any more, so that the template's annotations may change: the next attempt.
  const auto again = client().merge_patch(kJobs, ns(), "j", unsuspend_with("quartermaster.dev/attempt", "2"));
  ASSERT_TRUE(again) << again.error().to_string();
  ASSERT_TRUE(wait_for_pods("j", 2));
  for (const auto& one : pods_of("j")) {
    EXPECT_FALSE(first.contains(uid_of(one)));
    EXPECT_EQ(annotation(one, "quartermaster.dev/attempt"), "2");
  }
}

TEST_F(KubeJobs, NeedsController_ADeletedPodIsMadeAgain) {
  QM_NEEDS_CONTROLLERS();
  must_create(kJobs, job("j", 1, false));
  ASSERT_TRUE(wait_for_pods("j", 1));
  const auto before = pods_of("j").at(0);
  ASSERT_TRUE(client().remove(kPods, ns(), name_of(before), {uid_of(before), 0, "Background"}));
  EXPECT_TRUE(testing::wait_until([&] {
    const auto now = pods_of("j");
    return now.size() == 1 && uid_of(now[0]) != uid_of(before) &&
           annotation(now[0], "batch.kubernetes.io/job-completion-index") == "0";
  }));
}

TEST_F(KubeJobs, NeedsController_ADeletedJobTakesItsPods) {
  QM_NEEDS_CONTROLLERS();
  must_create(kJobs, job("j", 2, false));
  ASSERT_TRUE(wait_for_pods("j", 2));
  ASSERT_TRUE(client().remove(kJobs, ns(), "j", {}));
  EXPECT_TRUE(wait_for_pods("j", 0));
}

TEST_F(KubeJobs, NeedsController_BoundPodsRunAndCompleteTheJob) {
  QM_NEEDS_CONTROLLERS();
  auto object = job("j", 2, false);
  object.set("spec")
      .set("template")
      .set("metadata")
      .set("annotations", Json::object({{"fleet.quartermaster.dev/run-seconds", "1"}}));
  must_create(kJobs, object);
  ASSERT_TRUE(wait_for_pods("j", 2));
  const auto nodes = two_nodes();
  for (const auto& one : pods_of("j")) {
    const auto bound = client().bind(ns(), name_of(one), uid_of(one), nodes[0]);
    ASSERT_TRUE(bound) << bound.error().to_string();
  }
  EXPECT_TRUE(testing::wait_until([&] {
    const auto now = must_get(kJobs, "j");
    const auto conditions = now.path("status.conditions");
    return now.path("status.succeeded").integer() == 2 && std::ranges::any_of(conditions.items(), [](const Json& one) {
             return one["type"].string() == "Complete" && one["status"].string() == "True";
           });
  }));
}

}  // namespace jobs_kube_test
}  // namespace qm::kube
