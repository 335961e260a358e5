// Orders are judged by the library `checkpoint`; here they are opened, stored and published.
#include "checkpoints/orders.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr const char* kNoOrder = "None";
constexpr const char* kCheckpointCounter = "checkpoint";

}  // namespace

Order CheckpointOrders::order_for(const AttemptId& id, const AttemptRow& attempt, Instant deadline,
                                  const std::string& reason) {
  Order order;
  order.id = id;
  order.save.fence.attempt = id.attempt;
  order.save.nodes = attempt.nodes;
  order.save.deadline = deadline;
  order.ordered = state_.now;
  order.reason = reason;
  if (const WorkloadRow* workload = tables_.workloads.find(id.uid)) {
    order.ns = workload->ns;
    order.kind = workload->kind;
    order.save.quorum = workload->checkpoint.quorum;
  }
  return order;
}

void CheckpointOrders::send(const std::string& key, Order order) {
  order.save.fence.number = ++tables_.counters.edit(kCheckpointCounter);
  state_.out.orders.push_back({key, order});
  tables_.orders.insert(key, std::move(order));
}

// One order evicts the whole gang: a notice for another of its nodes needs none, unless that node ends earlier.
bool CheckpointOrders::leaves_by(const AttemptId& id, const NodeName& node, Instant deadline) const {
  const std::string prefix = id.to_string() + "/", key = prefix + node.value();
  const auto& rows = tables_.orders.rows();
  for (auto at = rows.lower_bound(prefix); at != rows.end() && at->first.starts_with(prefix); ++at) {
    const Order& order = at->second;
    if (order.evicts && (at->first == key || order.save.deadline <= deadline)) return true;
  }
  return false;
}

// No wait is needed if the gang cannot save, or is on no node any more: it releases its place now and may start
// elsewhere. The row records that it was evicted.
void CheckpointOrders::save_and_evict(const AttemptId& id, const AttemptRow& attempt, const NodeName& node,
                                      Instant deadline, const std::string& reason) {
  if (leaves_by(id, node, deadline)) return;
  const std::string key = id.to_string() + "/" + node.value();
  const WorkloadRow* workload = tables_.workloads.find(id.uid);
  if (workload == nullptr && state_.now < deadline) return;  // its own topic will show whether it can save
  Order order = order_for(id, attempt, deadline, reason);
  order.taken = node;
  if (workload != nullptr && workload->checkpoints && !attempt.nodes.empty() && state_.now < deadline)
    return send(key, std::move(order));
  order.outcome = kNoOrder;
  evict(order, false);
  tables_.orders.insert(key, std::move(order));
}

void CheckpointOrders::evict_saved(const AttemptId& id, const AttemptRow& attempt, const NodeName& node,
                                   Instant deadline, const std::string& reason) {
  const std::string key = id.to_string() + "/" + node.value();
  if (tables_.orders.contains(key)) return;
  Order order = order_for(id, attempt, deadline, reason);
  order.taken = node;
  order.outcome = kNoOrder;
  evict(order, false);
  tables_.orders.insert(key, std::move(order));
}

void CheckpointOrders::save(const AttemptId& id, const AttemptRow& attempt, Instant deadline,
                            const std::string& reason) {
  Order order = order_for(id, attempt, deadline, reason);
  order.evicts = false;
  const std::int64_t* last = tables_.counters.find(kCheckpointCounter);
  send(fmt::format("{}/save-{}", id.to_string(), (last == nullptr ? 0 : *last) + 1), std::move(order));
}

void CheckpointOrders::receive(const AckUpdated& c) {
  const Order* known = tables_.orders.find(c.order);
  if (known == nullptr || !known->outcome.empty()) return;  // late: the order already has its outcome
  checkpoint::GangSave save = known->save;
  const auto reception = checkpoint::receive(save, c.answer);
  if (reception == checkpoint::Reception::kAccepted) tables_.orders.edit(c.order).save = std::move(save);
  if (reception == checkpoint::Reception::kStale) state_.out.stale_answers.push_back({c.order, c.answer});
}

void CheckpointOrders::close() {
  std::vector<std::string> over;
  std::vector<std::pair<std::string, checkpoint::Verdict>> settled;
  for (const auto& [key, order] : tables_.orders) {
    const bool ended = !tables_.attempts.contains(order.id);
    if (!order.outcome.empty()) {
      if (ended) over.push_back(key);
      continue;
    }
    auto verdict = checkpoint::judge(order.save, state_.now, ended);
    if (checkpoint::is_closed(verdict.state)) settled.emplace_back(key, std::move(verdict));
  }
  for (const auto& key : over) {
    evict(*tables_.orders.find(key), true);
    tables_.orders.erase(key);
  }
  for (const auto& [key, verdict] : settled) settle(key, verdict);
}

void CheckpointOrders::settle(const std::string& key, const checkpoint::Verdict& verdict) {
  Order& order = tables_.orders.edit(key);
  order.outcome = checkpoint::name_of(verdict.state);
  order.why = verdict.reason;
  order.saved = verdict.saved;
  if (verdict.state == checkpoint::State::kAcked) keep_newest(order);
  state_.out.orders.push_back({key, order});
  const bool ended = !tables_.attempts.contains(order.id);
  if (order.evicts && !ended) return evict(order, false);
  tables_.orders.erase(key);
}

void CheckpointOrders::keep_newest(const Order& order) {
  if (!tables_.workloads.contains(order.id.uid)) return;
  const CheckpointRow* known = tables_.checkpoints.find(order.id.uid);
  if (known != nullptr && order.save.fence < known->fence) return;
  tables_.checkpoints.insert(order.id.uid, {order.save.fence, order.saved, state_.now});
}

void CheckpointOrders::evict(const Order& order, bool over) {
  EvictionEvent out;
  out.id = order.id;
  out.node = order.taken;
  out.reason = order.reason;
  out.deadline = over ? order.save.deadline : std::max(state_.now, order.save.deadline);
  out.over = over;
  if (const CheckpointRow* newest = tables_.checkpoints.find(order.id.uid)) {
    out.resume_uri = newest->saved.uri;
    out.step = newest->saved.step;
    out.checkpoint_number = newest->fence.attempt == order.id.attempt ? newest->fence.number : 0;
  }
  state_.out.evictions.push_back(std::move(out));
}

bool CheckpointOrders::has_order(const AttemptId& id) const {
  const std::string prefix = id.to_string() + "/";
  const auto& rows = tables_.orders.rows();
  for (auto at = rows.lower_bound(prefix); at != rows.end() && at->first.starts_with(prefix); ++at) {
    if (at->second.outcome.empty() || at->second.evicts) return true;
  }
  return false;
}

Duration CheckpointOrders::save_time(const WorkloadUid& uid) const {
  const CheckpointRow* newest = tables_.checkpoints.find(uid);
  if (newest != nullptr && newest->saved.took > Duration{0}) return newest->saved.took;
  const WorkloadRow* workload = tables_.workloads.find(uid);
  if (workload != nullptr && workload->checkpoint.expected > Duration{0}) return workload->checkpoint.expected;
  return state_.options.save_time;
}

}  // namespace qm::autoscaler
