#include "qm/topology/resources.hpp"

#include <algorithm>
#include <limits>

namespace qm::topology {
namespace {

Pods pods_in(const Amount& per_pod, std::span<const std::int64_t> capacity) {
  constexpr Pods kMost = std::numeric_limits<std::int32_t>::max();
  if (per_pod.amount == 0) return kMost;
  const auto at = static_cast<std::size_t>(per_pod.resource);
  return at < capacity.size() ? std::clamp<Pods>(capacity[at] / per_pod.amount, 0, kMost) : 0;
}

}  // namespace

ResourceId ResourceNames::intern(std::string_view name) {
  if (const auto it = ids_.find(name); it != ids_.end()) return it->second;
  const auto id = static_cast<ResourceId>(names_.size());
  names_.emplace_back(name);
  ids_.emplace(name, id);
  return id;
}

void add(Requests& to, const Requests& what) {
  for (const Amount& a : what) {
    const auto it = std::ranges::lower_bound(to, a.resource, {}, &Amount::resource);
    if (it != to.end() && it->resource == a.resource) {
      it->amount += a.amount;
    } else {
      to.insert(it, a);
    }
  }
}

Requests usage_of(const Requests& per_pod, Pods pods) {
  Requests out;
  for (const Amount& a : per_pod) add(out, {{a.resource, a.amount * pods}});
  add(out, {{kPods, pods}});
  return out;
}

Pods pods_in(const Requests& per_pod, std::span<const std::int64_t> capacity) {
  if (per_pod.empty()) return 0;
  Pods least = std::numeric_limits<Pods>::max();
  for (const Amount& a : per_pod) least = std::min(least, pods_in(a, capacity));
  return least;
}

ResourceId scarcest(const ResourceNames& names, const Requests& per_pod, std::span<const std::int64_t> capacity) {
  const Amount* out = nullptr;
  for (const Amount& a : per_pod) {
    const Pods here = pods_in(a, capacity);
    if (out == nullptr || here < pods_in(*out, capacity) ||
        (here == pods_in(*out, capacity) && names.name(a.resource) < names.name(out->resource))) {
      out = &a;
    }
  }
  return out == nullptr ? kPods : out->resource;
}

}  // namespace qm::topology
