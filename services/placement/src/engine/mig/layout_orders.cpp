// Orders for MIG layouts, and their progress. Only an order changes a layout, and an order evicts work only in
// a window. Orders come from users and from mig_repartitions.cpp.
#include "engine/mig/layout_orders.hpp"

#include "engine/mig/node_layouts.hpp"
#include "qm/placement/disruption/hold_lifecycle.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

using relayout::Phase;
using relayout::Row;

constexpr Duration kLastGrace = std::chrono::seconds(30);  ///< minimum grace period after the time to save

}  // namespace

Result<Row> LayoutOrders::order_for(const NodeName& name, const std::string& layout,
                                    const mig::Definitions& definitions) const {
  const Node* node = tables_.nodes.find(name);
  if (node == nullptr) {
    return fail(Error{Code::kNotFound, fmt::format("there is no node {}", name), "metadata.name",
                      "name a node of the cluster; qmctl nodes lists them"});
  }
  const NodeFacts& facts = node->facts;
  const auto where = [&](Error error) {
    error.message = fmt::format("node {}: {}", name, error.message);
    return fail(std::move(error));
  };
  if (installed(facts, definitions) == 0) {
    return where(
        {Code::kFailedPrecondition, "its number of GPUs is not known", std::string(words::kGpuCount),
         "GPU feature discovery has to label it; with the strategy single, order a layout before it is partitioned"});
  }
  auto made = mig::layout_named(layout, definitions, facts.model, installed(facts, definitions));
  if (!made) return where(made.error());
  Row row;
  row.order = {name, layout, mig::capacity_of(*made, is_single(facts)), {}, {}};
  row.since = scratch_.now;
  return row;
}

std::optional<Row> LayoutOrders::default_order(const NodeName& name, const DefaultLayout& fallback,
                                               const mig::Definitions& definitions, std::string* why_not) const {
  const Node& node = *tables_.nodes.find(name);
  const Repartition* repartition = tables_.repartitions.find(name);
  const std::string label(label_of(node.facts, kMigConfig));
  // An order that has ended is not repeated, except for a new default layout in place of the former default.
  const bool ordered =
      repartition != nullptr && repartition->order &&
      !(repartition->by_default && repartition->order->over() && repartition->order->order.layout != fallback.layout);
  if (fallback.layout.empty() || ordered || mig::model_of(node.facts.model) == nullptr ||
      label_of(node.facts, "nvidia.com/mig.capable") == "false" || label == fallback.layout ||
      (!label.empty() && !fallback.override_label)) {
    return std::nullopt;
  }
  auto order = order_for(name, fallback.layout, definitions);
  if (order) return *order;
  if (why_not != nullptr) *why_not = order.error().message;
  return std::nullopt;
}

