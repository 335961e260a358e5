// Defragmentation: reclaims whole nodes by migrating work. Periodically the fleet becomes a cluster model, and a plan
// is computed on it with its gain and cost. Its migrations are proposed to admission one by one: each when
// the one before is placed and the rest of the step is still worthwhile. The plan is a row: after a restart
// it continues, or ends, as without one.
#include "engine/disruption/defragmentation.hpp"

#include "engine/disruption/hypothetical_evictions.hpp"
#include "qm/placement/disruption/defrag_lifecycle.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

/// Excludes nodes whose pods are of a workload type that must not share nodes with the set.
class UnmanagedPods final : public InterPodConstraints {
 public:
  UnmanagedPods(const FreeCapacity& free_capacity, const std::vector<std::uint32_t>& types)
      : free_capacity_(free_capacity), types_(types) {}
  [[nodiscard]] bool one_by_one(std::size_t) const override { return false; }
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const NodeCapacity&) const override {
    return types_[set] == 0 || (free_capacity_.at(node).types & ~types_[set]) == 0;
  }
  [[nodiscard]] const DynamicConstraints* dynamic(std::size_t) const override { return nullptr; }
  [[nodiscard]] std::string rejects(std::size_t, const NodeName&, const NodeCapacity&) const override { return {}; }
  [[nodiscard]] bool has_data(std::size_t, const NodeCapacity&) const override { return false; }
  void take(std::size_t, const NodeName&) override {}

 private:
  const FreeCapacity& free_capacity_;
  const std::vector<std::uint32_t>& types_;
};

}  // namespace

plan::DefragPlan defrag_nodes(const DefragInput& problem, const plan::Budget& budget) {
  return plan::consolidate(*problem.model, problem.terms, budget);
}

DefragInput Defragmentation::input(const std::set<WorkloadUid>& migrating) const {
  DefragInput out{index_.preference, nullptr, {}, {}, {}};
  out.preference.prepare(index_.free_capacity);
  out.model = std::make_unique<plan::ClusterModel>(options_.topology, out.preference.policy());
  out.terms.now = state_.last_now;
  out.terms.gpu_second = options_.preemption.micro_usd_gpu_second;

  std::set<AttemptId> running;
  for (const auto& [id, row] : tables_.assignments) {
    if (row.holds()) running.insert(id);
  }
  const HypotheticalEvictions evictions(state_, capacities_, std::move(running), migrating);

  // Distinct pod sets of the gangs that may move.
  std::vector<PodSet> asked;
  std::vector<std::uint32_t> types;
  std::map<AttemptId, std::vector<std::size_t>> asks;  // by pod set: index in `asked`
  for (const AttemptId& id : evictions.attempts()) {
    const Assignment& row = *tables_.assignments.find(id);
    if (!victims_.may_defrag(id, row)) continue;
    const auto type = allocator_.request_for(id.uid).type;
    for (PodSet set : row.pod_sets) {
      set.name.clear();
      set.count = 1;
      set.rules.clear();
      std::size_t known = 0;
      while (known < asked.size() && (asked[known] != set || types[known] != type)) ++known;
      asks[id].push_back(known);
      if (known < asked.size()) continue;
      asked.push_back(std::move(set));
      types.push_back(type);
    }
  }
  GangRequestBuilder everything(asked, options_.topology);
  const UnmanagedPods unmanaged(index_.free_capacity, types);
  std::map<NodeName, plan::NodeId> numbers;
  std::vector<plan::NodeId> closed;
  for (const auto& [name, as_is] : index_.free_capacity) {
    const NodeCapacity capacity = evictions.capacity(name);
    if (capacity.free_milli.size() > pack::kMaxDevices) continue;
    const auto number = out.model->add_node(everything.path(name, capacity), name.value(),
                                            HypotheticalEvictions::state_of(capacity, out.preference));
    out.model->fleet().set_gate(number, everything.gate(name, capacity, &unmanaged));
    numbers[name] = number;
    out.nodes.push_back(name);
    if (!capacity.usable || capacity.slices || capacity.idle_gpus() != std::ssize(capacity.free_milli))
      closed.push_back(number);
  }
  for (const AttemptId& id : evictions.attempts()) {
    const Assignment& row = *tables_.assignments.find(id);
    auto gang = evictions.gang(id, numbers);
    const auto known = asks.find(id);
    gang.preemptible = gang.movable = known != asks.end();
    std::vector<std::int32_t> positions;
    if (gang.movable) {
      GangRequestBuilder own(row.pod_sets, options_.topology);
      if (own.read(out.model->tree(),
                   [&](std::size_t position) { return everything.gates_of(known->second[position]); })) {
        // Seats use positions; the gang library numbers sets by their groups.
        for (auto& seat : gang.placements) seat.set = own.number(static_cast<std::size_t>(seat.set));
        std::ranges::sort(gang.placements);
        gang.request = own.request();
        for (std::int32_t set = 0; set < std::ssize(row.pod_sets); ++set)
          positions.push_back(static_cast<std::int32_t>(own.position(set)));
      } else {
        gang.movable = gang.preemptible = false;
      }
    }
    gang.request.exclusive = is_exclusive(row.pod_sets);
    out.gangs.push_back({id, row.ns, row.workload, std::move(positions)});
    out.model->add(std::move(gang));
  }
  for (const auto number : closed) out.model->close(number);
  return out;
}

