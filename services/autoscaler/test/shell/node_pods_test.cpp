// Pods and nodes of the API server as consolidation and the scale-down of node groups need them.
#include "src/shell/instances/node_pods.hpp"

#include "qm/autoscaler/scale_down/scale_down.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/testing/text.hpp"
#include "src/shell/instances/node_pods_rows.hpp"
#include "src/shell/instances/scale_down_rows.hpp"
#include "src/shell/rows.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace node_pods_test {

NodePod of(const char* text) { return node_pod_of(*Json::parse(text)); }

TEST(NodePods, APodHasItsRequestsAndTheControllerThatCreatesItAgain) {
  const auto pod = of(R"({"metadata":{"name":"web-1","namespace":"shop","labels":{"app":"web"},
      "ownerReferences":[{"kind":"ReplicaSet","controller":true,"name":"web"}]},
      "spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1500m","memory":"1Gi","nvidia.com/gpu":"2"}}}],
              "tolerations":[{"key":"gpu","operator":"Exists"}]},
      "status":{"startTime":"2026-11-01T10:00:00Z"}})");
  EXPECT_EQ(pod.name, "shop/web-1");
  EXPECT_EQ(pod.kind, NodePod::Kind::kMoves);
  EXPECT_EQ(pod.controller, "ReplicaSet");
  EXPECT_EQ(pod.safe_to_evict, std::nullopt);
  EXPECT_EQ(pod.gpu.whole, 2);
  EXPECT_EQ(pod.started, *from_rfc3339("2026-11-01T10:00:00Z"));
  EXPECT_FALSE(pod.stays);
  EXPECT_TRUE(is_service(pod.controller));
  const auto like = kube_rules::template_of(pod.rules);
  ASSERT_TRUE(like);
  EXPECT_EQ(like->labels.at("app"), "web");
  EXPECT_EQ(like->rules.tolerations.size(), 1U);
  EXPECT_EQ(like->rules.requests, (kube_rules::Amounts{{"cpu", 1500}, {"memory", 1 << 30}, {"nvidia.com/gpu", 2}}));
}

TEST(NodePods, PodsOfDaemonSetsAndOfTheNodeDoNotMove) {
  EXPECT_EQ(of(R"({"metadata":{"name":"d","namespace":"a","ownerReferences":[{"kind":"DaemonSet","controller":true}]},
      "spec":{"containers":[]}})")
                .kind,
            NodePod::Kind::kDaemon);
  EXPECT_EQ(of(R"({"metadata":{"name":"m","namespace":"kube-system","annotations":{"kubernetes.io/config.mirror":"x"}},
      "spec":{"containers":[]}})")
                .kind,
            NodePod::Kind::kMirror);
}

// Karpenter's drain leaves them; Cluster Autoscaler's rules for their eviction apply nevertheless.
TEST(NodePods, APodThatToleratesTheTaintOfADrainStays) {
  const auto pod = of(R"({"metadata":{"name":"p","namespace":"a"},"spec":{"containers":[],
      "tolerations":[{"operator":"Exists"}]}})");
  EXPECT_TRUE(pod.stays);
  EXPECT_EQ(pod.kind, NodePod::Kind::kMoves);
}

TEST(NodePods, APodOfAShareHasItsGpu) {
  const auto pod = of(R"({"metadata":{"name":"p","namespace":"a"},"spec":{"containers":[{"name":"c",
      "resources":{"limits":{"quartermaster.dev/gpu-milli":"250"}}}]}})");
  EXPECT_EQ(pod.gpu.milli, 250);
  EXPECT_EQ(pod.gpu.whole, 0);
}

// Local storage: hostPath and emptyDir on disk, unless the annotation names the volume.
TEST(NodePods, TheVolumesThatMustBeKeptAreFound) {
  const std::string spec = R"("spec":{"containers":[],"volumes":[{"name":"shm","emptyDir":{"medium":"Memory"}},
      {"name":"config","configMap":{}},{"name":"cache","emptyDir":{}},{"name":"host","hostPath":{"path":"/x"}}]}})";
  const auto with = [&](const std::string& safe) {
    return of((R"({"metadata":{"name":"p","namespace":"a","annotations":{)" + safe + "}}," + spec).c_str())
        .local_volume;
  };
  EXPECT_EQ(with(""), "cache");
  EXPECT_EQ(with(R"("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes":"cache")"), "host");
  EXPECT_EQ(with(R"("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes":"cache,host")"), "");
}

