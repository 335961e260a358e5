// The rules of a removal that need no search: holds, budgets, launches, and whether it pays.
#include "value.hpp"

#include "cluster.hpp"
#include "qm/autoscaler/pack/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace qm::autoscaler::consolidate {
namespace {

constexpr std::string_view kSpot = "spot";
constexpr double kNano = 1e9;

const pack::Offering& offering_of(const Problem& problem, const Launch& launch) {
  return problem.pools[launch.pool].types[launch.type].offerings[launch.offering];
}

std::int64_t nano(double usd) { return static_cast<std::int64_t>(usd * kNano); }

/// The spot types that could replace the launch, with all of the plan's nodes cheaper than before.
std::size_t cheaper_spot_types(const Problem& problem, const Plan& plan, const Launch& launch, std::size_t enough) {
  const Pool& pool = problem.pools[launch.pool];
  const Money most = plan.before - plan.after + price_of(problem, launch);
  pack::Problem one{pool.node, {}, {}};
  for (const auto& [name, kind] : launch.pods) one.pods.push_back(*problem.kinds[kind].on_new_node);
  std::set<std::string> found;
  for (const auto& type : pool.types) {
    if (found.size() >= enough) break;
    if (found.contains(type.name)) continue;
    one.types = {type};
    std::erase_if(one.types[0].offerings, [&](const pack::Offering& offering) {
      return offering.capacity_type != kSpot || !offering.available || Money::nano(nano(offering.price)) >= most;
    });
    if (one.types[0].offerings.empty()) continue;
    const auto packed = pack::pack(one);
    if (packed && packed->unplaced.empty() && packed->nodes.size() == 1) found.insert(type.name);
  }
  return found.size();
}

/// Spot capacity in place of spot capacity must not be interrupted more often, or must leave a choice.
std::string spot_refusal(const Problem& problem, const Plan& plan, const Launch& launch) {
  if (offering_of(problem, launch).capacity_type != kSpot) return {};
  std::optional<double> least;
  bool spot = false, known = true;
  for (const std::size_t node : plan.removed) {
    const Node& old = problem.nodes[node];
    if (!old.spot) continue;
    spot = true;
    known &= old.hazard.has_value();
    if (old.hazard && (!least || *old.hazard < *least)) least = old.hazard;
  }
  if (!spot) return {};
  const auto& hazard = problem.pools[launch.pool].hazards[launch.type][launch.offering];
  if (known && hazard && *hazard <= *least) return {};
  const std::size_t types = cheaper_spot_types(problem, plan, launch, problem.rules.spot_types);
  if (types >= problem.rules.spot_types) return {};
  return fmt::format("{} spot types are cheaper, and spot replaces spot with {}, or with a hazard that is not higher",
                     types, problem.rules.spot_types);
}

}  // namespace

std::string refusal_of(const Problem& problem, std::span<const std::size_t> nodes) {
  if (nodes.empty()) return "no node is named";
  if (nodes.size() > problem.rules.most_nodes)
    return fmt::format("{} nodes are more than {}", nodes.size(), problem.rules.most_nodes);
  std::map<std::string, std::int64_t> by_pool, by_budget;
  for (const std::size_t index : nodes) {
    const Node& node = problem.nodes[index];
    if (!node.held.empty()) return fmt::format("node {}: {}", node.view.name, node.held);
    ++by_pool[node.pool];
    std::set<std::string> budgets;
    for (const Pod& pod : node.pods) {
      if (!pod.stays && !pod.budget.empty()) budgets.insert(pod.budget);
    }
    for (const auto& budget : budgets) ++by_budget[budget];
  }
  for (const auto& [name, count] : by_pool) {
    const auto pool = std::ranges::find(problem.pools, name, &Pool::name);
    const std::int64_t allowed = pool == problem.pools.end() ? 0 : pool->disruptions;
    if (count > allowed)
      return fmt::format("the budget of NodePool {} allows {} more disruptions, and {} nodes would be removed", name,
                         allowed, count);
  }
  for (const auto& [name, count] : by_budget) {
    const auto allowed = problem.evictions.find(name);
    const std::int64_t evictions = allowed == problem.evictions.end() ? 0 : allowed->second;
    if (count > evictions)
      return fmt::format("PodDisruptionBudget {} allows {} evictions, and {} nodes with its pods would be removed",
                         name, evictions, count);
  }
  return {};
}

