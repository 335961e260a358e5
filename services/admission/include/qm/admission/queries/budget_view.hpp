#pragma once
#include "qm/admission/budgets.hpp"

#include <optional>

namespace qm::admission {

/// State of a budget at an instant, in its own unit.
struct BudgetView {
  std::optional<forecast::Budget::Period> period;  ///< the current one; empty if none is granted
  std::optional<Instant> next;                     ///< start of the next granted period
  std::int64_t granted = 0;                        ///< in the current period, with amounts carried from earlier periods
  std::int64_t spent = 0;                          ///< in the current period
  std::int64_t held = 0;                           ///< in all periods
  std::int64_t free = 0, owed = 0;
  std::int64_t projected = 0;  ///< spending of the whole period at the rate so far; owed amounts count as spent
};
[[nodiscard]] BudgetView view_of(const BudgetRow& row, Instant now);

}  // namespace qm::admission
