// The engine's interface: steps, and queries that its parts answer.
#include "qm/autoscaler/engine.hpp"

#include "evaluation.hpp"
#include "launch/nominations.hpp"
#include "parts.hpp"
#include "qm/autoscaler/disrupt/disrupt.hpp"
#include "qm/base/assert.hpp"
#include "tables.hpp"

#include <algorithm>

namespace qm::autoscaler {

std::string_view name_of(ClaimState state) {
  constexpr std::string_view names[] = {"Requested", "Launched", "Ready", "Draining", "Terminating", "Gone", "Failed"};
  return names[static_cast<int>(state)];
}

std::string_view name_of(Refusal refusal) {
  constexpr std::string_view names[] = {"capacity", "type", "zone", "market", "account", "offering", "launch"};
  return names[static_cast<int>(refusal)];
}

bool Claim::evicts_pods() const {
  return state == ClaimState::kDraining && !life.disruption.empty() &&
         life.disruption != name_of(DisruptionCause::kEmpty);
}

bool InstanceType::covers(const InstanceType& other) const {
  const bool extends = std::ranges::all_of(other.extended, [&](const auto& amount) {
    const auto own = extended.find(amount.first);
    return own != extended.end() && own->second >= amount.second;
  });
  return gpus >= other.gpus && (other.gpus == 0 || gpu_product == other.gpu_product) && cpu_milli >= other.cpu_milli &&
         memory_bytes >= other.memory_bytes && pods >= other.pods && extends;
}

Engine::Engine(std::vector<InstanceType> catalog, Options options) : parts_(std::make_unique<EngineParts>(options)) {
  for (auto& type : catalog) parts_->state.catalog.emplace(type.name, std::move(type));
}
Engine::~Engine() = default;

Output Engine::step(std::span<const Command> batch, Instant now) {
  State& state = parts_->state;
  QM_ASSERT(now >= state.now, "time went back from {} to {}", micros(state.now), micros(now));
  state.now = now;
  state.out = {};
  state.changed_claims.clear();
  state.more_launches = false;
  state.disruptions_at.reset();
  state.needs.trim();
  const auto apply = [this](const auto& c) {
    if constexpr (requires { parts_->replica_scaling.apply(c); }) {
      parts_->replica_scaling.apply(c);
    } else {
      parts_->observations.apply(c);
    }
  };
  for (const auto& command : batch) std::visit(apply, command);
  Evaluation(*parts_).run();
  return std::move(state.out);
}

void Engine::undo() {
  ++parts_->state.node_pods_version;
  for_each_table(parts_->state.tables, [](auto& table) { table.rollback(); });
}

void Engine::commit() {
  for_each_table(parts_->state.tables, [](auto& table) { table.commit(); });
}

std::uint64_t Engine::digest() const { return digest_of(tables()); }
const Tables& Engine::tables() const { return parts_->state.tables; }
Tables& Engine::mutable_tables() { return parts_->state.tables; }
Instant Engine::now() const { return parts_->state.now; }
const InstanceType* Engine::type(const std::string& name) const { return parts_->facts.type(name); }
std::optional<Instant> Engine::pods_leave_by(const NodeRow& node) const {
  if (!node.taken_at || parts_->spot.orders_from(node) > now()) return std::nullopt;
  return *node.taken_at - parts_->state.options.spot_margin;
}
std::vector<std::string> Engine::explain(Instant now, std::size_t most, const Sees& sees) const {
  return parts_->explanation.explain(now, most, sees);
}
std::optional<CapacityDecision> Engine::decision(const WorkloadUid& uid, Instant now, std::size_t listed) const {
  return parts_->explanation.decision(uid, now, listed);
}
PriceBound Engine::bound(const std::vector<PodSet>& sets) const { return parts_->candidates.bound(sets); }
std::map<std::string, std::int64_t> Engine::eligible_nodes(Instant now) const {
  return parts_->disruptions.eligible_nodes(now);
}
const Options& Engine::options() const { return parts_->state.options; }
const std::map<std::string, InstanceType>& Engine::catalog() const { return parts_->state.catalog; }
std::string Engine::namespace_of(const WorkloadUid& uid) const { return parts_->facts.namespace_of(uid); }
std::map<std::string, BufferState> Engine::buffers() const { return parts_->headroom.buffers(); }
std::map<WorkloadUid, std::vector<Condition>> Engine::provisioning() const { return parts_->provisioning.conditions(); }
std::vector<Nomination> Engine::nominations() const { return nominations_of(tables(), parts_->facts); }
std::set<NodeName> Engine::held_nodes() const { return held_nodes_of(tables(), parts_->facts); }
std::map<std::string, std::int64_t> Engine::replicas() const { return parts_->static_pools.replicas(); }

}  // namespace qm::autoscaler
