// The share of pods that kube-scheduler binds to the nodes which were launched for them. The nodes of a tight plan have no
// room for another order, and kube-scheduler would spread the pods: they fit by their nominations.
//
// A measurement that takes up to five minutes:
//
//   QM_NOMINATED_PODS=200 adoption_k8s_test --gtest_filter=NominatedPods.*
#include "adoption.hpp"
#include "qm/autoscaler/columns/type_facts.hpp"
#include "qm/catalog/catalog.hpp"

#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

namespace qm::adoption {
namespace nominations_k8s_test {

using kube::resources::kNodeClaims;
using kube::resources::kNodePools;
using kube::resources::kNodes;
using kube::resources::kPods;
using namespace std::chrono_literals;

constexpr const char* kInstanceType = "node.kubernetes.io/instance-type";
/// As long as a node has registered and is not ready. Nodes register within four times this time.
constexpr auto kStart = 2s;
/// A pod that did not fit is planned again half a minute after its node was ready (Options::settle): what is launched
/// before is for pods that were not planned yet.
constexpr auto kSettle = 25s;

Json texts(const std::map<std::string, std::int64_t>& amounts) {
  Json out = Json::object();
  for (const auto& [name, amount] : amounts)
    out.set(name, name == "cpu" ? fmt::format("{}m", amount) : std::to_string(amount));
  return out;
}

class NominatedPods : public Adoption {
 protected:
  void SetUp() override {
    Adoption::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("QM_NOMINATED_PODS") == nullptr) GTEST_SKIP() << "a measurement: set QM_NOMINATED_PODS=200";
    if (cluster().aws.empty()) GTEST_SKIP() << "there is no cloud with this cluster";
    definitions("karpenter.yaml");
    Json pool = node_pool("adopted");
    Json requirements = Json::array();
    for (const Json& one : pool.path("spec.template.spec.requirements").items()) {
      if (one["key"].string() != kInstanceType) requirements.push_back(one);
    }
    requirements.push_back(Json::object({{"key", kInstanceType},
                                         {"operator", "In"},
                                         {"values", Json::array({"c5.xlarge", "c5.2xlarge", "c5.4xlarge", "c5.9xlarge",
                                                                 "r5.2xlarge", "r5.4xlarge"})}}));
    pool.set("spec").set("template").set("spec").set("requirements", requirements);
    pool.set("spec").set("disruption", *Json::parse(R"({"consolidationPolicy":"WhenEmpty","consolidateAfter":"1h"})"));
    create(kNodePools, pool);
  }
  void TearDown() override {
    if (!IsSkipped()) {
      for (const auto& [claim, node] : nodes_) {
        (void)client().remove(kNodeClaims, "", claim, {});
        (void)client().remove(kNodes, "", claim, {});
      }
    }
    Adoption::TearDown();
  }

  void create_pod(int index, std::int64_t cpu, std::int64_t memory_mib) {
    Json made = pod(fmt::format("p{:05}", index), 0, 3600);
    const Json requests = texts({{"cpu", cpu}, {"memory", memory_mib << 20}});
    const Json container = Json::object(
        {{"name", "main"}, {"image", "example/none:1"}, {"resources", Json::object({{"requests", requests}})}});
    made.set("spec")
        .set("containers", Json::array({container}))
        .set("tolerations", Json::array())
        .set("nodeSelector", Json::object({{kPool, own("pool")}}));
    create(kPods, made);
  }

  /// Karpenter and the kubelets: each claim's node registers after a while, and is ready after kStart.
  void others() override {
    const auto now = std::chrono::steady_clock::now();
    const auto claims = client().list_all(kNodeClaims, "");
    if (!claims) return;
    for (const Json& claim : *claims) {
      if (kube::label(claim, kPool) != own("pool")) continue;
      const auto name = kube::name_of(claim);
      const auto boot = std::uniform_int_distribution<int>(0, 3)(random_) * kStart;
      auto& node = nodes_.try_emplace(name, Node{now + boot, {}, {}}).first->second;
      if (!node.registered && node.at <= now) {
        register_node(claim);
        node.registered = now;
      } else if (node.registered && !node.ready && *node.registered + kStart <= now) {
        const Json simulated = Json::object({{"kwok.x-k8s.io/node", "fake"}});
        (void)client().merge_patch(kNodes, "", name,
                                   Json::object({{"metadata", Json::object({{"annotations", simulated}})}}));
        node.ready = true;
        ready_ = std::max(ready_, now);
      }
    }
  }

