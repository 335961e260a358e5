#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::topology {

using Pods = std::int64_t;  ///< a number of pods, or of slices of pods

/// A resource's number in its ResourceNames, dense from 0.
using ResourceId = std::int32_t;

/// The resource of which every pod uses one.
inline constexpr ResourceId kPods = 0;

/// Resource names, each interned once: later comparisons use small numbers.
///
/// Units    none; amounts are the caller's whole units (Kueue: cpu in milli, all else in units).
/// Threads  one writer; readers may share it while no name is interned.
class ResourceNames {
 public:
  ResourceNames() { intern("pods"); }
  ResourceId intern(std::string_view name);
  [[nodiscard]] const std::string& name(ResourceId id) const { return names_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
  std::map<std::string, ResourceId, std::less<>> ids_;
};

struct Amount {
  ResourceId resource = kPods;
  std::int64_t amount = 0;
  friend bool operator==(const Amount&, const Amount&) = default;
};

/// Amounts of some resources, by id, each at most once.
using Requests = std::vector<Amount>;

void add(Requests& to, const Requests& what);
/// The usage of `pods` pods with the request `per_pod` each, including the pod capacity of the node.
[[nodiscard]] Requests usage_of(const Requests& per_pod, Pods pods);

/// The number of pods with the request `per_pod` that fit into `capacity` (by resource id; missing entries are 0).
/// Never negative, though capacity may be: a node can lose devices that are in use. A pod without requests fits
/// 2^31-1 times.
[[nodiscard]] Pods pods_in(const Requests& per_pod, std::span<const std::int64_t> capacity);
/// The resource that allows the fewest pods; ties go to the first name.
[[nodiscard]] ResourceId scarcest(const ResourceNames& names, const Requests& per_pod,
                                  std::span<const std::int64_t> capacity);

}  // namespace qm::topology
