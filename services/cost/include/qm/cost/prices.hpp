#pragma once
#include "qm/base/time.hpp"
#include "qm/model/money.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::cost {

/// The hourly price of capacity for providers without a price list: a named, dated list, never constants in code.
///
/// An empty field matches anything. The most specific entry has precedence: instance type before capacity type before
/// zone; between equals the smaller entry, so that the order of a file does not matter.
struct PriceEntry {
  std::string instance_type, capacity_type, zone;
  HourlyRate rate;
  friend auto operator<=>(const PriceEntry&, const PriceEntry&) = default;
};
struct PricePlan {
  std::string name;  ///< with its date: "aws-us-east-1-2026-07-20"
  std::vector<PriceEntry> entries;
  friend bool operator==(const PricePlan&, const PricePlan&) = default;
};

inline constexpr std::string_view kOnDemand = "on-demand";
inline constexpr std::string_view kSpot = "spot";

/// The entry for this capacity, or null.
[[nodiscard]] const PriceEntry* best_entry(const PricePlan& plan, std::string_view instance_type,
                                           std::string_view capacity_type, std::string_view zone);
/// As best_entry, but spot capacity without an entry is charged like on-demand until a spot price is known.
[[nodiscard]] std::optional<HourlyRate> planned_rate(const PricePlan& plan, std::string_view instance_type,
                                                     std::string_view capacity_type, std::string_view zone);

/// AWS on-demand prices of GPU, accelerator and common CPU instance types, Linux, us-east-1, as published on
/// 2026-07-20. A site with other prices has its own PricePlan, which replaces this one from the moment it is applied.
[[nodiscard]] const PricePlan& builtin_prices();

/// The number of compute slices of a GPU of this instance type under MIG; seven if the type or its GPU is not known.
[[nodiscard]] std::int32_t compute_slices_of(std::string_view instance_type);

}  // namespace qm::cost
