#pragma once
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace qm::placement {

/// A PersistentVolumeClaim.
struct Claim {
  std::string volume;         ///< bound volume; empty = not bound
  std::string storage_class;  ///< empty = none
  std::string selected_node;  ///< node for which a volume is being provisioned
  bool one_node = false;      ///< its volume can be used on one node at a time
  std::string made_for{};     ///< uid of the pod that owns the claim; empty = an independent claim
  friend auto operator<=>(const Claim&, const Claim&) = default;
};
/// A PersistentVolume.
struct Volume {
  /// rules::text_of a template that has only the volumes of this one: nodes that can use it; empty = all
  /// nodes.
  std::string reach;
  std::string driver{}, handle{};  ///< CSI driver, and the driver's volume handle; empty = no driver attaches it
  std::string claim{};             ///< NAMESPACE/NAME of the claim that the volume is reserved for; empty = none
  friend auto operator<=>(const Volume&, const Volume&) = default;
};
struct StorageClass {
  bool waits = false;    ///< WaitForFirstConsumer: volumes are provisioned for the first pod's node
  bool makes = false;    ///< has a provisioner; false: volumes are created manually
  std::string reach;     ///< nodes that can use its volumes, in the format of Volume::reach
  std::string driver{};  ///< the provisioner's CSI driver
  /// Used by claims without a class. Of several default classes the newest counts, then the first by name.
  bool by_default = false;
  Instant made{};  ///< creation time of a default class
  friend auto operator<=>(const StorageClass&, const StorageClass&) = default;
};
/// A CSINode: attach limit of the node by driver. Drivers that are absent have no limit.
struct AttachLimits {
  std::map<std::string, std::int64_t> volumes;
  friend auto operator<=>(const AttachLimits&, const AttachLimits&) = default;
};
/// Storage objects of the API server, by "claim/NAMESPACE/NAME", "volume/NAME", "class/NAME" and
/// "limits/NODE".
using Storage = std::variant<Claim, Volume, StorageClass, AttachLimits>;

}  // namespace qm::placement
