#pragma once
#include "qm/placement/commands.hpp"

#include <string>
#include <vector>

namespace qm::placement {

struct ReadLayouts {
  OrderLayouts order;
  std::vector<std::string> warnings;  ///< what of it was not taken, and why
};

/// Which MIG layouts are asked for, by manifests as they are:
///   a Node with the label nvidia.com/mig.config        the layout of that node
///   mig-parted's list, alone or in a ConfigMap         what names of layouts mean
///   values of the GPU Operator: mig.config             the layout of every node whose GPUs can be cut
///                               migManager.config.default  of those without the label
/// Fails    kInvalid with file, line and field; nothing of it is taken then.
[[nodiscard]] Result<ReadLayouts> layouts_from_manifest(const std::string& text, const std::string& source);

}  // namespace qm::placement
