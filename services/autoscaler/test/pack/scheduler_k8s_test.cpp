// Plans on the nodes of a real control plane: its kube-scheduler, with the default configuration, places the pods.
#include "qm/autoscaler/pack/plan.hpp"
#include "qm/kube/client.hpp"
#include "qm/testing/testing.hpp"
#include "test/pack/problems.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace qm::autoscaler::pack::testing {
namespace scheduler_k8s_test {

using kube::resources::kNodes;
using kube::resources::kPods;

const kube::Resource kNamespaces{"", "v1", "namespaces", false};
const kube::Resource kAccounts{"", "v1", "serviceaccounts", true};
constexpr const char* kSpace = "pack-test";
constexpr const char* kGate = "quartermaster.dev/planned";

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
Json list(std::initializer_list<Json> items) { return Json::array(items); }
Json just(const std::string& key, Json value) { return Json::object({{key, std::move(value)}}); }
Json texts(const Labels& labels) {
  Json out = Json::object();
  for (const auto& [key, value] : labels) out.set(key, value);
  return out;
}
Json amounts(std::int64_t cpu_milli, std::int64_t memory, const Amounts& extended) {
  Json out = Json::object({{"cpu", fmt::format("{}m", cpu_milli)}, {"memory", std::to_string(memory)}});
  for (const auto& [name, amount] : extended) out.set(name, std::to_string(amount));
  return out;
}

/// Pods of several sizes; large ones, some with host anti-affinity, come last. Only the nodes of the plan accept them.
Problem mixed_pods() {
  Problem out;
  out.pool.labels["pool"] = kSpace;
  out.pool.taints = {{kSpace, "", "NoSchedule"}};
  for (const std::int64_t cpu : {2, 4, 8}) {
    out.types.push_back(type_of(fmt::format("c{}", cpu), cpu, 2 * cpu, 0.1 * static_cast<double>(cpu), 0, {"a", "b"}));
  }
  Random random(3);
  for (int i = 0; i < 80; ++i) {
    Pod pod = pod_of(fmt::format("p{}", i), i < 60 ? 100 + 150 * random.below(4) : 1500, 1);
    pod.name_space = kSpace;
    pod.node_selector["pool"] = kSpace;
    pod.tolerations = {{kSpace, "Exists", "", "NoSchedule"}};
    pod.labels["app"] = i < 20 ? "web" : i < 60 ? "batch" : "db";
    if (i < 20) pod.spread = {{kZone, 1, app_is("web"), true}};
    if (i >= 72) pod.anti_affinity = {{kHost, app_is("db")}};
    out.pods.push_back(std::move(pod));
  }
  return out;
}

Json node_object(const Problem& problem, const PlannedNode& node, const std::string& name) {
  const InstanceType& type = problem.types[node.type];
  Labels labels{{kHost, name}};
  for (const auto& one : node.requirements) labels[one.key] = one.values.front();
  Json room =
      amounts(type.cpu_milli - type.overhead_cpu_milli, type.memory_bytes - type.overhead_memory_bytes, type.extended);
  room.set("pods", std::to_string(type.pods));
  return Json::object({{"apiVersion", "v1"},
                       {"kind", "Node"},
                       {"metadata", Json::object({{"name", name}, {"labels", texts(labels)}})},
                       {"status", Json::object({{"capacity", room}, {"allocatable", room}})}});
}

Json selector_json(const LabelSelector& selector) {
  return just("matchLabels", just(selector.requirements[0].key, selector.requirements[0].values[0]));
}

Json pod_object(const Pod& pod, bool gated) {
  Json spec = Json::object(
      {{"containers", list({Json::object(
                          {{"name", "main"},
                           {"image", "none"},
                           {"resources", just("requests", amounts(pod.cpu_milli, pod.memory_bytes, pod.extended))}})})},
       {"terminationGracePeriodSeconds", 0},
       {"nodeSelector", texts(pod.node_selector)},
       {"tolerations", list({Json::object({{"key", pod.tolerations[0].key},
                                           {"operator", pod.tolerations[0].op},
                                           {"effect", pod.tolerations[0].effect}})})}});
  for (const auto& one : pod.spread) {
    spec.set("topologySpreadConstraints", list({Json::object({{"topologyKey", one.topology_key},
                                                              {"maxSkew", one.max_skew},
                                                              {"whenUnsatisfiable", "DoNotSchedule"},
                                                              {"labelSelector", selector_json(one.pods)}})}));
  }
  for (const auto& one : pod.anti_affinity) {
    const auto term = Json::object({{"topologyKey", one.topology_key}, {"labelSelector", selector_json(one.pods)}});
    spec.set("affinity", just("podAntiAffinity", just("requiredDuringSchedulingIgnoredDuringExecution", list({term}))));
  }
  if (gated) spec.set("schedulingGates", list({just("name", kGate)}));
  return Json::object(
      {{"apiVersion", "v1"},
       {"kind", "Pod"},
       {"metadata", Json::object({{"name", pod.uid}, {"namespace", pod.name_space}, {"labels", texts(pod.labels)}})},
       {"spec", std::move(spec)}});
}

class PlannedNodes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (env("QM_KUBE_URL").empty()) GTEST_SKIP() << "QM_KUBE_URL is not set; run ./qm peers kubernetes";
    kube::ClientOptions options;
    options.server = env("QM_KUBE_URL");
    options.token = env("QM_KUBE_TOKEN");
    options.ca_file = env("QM_KUBE_CA");
    api_ = std::make_unique<kube::Client>(options);
    if (!api_->get(kube::resources::kLeases, "kube-system", "kube-scheduler")) GTEST_SKIP() << "no scheduler runs";
    make(kNamespaces, "",
         Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", just("name", kSpace)}}));
    make(kAccounts, kSpace,
         Json::object({{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", just("name", "default")}}));
    clear();
  }
  void TearDown() override {
    if (api_) clear();
  }

  /// An object of an earlier run is accepted.
  void make(const kube::Resource& kind, const std::string& ns, const Json& object) {
    const auto made = api_->create(kind, ns, object);
    EXPECT_TRUE(made || made.error().code == Code::kAlreadyExists) << made.error().to_string();
  }

  std::vector<Json> all(const kube::Resource& kind, const std::string& ns) {
    auto found = api_->list_all(kind, ns);
    EXPECT_TRUE(found) << kind.plural;
    return found ? *found : std::vector<Json>{};
  }

  void clear() {
    kube::Client::DeleteOptions now;
    now.grace_seconds = 0;
    for (const Json& pod : all(kPods, kSpace)) {
      EXPECT_TRUE(api_->remove(kPods, kSpace, kube::name_of(pod), now));
    }
    for (const Json& node : all(kNodes, "")) {
      if (!kube::name_of(node).starts_with(kSpace)) continue;
      EXPECT_TRUE(api_->remove(kNodes, "", kube::name_of(node), {}));
    }
  }

  static std::string name_of_node(std::size_t number) { return fmt::format("{}-{}", kSpace, number); }

  void launch(const Problem& problem, const Plan& plan) {
    Json taints = Json::array();
    for (const auto& one : problem.pool.taints) {
      taints.push_back(Json::object({{"key", one.key}, {"effect", one.effect}}));
    }
    for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
      make(kNodes, "", node_object(problem, plan.nodes[i], name_of_node(i)));
      // The API server taints new nodes as not ready.
      EXPECT_TRUE(api_->merge_patch(kNodes, "", name_of_node(i), just("spec", just("taints", taints))));
    }
  }

  /// The node of each pod once the scheduler has tried all of them; empty = unbound.
  std::map<std::string, std::string> outcome(std::size_t pods) {
    std::map<std::string, std::string> out;
    const bool tried = qm::testing::wait_until([&] {
      out.clear();
      for (const Json& pod : all(kPods, kSpace)) {
        const auto& node = pod.path("spec.nodeName").string();
        bool refused = false;
        for (const Json& one : pod.path("status.conditions").items()) {
          refused |= one["reason"].string() == "Unschedulable";
        }
        if (!node.empty() || refused) out[kube::name_of(pod)] = node;
      }
      return out.size() == pods;
    });
    EXPECT_TRUE(tried) << out.size() << " of " << pods;
    return out;
  }

  std::unique_ptr<kube::Client> api_;
};

TEST_F(PlannedNodes, NominatedPodsAreAllBoundToThem) {
  const auto problem = mixed_pods();
  const auto plan = pack(problem);
  ASSERT_TRUE(plan) << plan.error().to_string();
  launch(problem, *plan);
  for (const auto& pod : problem.pods) make(kPods, kSpace, pod_object(pod, true));
  std::map<std::string, std::string> planned;
  for (std::size_t i = 0; i < plan->nodes.size(); ++i) {
    for (const auto pod : plan->nodes[i].pods) planned[problem.pods[pod].uid] = name_of_node(i);
  }
  for (const auto& pod : problem.pods) {
    const auto status = just("status", just("nominatedNodeName", planned[pod.uid]));
    EXPECT_TRUE(api_->merge_patch(kPods, kSpace, pod.uid, status, "status"));
    EXPECT_TRUE(api_->merge_patch(kPods, kSpace, pod.uid, just("spec", just("schedulingGates", Json()))));
  }
  EXPECT_EQ(outcome(problem.pods.size()), planned);
}

TEST_F(PlannedNodes, AStockPlanSufficesWithoutNomination) {
  const auto problem = mixed_pods();
  Effort effort;
  effort.binding = Binding::kStock;
  const auto plan = pack(problem, effort);
  ASSERT_TRUE(plan) << plan.error().to_string();
  launch(problem, *plan);
  for (const auto& pod : problem.pods) make(kPods, kSpace, pod_object(pod, false));
  std::size_t bound = 0;
  for (const auto& [pod, node] : outcome(problem.pods.size())) bound += node.empty() ? 0 : 1;
  EXPECT_GE(static_cast<double>(bound), 0.995 * static_cast<double>(problem.pods.size()))
      << plan->stock->share << " in simulated runs";
}

}  // namespace scheduler_k8s_test
}  // namespace qm::autoscaler::pack::testing