  void register_node(const Json& claim) {
    const auto name = kube::name_of(claim);
    std::string type;
    for (const Json& one : claim.path("spec.requirements").items()) {
      if (one["key"].string() == kInstanceType) type = one["values"].items().begin()->string();
    }
    const auto* known = catalog::find(type);
    ASSERT_NE(known, nullptr) << claim.pretty();
    types_[type] += 1;
    const auto amounts = autoscaler::node_amounts(*known);
    create(kNodes, Json::object(
                       {{"apiVersion", "v1"},
                        {"kind", "Node"},
                        {"metadata", Json::object({{"name", name},
                                                   {"labels", Json::object({{"kubernetes.io/hostname", name},
                                                                            {kInstanceType, type},
                                                                            {"karpenter.sh/capacity-type", "on-demand"},
                                                                            {kPool, own("pool")}})}})},
                        {"spec", Json::object({{"providerID", "aws:///us-east-1a/i-" + name},
                                               {"taints", claim["spec"]["startupTaints"]}})},
                        {"status", Json::object({{"capacity", texts(amounts.capacity)},
                                                 {"allocatable", texts(amounts.allocatable)}})}}));
    const auto launched = Json::object({{"type", "Launched"}, {"status", "True"}, {"reason", "Launched"}});
    const auto status = Json::object(
        {{"providerID", "aws:///us-east-1a/i-" + name}, {"nodeName", name}, {"conditions", Json::array({launched})}});
    (void)client().merge_patch(kNodeClaims, "", name, Json::object({{"status", status}}), "status");
  }

  /// Names of our pods by node; of pending pods by "".
  std::map<std::string, int> bound() {
    std::map<std::string, int> out;
    const auto pods = client().list_all(kPods, ns());
    if (!pods) return out;
    for (const Json& one : *pods) out[one["spec"]["nodeName"].string()] += 1;
    return out;
  }

  struct Node {
    std::chrono::steady_clock::time_point at;
    std::optional<std::chrono::steady_clock::time_point> registered;
    bool ready = false;
  };
  std::chrono::steady_clock::time_point ready_ = std::chrono::steady_clock::now();  ///< the last node; or the start
  std::map<std::string, Node> nodes_;                                               ///< by claim, and named as it
  std::map<std::string, int> types_;
  std::mt19937 random_{11};
};

TEST_F(NominatedPods, FitTheNodesThatWereLaunchedForThem) {
  const int pods = std::atoi(std::getenv("QM_NOMINATED_PODS"));
  std::mt19937 random(7);
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random));
  };
  for (int i = 0; i < pods; ++i) {
    // The large ones come last: kube-scheduler has given their room to the small ones by then.
    const bool large = i >= pods * 3 / 4;
    create_pod(i, large ? one_of({2500, 3700, 6200, 7500}) : one_of({100, 250, 500, 1000, 1500}),
               large ? one_of({2048, 6144, 12288}) : one_of({128, 512, 1024, 4096}));
  }
  const auto autoscaler =
      service("autoscaler", {"observe=cluster", "aws=" + cluster().aws, "driver=karpenter", "scaling=quartermaster"});
  ASSERT_TRUE(comes([&] { return !nodes_.empty(); })) << autoscaler->log();
  std::set<std::string> first;
  ASSERT_TRUE(comes(
      [&] {
        if (std::chrono::steady_clock::now() < ready_ + kSettle) {
          for (const auto& [name, node] : nodes_) first.insert(name);
        }
        return !bound().contains("");
      },
      300s))
      << autoscaler->log();
  int fit = 0;
  for (const auto& [node, count] : bound()) fit += first.contains(node) ? count : 0;
  std::string types;
  for (const auto& [type, count] : types_) types += fmt::format(" {} x {}", count, type);
  fmt::print("{} of {} pods were bound to the {} nodes launched for them ({:.2f} %); nodes in the end: {} ({})\n", fit,
             pods, first.size(), 100.0 * fit / pods, nodes_.size(), types);
  EXPECT_GE(fit * 1000, pods * 995);
}

}  // namespace nominations_k8s_test
}  // namespace qm::adoption
