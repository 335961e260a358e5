#pragma once
#include "qm/autoscaler/consolidate/plan.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace qm::autoscaler::consolidate {

/// Why the nodes may not be removed together, by holds and budgets alone; empty = they may.
[[nodiscard]] std::string refusal_of(const Problem& problem, std::span<const std::size_t> nodes);
/// What the moves of the pods of the node cost: repeated work and restarts, at the node's price for their share of it.
[[nodiscard]] Money move_cost(const Problem& problem, const Node& node);
[[nodiscard]] Money price_of(const Problem& problem, const Launch& launch);
/// Why the launches are not allowed in place of the removed nodes; empty = they are.
[[nodiscard]] std::string launch_refusal(const Problem& problem, const Plan& plan);
/// Sets the prices, the cost and the value of the plan.
void value(const Problem& problem, Plan& plan);
/// Why the plan, with its value, does not pay; empty = it does.
[[nodiscard]] std::string unpaid(const Problem& problem, const Plan& plan);

}  // namespace qm::autoscaler::consolidate
