#pragma once
#include "qm/placement/policy.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::placement {

/// What the kubelet's Topology Manager will say to a pod, before it is sent there: a pod that it refuses has failed for good.
///
/// Who has a say are the GPUs (whole ones), the CPUs where a pod asks for whole ones, and memory where zones tell theirs. Each names the
/// sets of zones that have what is asked for; a set is preferred by it when no smaller one could have it on the empty machine. The
/// pod's zones are a set that all name: none: nobody is asked; best-effort: one that all prefer, else the smallest with the GPUs;
/// restricted: one that all prefer, or the pod is refused; single-numa-node: one zone, or the pod is refused.
///
/// A pod counts as one container whose limits are its requests, which is what the kubelet is strictest with. Shares of a GPU and MIG
/// instances have no say.
///
/// Source   kubelet, pkg/kubelet/cm/topologymanager; zones and policy come from the node's annotation quartermaster.dev/numa.
/// Bounds   kMostZones zones; of a node with more the others are not told apart.
/// Threads  any; plain functions.
/// Cost     O(2^zones) for a pod, with two or eight zones nothing to speak of.
inline constexpr std::size_t kMostZones = 8;
using ZoneMask = std::uint32_t;

/// The zones that the pod is put on; none where no set has all it asks for, so that it is placed without regard to zones or, by a strict
/// policy, not at all.
[[nodiscard]] std::optional<ZoneMask> align(const Room& room, const PodShape& shape);

/// How many pods of the shape the node's zones take one after another; no bound where its policy refuses none.
[[nodiscard]] std::int64_t pods_that_align(const Room& room, const PodShape& shape, std::int64_t most);

/// Takes CPUs and memory of a pod off the zones, of those with its devices first, or of those it is aligned to where it has none. More
/// than there is leaves them at zero.
void take_from_zones(Room& room, const PodShape& shape, const std::vector<DeviceRef>& devices);
/// Gives them back to the zones of its devices, to any where it has none, and to no zone more than it has in all.
void give_to_zones(Room& room, const PodShape& shape, const std::vector<DeviceRef>& devices);
/// Devices that are idle in these zones, and no others.
[[nodiscard]] std::vector<std::int32_t> only_in(const Room& room, ZoneMask zones);

/// What keeps a pod off a node that has room for it, by its first word: numa-gpu, numa-cpu or numa-memory; empty where nothing does.
[[nodiscard]] std::string refused_by_zones(const Room& room, const PodShape& shape);

}  // namespace qm::placement
