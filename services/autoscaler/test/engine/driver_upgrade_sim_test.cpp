// A rolling upgrade of the GPU driver: the image of the node class changes, all ten nodes drift, and each has a gang that
// saves. Virtual time, with the cloud, the nodes and admission as they answer.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace qm::autoscaler::testing {
namespace driver_upgrade_sim_test {

using std::chrono::seconds;

constexpr int kNodes = 10;
constexpr const char *kOld = "ami-driver-570", *kNew = "ami-driver-580";

class Upgrade {
 public:
  Upgrade() {
    pool_.name = "gpu";
    pool_.instance_types = {"a8"};
    pool_.markets = {Market::kOnDemand};
    pool_.lifecycle.images = {kOld};
    pool_.budgets = {Budget{"1", {}, {}, {}}};
    batch_.emplace_back(PoolsApplied{{pool_}});
    for (int i = 0; i < kNodes; ++i) {
      const WorkloadUid gang(fmt::format("gang-{}", i));
      InstanceFact fact;
      fact.id = InstanceId(fmt::format("i-old-{}", i));
      fact.image = kOld;
      start(fact);
      batch_.emplace_back(WorkloadUpdated{gang, 1, true, false, "ml", "Job", gang.value()});
      place(gang, 1, NodeName("n-" + fact.id.value()));
    }
    step();
    pool_.lifecycle.images = {kNew};  // the image with the new driver
    batch_.emplace_back(PoolsApplied{{pool_}});
  }

  void run() {
    for (int t = 0; t < 4 * 3600 && old_nodes() > 0; t += 5) step();
    for (int t = 0; t < 600; t += 5) step();
  }
  [[nodiscard]] int old_nodes() const {
    int out = 0;
    for (const auto& [id, fact] : instances_) out += fact.image == kOld ? 1 : 0;
    return out;
  }
  [[nodiscard]] std::size_t running() const { return nodes_.size(); }
  std::size_t most_at_once = 0, saved_before = 0, evicted = 0;

 private:
  void start(InstanceFact fact) {
    fact.pool = "gpu", fact.type = "a8", fact.zone = "z1", fact.market = Market::kOnDemand;
    fact.node = NodeName("n-" + fact.id.value());
    fact.launched = now_;
    instances_[fact.id] = fact;
    changed_ = true;
    batch_.emplace_back(NodeUpdated{fact.node, true, false, false, 0, now_, fact.id});
  }
  void place(const WorkloadUid& gang, std::int32_t attempt, const NodeName& node) {
    nodes_[gang] = {attempt, node};
    batch_.emplace_back(NodeUpdated{node, true, false, false, 1, {}, instance_of(node)});
    batch_.emplace_back(AssignmentUpdated{{gang, attempt}, true, {node}});
  }
  static InstanceId instance_of(const NodeName& node) { return InstanceId(node.value().substr(2)); }

  void step() {
    // Placement: a pending gang gets the first new node without one.
    std::set<NodeName> taken;
    for (const auto& [gang, place] : nodes_) taken.insert(place.second);
    for (auto at = pending_.begin(); at != pending_.end();) {
      const auto free = std::ranges::find_if(
          instances_, [&](const auto& one) { return one.second.image == kNew && !taken.contains(one.second.node); });
      if (free == instances_.end()) break;
      taken.insert(free->second.node);
      place(at->first, at->second, free->second.node);
      at = pending_.erase(at);
      demand();
    }
    if (changed_) {
      InstancesListed listed;
      for (const auto& [id, fact] : instances_) listed.instances.push_back(fact);
      batch_.emplace_back(std::move(listed));
    }
    changed_ = false;
    if (batch_.empty()) batch_.emplace_back(Tick{});
    const Output out = engine_.step(std::exchange(batch_, {}), now_);
    engine_.commit();
    handle(out);
    std::size_t draining = 0;
    for (const auto& [name, c] : engine_.tables().claims)
      draining += c.state == ClaimState::kDraining ? 1 : 0;
    most_at_once = std::max(most_at_once, draining);
    now_ += seconds(5);
  }

  void demand() {
    DemandUpdated list;
    PodSet set;
    set.count = 1;
    set.shape.gpu.whole = 8;
    for (const auto& [gang, attempt] : pending_) list.items.push_back({{gang, attempt}, {set}, 0, now_});
    batch_.emplace_back(std::move(list));
  }

  void handle(const Output& out) {
    for (const auto& order : out.orders) {
      if (!order.row.outcome.empty()) continue;
      const StepSave save{++steps_, 0, 1, fmt::format("s3://{}/{}", order.row.id.uid, steps_), 0, seconds(30)};
      for (const NodeName& node : order.row.save.nodes)
        batch_.emplace_back(AckUpdated{order.id, {node, order.row.save.fence, 1, {save}, {}}});
    }
    for (const auto& eviction : out.evictions) {
      if (eviction.over) continue;
      ++evicted;
      saved_before += eviction.resume_uri.empty() ? 0 : 1;
      nodes_.erase(eviction.id.uid);
      pending_[eviction.id.uid] = eviction.id.attempt + 1;
      batch_.emplace_back(AssignmentUpdated{eviction.id, false, {}});
      batch_.emplace_back(
          WorkloadUpdated{eviction.id.uid, eviction.id.attempt + 1, true, false, "ml", "Job", eviction.id.uid.value()});
      batch_.emplace_back(
          NodeUpdated{eviction.node, true, true, false, 0, now_, instance_of(eviction.node)});  // cordoned and empty
      demand();
    }
    for (const auto& launch : out.launches) {
      InstanceFact fact;
      fact.id = InstanceId("i-" + launch.claim.value());
      fact.claim = launch.claim;
      fact.image = kNew;
      batch_.emplace_back(LaunchEnded{launch.claim, fact.id, ""});
      start(fact);
    }
    for (const auto& end : out.terminations) {
      const auto at = instances_.find(end.instance);
      if (at == instances_.end()) continue;
      batch_.emplace_back(NodeUpdated{at->second.node, false, false, true, 0, {}, end.instance});
      instances_.erase(at);
      changed_ = true;
    }
  }

  Engine engine_{small_catalog()};
  Pool pool_;
  Instant now_ = from_micros(1'000'000'000'000);
  std::vector<Command> batch_;
  std::map<InstanceId, InstanceFact> instances_;
  bool changed_ = false;
  std::map<WorkloadUid, std::pair<std::int32_t, NodeName>> nodes_;
  std::map<WorkloadUid, std::int32_t> pending_;
  std::int64_t steps_ = 0;
};

// S-255: ten nodes get a new driver one at a time, each after its gang has saved.
TEST(DriverUpgrade, RollsOverTenNodesOneAtATimeAfterACheckpointOfEach) {
  Upgrade upgrade;
  upgrade.run();
  EXPECT_EQ(upgrade.old_nodes(), 0);
  EXPECT_EQ(upgrade.most_at_once, 1U);
  EXPECT_EQ(upgrade.evicted, static_cast<std::size_t>(kNodes)) << "each gang moves once";
  EXPECT_EQ(upgrade.saved_before, upgrade.evicted);
  EXPECT_EQ(upgrade.running(), static_cast<std::size_t>(kNodes)) << "all run again";
}

}  // namespace driver_upgrade_sim_test
}  // namespace qm::autoscaler::testing
