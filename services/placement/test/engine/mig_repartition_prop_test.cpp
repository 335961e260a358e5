// Laws of MIG repartition, over generated demand on nodes with a mig-manager that is slow and at
// times fails. A label is written only on empty nodes and names an allowed layout; orders respect
// their budget and nodes their cooldown; nothing is ordered for a workload that already fits; the
// workload for which a node is repartitioned fits on it; and decisions depend on rows only.
// Script::step audits, undoes and repeats each step.
#include "test/engine/layout_words.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <random>

namespace qm::placement::testing {
namespace mig_repartition_prop_test {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kNodes = 4, kWorkloads = 5;

Options options_of() {
  Options options;
  options.mig_repartition.on = true;
  options.mig_repartition.most_orders = 3;
  options.mig_repartition.pause = minutes(30);
  options.mig_repartition.after = seconds(30);
  return options;
}

/// The cluster: it executes the engine's intents, sooner or later.
class World {
 public:
  explicit World(unsigned seed) : script_(options_of()), random_(seed) {
    std::vector<Command> batch;
    NodesSynced synced;
    for (int n = 0; n < kNodes; ++n) {
      NodeFacts facts = node_facts(1 + n % 2);
      facts.model = "NVIDIA-H100-80GB-HBM3";
      facts.labels["nvidia.com/gpu.count"] = std::to_string(facts.gpus);
      const NodeName name(fmt::format("n{}", n));
      nodes_[name] = {facts, {}, {}, facts.gpus};
      synced.nodes.insert(name);
      batch.push_back(NodeUpdated{name, facts});
    }
    if (below(2) == 0) {  // a list of mig-manager's, or its built-in one
      OrderLayouts list;
      list.definitions["sevens"] = {{{}, true, {{"1g.10gb", 7}}}};
      list.definitions["threes"] = {{{}, true, {{"3g.40gb", 2}}}};
      list.definitions["mixed"] = {{{0}, true, {{"1g.10gb", 7}}}};
      offered_ = {"sevens", "threes", "mixed"};
      batch.push_back(list);
    }
    batch.push_back(synced);
    batch.push_back(PodsSynced{});
    take(batch);
  }

  void step_once() {
    script_.advance(seconds(1 + below(60)));
    std::vector<Command> batch{Tick{}};
    if (below(3) == 0) batch.push_back(demand());
    if (below(12) == 0) batch.push_back(unmanaged_pod());
    for (auto& [name, node] : nodes_) {
      if (work(node)) batch.push_back(NodeUpdated{name, node.facts});
    }
    take(batch);
  }
  [[nodiscard]] int orders() const { return static_cast<int>(ordered_.size()); }
  [[nodiscard]] int served() const { return served_; }
  [[nodiscard]] std::uint64_t digest() { return script_.engine().digest(); }
  Engine& engine() { return script_.engine(); }

 private:
  struct NodeShape {
    NodeFacts facts;
    std::string wanted, cut;
    std::int32_t gpus = 0;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  WorkloadUpdated demand() {
    const int w = below(kWorkloads);
    WorkloadUpdated latest;
    latest.spec.uid = WorkloadUid(fmt::format("w{}", w));
    latest.spec.name = latest.spec.uid.value();
    latest.spec.priority = w % 2;
    auto set = pod_set(std::array{1, 7, 2, 10, 1}[static_cast<std::size_t>(w)], 0);
    set.shape.gpu = {0, 0, w == 2 ? "3g.40gb" : "1g.10gb", 1, {}};
    if (w == 4) set = pod_set(1, 1);
    latest.spec.pod_sets = {set};
    latest.attempt = 1;
    // An attempt that ended does not start again.
    int& attempt = attempts_[latest.spec.uid];
    const int what = below(5);
    if (what < 3 || attempt == 0) {
      if (attempt == 0) attempt = 1;
      latest.phase = WorkloadPhase::kQuotaReserved;
    } else {
      latest.phase = what == 3 ? WorkloadPhase::kPending : WorkloadPhase::kCancelled;
    }
    latest.attempt = attempt;
    if (latest.phase != WorkloadPhase::kQuotaReserved) ++attempt;
    if (latest.phase == WorkloadPhase::kPending) latest.attempt = attempt;
    return latest;
  }
  Command unmanaged_pod() {
    PodFacts pod;
    pod.ns = "other";
    pod.uid = pod.name = fmt::format("s{}", below(2));
    if (below(3) > 0) return PodDeleted{pod.uid};
    pod.node = NodeName(fmt::format("n{}", below(kNodes)));
    const NodeFacts& there = nodes_.at(pod.node).facts;
    if (there.unschedulable || there.gpus == 0) return Tick{};  // the other scheduler would not bind it there
    pod.phase = PodPhase::kRunning;
    pod.shape.gpu.whole = 1;
    return PodUpdated{pod};
  }
  /// mig-manager, and the device plugin after it.
  bool work(NodeShape& node) {
    auto& state = node.facts.labels[std::string(kMigState)];
    if (node.wanted == node.cut || below(2) == 0) return false;
    if (state != "pending") {
      state = "pending";
      return true;
    }
    if (below(6) == 0) {
      state = "failed";
      node.cut = node.wanted;
      return true;
    }
    const auto layout =
        mig::layout_named(node.wanted, script_.engine().tables().layouts.rows(), node.facts.model, node.gpus);
    RC_ASSERT(layout.has_value());
    node.facts.gpus = 0;
    node.facts.extended.clear();
    for (const auto& [resource, amount] : mig::capacity_of(*layout)) {
      if (resource == words::kGpuResource) {
        node.facts.gpus = static_cast<std::int32_t>(amount);
      } else {
        node.facts.extended[resource] = amount;
      }
    }
    state = "success";
    node.cut = node.wanted;
    return true;
  }

