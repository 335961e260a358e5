#pragma once
#include "qm/admission/budgets.hpp"

#include <optional>

namespace qm::admission {

/// How a budget stands at an instant, in its own unit.
struct BudgetView {
  std::optional<forecast::Budget::Period> period;  ///< the present one; nothing where none is granted
  std::optional<Instant> next;                     ///< when the next one begins, as far as it is granted
  std::int64_t granted = 0;                        ///< of the present period, with what came from earlier ones
  std::int64_t spent = 0;                          ///< of it
  std::int64_t held = 0;                           ///< of all periods
  std::int64_t free = 0, owed = 0;
  std::int64_t projected = 0;  ///< what the period comes to if it goes on as it began; what is owed counts as spent
};
[[nodiscard]] BudgetView view_of(const BudgetRow& row, Instant now);

}  // namespace qm::admission
