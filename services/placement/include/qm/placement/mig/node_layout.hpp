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

/// GPU resources that a node advertises: "nvidia.com/gpu" and "nvidia.com/mig-...". Zeros are left out.
using Capacity = std::map<std::string, std::int64_t>;

/// Devices with the same partitioning in a layout, as in mig-parted's list.
struct Part {
  std::vector<std::int32_t> devices;              ///< by index; empty = all
  bool enabled = false;                           ///< MIG mode
  std::map<std::string, std::int32_t> instances;  ///< of each device, by profile ("1g.10gb")
  friend auto operator<=>(const Part&, const Part&) = default;
};
using Definition = std::vector<Part>;  ///< a device without a part does not change
using Definitions = std::map<std::string, Definition>;

/// MIG layout of the GPUs of one node, by index.
struct NodeLayout {
  const Model* model = nullptr;  ///< null: they do not support MIG
  std::vector<StateId> gpus;     ///< kNoState = not partitioned, allocated as a whole
  friend bool operator==(const NodeLayout&, const NodeLayout&) = default;
};

/// The node layout that a named layout gives `gpus` unpartitioned GPUs of the product.
///
/// Names    those of `own`, then those of mig-manager: all-disabled, all-enabled, all-balanced, and
///          all-PROFILE with as many instances of the profile as a GPU has.
/// Fails    kInvalid: unknown layout name; GPUs without MIG support; a profile that they do not have;
///          instances that do not fit one GPU together; a device that does not exist.
Result<NodeLayout> layout_named(const std::string& name, const Definitions& own, std::string_view product,
                                std::int32_t gpus);

/// Resources that the node advertises with the layout. `single`: its instances count as GPUs
/// (nvidia.com/mig.strategy).
Capacity capacity_of(const NodeLayout& layout, bool single = false);

/// Derives the layout from the advertised resources: every partitioned GPU has as many instances of each
/// profile as the others, if possible. Resources that no layout of `gpus` GPUs contains are left out, so the
/// layout's capacity exists on the node. None if the product does not support MIG, or the number of GPUs is
/// unknown.
std::optional<NodeLayout> layout_showing(const Capacity& capacity, std::string_view product, std::int32_t gpus);

/// Instances of each profile on a GPU with the layout.
std::map<ProfileId, std::int32_t> instances_of(const Model& model, StateId layout);

}  // namespace qm::placement::mig