  void take(const std::vector<Command>& batch) {
    const auto before = repartitions();
    const Output output = script_.step(batch);
    RC_ASSERT(!output.wake_at || *output.wake_at > script_.now());
    for (const auto& [name, cut] : script_.engine().tables().repartitions) {
      if (!cut.order || !cut.reserved_for) continue;
      const auto old = before.find(name);
      const bool fresh = old == before.end() || !old->second.reserved_for || old->second.order->over();
      if (fresh && !(old != before.end() && old->second == cut) && !cut.order->over())
        began(name, cut, old == before.end() ? nullptr : &old->second);
    }
    for (const Intent& intent : output.intents) {
      if (const auto* cordon = std::get_if<CordonNode>(&intent.what)) {
        NodeShape& node = nodes_.at(cordon->node);
        node.facts.unschedulable = !cordon->causes.empty();
        node.facts.cordoned_by = cordon->causes;
        changed_.insert(cordon->node);
      }
      if (const auto* label = std::get_if<LabelNode>(&intent.what)) labeled(*label);
    }
    for (const Event& event : output.events) {
      const auto* changed = std::get_if<AssignmentChanged>(&event);
      if (changed != nullptr && !changed->forgotten && changed->state.state == AssignmentState::kReserved) ++served_;
    }
    if (changed_.empty()) return;
    std::vector<Command> next;
    for (const NodeName& name : changed_) next.push_back(NodeUpdated{name, nodes_.at(name).facts});
    changed_.clear();
    take(next);
  }
  [[nodiscard]] std::map<NodeName, Repartition> repartitions() {
    const auto& rows = script_.engine().tables().repartitions.rows();
    return {rows.begin(), rows.end()};
  }

  void began(const NodeName& name, const Repartition& cut, const Repartition* old) {
    const Options options = options_of();
    ordered_.push_back(script_.now());
    const auto counting =
        std::ranges::count_if(ordered_, [&](Instant at) { return at + options.mig_repartition.per > script_.now(); });
    RC_ASSERT(static_cast<std::size_t>(counting) <= options.mig_repartition.most_orders);
    if (old != nullptr && old->order) RC_ASSERT(old->order->since + options.mig_repartition.pause <= script_.now());
    const Workload* workload = script_.engine().tables().workloads.find(cut.reserved_for->uid);
    RC_ASSERT(workload != nullptr && workload->phase == WorkloadPhase::kQuotaReserved);
    RC_ASSERT(workload->short_since + options.mig_repartition.after <= script_.now());
    RC_ASSERT(!script_.engine().dry_run(workload->spec.pod_sets).plan.has_value());
    RC_ASSERT(!cut.reserved_for->places.empty());
    if (!offered_.empty()) RC_ASSERT(offered_.contains(cut.order->order.layout));
    RC_ASSERT(nodes_.at(name).facts.ready);
  }
  void labeled(const LabelNode& label) {
    for (const auto& [id, row] : script_.engine().tables().assignments) {
      if (!row.holds()) continue;
      for (const Member& member : row.members) RC_ASSERT(!member.live() || member.node != label.node);
    }
    for (const auto& [uid, pod] : script_.engine().tables().pods) RC_ASSERT(pod.facts.node != label.node);
    NodeShape& node = nodes_.at(label.node);
    RC_ASSERT(node.facts.unschedulable);
    node.wanted = label.layout;
    node.cut.clear();
    node.facts.labels[std::string(kMigConfig)] = label.layout;
    node.facts.labels.erase(std::string(kMigState));
    changed_.insert(label.node);
  }

  Script script_;
  std::mt19937 random_;
  std::map<NodeName, NodeShape> nodes_;
  std::map<WorkloadUid, int> attempts_;
  std::set<std::string> offered_;
  std::set<NodeName> changed_;
  std::vector<Instant> ordered_;
  int served_ = 0;
};

TEST(MigRepartitionLaws, HoldInGeneratedHistories) {
  int orders = 0, served = 0;
  EXPECT_TRUE(rc::check("repartition", [&] {
    World world(*rc::gen::arbitrary<unsigned>());
    for (int turn = 0; turn < 60; ++turn) world.step_once();
    orders += world.orders();
    served += world.served();
  }));
  EXPECT_GT(orders, 100) << "the generated histories hardly order anything";
  EXPECT_GT(served, 100);
}

// Another engine that is rebuilt from the rows after each step makes the same decisions: see also
// Laws.ARestartChangesNothing, with any inputs.
TEST(MigRepartitionLaws, DependOnRowsOnly) {
  EXPECT_TRUE(rc::check("rows", [] {
    const auto seed = *rc::gen::arbitrary<unsigned>();
    World world(seed), other(seed);
    for (int turn = 0; turn < 25; ++turn) {
      world.step_once();
      other.engine().rebuild();
      other.step_once();
      RC_ASSERT(world.digest() == other.digest());
    }
  }));
}

}  // namespace mig_repartition_prop_test
}  // namespace qm::placement::testing
