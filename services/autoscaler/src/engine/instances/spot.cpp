// Notices: drain the node, let gangs that can save do so on all their nodes, evict in time. The same for gangs that
// placement evicts after a checkpoint, without the drain.
#include "instances/spot.hpp"

#include <algorithm>

namespace qm::autoscaler {

const char* reason_of(NoticeKind kind) {
  constexpr const char* names[] = {"SpotInterruption", "RebalanceRecommendation", "ScheduledMaintenance",
                                   "LifecycleTermination", "ReservationEnd"};
  return names[static_cast<int>(kind)];
}

void Spot::join_notices() {
  std::map<InstanceId, ClaimName> by_instance;
  if (tables_.instance_notices.size() > 0) {
    for (const auto& [name, claim] : tables_.claims) {
      if (!claim.instance.empty()) by_instance.emplace(claim.instance, name);
    }
  }
  std::vector<std::pair<InstanceId, NoticeKind>> over;
  for (const auto& [key, row] : tables_.instance_notices) {
    const auto& [instance, kind] = key;
    const auto found = by_instance.find(instance);
    if (found == by_instance.end()) {
      if (row.seen + options_.notice_memory <= state_.now) over.push_back(key);
      continue;
    }
    const Claim& claim = *tables_.claims.find(found->second);
    if (claim.state == ClaimState::kGone) over.push_back(key);
    if (claim.state != ClaimState::kGone && facts_.node_of(claim) != nullptr) claims_.note(claim.node, kind, row.at);
  }
  for (const auto& key : over) tables_.instance_notices.erase(key);

  std::vector<ClaimName> interrupted;
  for (const auto& [name, claim] : tables_.claims) {
    if (claim.market != Market::kSpot || claim.interrupted) continue;
    const NodeRow* node = facts_.node_of(claim);
    if (node != nullptr && node->taken_at && node->notice == NoticeKind::kSpot) interrupted.push_back(name);
  }
  for (const auto& name : interrupted) tables_.claims.edit(name).interrupted = true;
}

Instant Spot::orders_from(const NodeRow& node) const {
  const bool waits = node.notice == NoticeKind::kMaintenance;
  return waits ? *node.taken_at - options_.spot_margin - options_.notice_lead : Instant{};
}

void Spot::answer_notices() {
  std::map<NodeName, std::vector<AttemptId>> gangs;  // of nodes whose gangs get orders now
  for (const auto& [name, node] : tables_.nodes) {
    if (node.taken_at && orders_from(node) <= state_.now) gangs.try_emplace(name);
  }
  if (!gangs.empty()) {
    for (const auto& [id, attempt] : tables_.attempts) {
      for (const auto& node : attempt.nodes) {
        if (const auto at = gangs.find(node); at != gangs.end()) at->second.push_back(id);
      }
    }
  }
  std::vector<NodeName> taken;
  for (const auto& [name, node] : tables_.nodes) {
    if (node.taken_at) taken.push_back(name);
  }
  for (const auto& name : taken) {
    const NodeRow node = *tables_.nodes.find(name);
    const Instant at = *node.taken_at;
    const char* reason = reason_of(node.notice);
    if (node.known) claims_.drain(name, reason, at);
    const auto found = gangs.find(name);
    if (found == gangs.end()) continue;
    const Instant deadline = std::max(state_.now, at - options_.spot_margin);
    for (const auto& id : found->second) orders_.save_and_evict(id, *tables_.attempts.find(id), name, deadline, reason);
  }
}

void Spot::answer_saves() {
  for (const auto& [id, save] : tables_.saves) {
    const AttemptRow* attempt = tables_.attempts.find(id);
    if (attempt != nullptr)
      orders_.save_and_evict(id, *attempt, save.node, std::max(state_.now, save.until), save.reason);
  }
}

std::optional<Instant> Spot::next() const {
  std::optional<Instant> next;
  const auto consider = [&](Instant t) {
    if (t > state_.now && (!next || t < *next)) next = t;
  };
  for (const auto& [name, node] : tables_.nodes) {
    if (!node.taken_at) continue;
    consider(*node.taken_at - options_.spot_margin);
    consider(orders_from(node));
  }
  for (const auto& [id, order] : tables_.orders) {
    if (order.outcome.empty()) consider(order.save.deadline);
  }
  for (const auto& [id, save] : tables_.saves) consider(save.until);
  for (const auto& [key, row] : tables_.instance_notices) consider(row.seen + options_.notice_memory);
  return next;
}

}  // namespace qm::autoscaler
