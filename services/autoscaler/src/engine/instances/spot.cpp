// Spot notices: drain the node, let gangs that can save do so on all their nodes, evict in time. The same for gangs
// that placement evicts after a checkpoint, without the drain.
#include "instances/spot.hpp"

#include <algorithm>

namespace qm::autoscaler {

// No wait is needed if the gang cannot save, or is on no node any more: it releases its place now and may start
// elsewhere. The row records that it got the order.
void Spot::order_saving(const AttemptId& id, const AttemptRow& attempt, const NodeName& node, Instant deadline,
                        const std::string& reason) {
  const std::string order_id = id.to_string() + "/" + node.value();
  if (tables_.orders.contains(order_id)) return;
  const WorkloadRow* workload = tables_.workloads.find(id.uid);
  if (workload == nullptr && state_.now < deadline) return;  // its own topic will show whether it can save
  Order order{id, node, attempt.nodes, state_.now, deadline, {}, "", 0, "", reason};
  if (workload != nullptr) order.ns = workload->ns, order.kind = workload->kind;
  if (workload != nullptr && workload->checkpoints && !attempt.nodes.empty() && state_.now < deadline) {
    state_.out.orders.push_back({order_id, order});
  } else {
    order.outcome = "None";
    state_.out.evictions.push_back({id, node, reason, deadline, "", 0, false});
  }
  tables_.orders.insert(order_id, std::move(order));
}

void Spot::answer_notices() {
  std::vector<std::pair<NodeName, Instant>> taken;
  for (const auto& [name, node] : tables_.nodes) {
    if (node.taken_at) taken.emplace_back(name, *node.taken_at);
  }
  for (const auto& [node, at] : taken) {
    const Instant deadline = std::max(state_.now, at - options_.spot_margin);
    if (tables_.nodes.find(node)->known) claims_.drain(node, kSpotInterruption, at);
    evict_gangs(node, deadline, kSpotInterruption);
  }
}

void Spot::evict_gangs(const NodeName& node, Instant deadline, const std::string& reason) {
  for (const auto& [id, attempt] : tables_.attempts) {
    if (std::find(attempt.nodes.begin(), attempt.nodes.end(), node) == attempt.nodes.end()) continue;
    order_saving(id, attempt, node, deadline, reason);
  }
}

void Spot::answer_saves() {
  for (const auto& [id, save] : tables_.saves) {
    const AttemptRow* attempt = tables_.attempts.find(id);
    if (attempt != nullptr) order_saving(id, *attempt, save.node, std::max(state_.now, save.until), save.reason);
  }
}

void Spot::close_orders() {
  std::vector<std::string> open, over;
  for (const auto& [id, order] : tables_.orders) {
    if (order.outcome.empty()) {
      open.push_back(id);
    } else if (!tables_.attempts.contains(order.id)) {
      over.push_back(id);
    }
  }
  for (const auto& id : over) {
    const Order& order = *tables_.orders.find(id);
    state_.out.evictions.push_back({order.id, order.taken, order.reason, order.deadline, order.uri, order.step, true});
    tables_.orders.erase(id);
  }
  for (const auto& id : open) {
    const Order& known = *tables_.orders.find(id);
    const bool refused = std::any_of(known.acks.begin(), known.acks.end(), [](const auto& a) { return !a.ok; });
    const bool all = known.acks.size() == known.nodes.size() && !refused;
    const bool ended = !tables_.attempts.contains(known.id);
    if (!all && !refused && !ended && state_.now < known.deadline) continue;
    Order& order = tables_.orders.edit(id);
    if (all) {
      // The step that every rank has saved is that of the slowest rank.
      const auto least = std::min_element(order.acks.begin(), order.acks.end(), [](const auto& a, const auto& b) {
        return std::tie(a.step, a.node) < std::tie(b.step, b.node);
      });
      order.outcome = "Acked";
      order.step = least->step;
      order.uri = least->uri;
    } else {
      order.outcome = "Late";
    }
    state_.out.orders.push_back({id, order});
    if (ended) {
      tables_.orders.erase(id);
    } else {
      state_.out.evictions.push_back(
          {order.id, order.taken, order.reason, std::max(state_.now, order.deadline), order.uri, order.step, false});
    }
  }
}

}  // namespace qm::autoscaler