TEST(NodePods, TheAnnotationsOfClusterAutoscalerAreRead) {
  const auto pod = [](const char* value) {
    return of(fmt::format(R"({{"metadata":{{"name":"p","namespace":"kube-system",
        "annotations":{{"cluster-autoscaler.kubernetes.io/safe-to-evict":"{}"}}}},"spec":{{"containers":[]}}}})",
                          value)
                  .c_str());
  };
  EXPECT_EQ(pod("true").safe_to_evict, true);
  EXPECT_EQ(pod("false").safe_to_evict, false);
  EXPECT_EQ(pod("maybe").safe_to_evict, std::nullopt);
  EXPECT_TRUE(pod("true").system);
  const auto node = [](const char* value) {
    return node_pods_of(*Json::parse(fmt::format(R"({{"metadata":{{"name":"n1","labels":{{"a":"b"}},
        "annotations":{{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"{}"}}}},
        "spec":{{"taints":[{{"key":"quartermaster.dev/nominating","effect":"NoSchedule"}},{{"key":"gpu","effect":"NoSchedule"}}]}},
        "status":{{"allocatable":{{"cpu":"4","pods":"110"}}}}}})",
                                                 value)));
  };
  EXPECT_TRUE(node("true").scale_down_disabled);
  EXPECT_FALSE(node("false").scale_down_disabled);
  EXPECT_EQ(node("false").taints, (std::vector<Taint>{{"gpu", "", "NoSchedule"}})) << "the other one is removed soon";
  EXPECT_EQ(node("false").allocatable, (std::map<std::string, std::int64_t>{{"cpu", 4000}, {"pods", 110}}));
}

// Cluster Autoscaler: the rule, and the case of its test in simulator/drainability/rules/*/rule_test.go.
// pod | the reason for which it keeps its node; - = none
//   pod  owner=KIND ns=NAMESPACE safe=VALUE (safe-to-evict) volumes=NAME,... (emptyDir) evictable=NAME,... (the annotation of
//        local volumes) budget=NAME guard=NAME (PodDisruptionBudgets that select it, that allow no eviction) mirror deleted
//        daemon (annotations), custom (without --skip-nodes-with-custom-controller-pods)
constexpr const char* kDrainabilityRows = R"(
# replicated RC-managed pod
owner=ReplicationController | -
owner=ReplicationController custom | -
# replicated Job-managed pod
owner=Job | -
# replicated SS-managed pod
owner=StatefulSet | -
# replicated RS-managed pod
owner=ReplicaSet | -
# replicated RS-managed pod that is being deleted
owner=ReplicaSet deleted | -
# replicated naked pod
- | has no controller that creates it again
custom | has no controller that creates it again
# replicated custom-controller-managed non-blocking pod
owner=Rollout custom | -
# replicated custom-controller-managed blocking pod
owner=Rollout | has the custom controller Rollout
# customcontroller DS-managed pod by a custom Daemonset
owner=NodeAgentSet daemon | -
# daemonset daemonset pod
owner=DaemonSet | -
# mirror mirror pod
ns=kube-system mirror | -
# safetoevict safe to evict pod
safe=true | -
# notsafetoevict pod with PodSafeToEvict annotation
ns=kube-system safe=true | -
# notsafetoevict RC-managed pod with PodSafeToEvict=false annotation
owner=ReplicationController safe=false | has the annotation safe-to-evict "false"
# notsafetoevict job-managed pod with PodSafeToEvict=false annotation
owner=Job safe=false | has the annotation safe-to-evict "false"
# localstorage pod with EmptyDir
owner=ReplicaSet volumes=cache | has the local volume cache
# localstorage pod with EmptyDir and SafeToEvictLocalVolumesKey annotation
owner=ReplicaSet volumes=cache evictable=cache | -
# localstorage pod with EmptyDir and empty value for SafeToEvictLocalVolumesKey annotation
owner=ReplicaSet volumes=cache evictable= | has the local volume cache
# localstorage pod with EmptyDir and non-matching value for SafeToEvictLocalVolumesKey annotation
owner=ReplicaSet volumes=cache evictable=tmp | has the local volume cache
# localstorage pod with EmptyDir and SafeToEvictLocalVolumesKey annotation with matching values
owner=ReplicaSet volumes=cache,tmp,out evictable=cache,tmp,out | -
# localstorage pod with EmptyDir and SafeToEvictLocalVolumesKey annotation with non-matching values
owner=ReplicaSet volumes=cache,tmp,out evictable=cache,tmp,log | has the local volume out
# localstorage pod with EmptyDir and SafeToEvictLocalVolumesKey annotation with some matching values
owner=ReplicaSet volumes=cache,tmp,out evictable=cache,tmp | has the local volume out
# localstorage pod with EmptyDir and SafeToEvictLocalVolumesKey annotation empty values
owner=ReplicaSet volumes=cache,tmp evictable=, | has the local volume cache
# localstorage EmptyDir pod with PodSafeToEvict annotation
volumes=cache safe=true | -
# system kube-system PDB with matching kube-system pod
owner=ReplicaSet ns=kube-system budget=dns | -
# system kube-system PDB with non-matching kube-system pod
owner=ReplicaSet ns=kube-system | is of kube-system, and no PodDisruptionBudget selects it
# pdb pdb prevents scale-down
owner=ReplicaSet budget=guard guard=guard | is protected by PodDisruptionBudget guard
)";

