// The summary of a NodePool. The highest cost within one limit is an unbounded knapsack: of the sets of whole nodes that
// the limit allows, the one with the highest price.
#include "qm/autoscaler/node_pools/summary.hpp"

#include "qm/autoscaler/columns/type_facts.hpp"
#include "qm/catalog/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace qm::autoscaler {
namespace {

constexpr std::int64_t kMostExactUnits = 10'000;
__extension__ typedef __int128 Wide;

/// One node of an instance type within a limit.
struct Item {
  std::string_view instance_type;
  std::int64_t units = 0;  ///< of the limited resource
  std::int64_t price_nano = 0;
};

std::vector<Item> items_of(const std::vector<std::string>& types, const std::string& resource) {
  std::vector<Item> out;
  for (const auto& name : types) {
    const catalog::Type* type = catalog::find(name);
    const auto price = type == nullptr ? Result<Money>(Money()) : Money::parse_usd(type->usd_hour);
    if (type == nullptr || !price) continue;
    const auto amounts = node_amounts(*type).capacity;
    const auto found = amounts.find(resource);
    const std::int64_t units = resource == "nodes" ? 1 : found == amounts.end() ? 0 : found->second;
    out.push_back({type->name, units, price->nano()});
  }
  return out;
}

const Item& most_expensive_unit(const std::vector<Item>& items) {
  return *std::ranges::max_element(
      items, [](const Item& a, const Item& b) { return Wide{a.price_nano} * b.units < Wide{b.price_nano} * a.units; });
}

std::int64_t highest_sum(std::vector<Item> items, std::int64_t limit) {
  std::int64_t step = 0;  // the amounts of nodes are multiples of it, such as a thousand milli-cores
  for (const Item& item : items) step = std::gcd(step, item.units);
  limit /= step;
  for (Item& item : items) item.units /= step;
  if (limit > kMostExactUnits) {
    const Item& item = most_expensive_unit(items);
    const Wide sum = (Wide{item.price_nano} * limit + item.units - 1) / item.units;
    return static_cast<std::int64_t>(std::min<Wide>(sum, INT64_MAX));
  }
  std::vector<std::int64_t> best(static_cast<std::size_t>(limit) + 1, 0);
  for (std::size_t units = 1; units < best.size(); ++units) {
    best[units] = best[units - 1];
    for (const Item& item : items) {
      const auto size = static_cast<std::size_t>(item.units);
      if (size <= units) best[units] = std::max(best[units], best[units - size] + item.price_nano);
    }
  }
  return best.back();
}

struct Limit {
  std::string resource, text;
  std::int64_t amount = 0;
};

std::vector<Limit> limits_of(const config::NodePool& pool) {
  std::vector<Limit> out;
  if (pool.replicas >= 0) out.push_back({"nodes", fmt::format("replicas {}", pool.replicas), pool.replicas});
  for (const auto& [resource, limit] : pool.limits) {
    const bool milli = resource == "cpu";
    out.push_back({resource, fmt::format("{} {}", resource, limit.to_string()), milli ? limit.milli() : limit.units()});
  }
  return out;
}

void fill_spend(const config::NodePool& pool, PoolSummary& out) {
  std::set<std::string> unlimited(out.instance_types.begin(), out.instance_types.end());
  for (const Limit& limit : limits_of(pool)) {
    const auto items = items_of(out.instance_types, limit.resource);
    for (const Item& item : items) {
      if (item.units > 0) unlimited.erase(std::string(item.instance_type));
    }
    const bool bounds = !items.empty() && std::ranges::none_of(items, [](const Item& item) { return item.units == 0; });
    if (!bounds) continue;
    const Money usd = Money::nano(highest_sum(items, std::max<std::int64_t>(limit.amount, 0)));
    if (!out.most || usd < out.most->usd)
      out.most = HourlySpend{usd, limit.text, std::string(most_expensive_unit(items).instance_type)};
  }
  if (!out.most) out.unlimited_types.assign(unlimited.begin(), unlimited.end());
}

}  // namespace

NodeTemplate node_template_of(const config::NodePool& pool) {
  NodeTemplate out{{}, pool.labels};
  for (const auto& r : pool.requirements)
    out.requirements.push_back(
        {r.key, *operator_of(r.op), r.values, r.min_values == 0 ? std::nullopt : std::optional(r.min_values)});
  return out;
}

PoolSummary summary_of(const config::NodePool& pool) {
  PoolSummary out;
  auto columns = columns_of(node_template_of(pool));
  if (!columns) {
    const Error& error = columns.error();
    out.problem = fmt::format("{}: {}; {}", error.field, error.message, error.remedy);
    return out;
  }
  out.instance_types = std::move(columns->instance_types);
  out.on_demand = columns->on_demand;
  out.spot = columns->spot;
  out.zones = std::move(columns->zones);
  std::set<std::string> gpus;
  for (const auto& type : out.instance_types) {
    if (const auto* hardware = catalog::hardware_of(type); hardware != nullptr && hardware->gpu.count > 0)
      gpus.emplace(hardware->gpu.name);
  }
  out.gpus.assign(gpus.begin(), gpus.end());
  fill_spend(pool, out);
  return out;
}

}  // namespace qm::autoscaler
