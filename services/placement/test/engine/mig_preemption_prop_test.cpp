// Laws of preemption for MIG instances, over generated demand on nodes with a mig-manager that is
// slow and at times fails, and an admission that accepts, refuses, or does not respond. Victims
// have lower priority, hold what the workload requires, and are needed; the capacity is reserved
// for it; a layout order names an allowed layout, is within the budget, and its node is empty; and
// an engine restored from the rows makes the same decisions.
#include "test/engine/layout_words.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <random>

namespace qm::placement::testing {
namespace mig_preemption_prop_test {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kNodes = 3;

Options options_of(bool cutting) {
  Options options;
  options.preemption.on = true;
  options.preemption.after = seconds(0);
  options.mig_repartition.on = cutting;
  options.mig_repartition.after = seconds(5);
  options.mig_repartition.most_orders = 5;
  options.mig_repartition.pause = minutes(1);
  return options;
}

/// Counts over all histories.
struct Counts {
  int left = 0, cut = 0, checked = 0, came = 0;
};

class World {
 public:
  World(unsigned seed, Counts& counts)
      : random_(seed), cutting_(below(4) != 0), script_(options_of(cutting_)), counts_(counts) {
    std::vector<Command> batch;
    NodesSynced synced;
    for (int n = 0; n < kNodes; ++n) {
      NodeFacts facts = node_facts(1 + n % 2);
      facts.model = "NVIDIA-H100-80GB-HBM3";
      facts.labels["nvidia.com/gpu.count"] = std::to_string(facts.gpus);
      const NodeName name(fmt::format("n{}", n));
      NodeShape& machine = nodes_[name] = {facts, {}, {}, facts.gpus};
      const std::array<std::string, 4> layouts{"", "all-1g.10gb", "all-3g.40gb", "all-balanced"};
      machine.wanted = machine.cut = layouts[static_cast<std::size_t>(below(4))];
      if (!machine.cut.empty()) advertise(machine);
      synced.nodes.insert(name);
      batch.push_back(NodeUpdated{name, machine.facts});
    }
    batch.push_back(synced);
    batch.push_back(PodsSynced{});
    take(batch);
  }

  void step_once() {
    script_.advance(seconds(1 + below(40)));
    std::vector<Command> batch{Tick{}};
    for (auto& [name, node] : nodes_) {
      if (work(node)) batch.push_back(NodeUpdated{name, node.facts});
    }
    if (below(2) == 0) batch.push_back(wish());
    take(batch);
    admit();
    const int luck = below(10);
    if (luck < 6) answer(luck < 5);
    if (luck == 9 && !received_.empty())
      end(std::next(received_.begin(), below(static_cast<int>(received_.size())))->first);
    admit();
  }

 private:
  struct NodeShape {
    NodeFacts facts;
    std::string wanted, cut;
    std::int32_t gpus = 0;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  [[nodiscard]] const Tables& tables() { return script_.engine().tables(); }

  // ---- the cluster ----

  void advertise(NodeShape& node) {
    const auto layout = mig::layout_named(node.wanted, {}, node.facts.model, node.gpus);
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
    node.facts.labels[std::string(kMigConfig)] = node.wanted;
    node.facts.labels[std::string(kMigState)] = "success";
    node.cut = node.wanted;
  }
  bool work(NodeShape& node) {
    if (node.wanted == node.cut || below(2) == 0) return false;
    if (below(8) == 0) {
      node.facts.labels[std::string(kMigState)] = "failed";
      node.cut = node.wanted;
      return true;
    }
    advertise(node);
    return true;
  }
  void apply_plan(const Intent& intent) {
    if (const auto* cordon = std::get_if<CordonNode>(&intent.what)) {
      NodeShape& node = nodes_.at(cordon->node);
      node.facts.unschedulable = !cordon->causes.empty();
      node.facts.cordoned_by = cordon->causes;
      changed_.insert(cordon->node);
    }
    const auto* label = std::get_if<LabelNode>(&intent.what);
    if (label == nullptr) return;
    for (const auto& [id, row] : tables().assignments) {
      for (const Member& member : row.members) RC_ASSERT(!row.holds() || !member.live() || member.node != label->node);
    }
    NodeShape& node = nodes_.at(label->node);
    RC_ASSERT(node.facts.unschedulable);
    node.wanted = label->layout;
    node.cut.clear();
    node.facts.labels[std::string(kMigConfig)] = label->layout;
    node.facts.labels.erase(std::string(kMigState));
    changed_.insert(label->node);
  }

