// One trial:  take the nodes out, put each pod on the fullest running node that admits it, pack the others onto new nodes,
// check the new nodes by the rules of kube-scheduler, value the plan, and revert.
#include "removal.hpp"

#include "qm/autoscaler/pack/plan.hpp"
#include "value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace qm::autoscaler::consolidate {
namespace {

std::int64_t amount(const kube_rules::Amounts& amounts, const std::string& name) {
  const auto at = amounts.find(name);
  return at == amounts.end() ? 0 : at->second;
}

}  // namespace

// The largest first: extended resources such as GPUs, then CPU, then memory.
Removal::Pods Removal::pods_to_move(std::span<const std::size_t> nodes) const {
  Pods out;
  for (const std::size_t node : nodes) {
    for (const Pod& pod : problem_.nodes[node].pods) {
      if (!pod.stays) out.push_back(&pod);
    }
  }
  const auto size = [&](const Pod* pod) {
    const auto& requests = problem_.kinds[pod->kind].rules.rules.requests;
    std::int64_t extended = 0;
    for (const auto& [resource, value] : requests)
      extended += resource == "cpu" || resource == "memory" || resource == "ephemeral-storage" ? 0 : value;
    return std::tuple(-extended, -amount(requests, "cpu"), -amount(requests, "memory"), pod->kind, pod->name);
  };
  std::ranges::sort(out, [&](const Pod* a, const Pod* b) { return size(a) < size(b); });
  return out;
}

void Removal::move(const Pods& pods, Plan& plan, Pods& left) {
  for (const Pod* pod : pods) {
    const auto to = cluster_.place_for(pod->kind);
    if (!to) {
      left.push_back(pod);
      continue;
    }
    cluster_.put(pod->name, pod->kind, problem_.nodes[*to].view.name);
    plan.moves.push_back({pod->name, pod->kind, *to});
  }
}

Status Removal::launch(const Pods& pods, Plan& plan) {
  Pods left = pods;
  for (const Pod* pod : left) {
    if (!problem_.kinds[pod->kind].on_new_node)
      return fail(Code::kFailedPrecondition, "no running node admits pod {}, and it is not planned on a new one",
                  pod->name);
  }
  // Every launch of a plan that pays costs less than this.
  const double most = static_cast<double>(plan.before.nano()) / 1e9 * (1 - problem_.rules.least_share);
  for (std::size_t p = 0; p < problem_.pools.size() && !left.empty(); ++p) {
    const Pool& pool = problem_.pools[p];
    pack::Problem one{pool.node, {}, {}};
    std::vector<std::pair<std::size_t, std::vector<std::size_t>>> from;  // type, and its offerings
    for (std::size_t t = 0; t < pool.types.size(); ++t) {
      pack::InstanceType type = pool.types[t];
      type.offerings.clear();
      std::vector<std::size_t> offerings;
      for (std::size_t o = 0; o < pool.types[t].offerings.size(); ++o) {
        const auto& offering = pool.types[t].offerings[o];
        if (!offering.available || offering.price > most) continue;
        type.offerings.push_back(offering);
        offerings.push_back(o);
      }
      if (offerings.empty()) continue;
      one.types.push_back(std::move(type));
      from.emplace_back(t, std::move(offerings));
    }
    if (one.types.empty()) continue;
    for (const Pod* pod : left) one.pods.push_back(*problem_.kinds[pod->kind].on_new_node);
    const auto packed = pack::pack(one, {problem_.rules.node_price, {}, {}});
    if (!packed) continue;
    for (const auto& node : packed->nodes) {
      Launch& launch = plan.launches.emplace_back();
      launch.pool = p;
      launch.type = from[node.type].first;
      launch.offering = from[node.type].second[node.offering];
      launch.labels = node.requirements;
      for (const std::size_t pod : node.pods) launch.pods.emplace_back(left[pod]->name, left[pod]->kind);
    }
    Pods unplaced;
    for (const auto& rest : packed->unplaced) unplaced.push_back(left[rest.pod]);
    left = std::move(unplaced);
  }
  if (!left.empty())
    return fail(Code::kFailedPrecondition, "no running node admits pod {}, nor does a cheaper new one",
                left.front()->name);
  if (!fits(plan))
    return fail(Code::kFailedPrecondition, "a rule between pods excludes a new node for {}",
                plan.launches.front().pods.front().first);
  return {};
}

// The packing library knows only the pods that it packs: rules that count pods of running nodes are checked here.
bool Removal::fits(const Plan& plan) {
  bool ok = true;
  std::vector<NodeName> names;
  std::vector<std::string> pods;
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    const Pool& pool = problem_.pools[launch.pool];
    names.emplace_back(fmt::format("launch/{}", i));
    cluster_.launch(view_of(pool, pool.types[launch.type], launch.labels, names.back().value()));
  }
  for (std::size_t i = 0; i < plan.launches.size() && ok; ++i) {
    for (const auto& [pod, kind] : plan.launches[i].pods) {
      ok = ok && cluster_.fits(kind, names[i]);
      if (!ok) break;
      cluster_.put(pod, kind, names[i]);
      pods.push_back(pod);
    }
  }
  for (const auto& pod : pods) cluster_.drop(pod);
  for (const auto& name : names) cluster_.end_launch(name);
  return ok;
}

Result<Plan> Removal::try_remove(std::span<const std::size_t> nodes) {
  if (auto why = refusal_of(problem_, nodes); !why.empty()) return fail(Code::kFailedPrecondition, "{}", why);
  Plan plan;
  plan.removed.assign(nodes.begin(), nodes.end());
  value(problem_, plan);
  const Pods pods = pods_to_move(nodes);
  if (pods.empty()) return fail(Code::kFailedPrecondition, "the nodes have no pods: empty nodes are not consolidated");
  for (const std::size_t node : nodes) cluster_.remove(node);
  Pods left;
  move(pods, plan, left);
  const Status placed = left.empty() ? Status() : launch(left, plan);
  for (const Move& one : plan.moves) cluster_.drop(one.pod);
  for (const std::size_t node : nodes) cluster_.restore(node);
  QM_TRY(placed);
  value(problem_, plan);
  if (auto why = unpaid(problem_, plan); !why.empty()) return fail(Code::kFailedPrecondition, "{}", why);
  if (auto why = launch_refusal(problem_, plan); !why.empty()) return fail(Code::kFailedPrecondition, "{}", why);
  return plan;
}

}  // namespace qm::autoscaler::consolidate
