#pragma once
#include "cluster.hpp"

#include <string>

namespace qm::fleet {

/// The page that dcgm-exporter serves on one node: the default counters, in its families' order,
/// label order and number forms, with the labels of the pods that hold the devices.
///
/// Values follow from what runs. A rank that waits for the rest of its gang after having made steps
/// spins (GPU_UTIL 100, tensor pipe 0), as a hung collective does. Noise changes every `kCollect`
/// of domain time and is the same for the same device and moment.
/// Threads  under the world's lock; brings the node's counters up to `now`.
std::string dcgm_page(NodeState& node, const Cluster& cluster, Instant now);
inline constexpr Duration kCollect = std::chrono::seconds(10);

/// What an XID says and does.
struct Xid {
  int code;
  std::string_view text;      ///< the exporter's
  bool harmless = false;      ///< the device plugin ignores it; any other marks the device unhealthy until a restart
  bool ends_program = false;  ///< it kills the process on the GPU
};
/// For a code that the table does not hold: "Unknown Error", not harmless.
const Xid& xid_of(int code);

}  // namespace qm::fleet