  // ---- admission ----

  WorkloadUpdated wish() {
    WorkloadUpdated out;
    out.spec.uid = WorkloadUid(fmt::format("w{:03}", made_++));
    out.spec.name = out.spec.uid.value();
    out.spec.priority = below(6);
    const int kind = below(8);
    auto set = pod_set(kind == 5 ? 2 : 1, kind == 6 ? 1 : 0, kind == 7 ? 500 : 0);
    if (kind < 6) set.shape.gpu = {0, 0, kind % 2 == 0 ? "1g.10gb" : "3g.40gb", kind == 4 ? 3 : 1, {}};
    if (below(6) == 0) set.shape.cpu_milli = 20'000;
    out.spec.pod_sets = {set};
    out.attempt = 1;
    out.phase = WorkloadPhase::kQuotaReserved;
    out.quota_facts = {below(6) == 0 ? "r" : "q", "t", below(8) != 0, below(4) != 0, {}, {}, {}};
    received_[out.spec.uid] = out;
    return out;
  }
  void admit() {
    std::vector<Command> batch;
    for (const auto& [id, row] : tables().assignments) {
      const auto newest = received_.find(id.uid);
      if (!row.holds() || newest == received_.end() || newest->second.phase != WorkloadPhase::kQuotaReserved) continue;
      newest->second.phase = WorkloadPhase::kAdmitted;
      newest->second.quota_facts.admitted = script_.now();
      batch.emplace_back(newest->second);
    }
    if (!batch.empty()) take(batch);
  }
  void end(const WorkloadUid& uid) {
    WorkloadUpdated over = received_.at(uid);
    over.phase = WorkloadPhase::kFinished;
    received_.erase(uid);
    take({over});
  }
  void answer(bool accept) {
    std::vector<std::pair<WorkloadUid, Proposal>> asked;
    for (const auto& [uid, row] : tables().proposals) {
      if (row.state == ProposalState::kProposed) asked.emplace_back(uid, row);
    }
    for (const auto& [uid, row] : asked) {
      const Proposal* still = tables().proposals.find(uid);
      if (still == nullptr || still->state != ProposalState::kProposed || still->number != row.number) continue;
      WorkloadUpdated update = received_.at(uid);
      update.answer = ProposalAnswer{row.number, accept, accept ? "" : "MinimumRunTime", {}};
      if (!accept) update.answer->refused.push_back(row.victims.front().id.uid);
      take({update});
      if (accept) leave(uid, row);
    }
  }
  /// All victims leave, and no other workload is submitted: then the workload is placed, or its
  /// node is being repartitioned.
  void leave(const WorkloadUid& uid, const Proposal& row) {
    const auto priority = received_.at(uid).spec.priority;
    const bool first = std::ranges::none_of(received_, [&](const auto& other) {
      return other.first != uid && other.second.phase == WorkloadPhase::kQuotaReserved &&
             other.second.spec.priority > priority;
    });
    for (const auto& victim : row.victims) {
      const auto gives = received_.find(victim.id.uid);
      if (gives == received_.end()) continue;  // it has finished by itself
      gives->second.phase = WorkloadPhase::kEvicting;
      gives->second.order_deadline = script_.now() + seconds(30);
      take({gives->second});
    }
    for (const auto& victim : row.victims) received_.erase(victim.id.uid);
    if (!first) return;
    const Assignment* place = tables().assignments.find({uid, 1});
    const bool cut = std::ranges::any_of(tables().repartitions, [&](const auto& one) {
      return one.second.reserved_for && one.second.reserved_for->waits && one.second.reserved_for->uid == uid;
    });
    RC_ASSERT((place != nullptr && place->holds()) || cut);
    ++counts_.came;
  }

