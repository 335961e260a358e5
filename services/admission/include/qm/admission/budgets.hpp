#pragma once
#include "qm/admission/forecast/budgets.hpp"
#include "qm/model/ids.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

/// Budgets as admission keeps them: whom each one pays for, what is left of it, and what is held for whom.
namespace qm::admission {

/// What an hour of one GPU is held at; an empty field fits any machine.
struct HoldPrice {
  std::string instance_type, gpu_product;
  std::int64_t nano_usd_gpu_hour = 0;
  friend bool operator==(const HoldPrice&, const HoldPrice&) = default;
};
/// Whom a budget pays for (one of the three is set), in what, and how much is held.
struct BudgetTerms {
  QueueName cluster_queue;
  Namespace ns;
  Team team;
  bool dollars = false;                          ///< nano-dollars; else thousandths of a GPU-second
  bool soft = false;                             ///< it is counted, and holds nobody up
  Duration default_run = std::chrono::hours(1);  ///< of whoever does not say how long it runs
  std::vector<HoldPrice> prices;
  friend bool operator==(const BudgetTerms&, const BudgetTerms&) = default;
};
struct BudgetRow {
  BudgetTerms terms;
  std::uint64_t sequence = 0;  ///< of the newest grant
  forecast::Budget account;
  friend bool operator==(const BudgetRow&, const BudgetRow&) = default;
};
/// What an attempt holds of a budget, from when it gets quota until cost has settled it.
struct HoldKey {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  std::string budget;
  friend auto operator<=>(const HoldKey&, const HoldKey&) = default;
};
using Hold = forecast::Budget::Hold;

/// Cost's word of a budget: all of it.
struct BudgetGranted {
  std::string budget;
  std::uint64_t sequence = 0;  ///< version of the budget's key: a grant that is not newer is dropped
  BudgetTerms terms;
  struct Allotment {
    forecast::Budget::Period period;
    std::int64_t amount = 0;
    std::int32_t carry_permille = 0;
  };
  std::vector<Allotment> allotments;
  bool withdrawn = false;
};
/// What an attempt cost so far.
struct SpentHeard {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  std::int64_t nano_usd = 0, gpu_micros = 0;
  bool final = false;
  bool forgotten = false;  ///< cost does not know the attempt any more: what was spent stays as it is
};

/// "2.5 GPU-hours" or "12.34 USD"; rounded down to thousandths, and to cents.
[[nodiscard]] std::string show_budget(bool dollars, std::int64_t amount);

}  // namespace qm::admission
