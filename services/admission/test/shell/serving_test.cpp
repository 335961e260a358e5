// Quota of the serving workloads in the manifests: pods of both revisions count, a minimum is kept, and readiness
// probes are respected.
#include "qm/admission/engine.hpp"
#include "qm/admission/queries/queues.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"
#include "src/shell/translate/pods.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace serving_test {

constexpr const char* kQueue = R"(
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: serving}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu, cpu, memory]
    flavors:
    - name: any
      resources: [{name: nvidia.com/gpu, nominalQuota: 5}, {name: cpu, nominalQuota: 1000}, {name: memory, nominalQuota: 1Ti}]
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: team}, spec: {clusterQueue: serving}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: inference}, value: 1000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: batch}, value: 10}
)";

class Serving : public ::testing::TestWithParam<qm::testing::Manifests> {
 protected:
  void SetUp() override {
    const auto objects = objects_from_manifest(kQueue, "queue.yaml");
    ASSERT_TRUE(objects) << objects.error().to_string();
    step(*objects);
  }
  void step(Command command) {
    (void)engine_.step(std::vector<Command>{std::move(command)}, now_);
    engine_.check_laws();
    engine_.commit();
  }
  /// The document of a file that has this kind.
  Json document(const std::string& file, const std::string& kind) {
    for (const auto& object : config::load_path(GetParam().dir + file).objects) {
      if (object.document.kind == kind) return object.document.content;
    }
    ADD_FAILURE() << file << " has no " << kind;
    return {};
  }
  /// A gated pod of a serving framework, with the containers of its manifest.
  static Json pod(const std::string& name, const Json& containers, const char* priority_class) {
    Json out = Json::object({{"apiVersion", "v1"}, {"kind", "Pod"}});
    auto& metadata = out.set("metadata");
    metadata.set("name", name).set("namespace", "team").set("uid", "uid-" + name);
    metadata.set("labels").set("serving.kserve.io/inferenceservice", "model").set(words::kQueueLabel, "q");
    auto& spec = out.set("spec");
    spec.set("containers", containers).set("priorityClassName", priority_class);
    spec.set("schedulingGates", Json::array({Json::object({{"name", kGate}})}));
    out.set("status").set("phase", "Pending");
    return out;
  }
  static Json one_gpu(Json containers) {
    containers.items_mut()[0].set("resources").set("limits").set(words::kGpuResource, "1");
    return containers;
  }
  void see(const Json& one) {
    Json group = Json::object({{"kind", "Pod"}, {"metadata", one["metadata"]}, {"othersPlace", true}});
    group.set("pods").push_back(one);
    const auto seen = parse_pods(group);
    ASSERT_TRUE(seen) << seen.error().to_string();
    step(*seen);
  }
  [[nodiscard]] Phase phase(const std::string& name) const { return engine_.find(WorkloadUid("uid-" + name))->phase; }

  Engine engine_;
  Instant now_ = from_micros(1'000'000);
};

// S-383: pods of both revisions count in quota, four of one and one of the other; the object that splits their
// traffic is not a workload.
TEST_P(Serving, BothRevisionsOfCanaryCount) {
  const auto service =
      document(GetParam().pick("kserve-ranking.yaml", "003-kserve-recommendation-canary.yaml"), "InferenceService");
  ASSERT_EQ(service.path("spec.predictor.canaryTrafficPercent").integer(), GetParam().pick(35, 20));
  EXPECT_EQ(config::workload_kind(service["apiVersion"].string(), "InferenceService"), nullptr);
  const auto stable = one_gpu(service.path("spec.predictor.containers"));
  const auto canary = one_gpu(service.path("spec.predictor.canary.containers"));
  ASSERT_NE(stable, canary);
  for (int i = 0; i < 4; ++i) see(pod("a" + std::to_string(i), stable, "inference"));
  see(pod("b0", canary, "inference"));
  for (const char* name : {"a0", "a1", "a2", "a3", "b0"}) EXPECT_EQ(phase(name), Phase::kAdmitted) << name;
  see(pod("b1", canary, "inference"));
  EXPECT_EQ(phase("b1"), Phase::kPending) << "there are only five GPUs";
  EXPECT_EQ(queue_view(engine_.state(), *engine_.tables().cluster_queues.find(QueueName("serving")))
                .used.at("nvidia.com/gpu"),
            5000);
}

// S-385: the minimum of the ensemble is kept under pressure of lower priorities, and preempts them when they came
// first.
TEST_P(Serving, EnsembleKeepsItsMinimumUnderPressure) {
  const auto service =
      document(GetParam().pick("kserve-consensus.yaml", "003-kserve-fraud-ensemble.yaml"), "InferenceService");
  const auto least = service.path("spec.predictor.minReplicas").integer();
  ASSERT_EQ(least, GetParam().pick(2, 3));
  const auto containers = service.path("spec.predictor.containers");
  see(pod("f0", containers, "inference"));
  const auto batch = one_gpu(*Json::parse(R"([{"name":"sweep"}])"));
  for (int i = 0; i < 20; ++i) see(pod("s" + std::to_string(i), batch, "batch"));
  for (int i = 1; i < least; ++i) {
    see(pod("f" + std::to_string(i), containers, "inference"));
    // Its victims end.
    std::vector<Command> gone;
    for (const auto& [uid, w] : engine_.tables().workloads) {
      if (w.phase == Phase::kEvicting) gone.emplace_back(JobDeleted{uid});
    }
    (void)engine_.step(gone, now_);
    engine_.commit();
  }
  for (int i = 0; i < least; ++i) EXPECT_EQ(phase("f" + std::to_string(i)), Phase::kAdmitted) << i;
  for (int i = 20; i < 40; ++i) see(pod("s" + std::to_string(i), batch, "batch"));
  int running = 0;
  for (const auto& [uid, w] : engine_.tables().workloads) {
    if (w.spec.priority == 10 && w.phase == Phase::kAdmitted) ++running;
  }
  EXPECT_EQ(running, 5 - least) << "the remaining quota is for them";
  for (int i = 0; i < least; ++i) EXPECT_EQ(phase("f" + std::to_string(i)), Phase::kAdmitted) << i;
}

// S-395: a replica is ready when its probe has passed, which the kubelet reports by the condition Ready, and not
// before.
TEST_P(Serving, ReplicaIsReadyAfterItsProbe) {
  const auto deployment =
      document(GetParam().pick("deployment-assistant.yaml", "004-deployment-hpa-llm-inference.yaml"), "Deployment");
  const auto& containers = deployment.path("spec.template.spec.containers");
  ASSERT_EQ(containers.at(0)["readinessProbe"]["initialDelaySeconds"].integer(), GetParam().pick(150, 60));
  auto replica = pod("llm", containers, "inference");
  const auto ready = [&] {
    Json group = Json::object({{"kind", "Pod"}, {"metadata", replica["metadata"]}});
    group.set("pods").push_back(replica);
    return parse_pods(group)->pods_ready;
  };
  EXPECT_FALSE(ready());
  replica.set("spec").erase("schedulingGates");
  replica.set("status", *Json::parse(R"({"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"},
      {"type":"ContainersReady","status":"False"},{"type":"Ready","status":"False"}]})"));
  EXPECT_FALSE(ready()) << "it runs, and its probe has not passed";
  replica.set("status", *Json::parse(R"({"phase":"Running","conditions":[{"type":"Ready","status":"True"}]})"));
  EXPECT_TRUE(ready());
}

QM_FOR_EACH_MANIFESTS(Serving);

}  // namespace serving_test
}  // namespace qm::admission
