#pragma once
#include "qm/placement/policy.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::placement {

/// Predicts the decision of the kubelet's Topology Manager before a pod is bound. A pod that the kubelet
/// rejects has failed permanently.
///
/// Hint providers are the GPUs (whole ones), the CPUs if a pod requests whole ones, and memory if the zones
/// report theirs. Each provider lists the sets of zones with enough of its resource. It prefers a set if no
/// smaller one could be enough on the empty node. The pod's zones are a set that all providers list. Policy
/// none: no alignment. best-effort: a set that all prefer, else the smallest with the GPUs. restricted: a set
/// that all prefer, or the pod is rejected. single-numa-node: one zone, or the pod is rejected.
///
/// A pod counts as one container whose limits equal its requests, the strictest case of the kubelet. Shares
/// of a GPU and MIG instances are not hint providers.
///
/// Source   kubelet, pkg/kubelet/cm/topologymanager; zones and policy come from the node annotation
///          quartermaster.dev/numa.
/// Bounds   kMostZones zones; further zones of a node are ignored.
/// Threads  any; plain functions.
/// Cost     O(2^zones) for a pod, negligible for two to eight zones.
inline constexpr std::size_t kMostZones = 8;
using ZoneMask = std::uint32_t;

/// The zones for the pod; none if no set has all that it requests. The pod is then placed without regard to
/// zones, or with a strict policy not at all.
[[nodiscard]] std::optional<ZoneMask> align(const NodeCapacity& capacity, const PodShape& shape);

/// How many pods of the shape the node's zones fit one after another; `most` if its policy rejects none.
[[nodiscard]] std::int64_t pods_that_align(const NodeCapacity& capacity, const PodShape& shape, std::int64_t most);

/// Takes CPUs and memory of a pod from the zones: first those of its devices, or for a pod without devices
/// those that it is aligned to. A zone does not go below zero.
void take_from_zones(NodeCapacity& capacity, const PodShape& shape, const std::vector<DeviceRef>& devices);
/// Returns them to the zones of its devices, or to any zone for a pod without devices, up to the zone's
/// capacity.
void give_to_zones(NodeCapacity& capacity, const PodShape& shape, const std::vector<DeviceRef>& devices);
/// Devices in these zones with their free milli; devices of other zones count as full.
[[nodiscard]] std::vector<std::int32_t> only_in(const NodeCapacity& capacity, ZoneMask zones);

/// Resource whose zones reject a pod that fits the node otherwise, as first word: numa-gpu, numa-cpu or
/// numa-memory; empty if none does.
[[nodiscard]] std::string refused_by_zones(const NodeCapacity& capacity, const PodShape& shape);

}  // namespace qm::placement