/// Whether the remaining migrations reclaim the nodes of the step within the cost limit, with every gang on
/// its chosen nodes.
bool Defragmentation::is_valid(DefragStep& step) const {
  std::set<WorkloadUid> migrating;
  for (const auto& move : step.moves) {
    const Assignment* row = tables_.assignments.find(move.id);
    if (row == nullptr || !row->holds() || !victims_.may_defrag(move.id, *row)) return false;
    migrating.insert(move.id.uid);
  }
  HypotheticalState hypothetical{.attempts = {}, .holds = {}, .defrag = true};
  FreeCapacity free_capacity;
  if (migrating.empty() ||
      !HypotheticalEvictions::seat(state_, capacities_, allocator_, step, hypothetical, free_capacity))
    return false;
  const auto problem = input(migrating);
  std::map<NodeName, plan::NodeId> numbers;
  for (plan::NodeId node = 0; node < problem.nodes.size(); ++node) numbers[problem.nodes[node]] = node;
  plan::NodeReclaim emptying;
  for (const NodeName& name : step.nodes) {
    const auto number = numbers.find(name);
    if (number == numbers.end()) return false;
    emptying.nodes.push_back(number->second);
  }
  std::int64_t lost = 0;
  for (auto& move : step.moves) {
    const auto gang = std::ranges::find(problem.gangs, move.id, &DefragInput::Gang::id);
    if (gang == problem.gangs.end() || gang->positions.empty()) return false;
    const auto number = static_cast<plan::GangId>(gang - problem.gangs.begin());
    plan::Step one;
    one.what = plan::Step::What::kMigrate;
    one.gang = number;
    one.from = problem.model->gang(number).placements;
    for (const HeldCapacity& place : move.places) {
      const auto node = numbers.find(place.node);
      const auto set = std::ranges::find(gang->positions, place.set);
      if (node == numbers.end() || set == gang->positions.end()) return false;
      one.placements.push_back({static_cast<std::int32_t>(set - gang->positions.begin()), place.index, node->second,
                                mask_of(place.devices)});
    }
    std::ranges::sort(one.placements);
    emptying.moves.push_back(std::move(one));
    move.gpu_ms = lost_gpu_ms(*problem.model, number, scratch_.now);
    move.lost_micro_usd = plan::lost_by(*problem.model, number, problem.terms);
    lost += move.gpu_ms;
  }
  if (lost > options_.defrag.max_lost_gpu_seconds * step.gpus * 1000) return false;
  return plan::still_holds(*problem.model, emptying, problem.terms).has_value();
}

/// Returns whether the plan has a further step to start.
bool Defragmentation::next_migration() {
  const DefragRun& run = state_.defrag_run();
  const DefragStep& step = run.steps.front();
  disruption::RunObserved seen;
  seen.migrating =
      std::ranges::any_of(step.moves, [this](const auto& move) { return state_.is_migrating(move.id.uid); });
  for (const auto& move : step.moves) {
    const Assignment* row = tables_.assignments.find(move.id);
    if (row != nullptr && row->holds()) seen.holding.insert(move.id);
  }
  for (const NodeName& name : step.nodes) {
    const auto others = pods_.non_member_pods(name);
    const bool used = std::ranges::any_of(others, [](const Pod* pod) { return !pod->facts.daemon; });
    if (tables_.nodes.contains(name) && !used && !index_.members.contains(name)) ++seen.reclaimed;
  }
  seen.step_is_valid = [this](DefragStep& tried) { return is_valid(tried); };
  auto [next, action] = disruption::advance_run(run, seen, scratch_.now, options_.defrag);
  scratch_.out.notes.nodes_reclaimed += next.reclaimed - run.reclaimed;
  if (std::holds_alternative<disruption::Wait>(action)) return false;
  const auto* end = std::get_if<disruption::EndRun>(&action);
  if (end == nullptr || !next.is_active()) rows_.put_defrag(std::move(next));
  if (end != nullptr) {
    proposals_.end_run(end->why);
  } else if (std::holds_alternative<disruption::Migrate>(action)) {
    proposals_.propose_migration(state_.defrag_run().steps.front().moves.front());
  }
  return std::holds_alternative<disruption::NextStep>(action);
}

