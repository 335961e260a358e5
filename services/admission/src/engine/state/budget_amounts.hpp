#pragma once
#include "qm/admission/tables.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

/// What workloads cost and what budgets have free. Nothing here changes a row.
///
/// Units    those of the budget: nano-dollars, or thousandths of a GPU-second.
namespace qm::admission {

struct EngineState;

[[nodiscard]] bool pays_for(const BudgetTerms& terms, const Workload& w);
/// The declared run time, or the rest of the maximum execution time, or else the default of the budget.
[[nodiscard]] Duration expected_run(const BudgetTerms& terms, const Workload& w);
/// The cost of a run: with the assigned flavors, or else with the most expensive flavors that its queue offers.
[[nodiscard]] std::int64_t cost_of(const Tables& tables, const BudgetTerms& terms, const Workload& w,
                                   const Flavors& flavors, const Counts& counts, Duration run);
/// The amounts that a pending workload has to hold, by budget, of the budgets that block admission.
[[nodiscard]] std::map<std::string, std::int64_t> budget_requests_of(const Tables& tables, const Workload& w);
/// The cost of the added pods of a scale-up, by budget. `hard_alone`: only budgets that block admission.
[[nodiscard]] std::map<std::string, std::int64_t> scale_up_costs(const Tables& tables, const Workload& w,
                                                                 bool hard_alone);
[[nodiscard]] std::int64_t free_of(const BudgetRow& row, Instant now);
/// The first budget that cannot pay; empty if all can.
[[nodiscard]] std::string lacking(const EngineState& state, const std::map<std::string, std::int64_t>& asks);
/// The next instant at which blocked workloads may be paid for without an event: the start of the next period.
[[nodiscard]] std::optional<Instant> next_period(const EngineState& state, const std::string& budget);

}  // namespace qm::admission