Money move_cost(const Problem& problem, const Node& node) {
  double hours = 0;
  for (const Pod& pod : node.pods) {
    if (pod.stays) continue;
    const double share = share_of(problem.kinds[pod.kind].rules.rules.requests, node.view.allocatable);
    hours += share * seconds(pod.lost + problem.rules.restart) / 3600;
  }
  return Money::nano(static_cast<std::int64_t>(static_cast<double>(node.per_hour.nano()) * hours));
}

Money price_of(const Problem& problem, const Launch& launch) {
  return Money::nano(nano(offering_of(problem, launch).price));
}

std::string launch_refusal(const Problem& problem, const Plan& plan) {
  if (plan.launches.empty()) return {};
  for (const std::size_t index : plan.removed) {
    const Node& old = problem.nodes[index];
    if (old.fresh)
      return fmt::format("a consolidation has launched node {}, and it is not replaced again", old.view.name);
    for (const Launch& launch : plan.launches) {
      const Pool& pool = problem.pools[launch.pool];
      const auto& offering = offering_of(problem, launch);
      if (pool.name == old.pool && pool.types[launch.type].name == old.type && offering.zone == old.zone &&
          (offering.capacity_type == kSpot) == old.spot)
        return fmt::format("node {} would be replaced by one of its own kind", old.view.name);
    }
  }
  std::map<std::size_t, kube_rules::Amounts> used;
  for (const Launch& launch : plan.launches) {
    auto& sum = used[launch.pool];
    for (const auto& [resource, amount] : problem.pools[launch.pool].uses[launch.type]) sum[resource] += amount;
    ++sum["nodes"];
  }
  for (const auto& [pool, sum] : used) {
    for (const auto& [resource, amount] : sum) {
      const auto left = problem.pools[pool].left.find(resource);
      if (left != problem.pools[pool].left.end() && amount > left->second)
        return fmt::format("NodePool {} has {} of {} left, and the replacements use {}", problem.pools[pool].name,
                           left->second, resource, amount);
    }
  }
  for (const Launch& launch : plan.launches) {
    if (auto why = spot_refusal(problem, plan, launch); !why.empty()) return why;
  }
  return {};
}

void value(const Problem& problem, Plan& plan) {
  plan.before = plan.after = plan.cost = Money();
  for (const std::size_t node : plan.removed) {
    plan.before += problem.nodes[node].per_hour;
    plan.cost += move_cost(problem, problem.nodes[node]);
  }
  for (const Launch& launch : plan.launches) plan.after += price_of(problem, launch);
  const double hours = seconds(problem.rules.horizon) / 3600;
  const Money saved =
      Money::nano(static_cast<std::int64_t>(static_cast<double>((plan.before - plan.after).nano()) * hours));
  plan.value = saved - plan.cost;
}

std::string unpaid(const Problem& problem, const Plan& plan) {
  if (plan.after >= plan.before)
    return fmt::format("the replacements cost {} USD/h, and the nodes {}", plan.after.to_usd(4), plan.before.to_usd(4));
  const double share = static_cast<double>((plan.before - plan.after).nano()) / static_cast<double>(plan.before.nano());
  if (!plan.launches.empty() && share < problem.rules.least_share)
    return fmt::format("replacements save {:.1f} %, and at least {:.1f} % are required", 100 * share,
                       100 * problem.rules.least_share);
  if (plan.value <= Money())
    return fmt::format("it saves {} USD/h, and lost work and restarts cost {} USD",
                       (plan.before - plan.after).to_usd(4), plan.cost.to_usd(4));
  return {};
}

}  // namespace qm::autoscaler::consolidate
