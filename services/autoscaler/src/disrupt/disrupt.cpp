// One pass over the causes in their order. A node has one disruption at most: the first cause that applies to it.
//
//   for each cause:  candidates = nodes with the cause that are not disrupted and not started in this pass
//     forceful  -> start all
//     voluntary -> held by an annotation or a pod?  by the budget of the pool for the reason?  else start
#include "qm/autoscaler/disrupt/disrupt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace qm::autoscaler {
namespace {

constexpr std::int64_t kUnhealthyPercent = 20;  // of a pool; above it nothing is repaired

DisruptionReason reason_of(DisruptionCause cause) {
  return cause == DisruptionCause::kEmpty ? DisruptionReason::kEmpty : DisruptionReason::kDrifted;
}

std::optional<Instant> expires_at(const DisruptionNode& node) {
  return node.expire_after ? std::optional(node.created + *node.expire_after) : std::nullopt;
}

/// When the cause applies to the node; none = it does not.
std::optional<Instant> due_at(const DisruptionNode& node, const DisruptionPool& pool, DisruptionCause cause) {
  switch (cause) {
    case DisruptionCause::kExpired:
      return expires_at(node);
    case DisruptionCause::kUnhealthy:
      return node.unhealthy.empty() ? std::nullopt : std::optional(node.repair_at);
    case DisruptionCause::kEmpty:
      if (pool.is_static || !pool.consolidate_after || !node.empty_since || node.pods > 0 || node.reserved)
        return std::nullopt;
      return *node.empty_since + *pool.consolidate_after;
    case DisruptionCause::kStaticDrift:
      return node.drift.empty() || !pool.is_static ? std::nullopt : std::optional(node.drifted_since);
    case DisruptionCause::kDrifted:
      return node.drift.empty() || pool.is_static ? std::nullopt : std::optional(node.drifted_since);
  }
  return std::nullopt;
}

bool replaced_first(const DisruptionNode& node, DisruptionCause cause) {
  switch (cause) {
    case DisruptionCause::kExpired:
      return node.serves && node.pods > 0;
    case DisruptionCause::kStaticDrift:
      return true;
    case DisruptionCause::kDrifted:
      return node.pods > 0;
    default:
      return false;
  }
}

/// Why the node may not be disrupted voluntarily, without budgets.
std::optional<Hold> hold_on(const DisruptionNode& node, const DisruptionPool& pool, DisruptionCause cause,
                            Instant now) {
  if (node.do_not_disrupt)
    return Hold{fmt::format("the node has the annotation {}: true", kDoNotDisrupt), std::nullopt};
  if (cause != DisruptionCause::kEmpty) {
    if (pool.drift_after && *pool.drift_after > now)
      return Hold{"a replacement failed, and the NodePool backs off", pool.drift_after};
    if (pool.bounded) return std::nullopt;
  }
  return hold_of(node.holding, now);
}

struct PoolCounts {
  const DisruptionPool* pool = nullptr;
  std::int64_t nodes = 0, disrupted = 0, unhealthy = 0;

  [[nodiscard]] std::int64_t most_unhealthy() const { return (nodes * kUnhealthyPercent + 99) / 100; }
  [[nodiscard]] bool scheduled() const {
    return std::ranges::any_of(pool->budgets, [](const Budget& budget) { return !budget.schedule.empty(); });
  }
};

std::map<std::string, PoolCounts> count_pools(const DisruptionProblem& problem) {
  std::map<std::string, PoolCounts> out;
  for (const auto& pool : problem.pools) out[pool.name].pool = &pool;
  for (const auto& node : problem.nodes) {
    const auto at = out.find(node.pool);
    if (at == out.end()) continue;
    ++at->second.nodes;
    at->second.disrupted += node.disrupted || !node.ready ? 1 : 0;
    at->second.unhealthy += node.unhealthy.empty() ? 0 : 1;
  }
  return out;
}

class Pass {
 public:
  Pass(const DisruptionProblem& problem, const NextHit& next)
      : problem_(problem),
        next_(next),
        pools_(count_pools(problem)),
        started_(problem.nodes.size(), false),
        wakes_(problem.nodes.size()) {}

  DisruptionDecision run() {
    for (const auto cause : {DisruptionCause::kExpired, DisruptionCause::kUnhealthy, DisruptionCause::kEmpty,
                             DisruptionCause::kStaticDrift, DisruptionCause::kDrifted}) {
      for (const std::size_t node : candidates(cause)) consider(node, cause);
    }
    for (std::size_t i = 0; i < started_.size(); ++i) {
      if (!started_[i] && wakes_[i] && (!out_.wake_at || *wakes_[i] < *out_.wake_at)) out_.wake_at = wakes_[i];
    }
    return std::move(out_);
  }

 private:
  // Nodes with the cause: empty ones first, then those that have had it for the longest time.
  std::vector<std::size_t> candidates(DisruptionCause cause) {
    std::vector<std::pair<std::pair<bool, Instant>, std::size_t>> due;
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      const DisruptionNode& node = problem_.nodes[i];
      const auto at = pools_.find(node.pool);
      if (at == pools_.end() || node.disrupted || node.nominated || started_[i]) continue;
      const auto since = due_at(node, *at->second.pool, cause);
      if (!since) continue;
      if (*since > problem_.now) {
        wake(i, *since);
      } else {
        due.push_back({{node.pods > 0, cause == DisruptionCause::kEmpty ? Instant{} : *since}, i});
      }
    }
    std::ranges::stable_sort(due, {}, &decltype(due)::value_type::first);
    std::vector<std::size_t> out;
    for (const auto& [order, node] : due) out.push_back(node);
    return out;
  }

