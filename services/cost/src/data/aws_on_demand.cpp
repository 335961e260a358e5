#include "qm/base/assert.hpp"
#include "qm/catalog/catalog.hpp"
#include "qm/cost/prices.hpp"

namespace qm::cost {

const PricePlan& builtin_prices() {
  static const PricePlan plan = [] {
    PricePlan made{"aws-us-east-1-2026-07-20", {}};
    for (const auto& type : catalog::types()) {
      if (type.usd_hour.empty()) continue;
      const auto price = Money::parse_usd(type.usd_hour);
      QM_ASSERT(price.has_value(), "built-in price of {}: {}", type.name, type.usd_hour);
      made.entries.push_back({std::string(type.name), std::string(kOnDemand), "", HourlyRate{*price}});
    }
    return made;
  }();
  return plan;
}

}  // namespace qm::cost
