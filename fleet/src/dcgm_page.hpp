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

/// The exporter's text for an XID; "Unknown Error" for codes that it has no text for.
std::string_view xid_message(int code);

}  // namespace qm::fleet
