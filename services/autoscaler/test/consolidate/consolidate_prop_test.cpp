// Random clusters. The laws: a plan holds by its verification; no held node is removed and no pod is lost; budgets and
// limits are kept; the price falls; equal problems give equal plans.
#include "test/consolidate/problems.hpp"
#include "test/pack/problems.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace qm::autoscaler::consolidate::testing {
namespace consolidate_prop_test {

using pack::testing::Random;

ClusterOf random_cluster(Random& random) {
  ClusterOf out;
  for (const char* name : {"p", "q"}) {
    Pool& pool = out.pool(name, random.below(5));
    if (random.below(3) == 0) pool.left["cpu"] = 4000 * random.below(8);
    if (random.below(3) == 0) pool.left["nodes"] = random.below(4);
    const auto types = 1 + random.below(6);
    for (std::int64_t i = 0; i < types; ++i) {
      const std::int64_t cores = std::int64_t{2} << random.below(4), gpus = random.below(3) == 0 ? cores / 2 : 0;
      const double price = static_cast<double>(cores) * (0.05 + 0.01 * static_cast<double>(random.below(10))) +
                           static_cast<double>(gpus);
      out.type(fmt::format("{}-{}", name, i), cores, price, gpus, random.below(2) == 0 ? "spot" : "on-demand",
               random.below(2) == 0 ? std::nullopt : std::optional(0.01 * static_cast<double>(random.below(4))));
    }
  }
  const auto kinds = 1 + random.below(4);
  for (std::int64_t i = 0; i < kinds; ++i) {
    const auto kind = out.kind(250 + 250 * random.below(12), random.below(4) == 0 ? 1 : 0, fmt::format("app-{}", i));
    if (random.below(4) == 0) {
      kube_rules::PodTerm apart;
      apart.topology_key = random.below(2) == 0 ? kZone : "kubernetes.io/hostname";
      apart.pods = LabelSelector{{{"app", LabelRequirement::Op::kIn, {fmt::format("app-{}", random.below(kinds))}}}};
      out.problem.kinds[kind].rules.rules.anti_affinity = {apart};
    }
    if (random.below(5) == 0) out.problem.kinds[kind].on_new_node.reset();
  }
  const auto nodes = 2 + random.below(8);
  for (std::int64_t i = 0; i < nodes; ++i) {
    const std::int64_t cores = std::int64_t{4} << random.below(3), gpus = random.below(2) == 0 ? 4 : 0;
    const auto node =
        out.node(fmt::format("n{}", i), random.below(2) == 0 ? "p" : "q", cores,
                 static_cast<double>(cores) * (random.below(2) == 0 ? 0.1 : 0.4) + static_cast<double>(gpus), gpus,
                 random.below(2) == 0 ? "a" : "b");
    Node& one = out.problem.nodes[node];
    one.spot = random.below(2) == 0;
    if (random.below(2) == 0) one.hazard = 0.02;
    if (random.below(4) == 0) one.held = "held";
    one.accepts = random.below(2) > 0;
    one.fresh = random.below(6) == 0;
    std::int64_t left = cores * 1000, gpus_left = gpus;
    for (auto pods = random.below(5); pods > 0; --pods) {
      const auto kind = static_cast<std::size_t>(random.below(kinds));
      const auto& requests = out.problem.kinds[kind].rules.rules.requests;
      const std::int64_t needs = requests.contains("nvidia.com/gpu") ? 1 : 0;
      if (requests.at("cpu") > left || needs > gpus_left) continue;
      left -= requests.at("cpu"), gpus_left -= needs;
      Pod& pod = out.pod(node, kind);
      pod.lost = std::chrono::minutes(random.below(40));
      pod.stays = random.below(8) == 0;
      if (random.below(4) == 0) pod.budget = "default/guard";
    }
  }
  out.problem.evictions["default/guard"] = random.below(3);
  return out;
}

RC_GTEST_PROP(ConsolidateProp, PlansKeepEveryRule, (std::uint64_t seed)) {
  Random random(seed % 1'000'000);
  const auto cluster = random_cluster(random);
  const Problem& problem = cluster.problem;
  const auto out = plan(problem);
  RC_CLASSIFY(out.has_value(), "has a plan");
  if (!out) return;
  RC_CLASSIFY(!out->launches.empty(), "has launches");
  const Status holds = still_holds(problem, *out);
  if (!holds) RC_LOG(holds.error().to_string());
  RC_ASSERT(holds.has_value());
  std::map<std::string, std::int64_t> removed;
  std::set<std::string> to_move, placed;
  Money before, after;
  std::int64_t guarded = 0;
  for (const std::size_t i : out->removed) {
    const Node& node = problem.nodes[i];
    RC_ASSERT(node.held.empty());
    RC_ASSERT(!node.fresh || out->launches.empty());
    ++removed[node.pool];
    before += node.per_hour;
    bool guard = false;
    for (const Pod& pod : node.pods) {
      if (pod.stays) continue;
      to_move.insert(pod.name);
      guard |= !pod.budget.empty();
    }
    guarded += guard ? 1 : 0;
  }
  RC_ASSERT(guarded <= problem.evictions.at("default/guard"));
  for (const Move& move : out->moves) {
    RC_ASSERT(placed.insert(move.pod).second);
    RC_ASSERT(problem.nodes[move.to].accepts);
    RC_ASSERT(!std::ranges::binary_search(out->removed, move.to));
  }
  std::map<std::size_t, kube_rules::Amounts> uses;
  for (const Launch& launch : out->launches) {
    const Pool& pool = problem.pools[launch.pool];
    for (const auto& [pod, kind] : launch.pods) RC_ASSERT(placed.insert(pod).second);
    after += usd(pool.types[launch.type].offerings[launch.offering].price);
    uses[launch.pool]["cpu"] += pool.types[launch.type].cpu_milli;
    ++uses[launch.pool]["nodes"];
  }
  RC_ASSERT(placed == to_move);
  RC_ASSERT(after < before);
  for (const Pool& pool : problem.pools) RC_ASSERT(removed[pool.name] <= pool.disruptions);
  for (const auto& [pool, sums] : uses) {
    for (const auto& [resource, left] : problem.pools[pool].left) RC_ASSERT(sums.at(resource) <= left);
  }
  const auto again = plan(problem);
  RC_ASSERT(again && again->removed == out->removed && again->moves == out->moves && again->value == out->value);
}

// Every mutilated plan is refused.
RC_GTEST_PROP(ConsolidateProp, AMutilatedPlanDoesNotHold, (std::uint64_t seed)) {
  Random random(seed % 1'000'000);
  const auto cluster = random_cluster(random);
  const auto out = plan(cluster.problem);
  if (!out) return;
  auto wrong = *out;
  const auto kind = random.below(3);
  if (kind == 0) wrong.removed.push_back(wrong.removed.back());
  if (kind == 1) wrong.value += Money::nano(1);
  if (kind == 2 && !wrong.moves.empty()) wrong.moves.pop_back();
  if (kind == 2 && out->moves.empty()) wrong.launches.pop_back();
  RC_ASSERT(!still_holds(cluster.problem, wrong).has_value());
}

}  // namespace consolidate_prop_test
}  // namespace qm::autoscaler::consolidate::testing
