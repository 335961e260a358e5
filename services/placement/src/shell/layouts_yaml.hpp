#pragma once
#include "qm/placement/commands.hpp"

#include <string>
#include <vector>

namespace qm::placement {

struct ReadLayouts {
  OrderLayouts order;
  std::vector<std::string> warnings;  ///< ignored parts of the manifest, with the reason
};

/// Reads the requested MIG layouts from these manifests:
///   a Node with the label nvidia.com/mig.config        the layout of that node
///   mig-parted's list, alone or in a ConfigMap         the definition of named layouts
///   values of the GPU Operator: mig.config             the layout of every node with MIG-capable GPUs
///                               migManager.config.default  the layout of those without the label
/// Fails    kInvalid with file, line and field; then nothing of the manifest is applied.
[[nodiscard]] Result<ReadLayouts> layouts_from_manifest(const std::string& text, const std::string& source);

}  // namespace qm::placement