  // ---- laws ----

  void take(const std::vector<Command>& batch) {
    auto other = read_back(script_.engine(), options_of(cutting_));
    const auto theirs = render(other->step(batch, script_.now()), true);
    const auto orders = ordered();
    const auto before = active_proposals();
    const Output output = script_.step(batch);
    RC_ASSERT(render(output, true) == theirs);
    RC_ASSERT(other->digest() == script_.engine().digest());
    RC_ASSERT(!output.wake_at || *output.wake_at > script_.now());
    if (ordered() > orders) RC_ASSERT(cutting_ && ordered() <= options_of(true).mig_repartition.most_orders);
    for (const Event& event : output.events) {
      if (const auto* proposed = std::get_if<ProposalChanged>(&event)) look_at(*proposed);
      const auto* changed = std::get_if<AssignmentChanged>(&event);
      if (changed != nullptr && !changed->forgotten && changed->state.state == AssignmentState::kReserved)
        keeps_capacity(*changed, before);
    }
    for (const Intent& intent : output.intents) apply_plan(intent);
    if (changed_.empty()) return;
    std::vector<Command> next;
    for (const NodeName& name : changed_) next.push_back(NodeUpdated{name, nodes_.at(name).facts});
    changed_.clear();
    take(next);
  }
  [[nodiscard]] std::size_t ordered() {
    const Meta* meta = tables().meta.find(0);
    if (meta == nullptr) return 0;
    return static_cast<std::size_t>(std::ranges::count_if(
        meta->repartition, [&](Instant at) { return at + options_of(true).mig_repartition.per > script_.now(); }));
  }
  [[nodiscard]] std::map<WorkloadUid, Proposal> active_proposals() {
    std::map<WorkloadUid, Proposal> out;
    for (const auto& [uid, row] : tables().proposals) {
      if (row.is_active()) out.emplace(uid, row);
    }
    return out;
  }

  /// No other workload of the same or a lower priority is placed on a node that is being emptied for a workload.
  void keeps_capacity(const AssignmentChanged& changed, const std::map<WorkloadUid, Proposal>& before) {
    for (const auto& [uid, row] : before) {
      const Proposal* now = tables().proposals.find(uid);
      if (row.repartitions.empty() || uid == changed.id.uid) continue;
      if (now == nullptr || !now->is_active() || now->number != row.number) continue;
      if (received_.at(changed.id.uid).spec.priority > received_.at(uid).spec.priority) continue;
      for (const Member& member : changed.state.members) RC_ASSERT(!row.repartitions.contains(member.node));
    }
  }

