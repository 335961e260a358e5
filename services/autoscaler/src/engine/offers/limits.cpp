// Limits of NodePools and what instances use of them.
#include "offers/offer.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

std::int64_t amount_of(const std::map<std::string, std::int64_t>& amounts, const std::string& resource) {
  const auto at = amounts.find(resource);
  return at == amounts.end() ? 0 : at->second;
}

/// The limit of the resource in the pool, what is used and what would be used then, as text of spec.limits.
struct LimitFigures {
  std::int64_t limit = 0, used = 0, with = 0;
  double unit = 1;
  std::string_view suffix = {};
};

LimitFigures figures_of(const Pool& pool, const std::string& resource, const Usage& in_use, const Usage& with) {
  constexpr double kMilli = 1000, kGibi = 1 << 30;
  if (resource == words::kGpuResource) return {pool.limit_gpus, in_use.gpus, with.gpus};
  if (resource == "cpu") return {pool.limit_cpu_milli, in_use.cpu_milli, with.cpu_milli, kMilli};
  if (resource == "memory") return {pool.limit_memory_bytes, in_use.memory_bytes, with.memory_bytes, kGibi, "Gi"};
  if (resource == "nodes") return {pool.limit_nodes, in_use.instances, with.instances};
  return {amount_of(pool.other_limits, resource), amount_of(in_use.other, resource), amount_of(with.other, resource)};
}

}  // namespace

void Usage::add(const InstanceType& type, std::int64_t nodes) {
  instances += nodes;
  gpus += nodes * type.gpus;
  cpu_milli += nodes * (type.cpu_milli + type.reserved_cpu_milli);
  memory_bytes += nodes * (type.memory_bytes + type.reserved_memory_bytes);
  other["pods"] += nodes * type.pods;
  for (const auto& [resource, amount] : type.extended) other[resource] += nodes * amount;
}

std::string Usage::beyond(const Pool& pool) const {
  if (pool.limit_gpus >= 0 && gpus > pool.limit_gpus) return std::string(words::kGpuResource);
  if (pool.limit_cpu_milli >= 0 && cpu_milli > pool.limit_cpu_milli) return "cpu";
  if (pool.limit_memory_bytes >= 0 && memory_bytes > pool.limit_memory_bytes) return "memory";
  if (pool.limit_nodes >= 0 && instances > pool.limit_nodes) return "nodes";
  for (const auto& [resource, limit] : pool.other_limits) {
    if (amount_of(other, resource) > limit) return resource;
  }
  return {};
}

bool Usage::within(const Usage& most, const Pool& pool) const {
  if (pool.limit_gpus >= 0 && gpus > most.gpus) return false;
  if (pool.limit_cpu_milli >= 0 && cpu_milli > most.cpu_milli) return false;
  if (pool.limit_memory_bytes >= 0 && memory_bytes > most.memory_bytes) return false;
  return std::ranges::all_of(pool.other_limits, [&](const auto& limit) {
    return amount_of(other, limit.first) <= amount_of(most.other, limit.first);
  });
}

std::string Usage::limit_text(const Pool& pool, const Usage& in_use) const {
  const std::string resource = beyond(pool);
  const LimitFigures figures = figures_of(pool, resource, in_use, *this);
  const auto shown = [&](std::int64_t amount) {
    return fmt::format("{:g}{}", static_cast<double>(amount) / figures.unit, figures.suffix);
  };
  return fmt::format("NodePool {} has the limit {} {}: {} in use, {} more needed", pool.name, resource,
                     shown(figures.limit), shown(figures.used), shown(figures.with - figures.used));
}

}  // namespace qm::autoscaler
