// Karpenter's NodePool, v1beta1 and v1. v1beta1 has three differences: the policy is named WhenUnderutilized,
// expireAfter is a field of disruption, and nodeClassRef may have only the name of the class.
#include "fields.hpp"
#include "qm/base/parse.hpp"

#include <algorithm>

namespace qm::config {
namespace {

const Table<NodePoolRequirement>& requirement_table() {
  using R = NodePoolRequirement;
  static const Table<R> table{
      required(text("key", &R::key)),
      required(one_of("operator", &R::op, {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"})),
      texts("values", &R::values), integer("minValues", &R::min_values, 1, 50)};
  return table;
}

void read_requirements(const Cursor& at, NodePool& out) {
  each_item(at, [&](const Cursor& item) {
    NodePoolRequirement requirement;
    read_object(item, requirement_table(), requirement);
    const Cursor values = item.member("values");
    const std::string& op = requirement.op;
    if (op == "In" && requirement.values.empty()) {
      values.error("operator In needs values", "list the values that may be chosen");
    } else if ((op == "Exists" || op == "DoesNotExist") && !requirement.values.empty()) {
      values.error(fmt::format("operator {} does not allow values", op), "remove them, or use In");
    } else if ((op.starts_with("Gt") || op.starts_with("Lt")) &&
               (requirement.values.size() != 1 || !whole_number<std::uint64_t>(requirement.values[0]))) {
      values.error(fmt::format("operator {} needs one whole number", op), "write it as in values: [\"4\"]");
    }
    out.requirements.push_back(std::move(requirement));
  });
}

void read_nodes(const Cursor& at, DisruptionBudget& out) {
  std::string nodes;
  if (!read_text(at, nodes)) return;
  const bool percent = nodes.ends_with('%');
  const std::string number = nodes.substr(0, nodes.size() - (percent ? 1 : 0));
  const auto count = whole_number<std::uint64_t>(number);
  if (!count || (percent && *count > 100)) {
    return at.error(fmt::format("\"{}\" is not a valid number of nodes", nodes),
                    "write a number such as \"2\", or a share such as \"10%\"");
  }
  out.nodes = nodes;
}

void read_budgets(const Cursor& at, NodePool& out) {
  using B = DisruptionBudget;
  static const Table<B> table{required(custom<B>("nodes", read_nodes)), text("schedule", &B::schedule),
                              duration("duration", &B::duration), texts("reasons", &B::reasons)};
  out.budgets.clear();  // an empty list has no limit
  each_item(at, [&](const Cursor& item) {
    B budget;
    read_object(item, table, budget);
    for (const auto& reason : budget.reasons) {
      if (reason == "Drifted" || reason == "Empty" || reason == "Underutilized") continue;
      item.member("reasons").error(fmt::format("\"{}\" is not a reason for disruption", reason),
                                   "use Drifted, Empty or Underutilized, or leave reasons out for all of them");
    }
    if (budget.schedule.empty() != (budget.duration == Duration::zero())) {
      item.error("schedule and duration need each other", "set both, or neither");
    }
    out.budgets.push_back(std::move(budget));
  });
}

Field<NodePool> policy(bool beta) {
  return custom<NodePool>("consolidationPolicy", [beta](const Cursor& at, NodePool& out) {
    std::string value;
    if (!read_text(at, value)) return;
    if (value == "WhenEmpty" || (value == "Balanced" && !beta)) {
      out.consolidation_policy = value;
    } else if (value == (beta ? "WhenUnderutilized" : "WhenEmptyOrUnderutilized")) {
      out.consolidation_policy = "WhenEmptyOrUnderutilized";
    } else {
      at.error(fmt::format("\"{}\" is not one of the allowed values", value),
               beta ? "use one of WhenEmpty, WhenUnderutilized"
                    : "use one of WhenEmpty, WhenEmptyOrUnderutilized, Balanced");
    }
  });
}

Table<NodePool> node_pool_table(bool beta) {
  Table<NodePool> node{
      required(custom<NodePool>("requirements", read_requirements)),
      list("taints", &NodePool::taints, taint_table()),
      list("startupTaints", &NodePool::startup_taints, taint_table()),
      kept<NodePool>("kubelet"),
      custom<NodePool>("terminationGracePeriod",
                       [](const Cursor& at, NodePool& out) {
                         Duration grace{0};
                         if (read_duration(at, grace, false)) out.termination_grace = grace;
                       }),
      group<NodePool>("nodeClassRef", {required(text("name", &NodePool::node_class)), kept<NodePool>("group"),
                                       kept<NodePool>("kind"), kept<NodePool>("apiVersion")})};
  Table<NodePool> disruption{policy(beta), duration("consolidateAfter", &NodePool::consolidate_after, true),
                             custom<NodePool>("budgets", read_budgets)};
  (beta ? disruption : node).push_back(duration("expireAfter", &NodePool::expire_after, true));
  if (!beta) disruption.push_back(renamed<NodePool>("expireAfter", "spec.template.spec.expireAfter"));
  return with_identity<NodePool>({required(group<NodePool>(
      "spec",
      {required(
           group<NodePool>("template", {group<NodePool>("metadata", {labels("labels", &NodePool::labels),
                                                                     labels("annotations", &NodePool::annotations)}),
                                        required(group<NodePool>("spec", std::move(node)))})),
       quantities("limits", &NodePool::limits), integer("weight", &NodePool::weight, 1, 100),
       group<NodePool>("disruption", std::move(disruption)), integer("replicas", &NodePool::replicas, 0, 100'000)}))});
}

/// A budget of none is written to keep nodes for long jobs, and expiry is often inherited: it ignores budgets.
void warn_of_expiry(const Cursor& root, bool beta, const NodePool& pool) {
  const Cursor spec = root.member("spec");
  const Cursor at = beta ? spec.member("disruption").member("expireAfter")
                         : spec.member("template").member("spec").member("expireAfter");
  const bool none_allowed = std::ranges::any_of(pool.budgets, [](const DisruptionBudget& budget) {
    return (budget.nodes == "0" || budget.nodes == "0%") && budget.schedule.empty() && budget.reasons.empty();
  });
  if (!none_allowed || at.value == nullptr || at.value->is_null() || pool.expire_after == Duration::max()) return;
  at.warn("nodes end at this age, although the budgets of the NodePool allow no disruption: expiry ignores them",
          "set Never, or keep it if nodes are to be renewed");
}

Typed read_node_pool(const Cursor& root, std::string_view version) {
  static const Table<NodePool> v1 = node_pool_table(false);
  static const Table<NodePool> v1beta1 = node_pool_table(true);
  NodePool pool;
  pool.api_version = std::string(version);
  read_object(root, version == "v1" ? v1 : v1beta1, pool);
  if (pool.node_class.empty() && !root.scope->failed()) {
    root.member("spec")
        .member("template")
        .member("spec")
        .member("nodeClassRef")
        .warn("is missing; the class \"default\" is used", "name the node class, as an API server demands");
    pool.node_class = "default";
  }
  warn_of_expiry(root, version == "v1beta1", pool);
  return pool;
}

}  // namespace

std::vector<KindReader> karpenter_kinds() {
  return {{"karpenter.sh", {"v1", "v1beta1"}, "NodePool", read_node_pool}, node_class_kind()};
}

}  // namespace qm::config
