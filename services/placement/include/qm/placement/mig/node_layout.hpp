#pragma once
#include "qm/base/result.hpp"
#include "qm/placement/mig/table.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::placement::mig {

/// What a node advertises of its GPUs: "nvidia.com/gpu" and "nvidia.com/mig-...". Zeros are left out.
using Capacity = std::map<std::string, std::int64_t>;

/// Devices that a layout cuts alike, as mig-parted's list has them.
struct Part {
  std::vector<std::int32_t> devices;              ///< by index; empty = all
  bool enabled = false;                           ///< MIG mode
  std::map<std::string, std::int32_t> instances;  ///< of each device, by profile ("1g.10gb")
  friend auto operator<=>(const Part&, const Part&) = default;
};
using Definition = std::vector<Part>;  ///< a device that none of them names stays as it is
using Definitions = std::map<std::string, Definition>;

/// How the GPUs of one node are cut, by index.
struct NodeLayout {
  const Model* model = nullptr;  ///< null: they cannot be cut
  std::vector<StateId> gpus;     ///< kNoState = not cut, and given as a whole
  friend bool operator==(const NodeLayout&, const NodeLayout&) = default;
};

/// What the layout of that name makes of a node with so many GPUs of the product, none of which is cut so far.
///
/// Names    those of `own`, then those that mig-manager comes with: all-disabled, all-enabled, all-balanced, and all-PROFILE for as many
///          instances of the profile as a GPU takes.
/// Fails    kInvalid: no layout of that name; GPUs that cannot be cut; a profile that they do not have; instances that do not stand on one
///          GPU together; a device that is not there.
Result<NodeLayout> layout_named(const std::string& name, const Definitions& own, std::string_view product,
                                std::int32_t gpus);

/// What the node advertises with it. `single`: its instances count as GPUs (nvidia.com/mig.strategy).
Capacity capacity_of(const NodeLayout& layout, bool single = false);

/// The layout behind what such a node advertises: each cut GPU has as many of each profile as the others where that can be. What no
/// layout of so many GPUs has is left out, so its capacity is what the node really has. Nothing where the product cannot be cut, or
/// nothing says how many GPUs there are.
std::optional<NodeLayout> layout_showing(const Capacity& capacity, std::string_view product, std::int32_t gpus);

/// Instances of each profile on a GPU that is cut so.
std::map<ProfileId, std::int32_t> instances_of(const Model& model, StateId layout);

}  // namespace qm::placement::mig