void LayoutOrders::order_layouts(const OrderLayouts& asked) {
  LayoutsOrdered answer;
  answer.warnings = asked.warnings;
  for (const auto& [name, definition] : asked.definitions) answer.layouts.push_back(name);
  mig::Definitions definitions = tables_.layouts.rows();
  for (const auto& [name, definition] : asked.definitions) definitions[name] = definition;
  std::map<NodeName, Row> orders;
  std::optional<Error> refused;
  const auto refuse = [&](const Error& error) {
    if (!refused) refused = error;
  };
  for (const auto& [name, layout] : asked.nodes) {
    auto order = order_for(name, layout, definitions);
    if (!order) {
      refuse(order.error());
      continue;
    }
    if (const Repartition* repartition = tables_.repartitions.find(name);
        repartition != nullptr && repartition->order && !evicts_none(*repartition->order)) {
      refuse({Code::kFailedPrecondition,
              fmt::format("node {} is being repartitioned to layout {}", name, repartition->order->order.layout),
              "metadata.name", "wait until that order has ended"});
      continue;
    }
    orders.emplace(name, std::move(*order));
  }
  for (const NodeName& name : asked.withdraw) {
    const Repartition* repartition = tables_.repartitions.find(name);
    if (repartition == nullptr || !repartition->order || repartition->order->over()) {
      refuse({Code::kNotFound, fmt::format("node {} has no layout order in progress", name), "withdraw",
              "qmctl layouts lists the orders"});
      continue;
    }
    Row row = *repartition->order;
    row.withdrawn = true;
    orders.insert_or_assign(name, std::move(row));
  }
  if (asked.otherwise) {
    for (const auto& [name, node] : tables_.nodes) {
      std::string why_not;
      if (orders.contains(name)) continue;
      if (auto order = default_order(name, *asked.otherwise, definitions, &why_not))
        orders.emplace(name, std::move(*order));
      if (!why_not.empty()) answer.warnings.push_back(std::move(why_not));
    }
  }
  if (refused) {
    scratch_.out.replies.push_back({scratch_.command, fail(std::move(*refused))});
    return;
  }
  for (auto& [name, row] : orders) {
    Repartition next;
    if (const Repartition* repartition = tables_.repartitions.find(name)) next = *repartition;
    next.order = std::move(row);
    next.written_label.clear();
    next.asked.clear();
    next.by_default = !asked.nodes.contains(name) && !asked.withdraw.contains(name);
    if (!asked.withdraw.contains(name)) next.reserved_for.reset();
    Repartition look = next;  // preview of the next action; it is executed when the node is evaluated
    (void)continue_order(name, look);
    answer.orders.push_back(*look.order);
    if (asked.dry_run) continue;
    rows_.store_repartition(name, std::move(next));
    scratch_.nodes.insert(name);
  }
  if (!asked.dry_run) {
    for (const auto& [name, definition] : asked.definitions) {
      const auto* old = tables_.layouts.find(name);
      if (old != nullptr && *old == definition) continue;
      tables_.layouts.insert(name, definition);
      for (const auto& [node, row] : tables_.nodes) scratch_.nodes.insert(node);
    }
    if (asked.otherwise && *asked.otherwise != state_.meta().layout) tables_.meta.edit(0).layout = *asked.otherwise;
  }
  scratch_.out.replies.push_back({scratch_.command, std::move(answer)});
}

// A gang leaves as a whole, by an eviction order of admission, with time to save. A gang with checkpoints
// first gets a save order from the autoscaler, as before a spot interruption, which also evicts it. Pods
// without admission are deleted by us. Pods of other owners stay: the order waits for them, and fails at the
// end of its window.
void LayoutOrders::drain_for_layout(const NodeName& name, const std::string& occupant, Repartition& next) {
  const auto members = index_.members.find(name);
  if (members == index_.members.end()) return;
  for (const auto& [id, position] : std::set<MemberRef>(members->second)) {
    if (id.to_string() != occupant) continue;
    next.asked[occupant] = scratch_.now;
    const Workload* workload = tables_.workloads.find(id.uid);
    const Instant deadline = scratch_.now + options_.layout_limits.save;
    if (workload != nullptr && workload->spec.labels.contains(kUnadmitted)) {
      for (const Pod* pod : pods_.pods_of(id)) {
        if (pod->delete_sent || pod->facts.deleting || pod->facts.terminal()) continue;
        const auto grace = std::chrono::duration_cast<std::chrono::seconds>(options_.layout_limits.save).count();
        tables_.pods.edit(pod->facts.uid).delete_sent = true;
        state_.send(DeletePod{pod->facts.ns, pod->facts.name, pod->facts.uid, grace, deadline});
      }
      return;
    }
    const bool saves = workload != nullptr && workload->attempt == id.attempt && workload->spec.checkpoints;
    request_eviction_for_layout(id, name, next, saves ? deadline : Instant{});
    return;
  }
}

void LayoutOrders::request_eviction_for_layout(const AttemptId& id, const NodeName& name, const Repartition& next,
                                               Instant save_until) {
  Assignment row = *tables_.assignments.find(id);
  rows_.request_eviction(
      id, row,
      {"MigLayout", fmt::format("the GPUs of node {} are repartitioned to {}", name, next.order->order.layout),
       std::max(next.asked.at(id.to_string()) + options_.layout_limits.save, scratch_.now + kLastGrace), name, false,
       save_until});
  rows_.store(id, std::move(row));
}

// The ranks were asked to save, and no eviction has followed: evict without saving.
void LayoutOrders::force_evict(const NodeName& name, const std::string& occupant, const Repartition& next) {
  const auto members = index_.members.find(name);
  if (members == index_.members.end()) return;
  for (const auto& [id, position] : std::set<MemberRef>(members->second)) {
    const Assignment& row = *tables_.assignments.find(id);
    if (id.to_string() != occupant || !row.eviction || row.eviction->save_until == Instant{}) continue;
    return request_eviction_for_layout(id, name, next, {});
  }
}

