#pragma once
#include "qm/autoscaler/pack/problem.hpp"
#include "qm/base/result.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler::pack {

/// One way to launch a node: an available offering of an instance type, with one value for each label.
struct Offer {
  std::size_t type = 0, offering = 0;
  std::size_t zone = 0;  ///< index in Offers::zones
  double price = 0;
  Labels labels;
};

struct Offers {
  std::vector<Offer> list;
  std::vector<std::string> zones;  ///< those of any offer, sorted
};

/// Whether one node of the type is more than a limit of the NodePool allows.
[[nodiscard]] bool above_limit(const NodePool& pool, const InstanceType& type);

/// Lists the ways to launch a node that the NodePool allows, without instance types above a limit.
///
/// A type with several values of a label (os In [linux, windows]) gives one offer for each value, if a pod has a
/// condition on this label. A label of the NodePool without a listed value gets the values that pods mention, and one
/// that no pod mentions.
/// Fails    kInvalid: an offering would have more than 256 combinations of label values.
[[nodiscard]] Result<Offers> offers_of(const Problem& problem);

inline constexpr std::string_view kZoneLabel = "topology.kubernetes.io/zone";
inline constexpr std::string_view kHostLabel = "kubernetes.io/hostname";
inline constexpr std::string_view kCapacityTypeLabel = "karpenter.sh/capacity-type";
inline constexpr std::string_view kTypeLabel = "node.kubernetes.io/instance-type";

/// The value of the label; null if there is none.
[[nodiscard]] const std::string* value_of(const Labels& labels, const std::string& key);

/// Whether a node with these labels meets the pod's node selector and required terms.
[[nodiscard]] bool admits(const Pod& pod, const Labels& labels);
[[nodiscard]] bool matches(const NodeTerm& term, const Labels& labels);

}  // namespace qm::autoscaler::pack
