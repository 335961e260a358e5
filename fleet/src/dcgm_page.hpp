#pragma once
#include "cluster.hpp"

#include <string>

namespace qm::fleet {

/// The page that dcgm-exporter serves on one node: the default counters, in the exporter's order of families and
/// labels and number formats, with the labels of the pods that hold the devices.
///
/// Values follow from the running pods. A rank that waits for the rest of its gang after its first step spins
/// (GPU_UTIL 100, tensor pipe 0), as in a hung collective. Noise changes every `kCollect` of domain time and is the
/// same for the same device and instant.
/// Threads  under the world's lock; advances the node's counters to `now`.
std::string dcgm_page(NodeState& node, const Cluster& cluster, Instant now);
inline constexpr Duration kCollect = std::chrono::seconds(10);

/// The text and the effects of an XID.
struct Xid {
  int code;
  std::string_view text;      ///< as the exporter writes it
  bool harmless = false;      ///< ignored by the device plugin; others mark the device unhealthy until a restart
  bool ends_program = false;  ///< kills the process on the GPU
};
/// For a code that is not in the table: "Unknown Error", not harmless.
const Xid& xid_of(int code);

}  // namespace qm::fleet
