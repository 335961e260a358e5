#include "engine/disruption/preemption_problem.hpp"

#include "engine/allocator/volume_limits.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

constexpr std::size_t kMostKinds = 8;  // of pods that may move: each is evaluated for every node

std::set<AttemptId> keys(const auto& candidates) {
  std::set<AttemptId> out;
  for (const auto& [id, how] : candidates) out.insert(id);
  return out;
}

std::set<WorkloadUid> with(const WorkloadUid& uid, const auto& candidates) {
  std::set<WorkloadUid> out{uid};
  for (const auto& [id, how] : candidates) out.insert(id.uid);
  return out;
}

}  // namespace

/// Evaluates which nodes admit the preemptor's sets and the sets that may migrate there.
class PreemptionProblem::CandidateConstraints final : public InterPodConstraints {
 public:
  CandidateConstraints(const PreemptionProblem& problem, const InterPodConstraints* constraints)
      : problem_(problem), constraints_(constraints) {}

  [[nodiscard]] bool one_by_one(std::size_t) const override { return false; }
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const override {
    const auto& [type, pool] = problem_.types_[set];
    if (type != 0 && (capacity.types & ~type) != 0) return false;
    if (pool == GpuPool::kWhole && capacity.slices) return false;
    if (set >= problem_.mounted_.pod_sets.size() || constraints_ == nullptr) return true;
    // A victim may release volumes when it leaves, but volumes are not a reason for preemption. A node that
    // cannot attach the volumes of all pods that fit it is excluded.
    const PodSet& asked = problem_.mounted_.pod_sets[set];
    const auto pods = std::clamp<std::int64_t>(pods_that_fit(capacity, asked.shape), 1, asked.count);
    return constraints_->admits(set, node, capacity) && constraints_->most(set, node) >= pods;
  }
  [[nodiscard]] const DynamicConstraints* dynamic(std::size_t) const override { return nullptr; }
  [[nodiscard]] std::string rejects(std::size_t, const NodeName&, const NodeCapacity&) const override { return {}; }
  [[nodiscard]] bool has_data(std::size_t, const NodeCapacity&) const override { return false; }
  void take(std::size_t, const NodeName&) override {}

 private:
  const PreemptionProblem& problem_;
  const InterPodConstraints* constraints_;
};

PreemptionProblem::PreemptionProblem(const State& state, const Allocator& allocator, const Capacities& capacities,
                                     const WorkloadUid& uid, std::map<AttemptId, VictimOptions> candidates)
    : state_(state),
      allocator_(allocator),
      uid_(uid),
      candidates_(std::move(candidates)),
      evictions_(state, capacities, keys(candidates_), with(uid, candidates_)),
      asked_(allocator.request_for(uid)),
      mounted_(allocator.mounted(asked_)),
      gang_(mounted_.pod_sets, state.options.topology),
      model_(state.options.topology, state.index.preference.policy()) {
  list_kinds();
  gates_ = std::make_unique<GangRequestBuilder>(kinds_, state.options.topology, mounted_.pod_sets.size());
  add_nodes();
  add_gangs();
  const auto read = gang_.read(model_.tree(), [this](std::size_t position) { return gates_->gates_of(position); });
  valid_ = read.has_value() && mounted_.blocked.empty();
  const PreemptionOptions& rules = state.options.preemption;
  pending_.name = uid.value();
  pending_.request = gang_.request();
  pending_.request.exclusive = is_exclusive(mounted_.pod_sets);
  pending_.priority = state.tables.workloads.find(uid)->spec.priority;
  terms_.now = state.scratch.now;
  terms_.gpu_second = rules.micro_usd_gpu_second;
  terms_.requeue = rules.requeue;
  terms_.peers = true;
  terms_.effort = rules.effort;
}

PreemptionProblem::~PreemptionProblem() = default;

void PreemptionProblem::list_kinds() {
  kinds_ = mounted_.pod_sets;
  types_.assign(kinds_.size(), {asked_.type, asked_.pool});
  for (const AttemptId& id : evictions_.attempts()) {
    if (!candidates_.at(id).moved) continue;
    const PlacementRequest asked = allocator_.request_for(id.uid);
    for (PodSet set : state_.tables.assignments.find(id)->pod_sets) {
      set.name.clear();
      set.count = 1;
      set.rules.clear();
      std::size_t known = mounted_.pod_sets.size();
      while (known < kinds_.size() && (kinds_[known] != set || types_[known] != std::pair(asked.type, asked.pool)))
        ++known;
      asks_[id].push_back(known);
      if (known < kinds_.size()) continue;
      kinds_.push_back(std::move(set));
      types_.emplace_back(asked.type, asked.pool);
    }
  }
  keep_common_kinds();
}

/// Of very many kinds, those of the most candidates are kept; gangs with other kinds are not migrated.
void PreemptionProblem::keep_common_kinds() {
  const auto own = mounted_.pod_sets.size();
  if (kinds_.size() <= own + kMostKinds) return;
  std::vector<std::size_t> count(kinds_.size(), 0), order;
  for (const auto& [id, kinds] : asks_) {
    for (const auto kind : kinds) ++count[kind];
  }
  for (std::size_t kind = own; kind < kinds_.size(); ++kind) order.push_back(kind);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t kind) { return count[kind]; });
  order.resize(kMostKinds);
  std::vector<PodSet> kinds(kinds_.begin(), kinds_.begin() + static_cast<std::ptrdiff_t>(own));
  std::vector<std::pair<std::uint32_t, GpuPool>> types(types_.begin(),
                                                       types_.begin() + static_cast<std::ptrdiff_t>(own));
  std::map<std::size_t, std::size_t> kept;
  for (const auto kind : order) {
    kept[kind] = kinds.size();
    kinds.push_back(std::move(kinds_[kind]));
    types.push_back(types_[kind]);
  }
  std::erase_if(asks_, [&](const auto& one) {
    return !std::ranges::all_of(one.second, [&](std::size_t kind) { return kept.contains(kind); });
  });
  for (auto& [id, asked] : asks_) {
    for (auto& kind : asked) kind = kept.at(kind);
  }
  kinds_ = std::move(kinds);
  types_ = std::move(types);
}

