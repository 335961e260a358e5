#include "checkpoints/schedules.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

/// A gang that continues has this long to save, or its interval if that is shorter.
constexpr Duration kMostSaveTime = std::chrono::minutes(5);

}  // namespace

std::set<NodeName> Schedules::spot_nodes() const {
  std::set<NodeName> out;
  for (const auto& [name, claim] : tables_.claims) {
    if (claim.market == Market::kSpot && claim.state != ClaimState::kGone && facts_.node_of(claim) != nullptr)
      out.insert(claim.node);
  }
  return out;
}

void Schedules::keep_schedules() {
  const auto spot = spot_nodes();
  if (spot.empty() && tables_.schedules.size() == 0) return;
  std::vector<AttemptId> over;
  for (const auto& [id, row] : tables_.schedules) {
    if (!tables_.attempts.contains(id)) over.push_back(id);
  }
  for (const auto& [id, attempt] : tables_.attempts) {
    const bool on_spot = std::ranges::any_of(attempt.nodes, [&](const NodeName& n) { return spot.contains(n); });
    const WorkloadRow* workload = on_spot ? tables_.workloads.find(id.uid) : nullptr;
    const ScheduleRow* known = tables_.schedules.find(id);
    if (workload == nullptr || !workload->checkpoints) {
      if (known != nullptr) over.push_back(id);
      continue;
    }
    const Duration declared = workload->checkpoint.interval;
    const ScheduleRow row{known == nullptr ? attempt.since : known->last,
                          declared > Duration{0} ? declared : options_.checkpoint_interval};
    if (known == nullptr || *known != row) tables_.schedules.insert(id, row);
  }
  for (const auto& id : over) tables_.schedules.erase(id);
}

Instant Schedules::unsaved_since(const AttemptId& id, const AttemptRow& attempt) const {
  const CheckpointRow* newest = tables_.checkpoints.find(id.uid);
  return newest != nullptr && newest->fence.attempt == id.attempt ? std::max(newest->at, attempt.since) : attempt.since;
}

Instant Schedules::due(const AttemptId& id, const ScheduleRow& row) const {
  const AttemptRow& attempt = *tables_.attempts.find(id);
  return std::max(row.last, unsaved_since(id, attempt)) + row.interval;
}

void Schedules::order_due() {
  std::vector<AttemptId> now;
  for (const auto& [id, row] : tables_.schedules) {
    if (row.interval > Duration{0} && due(id, row) <= state_.now && !orders_.has_order(id)) now.push_back(id);
  }
  for (const auto& id : now) {
    const AttemptRow& attempt = *tables_.attempts.find(id);
    const Duration interval = tables_.schedules.find(id)->interval;
    tables_.schedules.edit(id).last = state_.now;
    orders_.save(id, attempt, state_.now + std::min(interval, kMostSaveTime), kPeriodic);
  }
}

std::optional<Instant> Schedules::pays_at(const AttemptId& id, const AttemptRow& attempt) const {
  const ScheduleRow* schedule = tables_.schedules.find(id);
  if (schedule == nullptr) return std::nullopt;
  std::optional<Instant> risk;
  for (const auto& name : attempt.nodes) {
    const NodeRow* node = tables_.nodes.find(name);
    if (node == nullptr || node->taken_at || !node->risk_since) continue;
    if (!risk || *node->risk_since > *risk) risk = node->risk_since;
  }
  if (!risk) return std::nullopt;
  const CheckpointRow* newest = tables_.checkpoints.find(id.uid);
  const bool saved = newest != nullptr && newest->fence.attempt == id.attempt && newest->at > *risk;
  const bool ordered = schedule->last >= *risk && schedule->last > attempt.since;
  if (saved || ordered) return std::nullopt;
  // C = p * (work since the last checkpoint), and the same moment where the save pays already.
  const Duration cost = orders_.save_time(id.uid);
  const double wait = static_cast<double>(cost.count()) / options_.rebalance_probability;
  return unsaved_since(id, attempt) + Duration(static_cast<std::int64_t>(wait) + 1);
}

void Schedules::answer_recommendations() {
  std::vector<AttemptId> now;
  for (const auto& [id, row] : tables_.schedules) {
    const AttemptRow& attempt = *tables_.attempts.find(id);
    const auto at = pays_at(id, attempt);
    const Duration unsaved = state_.now - unsaved_since(id, attempt);
    const bool pays = at && checkpoint::save_pays(orders_.save_time(id.uid), unsaved, options_.rebalance_probability);
    if (pays && !orders_.has_order(id)) now.push_back(id);
  }
  for (const auto& id : now) {
    tables_.schedules.edit(id).last = state_.now;
    orders_.save(id, *tables_.attempts.find(id), state_.now + kMostSaveTime, reason_of(NoticeKind::kRebalance));
  }
}

std::optional<Instant> Schedules::next() const {
  std::optional<Instant> next;
  const auto consider = [&](Instant t) {
    if (t > state_.now && (!next || t < *next)) next = t;
  };
  for (const auto& [id, row] : tables_.schedules) {
    if (row.interval > Duration{0}) consider(due(id, row));
    if (const auto at = pays_at(id, *tables_.attempts.find(id))) consider(*at);
  }
  return next;
}

void Schedules::explain(std::vector<std::string>& lines, std::size_t most, const Sees& sees) const {
  if (tables_.schedules.size() == 0) return;
  const auto hazards = facts_.hazards(state_.now);
  std::map<NodeName, Duration> mean_times;
  for (const auto& [name, claim] : tables_.claims) {
    if (claim.market != Market::kSpot || claim.state == ClaimState::kGone || claim.node.empty()) continue;
    const auto seen = hazards.find({claim.type, claim.zone});
    mean_times[claim.node] = checkpoint::mean_time_of(seen == hazards.end() ? checkpoint::Hazard{} : seen->second);
  }
  for (const auto& [id, row] : tables_.schedules) {
    if (lines.size() >= most) return;
    const AttemptRow* attempt = tables_.attempts.find(id);
    if (attempt == nullptr || (sees && !sees(facts_.namespace_of(id.uid)))) continue;
    std::vector<Duration> nodes;
    for (const auto& node : attempt->nodes) {
      if (const auto mean = mean_times.find(node); mean != mean_times.end()) nodes.push_back(mean->second);
    }
    const auto mean = checkpoint::mean_time_of_gang(nodes);
    if (!mean) continue;
    const Duration save = orders_.save_time(id.uid), advised = checkpoint::daly_interval(save, *mean);
    const auto waste = [&](Duration interval) {
      return 100 * checkpoint::expected_waste(save, interval, *mean, Duration{0});
    };
    std::string line = fmt::format(
        "{} on {} spot node(s): a save takes {:.0f} s and interruptions are {:.1f} h apart, so Daly's interval is {:.0f} "
        "s with {:.1f} % waste",
        facts_.title_of(id), nodes.size(), seconds(save), seconds(*mean) / 3600, seconds(advised), waste(advised));
    if (row.interval > Duration{0}) {
      line +=
          fmt::format("; it saves every {:.0f} s, with {:.1f} %, and an interruption without a notice loses {:.0f} s",
                      seconds(row.interval), waste(row.interval), seconds(checkpoint::expected_loss(row.interval, 0)));
    }
    lines.push_back(std::move(line));
  }
}

}  // namespace qm::autoscaler
