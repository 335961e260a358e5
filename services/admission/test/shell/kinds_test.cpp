// Every kind that is suspended as a whole, from the API server through the engine and back: suspended, unsuspended
// with the effects of its flavors, and finished. The server is a small one of the test; its objects have the real
// shape of their kind.
#include "admission_host.hpp"
#include "job_server.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/executor.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/watch.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace kinds_test {

struct Case {
  std::string api_version, kind, spec;  ///< YAML
  std::string suspend;                  ///< path of the suspend field
  std::string ended;                    ///< a status that means success; empty = it does not end
};

std::string pods(int gpus) {
  const auto limits = gpus > 0 ? fmt::format("{{nvidia.com/gpu: {}}}", gpus) : "{}";
  return "{spec: {containers: [{name: a, image: a, resources: {limits: " + limits + "}}]}}";
}

std::string condition(const std::string& type) {
  return R"({"conditions":[{"type":")" + type + R"(","status":"True"}]})";
}

std::vector<Case> cases() {
  const std::string roles = "{runPolicy: {suspend: true}, ROLES: {Worker: {replicas: 2, template: " + pods(4) +
                            "}, FIRST: {template: " + pods(0) + "}}}";
  const auto of_roles = [&](const std::string& name, const std::string& first) {
    auto out = roles;
    out.replace(out.find("ROLES"), 5, name).replace(out.find("FIRST"), 5, first);
    return out;
  };
  const std::string ray = "headGroupSpec: {template: " + pods(0) +
                          "}, workerGroupSpecs: [{groupName: w, replicas: 2, template: " + pods(4) + "}]";
  return {{"batch/v1", "Job", "{suspend: true, parallelism: 2, completions: 2, template: " + pods(4) + "}",
           "spec.suspend", condition("Complete")},
          {"jobset.x-k8s.io/v1alpha2", "JobSet",
           "{suspend: true, replicatedJobs: [{name: d, template: {spec: {template: " + pods(0) +
               "}}}, {name: w, replicas: 2, template: {spec: {template: " + pods(4) + "}}}]}",
           "spec.suspend", condition("Completed")},
          {"kubeflow.org/v1", "PyTorchJob", of_roles("pytorchReplicaSpecs", "Master"), "spec.runPolicy.suspend",
           condition("Succeeded")},
          {"kubeflow.org/v2beta1", "MPIJob", of_roles("mpiReplicaSpecs", "Launcher"), "spec.runPolicy.suspend",
           condition("Succeeded")},
          {"ray.io/v1", "RayCluster", "{suspend: true, " + ray + "}", "spec.suspend", ""},
          {"ray.io/v1", "RayJob", "{suspend: true, rayClusterSpec: {" + ray + "}}", "spec.suspend",
           R"({"jobStatus":"SUCCEEDED","jobDeploymentStatus":"Complete"})"}};
}

class SuspendedKinds : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto& one = GetParam();
    const auto slash = one.api_version.find('/');
    std::string plural = one.kind + "s";
    std::ranges::transform(plural, plural.begin(), [](unsigned char c) { return std::tolower(c); });
    server_.serve(one.api_version.substr(0, slash), one.api_version.substr(slash + 1), plural);
    client_ = std::make_unique<kube::Client>(server_.client());
    executor_ = std::make_unique<JobExecutor>(*client_);
    host_ = testing::start_admission(clock_, executor_.get());
    ASSERT_TRUE(host_);
    for (auto& object : testing::queue_objects()) Mailbox(*host_).send("object", object);  // eight GPUs
    WatchOptions without_placement;
    without_placement.placement = false;
    watch_ = std::make_unique<JobWatch>(*client_, *host_, without_placement, one.kind);
    watch_->start();
  }
  void TearDown() override {
    server_.close_watches();
    watch_.reset();
    if (host_) host_->stop();
  }
  void put(const std::string& name) {
    const auto& one = GetParam();
    const auto loaded = config::load_text(
        fmt::format(
            "{{apiVersion: {}, kind: {}, metadata: {{namespace: team, name: {}, uid: uid-{}, creationTimestamp: "
            "\"2026-01-01T00:00:00Z\", labels: {{kueue.x-k8s.io/queue-name: q}}}}, spec: {}}}",
            one.api_version, one.kind, name, name, one.spec),
        "test.yaml");
    ASSERT_EQ(loaded.objects.size(), 1U) << loaded.diagnostics.at(0).to_string();
    server_.put(loaded.objects[0].document.content);
  }
  void change(const std::string& name, const std::string& patch) {
    Json job = server_.get("team/" + name);
    job.merge_patch(*Json::parse(patch));
    server_.put(job);
  }
  bool suspended(const std::string& name) { return server_.get("team/" + name).path(GetParam().suspend).boolean(); }
  std::optional<Phase> phase(const std::string& uid) {
    std::optional<Phase> found;
    host_->read([&](const service::Shell& shell) {
      if (const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid(uid))) found = w->phase;
    });
    return found;
  }

  testing::JobServer server_;
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<JobExecutor> executor_;
  std::unique_ptr<service::Host> host_;
  std::unique_ptr<JobWatch> watch_;
};