void PreemptionProblem::add_nodes() {
  std::optional<RuleBookConstraints> constraints;
  if (!asked_.rules.empty()) constraints.emplace(*state_.index.book, mounted_.likes);
  std::optional<VolumeLimits> attaching;
  if (constraints)
    attaching.emplace(state_.tables, state_.index.claims, mounted_.likes, mounted_.pod_sets, nullptr, &*constraints);
  CandidateConstraints joint(*this, attaching ? &*attaching : nullptr);
  for (const auto& [name, as_is] : state_.index.free_capacity) {
    const NodeCapacity here = evictions_.capacity(name);
    if (here.free_milli.size() > pack::kMaxDevices) continue;
    const auto number = model_.add_node(gates_->path(name, here), name.value(),
                                        HypotheticalEvictions::state_of(here, state_.index.preference));
    model_.fleet().set_gate(number, gates_->gate(name, here, &joint));
    numbers_[name] = number;
    names_.push_back(name);
  }
}

void PreemptionProblem::add_gangs() {
  const PreemptionOptions& rules = state_.options.preemption;
  for (const AttemptId& id : evictions_.attempts()) {
    const Assignment& row = *state_.tables.assignments.find(id);
    const VictimOptions how = candidates_.at(id);
    auto gang = evictions_.gang(id, numbers_);
    auto& positions = positions_.emplace_back();
    gang.evictable = how.evicted;
    gang.movable = false;
    if (const auto known = asks_.find(id); known != asks_.end()) {
      GangRequestBuilder own(row.pod_sets, state_.options.topology);
      if (own.read(model_.tree(), [&](std::size_t position) { return gates_->gates_of(known->second[position]); })) {
        // Seats use positions; the gang library numbers sets by their groups.
        for (auto& seat : gang.placements) seat.set = own.number(static_cast<std::size_t>(seat.set));
        std::ranges::sort(gang.placements);
        gang.request = own.request();
        gang.movable = true;
        for (std::int32_t set = 0; set < std::ssize(row.pod_sets); ++set)
          positions.push_back(static_cast<std::int32_t>(own.position(set)));
      }
    }
    std::int64_t milli = 0;
    for (const PodSet& set : row.pod_sets) milli += set.shape.gpu.total_milli(set.count);
    gang.waiting_per_s = milli * rules.micro_usd_gpu_second / pack::kDevice;
    gangs_.push_back(id);
    model_.add(std::move(gang));
  }
}

std::optional<plan::Plan> PreemptionProblem::plan() {
  if (!valid_) return std::nullopt;
  auto found = plan::plan(model_, pending_, terms_);
  if (!found) return std::nullopt;
  return std::move(*found);
}

std::vector<PreemptionProblem::Victim> PreemptionProblem::terminating(const plan::Plan& found) const {
  std::vector<Victim> out;
  for (const auto& step : found.steps) {
    if (step.what != plan::Step::What::kEvict && step.what != plan::Step::What::kMigrate) continue;
    auto& victim = out.emplace_back();
    victim.id = gangs_[step.gang];
    victim.gpu_ms = lost_gpu_ms(model_, step.gang, terms_.now);
    victim.lost_micro_usd = plan::lost_by(model_, step.gang, terms_);
    victim.migrate_only = !candidates_.at(victim.id).evicted;
    for (const auto& seat : step.placements) {
      const NodeName& node = names_[seat.node];
      victim.to.push_back({positions_[step.gang][static_cast<std::size_t>(seat.set)], seat.rank, node,
                           devices_in(node, seat.devices, model_.pod(step.gang, seat.set).gpu_milli)});
    }
  }
  return out;
}

std::set<AttemptId> PreemptionProblem::ids(const std::vector<Victim>& victims) {
  std::set<AttemptId> out;
  for (const Victim& victim : victims) out.insert(victim.id);
  return out;
}

/// For migrated victims only their eligibility is checked; their targets are verified by the engine's own
/// placement.
bool PreemptionProblem::still_holds(const Proposal& row) {
  if (!valid_ || gangs_.size() != row.victims.size()) return false;
  plan::Plan made;
  made.cost.lost_work = row.lost_micro_usd;
  made.cost.topology = row.micro_usd - row.lost_micro_usd;
  for (plan::GangId gang = 0; gang < gangs_.size(); ++gang) {
    const auto victim = std::ranges::find(row.victims, gangs_[gang], &Proposal::Victim::id);
    plan::Step step;
    step.what =
        victim != row.victims.end() && !victim->to.empty() ? plan::Step::What::kMigrate : plan::Step::What::kEvict;
    step.gang = gang;
    step.from = model_.gang(gang).placements;
    made.steps.push_back(std::move(step));
  }
  plan::Step own_step;
  const auto sets = plan::sets_of(pending_.request);
  for (std::int32_t set = 0; set < std::ssize(sets); ++set) {
    for (const HeldCapacity& place : row.places) {
      if (gang_.position(set) != static_cast<std::size_t>(place.set)) continue;
      const auto node = numbers_.find(place.node);
      if (node == numbers_.end()) return false;
      own_step.placements.push_back({set, place.index, node->second, mask_of(place.devices)});
    }
  }
  std::ranges::sort(own_step.placements);
  made.steps.push_back(std::move(own_step));
  return plan::still_holds(model_, pending_, made, terms_).has_value();
}

}  // namespace qm::placement
