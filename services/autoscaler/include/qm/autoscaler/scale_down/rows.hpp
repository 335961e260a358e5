#pragma once
#include "qm/autoscaler/scale_down/scale_down.hpp"
#include "qm/base/table.hpp"
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"

#include <optional>
#include <string>

namespace qm::autoscaler {

/// Rules of a node group by its tags, instead of the settings.
struct GroupScaleDown {
  std::optional<std::int64_t> utilization_milli, gpu_utilization_milli;
  std::optional<bool> ignore_daemon_sets;
  friend auto operator<=>(const GroupScaleDown&, const GroupScaleDown&) = default;
};

/// State of the scale-down of node groups.
struct ScaleDownTables {
  Table<NodeName, Instant> unneeded;           ///< since when a node has not been needed
  Table<std::string, Instant> last;            ///< of kDeleted and kFailed
  Table<InstanceId, Instant> protected_by_us;  ///< against its own group, since the request
};
inline constexpr const char* kDeleted = "deleted";
inline constexpr const char* kDrainFailed = "failed";

/// The reason of a node that is drained because its pods fit other nodes.
inline constexpr const char* kScaleDown = "ScaleDown";

/// Protects instances from being chosen by their group, or ends that. A repetition changes nothing.
struct ProtectIntent {
  std::string group;
  std::vector<InstanceId> instances;
  bool protect = false;
  std::int64_t number = 0;  ///< of the request
};

}  // namespace qm::autoscaler