TEST_P(SuspendedKinds, AreSuspendedUnsuspendedAndFinish) {
  const auto& one = GetParam();
  put("a");
  ASSERT_TRUE(qm::testing::wait_until([&] { return !suspended("a"); }));
  EXPECT_EQ(phase("uid-a"), Phase::kAdmitted);
  const Json now = server_.get("team/a");
  const auto& kind = *config::workload_kind(one.kind);
  std::int64_t sets = 0;
  for (const auto& place : kind.places(now)) {
    const Json& made = *config::find_template(now, place);
    // A pod set without GPUs needs no flavor.
    const bool gpus = made.path("spec.containers").at(0).path("resources.limits").contains("nvidia.com/gpu");
    EXPECT_EQ(made.path("spec.nodeSelector.model").string(), gpus ? "h100" : "") << place.pod_set;
    EXPECT_EQ(made.path("spec.tolerations").size(), gpus ? 1U : 0U) << place.pod_set;
    EXPECT_EQ(kube::annotation(made, words::kAttempt), "1");
    if (one.kind != "Job") {
      EXPECT_EQ(kube::annotation(made, "quartermaster.dev/workload"), "uid-a") << "for any creator of the pod";
      EXPECT_EQ(kube::label(made, "kueue.x-k8s.io/podset"), place.pod_set);
    }
    EXPECT_EQ(made.path("spec.containers").at(0)["name"].string(), "a") << "the rest is unchanged";
    ++sets;
  }
  EXPECT_EQ(sets, one.kind == "Job" ? 1 : 2);

  // There are only eight GPUs: the next one is pending until the first has finished or is deleted.
  put("b");
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-b") == Phase::kPending; }));
  EXPECT_TRUE(suspended("b"));
  if (one.ended.empty()) {
    server_.remove("team/a");
  } else {
    change("a", R"({"status":)" + one.ended + "}");
  }
  ASSERT_TRUE(qm::testing::wait_until([&] { return !suspended("b"); }));
  EXPECT_EQ(phase("uid-a"), one.ended.empty() ? Phase::kCancelled : Phase::kFinished);
}

TEST_P(SuspendedKinds, UnadmittedRunningOnesAreSuspended) {
  put("a");
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-a") == Phase::kAdmitted && !suspended("a"); }));
  put("b");
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-b") == Phase::kPending; }));
  Json by_hand = server_.get("team/b");
  Json* at = &by_hand;
  for (std::string_view rest = GetParam().suspend; !rest.empty();) {
    const auto dot = rest.find('.');
    at = &at->set(rest.substr(0, dot));
    rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
  }
  *at = false;
  server_.put(by_hand);
  EXPECT_TRUE(qm::testing::wait_until([&] { return suspended("b"); }));
  EXPECT_EQ(phase("uid-b"), Phase::kPending);
}

INSTANTIATE_TEST_SUITE_P(All, SuspendedKinds, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.kind; });

TEST(SuspendedKind, PartOfAnotherIsNotCountedTwice) {
  Json job = testing::make_job("team", "set-w-0", "q", 4);
  EXPECT_TRUE(is_managed(job));
  job.set("metadata").set("ownerReferences", *Json::parse(R"([{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet",
      "name":"set","uid":"u","controller":true}])"));
  EXPECT_FALSE(is_managed(job));
  job.set("metadata")
      .set("ownerReferences", *Json::parse(R"([{"apiVersion":"batch/v1","kind":"CronJob","name":"nightly",
      "uid":"u","controller":true}])"));
  EXPECT_TRUE(is_managed(job)) << "a CronJob is not suspended; its Jobs are";
}

}  // namespace kinds_test
}  // namespace qm::admission
