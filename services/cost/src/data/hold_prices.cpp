#include "qm/catalog/catalog.hpp"
#include "qm/cost/engine.hpp"

#include <algorithm>

namespace qm::cost {

std::vector<HoldPrice> hold_prices(const PricePlan& plan) {
  std::map<std::string, std::int64_t> most_expensive;
  for (const auto& entry : plan.entries) {
    const auto* type = catalog::find(entry.instance_type);
    if (type == nullptr || type->gpus <= 0) continue;
    const std::int64_t each = (entry.rate.per_hour.nano() + type->gpus - 1) / type->gpus;
    auto& price = most_expensive[entry.instance_type];
    price = std::max(price, each);
  }
  std::vector<HoldPrice> out;
  for (const auto& [type, price] : most_expensive) {
    out.push_back({type, std::string(catalog::find(type)->gpu_product), price});
  }
  return out;
}

}  // namespace qm::cost
