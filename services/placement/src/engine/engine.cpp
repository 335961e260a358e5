// The engine's interface: steps, and queries that its parts answer.
#include "qm/placement/engine.hpp"

#include "engine/digest.hpp"
#include "engine/evaluation.hpp"
#include "engine/parts.hpp"
#include "qm/base/assert.hpp"
#include "qm/placement/nearness.hpp"

namespace qm::placement {

Engine::Engine(Options options) : parts_(std::make_unique<EngineParts>(std::move(options))) { rebuild(); }
Engine::~Engine() = default;

Output Engine::step(std::span<const Command> batch, Instant now) {
  State& state = parts_->state;
  QM_ASSERT(now >= state.last_now, "time went back from {} to {}", micros(state.last_now), micros(now));
  undo_now_ = state.last_now;
  state.last_now = now;
  state.scratch = {};
  state.scratch.now = now;
  for (const Command& command : batch) {
    std::visit([this](const auto& c) { parts_->observations.apply(c); }, command);
    ++state.scratch.command;
  }
  Evaluation(*parts_).run();
  return std::move(state.scratch.out);
}

void Engine::undo() {
  parts_->state.tables.each([](auto& table) { table.rollback(); });
  parts_->state.last_now = undo_now_;
  rebuild();
}

void Engine::commit() {
  parts_->state.tables.each([](auto& table) { table.commit(); });
  undo_now_ = parts_->state.last_now;
}

void Engine::rebuild() { parts_->rows.rebuild(); }

const Tables& Engine::tables() const { return parts_->state.tables; }
Tables& Engine::mutable_tables() { return parts_->state.tables; }
std::uint64_t Engine::digest() const { return digest_of(tables()); }
bool Engine::synced() const { return parts_->state.synced(); }

void Engine::audit() const {
  EngineParts fresh(parts_->state.options);  // the lookups of the same rows, made by the functions that maintain them
  fresh.state.tables = parts_->state.tables;
  fresh.state.index.preference = Preference(fresh.state.options.policy);
  fresh.rows.index_rows();
  parts_->audit.run(fresh.state.index);
}

PlacementRequest Engine::request_of(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid) const {
  return parts_->allocator.request_of(pod_sets, uid);
}
PlacementResult Engine::dry_run(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid) const {
  return dry_run(request_of(pod_sets, uid), uid);
}
PlacementResult Engine::dry_run(const PlacementRequest& request, const WorkloadUid& uid) const {
  return parts_->queries.dry_run(request, uid);
}
std::vector<std::string> Engine::compared(const std::vector<PodSet>& pod_sets,
                                          const std::vector<Member>& members) const {
  return placement::compared(pod_sets, members, parts_->state.index.free_capacity);
}
Diagnosis Engine::diagnose(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid) const {
  return parts_->queries.diagnose(pod_sets, uid);
}
Diagnosis Engine::diagnose_without_pods(const std::vector<PodSet>& pod_sets) const {
  return parts_->queries.diagnose_without_pods(pod_sets);
}

std::vector<DemandItem> Engine::demand() const { return parts_->demand.demand(); }
std::size_t Engine::demand_size() const { return parts_->demand.demand_size(); }
std::vector<RequeueItem> Engine::requeue() const { return parts_->requeue.requeue(); }
Outline Engine::outline() const { return parts_->queries.outline(); }
DefragInput Engine::defrag_input(const std::set<WorkloadUid>& migrating) const {
  return parts_->defragmentation.input(migrating);
}

std::vector<DeviceUse> Engine::devices_of(const NodeName& node) const { return parts_->capacities.devices_of(node); }
std::optional<mig::NodeLayout> Engine::layout_of(const NodeName& node) const { return parts_->layouts.layout_of(node); }
std::optional<PlannedLayout> Engine::planned_of(const NodeName& node) const { return parts_->layouts.planned_of(node); }
std::string Engine::layout_finding(const NodeName& node) const { return parts_->layouts.layout_finding(node); }
std::string Engine::repartition_status(const WorkloadUid& uid) const { return parts_->search.status(uid); }
NodeCapacity::Instances Engine::idle_instances(const NodeName& node, const std::set<AttemptId>& gone) const {
  return parts_->layouts.idle_instances(node, gone);
}

}  // namespace qm::placement