  void look_at(const ProposalChanged& event) {
    const Proposal* row = tables().proposals.find(event.uid);
    if (row == nullptr || row->number != event.state.number || row->state != ProposalState::kProposed) return;
    const Workload& wish = *tables().workloads.find(event.uid);
    const auto& wanted = wish.spec.pod_sets[0].shape.gpu;
    RC_ASSERT(!row->victims.empty());
    RC_ASSERT(row->repartitions.empty() || cutting_);
    if (wanted.mig_count == 0) return;
    ++(row->repartitions.empty() ? counts_.left : counts_.cut);
    std::set<WorkloadUid> victims;
    for (const auto& victim : row->victims) {
      const Workload& gives = *tables().workloads.find(victim.id.uid);
      RC_ASSERT(gives.spec.priority < wish.spec.priority);
      RC_ASSERT(
          (gives.quota_facts.queue == wish.quota_facts.queue ? wish.quota_facts.own_queue : wish.quota_facts.in_tree));
      bool in_the_way = gives.spec.pod_sets[0].shape.gpu.mig_profile == wanted.mig_profile;
      for (const Member& member : tables().assignments.find(victim.id)->members)
        in_the_way = in_the_way || row->repartitions.contains(member.node);
      RC_ASSERT(in_the_way);
      victims.insert(victim.id.uid);
    }
    for (const auto& [node, layout] : row->repartitions) {
      const NodeShape& machine = nodes_.at(node);
      RC_ASSERT(layout.starts_with("all-"));
      RC_ASSERT(mig::layout_named(layout, {}, machine.facts.model, machine.gpus).has_value());
      const Repartition* cut = tables().repartitions.find(node);
      if (cut != nullptr && cut->order) RC_ASSERT(cut->order->over());
    }
    // Capacity that is reserved by other proposals may be missing for this one: the outcome is
    // known only if there is no other proposal.
    const bool alone =
        std::ranges::count_if(tables().proposals, [](const auto& one) { return one.second.is_active(); }) == 1;
    const bool cutting = std::ranges::any_of(tables().repartitions, [](const auto& one) {
      return one.second.reserved_for && one.second.reserved_for->waits;
    });
    if (!alone || cutting) return;
    ++counts_.checked;
    RC_ASSERT(places(event.uid, victims, row->repartitions));
    for (const WorkloadUid& stays : victims) {
      auto fewer = victims;
      fewer.erase(stays);
      RC_ASSERT(!places(event.uid, fewer, row->repartitions));
    }
    for (const auto& [node, layout] : row->repartitions) {
      auto fewer = row->repartitions;
      fewer.erase(node);
      RC_ASSERT(!places(event.uid, victims, fewer));
    }
  }

  /// True if the workload is placed after these have finished, no other workload is pending, and
  /// the nodes in `repartitions` without GPUs in use are repartitioned.
  bool places(const WorkloadUid& uid, const std::set<WorkloadUid>& ended, const NodeLayouts& repartitions) {
    Options options = options_of(false);
    options.preemption.on = false;
    auto alone = read_back(script_.engine(), options);
    alone->mutable_tables().proposals.clear();
    alone->rebuild();
    std::vector<Command> batch;
    std::set<NodeName> used;
    for (const auto& [id, row] : tables().assignments) {
      const auto newest = received_.find(id.uid);
      if (newest == received_.end()) continue;
      const bool waits = row.state == AssignmentState::kShort && id.uid != uid;
      for (const Member& member : row.members) {
        if (row.holds() && member.live() && !ended.contains(id.uid)) used.insert(member.node);
      }
      if (!waits && !ended.contains(id.uid)) continue;
      WorkloadUpdated over = newest->second;
      over.phase = WorkloadPhase::kFinished;
      batch.emplace_back(over);
    }
    for (const auto& [node, layout] : repartitions) {
      if (used.contains(node)) continue;
      NodeShape machine = nodes_.at(node);
      machine.wanted = layout;
      advertise(machine);
      batch.emplace_back(NodeUpdated{node, machine.facts});
    }
    batch.emplace_back(received_.at(uid));
    (void)alone->step(batch, script_.now());
    const Assignment* row = alone->tables().assignments.find({uid, 1});
    return row != nullptr && row->holds();
  }

  std::mt19937 random_;
  bool cutting_;
  Script script_;
  Counts& counts_;
  std::map<NodeName, NodeShape> nodes_;
  std::map<WorkloadUid, WorkloadUpdated> received_;  // the newest of each
  std::set<NodeName> changed_;
  int made_ = 0;
};

TEST(MigPreemptionLaws, VictimsAreNeededAndTheirCapacityIsReserved) {
  Counts counts;
  EXPECT_TRUE(rc::check("drains", [&] {
    World world(*rc::gen::arbitrary<unsigned>(), counts);
    for (int turn = 0; turn < 40; ++turn) world.step_once();
  }));
  // Otherwise the test shows nothing.
  EXPECT_GT(counts.left, 100);
  EXPECT_GT(counts.cut, 25);
  EXPECT_GT(counts.checked, 100);
  EXPECT_GT(counts.came, 50);
}

}  // namespace mig_preemption_prop_test
}  // namespace qm::placement::testing