std::vector<relayout::Action> LayoutOrders::continue_order(const NodeName& name, Repartition& next) const {
  Row& order = *next.order;
  const relayout::Observed seen = layouts_.seen_for_layout(name, next);
  // Work is evicted only in a window; idle GPUs need none. An order for a pending workload has no window.
  if (order.phase == Phase::kWaiting && (seen.occupants.empty() || next.reserved_for)) {
    order.order.from = order.order.until = {};
  } else if (order.phase == Phase::kWaiting && order.order.until <= scratch_.now) {
    std::tie(order.order.from, order.order.until) = relayout::next_window(options_.layout_windows, scratch_.now);
  }
  relayout::Step step = relayout::advance(order, seen, scratch_.now, options_.layout_limits);
  if (step.row.phase != order.phase) next.written_label.clear();
  next.wake = step.row.over() ? Instant{} : step.wake_at;
  order = std::move(step.row);
  if (order.over()) next.asked.clear();
  return std::move(step.actions);
}

void LayoutOrders::compare_capacity(const NodeName& name, Repartition& next) const {
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  const std::string state(label_of(facts, kMigState));
  const bool settled = (state.empty() || state == "success") && (!next.order || evicts_none(*next.order));
  const auto planned = settled ? layouts_.planned_of(name) : std::nullopt;
  if (!planned || !planned->unknown.empty() || !facts.ready || planned->capacity == advertised(facts)) {
    next.differs_since = {};
    next.mismatch = false;
    return;
  }
  if (next.differs_since == Instant{}) next.differs_since = scratch_.now;
  const Instant due = next.differs_since + options_.layout_limits.verify;
  next.mismatch = due <= scratch_.now;
  if (!next.mismatch && (next.wake == Instant{} || due < next.wake)) next.wake = due;
}

void LayoutOrders::reconcile(const NodeName& name) {
  Repartition next;
  if (const Repartition* repartition = tables_.repartitions.find(name)) next = *repartition;
  next.wake = {};
  if (auto order = default_order(name, state_.meta().layout, tables_.layouts.rows(), nullptr)) {
    next = {};
    next.order = std::move(order);
    next.by_default = true;
  }
  const bool kept = next.reserved_for && next.reserved_for->waits;
  if (next.order) {
    review_hold(name, next);
    for (const relayout::Action& action : continue_order(name, next)) {
      if (const auto* label = std::get_if<relayout::Label>(&action);
          label != nullptr && next.written_label != label->layout) {
        next.written_label = label->layout;
        state_.send(LabelNode{name, label->layout});
      }
      if (const auto* save = std::get_if<relayout::Save>(&action)) drain_for_layout(name, save->pod, next);
      if (const auto* evict = std::get_if<relayout::Evict>(&action)) force_evict(name, evict->pod, next);
    }
    review_hold(name, next);
  }
  scratch_.demand = scratch_.demand || (kept && !next.reserved_for->waits);
  compare_capacity(name, next);
  rows_.store_repartition(name, std::move(next));
}

/// Ends a hold whose workload is not pending any more, and withdraws its order unless the label is already
/// written. Only idle GPUs are repartitioned: if a pod has used them first, the order is withdrawn.
void LayoutOrders::review_hold(const NodeName& name, Repartition& next) const {
  if (!next.reserved_for) return;
  const WorkloadUid& uid = next.reserved_for->uid;
  const Workload* workload = tables_.workloads.find(uid);
  const disruption::HoldObserved seen{
      !layouts_.seen_for_layout(name, next).occupants.empty(),
      workload != nullptr && (workload->phase == WorkloadPhase::kPending || index_.without_placement.contains(uid))};
  auto step = disruption::advance_hold(*next.reserved_for, *next.order, seen, scratch_.now, options_.mig_repartition);
  next.reserved_for = std::move(step.hold);
  next.order = std::move(step.order);
  if (step.wake_at != Instant::max() && (next.wake == Instant{} || step.wake_at < next.wake)) next.wake = step.wake_at;
}

}  // namespace qm::placement
