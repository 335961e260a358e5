#pragma once
#include "qm/admission/forecast/budgets.hpp"
#include "qm/model/ids.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

/// Budgets as admission stores them: what each budget pays for, its balance, and its holds.
namespace qm::admission {

/// Price at which one GPU-hour is held; an empty field matches any instance.
struct HoldPrice {
  std::string instance_type, gpu_product;
  std::int64_t nano_usd_gpu_hour = 0;
  friend bool operator==(const HoldPrice&, const HoldPrice&) = default;
};
/// What a budget pays for (one of the three is set), its unit, and how much is held.
struct BudgetTerms {
  QueueName cluster_queue;
  Namespace ns;
  Team team;
  bool dollars = false;                          ///< unit is nano-dollars; otherwise thousandths of a GPU-second
  bool soft = false;                             ///< counted, but does not block admission
  Duration default_run = std::chrono::hours(1);  ///< for workloads that declare no run time
  std::vector<HoldPrice> prices;
  friend bool operator==(const BudgetTerms&, const BudgetTerms&) = default;
};
struct BudgetRow {
  BudgetTerms terms;
  std::uint64_t sequence = 0;  ///< of the newest grant
  forecast::Budget account;
  friend bool operator==(const BudgetRow&, const BudgetRow&) = default;
};
/// What an attempt holds of a budget, from reserved quota until cost has settled the attempt.
struct HoldKey {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  std::string budget;
  friend auto operator<=>(const HoldKey&, const HoldKey&) = default;
};
using Hold = forecast::Budget::Hold;

/// A budget as cost publishes it, complete.
struct BudgetGranted {
  std::string budget;
  std::uint64_t sequence = 0;  ///< version of the key of the budget: a grant that is not newer is dropped
  BudgetTerms terms;
  struct Allotment {
    forecast::Budget::Period period;
    std::int64_t amount = 0;
    std::int32_t carry_over_permille = 0;
  };
  std::vector<Allotment> allotments;
  bool withdrawn = false;
};
/// The cost of an attempt so far.
struct SpendingUpdated {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  std::int64_t nano_usd = 0, gpu_micros = 0;
  bool final = false;
  bool forgotten = false;  ///< cost no longer knows the attempt: the recorded spending does not change
};

/// "2.5 GPU-hours" or "12.34 USD"; rounded down to thousandths, and to cents.
[[nodiscard]] std::string show_budget(bool dollars, std::int64_t amount);

}  // namespace qm::admission