/// Stores the steps of the best plan that meet the limits; nothing is migrated yet.
void Defragmentation::plan() {
  const DefragOptions& rules = options_.defrag;
  DefragRun next = state_.defrag_run();
  next.next = scratch_.now + rules.every;
  const auto in_vain = [&](std::string why) {  // a plan that existed keeps its own result
    next.steps.clear();
    if (next.made == Instant{}) next.last = std::move(why);
    rows_.put_defrag(std::move(next));
  };
  if (index_.free_capacity.size() > rules.most_nodes) return in_vain("FleetTooLarge");
  if (std::ranges::any_of(index_.with_proposal, [this](const auto& uid) { return state_.is_migrating(uid); }))
    return in_vain("UnderWay");
  const auto problem = input();
  for (plan::GangId gang = 0; gang < problem.gangs.size(); ++gang) {
    const auto kept = next.refused.find(problem.gangs[gang].id.uid);
    if (kept != next.refused.end() && kept->second > scratch_.now) problem.model->at(gang).movable = false;
  }
  auto left = rules.hourly - disruption::recent_migrations(state_.defrag_run(), scratch_.now);
  for (const auto& step : plan::consolidate(*problem.model, problem.terms).steps) {
    DefragStep winning;
    for (const auto node : step.nodes) {
      winning.nodes.push_back(problem.nodes[node]);
      winning.gpus += tables_.nodes.find(problem.nodes[node])->facts.gpus;
    }
    const auto count = std::ssize(step.moves);
    const bool worth =
        winning.gpus >= rules.least_gpus * count && step.gpu_seconds <= rules.max_lost_gpu_seconds * winning.gpus;
    left -= count;
    if (!worth || left < 0) break;  // later steps depend on it
    for (const auto& move : step.moves) {
      const auto& gang = problem.gangs[move.gang];
      auto& one = winning.moves.emplace_back();
      one.id = gang.id;
      one.gpu_ms = lost_gpu_ms(*problem.model, move.gang, scratch_.now);
      one.lost_micro_usd = move.cost.lost_work;
      for (const auto& seat : move.placements) {
        const NodeName& node = problem.nodes[seat.node];
        one.places.push_back({gang.positions[static_cast<std::size_t>(seat.set)], seat.rank, node,
                              devices_in(node, seat.devices, problem.model->pod(move.gang, seat.set).gpu_milli)});
      }
    }
    next.steps.push_back(std::move(winning));
  }
  HypotheticalState hypothetical{.attempts = {}, .holds = {}, .defrag = true};
  FreeCapacity free_capacity;
  for (std::size_t i = 0; i < next.steps.size(); ++i) {
    if (!HypotheticalEvictions::seat(state_, capacities_, allocator_, next.steps[i], hypothetical, free_capacity))
      next.steps.resize(i);
  }
  if (!next.is_active()) return in_vain("NoDefragmentationGain");
  next.nodes = next.gpus = next.moves = next.gpu_ms = next.lost_micro_usd = next.reclaimed = 0;
  for (const DefragStep& step : next.steps) {
    next.nodes += std::ssize(step.nodes);
    next.gpus += step.gpus;
    next.moves += std::ssize(step.moves);
    for (const auto& move : step.moves) next.gpu_ms += move.gpu_ms, next.lost_micro_usd += move.lost_micro_usd;
  }
  next.made = scratch_.now;
  next.last.clear();
  rows_.put_defrag(std::move(next));
}

void Defragmentation::run() {
  if (!state_.synced()) return;
  if (!options_.defrag.on) {
    if (state_.defrag_run().is_active()) proposals_.end_run("Disabled");
    return;
  }
  if (!state_.defrag_run().is_active()) {
    if (state_.defrag_run().next > scratch_.now) return;
    rows_.refresh_scores();
    plan();
  }
  while (state_.defrag_run().is_active() && next_migration()) {
  }
}

void Defragmentation::advance_migration(const WorkloadUid& uid) {
  const auto valid = [this] {
    DefragStep step = state_.defrag_run().is_active() ? state_.defrag_run().steps.front() : DefragStep{};
    return is_valid(step);
  };
  proposals_.apply(uid, disruption::advance_migration(*tables_.proposals.find(uid), valid, scratch_.now,
                                                      options_.preemption, options_.defrag));
}

}  // namespace qm::placement
