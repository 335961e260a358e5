// A step: samples and manifests are applied, then what is due is evaluated, target by target in the order of their
// names. All scalers of a target see the same sample. The change of a target is one intent; until its outcome is known,
// the target is not evaluated again.
#include "replicas/replica_scaling.hpp"

#include <algorithm>
#include <exception>
#include <tuple>

namespace qm::autoscaler {
namespace {

/// A sample is not used once the next one is this many periods late.
constexpr int kLatePeriods = 2;

template <class Key, class Row>
const Row& row_or_default(const Table<Key, Row>& table, const Key& key) {
  static const Row none{};
  const Row* row = table.find(key);
  return row == nullptr ? none : *row;
}

}  // namespace

std::string_view name_of(ScalerKind kind) {
  return kind == ScalerKind::kHpa ? "HorizontalPodAutoscaler" : "ScaledObject";
}
std::string ScalerId::to_string() const { return fmt::format("{} {}/{}", name_of(kind), ns, name); }
std::string TargetId::to_string() const { return fmt::format("{} {}/{}", kind, ns, name); }

void ReplicaScaling::erase(const ScalerId& id) {
  scalers_.forget(id);
  if (tables_.scalers.contains(id)) tables_.scalers.erase(id);
  if (tables_.readings.contains(id)) tables_.readings.erase(id);
  if (tables_.histories.contains(id)) tables_.histories.erase(id);
  if (tables_.decisions.contains(id)) tables_.decisions.erase(id);
}

void ReplicaScaling::apply(const ScalerUpdated& c) {
  if (c.gone) return erase(c.id);
  const ScalerRow* known = tables_.scalers.find(c.id);
  // An object of the same name is another scaler: what was remembered of the first does not count.
  if (known != nullptr && known->uid != c.row.uid) erase(c.id);
  ScalerRow row = c.row;
  row.refused = row.generated ? std::string() : refusal_of(c.id, row.manifest);
  if (known = tables_.scalers.find(c.id); known != nullptr && *known == row) return;
  if (known == nullptr) tables_.histories.edit(c.id).state.created = row.created;
  if (known != nullptr && known->suspended != row.suspended) tables_.histories.edit(c.id).switched.reset();
  tables_.scalers.insert(c.id, std::move(row));
}

void ReplicaScaling::apply(const ScalersListed& c) {
  std::vector<ScalerId> gone;
  for (const auto& [id, row] : tables_.scalers) {
    if (id.kind == c.kind && std::ranges::find(c.ids, id) == c.ids.end()) gone.push_back(id);
  }
  for (const auto& id : gone) erase(id);
}

void ReplicaScaling::apply(const ReplicasObserved& c) {
  const TargetRow* known = tables_.targets.find(c.target);
  if (c.unchanged && known == nullptr) return;  // the sample that it repeats was not applied
  TargetRow& row = tables_.targets.edit(c.target);
  row.observed = std::min(c.at, state_.now);
  if (c.unchanged) return;
  if (row.uid != c.uid) {
    row.pending.reset();
    row.error.clear();
  }
  row.api_version = c.api_version;
  row.uid = c.uid;
  row.mode = c.mode;
  row.found = c.found;
  row.problem = c.problem;
  row.replicas = c.replicas;
  row.status_replicas = c.status_replicas;
  row.pods = c.pods;
  for (const auto& [id, readings] : c.readings) {
    if (tables_.scalers.contains(id)) tables_.readings.insert(id, readings);
  }
}

void ReplicaScaling::apply(const ReplicasChanged& c) {
  const TargetRow* known = tables_.targets.find(c.target);
  if (known == nullptr || known->number != c.number) return;
  TargetRow& row = tables_.targets.edit(c.target);
  if (c.error.empty() && row.pending) row.replicas = *row.pending;
  row.pending.reset();
  row.changed = state_.now;
  row.error = c.error;
}

ReplicaScaling::Groups ReplicaScaling::groups() const {
  Groups out;
  for (const auto& [id, row] : tables_.scalers) out[row.target].push_back(id);
  for (auto& [target, members] : out) {
    std::ranges::sort(members, {},
                      [&](const ScalerId& id) { return std::tuple(tables_.scalers.find(id)->created, id); });
  }
  return out;
}

void ReplicaScaling::run() {
  const auto all = groups();
  std::vector<TargetId> unused;
  for (const auto& [id, row] : tables_.targets) {
    if (!all.contains(id)) unused.push_back(id);
  }
  for (const auto& id : unused) tables_.targets.erase(id);
  for (const auto& [id, members] : all) {
    switch_scalers(tables_.targets.find(id), members);
    evaluate(id, members);
  }
}

bool ReplicaScaling::takes(const TargetRow& target, const Members& members) const {
  return target.found && target.mode != ReplicaMode::kObserve &&
         std::ranges::all_of(members, [&](const ScalerId& id) { return tables_.scalers.find(id)->refused.empty(); });
}

bool ReplicaScaling::alone(const Members& members) const {
  return std::ranges::all_of(members, [&](const ScalerId& id) {
    const ScalerRow& row = *tables_.scalers.find(id);
    return row.suspended && !row.generated;
  });
}

// A target that was never sampled has no known mode: its scalers stay as they are.
void ReplicaScaling::switch_scalers(const TargetRow* target, const Members& members) {
  if (target == nullptr) return;
  const bool suspend = takes(*target, members);
  for (const ScalerId& id : members) {
    const ScalerRow& row = *tables_.scalers.find(id);
    if (row.generated || row.suspended == suspend) continue;
    const auto& asked = row_or_default(tables_.histories, id).switched;
    if (asked && *asked + state_.options.replicas.retry_switch > state_.now) continue;
    tables_.histories.edit(id).switched = state_.now;
    state_.out.replicas.switches.push_back({id, row.uid, suspend, state_.now});
  }
}

void ReplicaScaling::evaluate(const TargetId& id, const Members& members) {
  const TargetRow* target = tables_.targets.find(id);
  const bool fresh = target != nullptr && target->found && !target->pending && target->observed > target->evaluated &&
                     target->observed > target->changed &&
                     target->observed + kLatePeriods * state_.options.replicas.sync >= state_.now;
  if (!fresh) return;
  const bool scales = takes(*target, members) && alone(members);
  std::map<ScalerId, HistoryRow> earlier;
  bool evaluated = false;
  for (const ScalerId& scaler : members) {
    const ScalerRow& row = *tables_.scalers.find(scaler);
    const replicas::Scaler* read = row.generated ? nullptr : scalers_.read(scaler, row);
    if (read == nullptr) continue;
    const HistoryRow& history = row_or_default(tables_.histories, scaler);
    earlier.emplace(scaler, history);
    if (!scalers_.due(*read, history, state_.now)) continue;
    evaluate_one(scaler, *target, scales);
    evaluated = true;
  }
  if (!evaluated) return;
  TargetRow& edited = tables_.targets.edit(id);
  edited.evaluated = edited.observed;
  edited.conflict = conflict_of(edited, members);
  edited.decided_by.reset();
  edited.bound.clear();
  edited.wanted = edited.replicas;
  if (scales) decide(id, members, earlier);
}

void ReplicaScaling::evaluate_one(const ScalerId& id, const TargetRow& target, bool scales) {
  HistoryRow history = row_or_default(tables_.histories, id);
  DecisionRow decision = row_or_default(tables_.decisions, id);
  try {
    if (state_.options.replicas.probe) state_.options.replicas.probe(id);
    scalers_.evaluate(
        *scalers_.read(id, *tables_.scalers.find(id)),
        {target, row_or_default(tables_.readings, id), state_.now, scales && state_.options.replicas.exact_rules},
        history, decision);
  } catch (const std::exception& fault) {
    history = row_or_default(tables_.histories, id);
    history.synced = history.polled = state_.now;
    decision = row_or_default(tables_.decisions, id);
    decision.at = state_.now;
    decision.fault = fault.what();
  }
  tables_.histories.insert(id, std::move(history));
  tables_.decisions.insert(id, std::move(decision));
}

void ReplicaScaling::decide(const TargetId& id, const Members& members, const std::map<ScalerId, HistoryRow>& earlier) {
  TargetRow& target = tables_.targets.edit(id);
  std::int32_t result = -1, lower = 0, upper = std::numeric_limits<std::int32_t>::max();
  for (const ScalerId& scaler : members) {
    if (target.mode == ReplicaMode::kStrict && scaler != members.front()) break;
    const DecisionRow* decision = tables_.decisions.find(scaler);
    if (decision == nullptr || !decision->fault.empty()) {
      target.error = fmt::format("{} cannot be evaluated{}", scaler.to_string(),
                                 decision == nullptr ? std::string(" yet") : ": " + decision->fault);
      return;
    }
    if (decision->abstains) continue;
    lower = std::max(lower, decision->lower);
    upper = std::min(upper, decision->upper);
    if (decision->wanted <= result) continue;
    result = decision->wanted;
    target.decided_by = scaler;
  }
  target.error.clear();
  if (result < 0) return;  // all abstain
  const std::int32_t bounded = std::min(std::max(result, lower), upper);
  if (bounded > result) target.bound = "the largest lower bound";
  if (bounded < result) target.bound = "the smallest upper bound";
  target.wanted = bounded;
  for (const ScalerId& scaler : members) {
    const replicas::Scaler* read = scalers_.read(scaler, *tables_.scalers.find(scaler));
    ScalerEvaluation::record(*read, state_.now, target.replicas, bounded, earlier.at(scaler),
                             tables_.histories.edit(scaler));
  }
  if (bounded == target.replicas) return;
  target.pending = bounded;
  target.number = micros(state_.now);  // grows, also after the row was deleted
  state_.out.replicas.scales.push_back({id, target.api_version, target.uid, target.replicas, bounded, target.number});
}

std::string ReplicaScaling::conflict_of(const TargetRow& target, const Members& members) const {
  std::vector<std::string> names;
  std::int32_t lower = 0, upper = std::numeric_limits<std::int32_t>::max();
  for (const ScalerId& id : members) {
    if (tables_.scalers.find(id)->generated) continue;
    names.push_back(id.to_string());
    const DecisionRow* decision = tables_.decisions.find(id);
    if (decision == nullptr || decision->abstains || !decision->fault.empty()) continue;
    lower = std::max(lower, decision->lower);
    upper = std::min(upper, decision->upper);
  }
  if (names.size() < 2) return {};
  auto out = fmt::format("{} scalers have this target: {}", names.size(), fmt::join(names, ", "));
  if (target.mode == ReplicaMode::kStrict) {
    out += fmt::format("; it is strict, so only {} counts", names.front());
  } else if (target.mode == ReplicaMode::kScale) {
    out += lower > upper ? fmt::format("; no number is within all bounds: the lower is {}, the upper {}", lower, upper)
                         : fmt::format("; the largest result within {} to {} counts", lower, upper);
  } else {
    out += "; each of them sets its own result";
  }
  return out;
}

std::optional<Instant> ReplicaScaling::next() {
  std::optional<Instant> out;
  const auto consider = [&](Instant at) {
    if (at > state_.now && (!out || at < *out)) out = at;
  };
  for (const auto& [id, row] : tables_.scalers) {
    const HistoryRow& history = row_or_default(tables_.histories, id);
    if (history.switched) consider(*history.switched + state_.options.replicas.retry_switch);
    const TargetRow* target = tables_.targets.find(row.target);
    if (target == nullptr || target->pending || target->observed <= target->evaluated) continue;
    const replicas::Scaler* read = row.generated ? nullptr : scalers_.read(id, row);
    if (read != nullptr) consider(scalers_.next_due(*read, history));
  }
  return out;
}

}  // namespace qm::autoscaler
