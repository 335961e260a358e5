#pragma once
#include "qm/autoscaler/overlay/overlay.hpp"
#include "qm/model/money.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// A CapacityBuffer: capacity for this many pods stays free, so that the next pods start at once.
struct Buffer {
  std::string name;         ///< "namespace/name"; of headroom "NodePool NAME/TYPE"
  PodSet pods;              ///< its count is the number of pods
  std::string explanation;  ///< of the number, for messages
  [[nodiscard]] std::string subject() const;
  friend auto operator<=>(const Buffer&, const Buffer&) = default;
};

/// All CapacityBuffers.
struct BuffersApplied {
  std::vector<Buffer> buffers;
};
/// All NodeOverlays that apply, in any order.
struct OverlaysApplied {
  std::vector<Overlay> overlays;
};

/// What a CapacityBuffer, or the headroom of a NodePool for an SLO, has: nodes that are empty or start, and why there are
/// not more. The pods of headroom are whole nodes.
struct BufferState {
  std::string subject;  ///< "CapacityBuffer ml/warm", "headroom of NodePool gpu for p5.48xlarge"
  std::int64_t nodes = 0;
  Money per_hour;                      ///< of those nodes
  std::int64_t pods = 0, covered = 0;  ///< that it asks for; for which there is capacity, or it starts
  std::string missing;                 ///< why no capacity is launched for the others; empty = it is
};

}  // namespace qm::autoscaler
