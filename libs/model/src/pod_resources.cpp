#include "qm/model/pod_resources.hpp"

#include <algorithm>
#include <string_view>

namespace qm {
namespace {

using PodAmounts = PodResources::Amounts;

constexpr std::string_view kHugePages = "hugepages-";
/// More than any host has, and small enough for sums.
constexpr std::int64_t kMostUnits = std::int64_t{1} << 62;
/// Up to here an amount in milli-units fits into 64 bits; larger amounts are not rounded to milli-units.
constexpr std::int64_t kMostUnitsInMilli = std::int64_t{1} << 52;

/// The resources that spec.resources of a pod may have.
bool is_pod_level(std::string_view name) { return name == "cpu" || name == "memory" || name.starts_with(kHugePages); }

void store_amounts(PodAmounts& amounts) {
  for (auto& [name, amount] : amounts) {
    if (amount <= Quantity::of(kMostUnitsInMilli)) amount = Quantity::of_milli(amount.milli(), amount.format());
    amount = std::clamp(amount, Quantity(), Quantity::of(kMostUnits));
  }
}

void add_amounts(PodAmounts& sum, const PodAmounts& more) {
  const auto most = Quantity::of(kMostUnits);
  for (const auto& [name, amount] : more) sum[name] = std::min(sum[name] + amount, most);
}

void raise_amounts(PodAmounts& most, const PodAmounts& other) {
  for (const auto& [name, amount] : other) {
    const auto [it, fresh] = most.emplace(name, amount);
    if (!fresh) it->second = std::max(it->second, amount);
  }
}

PodAmounts of_containers(const PodResources& pod, PodAmounts PodResources::Container::*side) {
  PodAmounts running, sidecars, peak;
  for (const auto& container : pod.containers) add_amounts(running, container.*side);
  for (const auto& container : pod.init_containers) {
    auto now = sidecars;
    add_amounts(now, container.*side);
    raise_amounts(peak, now);
    if (!container.sidecar) continue;
    sidecars = std::move(now);
    add_amounts(running, container.*side);
  }
  raise_amounts(running, peak);
  return running;
}

void replace_at_pod_level(PodAmounts& sum, const PodAmounts& of_pod) {
  for (const auto& [name, amount] : of_pod) {
    if (is_pod_level(name)) sum[name] = amount;
  }
}

std::vector<PodResources::Container> read_containers(const Json& list) {
  std::vector<PodResources::Container> out;
  for (const auto& container : list.items()) {
    const Json& resources = container["resources"];
    out.push_back({PodResources::amounts(resources["requests"]), PodResources::amounts(resources["limits"]),
                   container["restartPolicy"].string() == "Always"});
  }
  return out;
}

}  // namespace

PodAmounts PodResources::amounts(const Json& resource_list) {
  Amounts out;
  for (const auto& [name, value] : resource_list.members()) {
    const auto read = Quantity::parse(value.is_string() ? value.string() : value.dump());
    if (read) out.emplace(name, *read);
  }
  return out;
}

PodResources PodResources::read(const Json& pod_spec) {
  return {read_containers(pod_spec["initContainers"]), read_containers(pod_spec["containers"]),
          amounts(pod_spec.path("resources.requests")), amounts(pod_spec.path("resources.limits")),
          amounts(pod_spec["overhead"])};
}

void PodResources::set_defaults() {
  for (auto* list : {&init_containers, &containers}) {
    for (auto& container : *list) {
      store_amounts(container.requests);
      store_amounts(container.limits);
      container.requests.insert(container.limits.begin(), container.limits.end());
    }
  }
  for (auto* of_pod : {&requests, &limits, &overhead}) store_amounts(*of_pod);
  if (requests.empty() && limits.empty()) return;
  for (const auto& [name, amount] : of_containers(*this, &Container::limits)) {
    if (name.starts_with(kHugePages) && !requests.contains(name)) limits.emplace(name, amount);
  }
  if (limits.empty()) return;
  for (const auto& [name, amount] : of_containers(*this, &Container::requests)) {
    if (name == "cpu" || name == "memory") requests.emplace(name, amount);
  }
  for (const auto& [name, amount] : limits) {
    if (is_pod_level(name)) requests.emplace(name, amount);
  }
}

PodAmounts PodResources::total_requests() const {
  auto out = of_containers(*this, &Container::requests);
  replace_at_pod_level(out, requests);
  add_amounts(out, overhead);
  return out;
}

PodAmounts PodResources::total_limits() const {
  auto out = of_containers(*this, &Container::limits);
  replace_at_pod_level(out, limits);
  for (const auto& [name, amount] : overhead) {
    if (const auto limit = out.find(name); limit != out.end() && limit->second > Quantity()) {
      add_amounts(out, {{name, amount}});
    }
  }
  return out;
}

}  // namespace qm