  void consider(std::size_t index, DisruptionCause cause) {
    const DisruptionNode& node = problem_.nodes[index];
    PoolCounts& counts = pools_.at(node.pool);
    if (cause == DisruptionCause::kUnhealthy && counts.unhealthy > counts.most_unhealthy()) {
      return hold(index, cause,
                  fmt::format("{} of {} nodes of the NodePool are unhealthy, and none is repaired above {}",
                              counts.unhealthy, counts.nodes, counts.most_unhealthy()));
    }
    if (!is_forceful(cause)) {
      if (const auto held = hold_on(node, *counts.pool, cause, problem_.now)) {
        if (held->until) wake(index, *held->until);
        return hold(index, cause, held->why);
      }
      const Allowance& allowed = allowance(counts, cause);
      if (!allowed.malformed.empty()) return hold(index, cause, allowed.malformed);
      if (counts.disrupted >= allowed.nodes) {
        if (counts.scheduled())
          wake(index, std::chrono::ceil<std::chrono::minutes>(problem_.now + std::chrono::microseconds(1)));
        return hold(index, cause,
                    fmt::format("the budget of the NodePool allows {} of {} nodes for {}, and {} are disrupted",
                                allowed.nodes, counts.nodes, name_of(cause), counts.disrupted));
      }
    }
    started_[index] = true;
    // A node that is not ready is already counted.
    counts.disrupted += node.ready ? 1 : 0;
    out_.start.push_back({index, cause, replaced_first(node, cause)});
  }

  const Allowance& allowance(const PoolCounts& counts, DisruptionCause cause) {
    const auto [at, first] = allowances_.try_emplace({counts.pool, reason_of(cause)});
    if (first)
      at->second = allowed_disruptions(counts.pool->budgets, reason_of(cause), counts.nodes, problem_.now, next_);
    return at->second;
  }

  void hold(std::size_t node, DisruptionCause cause, std::string why) {
    out_.held.push_back({node, cause, std::move(why)});
  }
  // A node that starts in this pass needs no further look.
  void wake(std::size_t node, Instant at) {
    if (at > problem_.now && (!wakes_[node] || at < *wakes_[node])) wakes_[node] = at;
  }

  const DisruptionProblem& problem_;
  const NextHit& next_;
  std::map<std::string, PoolCounts> pools_;
  std::vector<bool> started_;
  std::vector<std::optional<Instant>> wakes_;
  std::map<std::pair<const DisruptionPool*, DisruptionReason>, Allowance> allowances_;
  DisruptionDecision out_;
};

}  // namespace

std::string_view name_of(DisruptionCause cause) {
  switch (cause) {
    case DisruptionCause::kExpired:
      return "Expired";
    case DisruptionCause::kUnhealthy:
      return "Unhealthy";
    case DisruptionCause::kEmpty:
      return "Empty";
    case DisruptionCause::kStaticDrift:
    case DisruptionCause::kDrifted:
      break;
  }
  return "Drifted";
}

DisruptionDecision decide_disruptions(const DisruptionProblem& problem, const NextHit& next) {
  return Pass(problem, next).run();
}

std::map<std::string, std::int64_t> disruptions_left(const DisruptionProblem& problem, DisruptionReason reason,
                                                     const NextHit& next) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, counts] : count_pools(problem)) {
    const auto allowed = allowed_disruptions(counts.pool->budgets, reason, counts.nodes, problem.now, next);
    out[name] = std::max<std::int64_t>(allowed.nodes - counts.disrupted, 0);
  }
  return out;
}

std::string broken_rule(const DisruptionProblem& problem, const DisruptionDecision& decision, const NextHit& next) {
  std::map<std::string, PoolCounts> pools = count_pools(problem);
  std::vector<bool> seen(problem.nodes.size(), false);
  std::map<std::pair<std::string, DisruptionReason>, std::int64_t> voluntary;
  for (const Disruption& one : decision.start) {
    if (one.node >= problem.nodes.size()) return fmt::format("node {} does not exist", one.node);
    const DisruptionNode& node = problem.nodes[one.node];
    if (seen[one.node]) return fmt::format("node {} is disrupted twice", node.name);
    seen[one.node] = true;
    const auto at = pools.find(node.pool);
    if (at == pools.end()) return fmt::format("node {} has no NodePool", node.name);
    const PoolCounts& counts = at->second;
    const auto due = due_at(node, *counts.pool, one.cause);
    if (!due || *due > problem.now) return fmt::format("node {} is not {}", node.name, name_of(one.cause));
    if (node.disrupted) return fmt::format("node {} is disrupted already", node.name);
    if (node.nominated) return fmt::format("node {} is promised to a pending gang", node.name);
    if (one.cause == DisruptionCause::kUnhealthy && counts.unhealthy > counts.most_unhealthy())
      return fmt::format("node {} is repaired, and too much of its NodePool is unhealthy", node.name);
    if (is_forceful(one.cause)) continue;
    if (const auto held = hold_on(node, *counts.pool, one.cause, problem.now))
      return fmt::format("node {} is held: {}", node.name, held->why);
    voluntary[{node.pool, reason_of(one.cause)}] += node.ready ? 1 : 0;
  }
  for (const auto& [key, started] : voluntary) {
    const PoolCounts& counts = pools.at(key.first);
    const auto allowed = allowed_disruptions(counts.pool->budgets, key.second, counts.nodes, problem.now, next);
    if (started > 0 && counts.disrupted + started > allowed.nodes)
      return fmt::format("NodePool {} has {} disrupted nodes, and its budget allows {}", key.first,
                         counts.disrupted + started, allowed.nodes);
  }
  return {};
}

}  // namespace qm::autoscaler