NodePod pod_of_row(const qm::testing::Words& words) {
  Json annotations = Json::object(), volumes = Json::array(), owners = Json::array();
  if (const auto safe = words.get("safe"); !safe.empty()) annotations.set(std::string(kSafeToEvict), safe);
  if (words.named.contains("evictable")) annotations.set(std::string(kSafeLocalVolumes), words.get("evictable"));
  if (words.has("daemon")) annotations.set(std::string(kDaemonSetPod), "true");
  if (words.has("mirror")) annotations.set("kubernetes.io/config.mirror", "x");
  for (const auto& name : qm::testing::split(words.get("volumes"), ','))
    volumes.push_back(Json::object({{"name", name}, {"emptyDir", Json::object()}}));
  if (const auto kind = words.get("owner"); !kind.empty())
    owners.push_back(Json::object({{"kind", kind}, {"controller", true}}));
  Json metadata = Json::object({{"name", "p"}, {"namespace", words.get("ns", "a")}});
  metadata.set("annotations", std::move(annotations)).set("ownerReferences", std::move(owners));
  if (words.has("deleted")) metadata.set("deletionTimestamp", "2026-11-01T10:00:00Z");
  auto out = node_pod_of(
      Json::object({{"metadata", std::move(metadata)},
                    {"spec", Json::object({{"containers", Json::array()}, {"volumes", std::move(volumes)}})}}));
  out.budget = words.get("budget");
  out.blocked_by = words.get("guard");
  return out;
}

TEST(NodePods, RowsOfDrainabilityHold) {
  const auto rows = qm::testing::table_rows(kDrainabilityRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 2U) << row;
    const qm::testing::Words words(cells[0]);
    NodePods node;
    node.pods = {pod_of_row(words)};
    const std::string subject = "pod " + node.pods[0].name + " ";
    const auto why = blocking_pod(node, {.skip_custom_controllers = !words.has("custom")});
    EXPECT_EQ(why, cells[1] == "-" ? "" : subject + cells[1]) << row;
  }
  EXPECT_EQ(rows.size(), 29U);
}

TEST(NodePods, TheirRowsKeepEveryField) {
  NodePodsUpdated update{NodeName("n1"), false, {}};
  update.pods.labels = {{"a", "b"}};
  update.pods.taints = {{"k", "v", "NoSchedule"}};
  update.pods.allocatable = {{"cpu", 4000}};
  update.pods.scale_down_disabled = true;
  NodePod pod;
  pod.name = "a/p";
  pod.kind = NodePod::Kind::kDaemon;
  pod.rules = "text";
  pod.controller = "DaemonSet";
  pod.local_volume = "data";
  pod.gpu = {2, 0, "1g.10gb", 3, {"H100"}};
  pod.started = from_micros(4);
  pod.budget = "a/first";
  pod.budget_allows = 3;
  pod.system = pod.stays = pod.terminating = true;
  pod.blocked_by = "a/guard";
  pod.safe_to_evict = false;
  update.pods.pods = {pod};
  const auto read = node_pods_from_bytes(node_pods_bytes(update));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->pods, update.pods);
  EXPECT_EQ(read->node, update.node);
  // Rows of the tables, as after a restart.
  Tables all, all_again;
  update.pods.changed = from_micros(9);
  all.node_pods.insert(NodeName("n1"), update.pods);
  std::vector<store::StateRow> stored;
  append_changes(all, stored);
  for (const auto& row : stored) EXPECT_TRUE(restore(all_again, row)) << row.kind;
  ASSERT_NE(all_again.node_pods.find(NodeName("n1")), nullptr);
  EXPECT_EQ(*all_again.node_pods.find(NodeName("n1")), update.pods);
  ScaleDownTables tables, again;
  tables.unneeded.insert(NodeName("n1"), from_micros(5));
  tables.last.insert(kDeleted, from_micros(6));
  tables.protected_by_us.insert(InstanceId("i-1"), from_micros(7));
  std::vector<store::StateRow> rows;
  append_changes(tables, rows);
  for (const auto& row : rows) EXPECT_TRUE(*restore(again, row)) << row.kind;
  EXPECT_EQ(*again.unneeded.find(NodeName("n1")), from_micros(5));
  EXPECT_EQ(*again.last.find(kDeleted), from_micros(6));
  EXPECT_EQ(*again.protected_by_us.find(InstanceId("i-1")), from_micros(7));
}

}  // namespace node_pods_test
}  // namespace qm::autoscaler
