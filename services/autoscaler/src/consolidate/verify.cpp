// Verification without the search: the cluster without the removed nodes, pod by pod in the order of the plan.
#include "cluster.hpp"
#include "qm/autoscaler/consolidate/plan.hpp"
#include "value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace qm::autoscaler::consolidate {
namespace {

/// The pods of the removed nodes, each with its kind; erased as places are found.
using Homeless = std::map<std::string, std::size_t>;

Status take(Homeless& pods, const std::string& name, std::size_t kind) {
  const auto at = pods.find(name);
  if (at == pods.end() || at->second != kind)
    return fail(Code::kFailedPrecondition, "pod {} is not on a removed node, or has two places", name);
  pods.erase(at);
  return {};
}

Status check_indices(const Problem& problem, const Plan& plan) {
  if (!std::ranges::is_sorted(plan.removed) || std::ranges::adjacent_find(plan.removed) != plan.removed.end())
    return fail(Code::kFailedPrecondition, "a node is removed twice");
  const auto exists = [&](std::size_t node) { return node < problem.nodes.size(); };
  if (!std::ranges::all_of(plan.removed, exists) || !std::ranges::all_of(plan.moves, exists, &Move::to))
    return fail(Code::kFailedPrecondition, "a node of the plan does not exist");
  for (const Launch& launch : plan.launches) {
    const bool known = launch.pool < problem.pools.size() && launch.type < problem.pools[launch.pool].types.size() &&
                       launch.offering < problem.pools[launch.pool].types[launch.type].offerings.size();
    if (!known) return fail(Code::kFailedPrecondition, "an offering of the plan does not exist");
    if (!problem.pools[launch.pool].types[launch.type].offerings[launch.offering].available)
      return fail(Code::kFailedPrecondition, "an offering of the plan is not available");
  }
  return {};
}

Status check_places(const Problem& problem, const Plan& plan) {
  std::vector<bool> gone(problem.nodes.size(), false);
  Homeless pods;
  for (const std::size_t node : plan.removed) {
    gone[node] = true;
    for (const Pod& pod : problem.nodes[node].pods) {
      if (!pod.stays) pods.emplace(pod.name, pod.kind);
    }
  }
  Cluster cluster(problem, gone);
  const auto place = [&](const std::string& pod, std::size_t kind, const NodeName& node) -> Status {
    QM_TRY(take(pods, pod, kind));
    if (!cluster.fits(kind, node)) return fail(Code::kFailedPrecondition, "node {} does not admit pod {}", node, pod);
    cluster.put(pod, kind, node);
    return {};
  };
  for (const Move& move : plan.moves) {
    if (gone[move.to] || !problem.nodes[move.to].accepts)
      return fail(Code::kFailedPrecondition, "pod {} is moved to node {}, which takes no pods", move.pod,
                  problem.nodes[move.to].view.name);
    QM_TRY(place(move.pod, move.kind, problem.nodes[move.to].view.name));
  }
  std::vector<NodeName> names;
  for (const Launch& launch : plan.launches) {
    const Pool& pool = problem.pools[launch.pool];
    names.emplace_back(fmt::format("launch/{}", names.size()));
    cluster.launch(view_of(pool, pool.types[launch.type], launch.labels, names.back().value()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (plan.launches[i].pods.empty()) return fail(Code::kFailedPrecondition, "a node is launched for no pod");
    for (const auto& [pod, kind] : plan.launches[i].pods) QM_TRY(place(pod, kind, names[i]));
  }
  if (!pods.empty()) return fail(Code::kFailedPrecondition, "pod {} has no place", pods.begin()->first);
  return {};
}

}  // namespace

Status still_holds(const Problem& problem, const Plan& plan) {
  QM_TRY(check_indices(problem, plan));
  if (auto why = refusal_of(problem, plan.removed); !why.empty()) return fail(Code::kFailedPrecondition, "{}", why);
  QM_TRY(check_places(problem, plan));
  Plan sums = plan;
  value(problem, sums);
  if (sums.before != plan.before || sums.after != plan.after || sums.cost != plan.cost || sums.value != plan.value)
    return fail(Code::kFailedPrecondition, "the sums are {} to {} USD/h with a value of {} USD, not {} to {} with {}",
                sums.before.to_usd(4), sums.after.to_usd(4), sums.value.to_usd(4), plan.before.to_usd(4),
                plan.after.to_usd(4), plan.value.to_usd(4));
  for (auto why : {unpaid(problem, plan), launch_refusal(problem, plan)}) {
    if (!why.empty()) return fail(Code::kFailedPrecondition, "{}", why);
  }
  return {};
}

}  // namespace qm::autoscaler::consolidate
