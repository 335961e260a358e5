#pragma once
#include "qm/model/links.hpp"
#include "qm/placement/policy.hpp"

#include <string>
#include <vector>

namespace qm::placement {

/// Bandwidth between the GPUs of a gang on its nodes, by the model of qm/model/links.hpp and these labels and
/// annotations of nodes:
///
///   gpu.nvidia.com/nvlink-enabled, -gpus-per-island   devices joined by NVLink; default: models on an NVSwitch board
///   annotation quartermaster.dev/numa                 socket of each device
///   annotation quartermaster.dev/pcie-switches        PCIe switch of each device
///   quartermaster.dev/fabric                          infiniband (ib), roce or ethernet; absent counts as ethernet
///   quartermaster.dev/fabric-domain                   nodes with equal values are connected without a bottleneck
///   quartermaster.dev/fabric-rails                    number of the node's adapters for it; 1 if absent
///   quartermaster.dev/fabric-seen, -rails-seen        the same, detected by the node agent; overridden by the above
///
/// Threads  any; plain functions.
inline constexpr std::string_view kFabricLabel = "quartermaster.dev/fabric";
inline constexpr std::string_view kFabricDomainLabel = "quartermaster.dev/fabric-domain";
inline constexpr std::string_view kFabricRailsLabel = "quartermaster.dev/fabric-rails";
inline constexpr std::string_view kFabricSeenLabel = "quartermaster.dev/fabric-seen";
inline constexpr std::string_view kRailsSeenLabel = "quartermaster.dev/fabric-rails-seen";

/// Whether the node has a valid fabric label.
[[nodiscard]] bool has_fabric(const NodeFacts& facts);
[[nodiscard]] links::Fabric fabric_of(const NodeFacts& facts);

/// Link endpoints of these devices of one node, in their order.
[[nodiscard]] std::vector<links::LinkEndpoint> endpoints_of(const NodeName& node, const NodeFacts& facts,
                                                            const std::vector<DeviceRef>& devices);
/// Link endpoints of a gang, in rank order; members on unknown nodes are left out.
[[nodiscard]] std::vector<links::LinkEndpoint> endpoints_of(const std::vector<Member>& members,
                                                            const FreeCapacity& free_capacity);

/// Largest number of idle devices that NVLink joins; no limit if the node does not report it, 0 without
/// NVLink.
[[nodiscard]] std::int64_t joined_gpus(const NodeCapacity& capacity);

/// Parts of the fleet that one fabric connects: the fastest fabric first, then the part with the fewest idle
/// GPUs, then by name. Nodes without a fabric label belong to none.
struct FabricDomain {
  links::Fabric fabric = links::Fabric::kEthernet;
  std::string name;
  std::int64_t idle_gpus = 0;
};
[[nodiscard]] std::vector<FabricDomain> fabric_domains(const FreeCapacity& free_capacity);
[[nodiscard]] bool is_in(const FabricDomain& domain, const NodeFacts& facts);

/// The gang's slowest link, and alternative nodes that would fit it as a whole, the fastest first: "8 GPUs in
/// one NVLink domain of node a: 900 GB/s", "rather than 8 GPUs over PCIe across the sockets of node b: 25
/// GB/s". Empty for a gang with fewer than two GPUs. `free_capacity` must not include the gang.
///
/// Cost     O(nodes) and a copy of the free capacity of each node that fits the gang.
[[nodiscard]] std::vector<std::string> compared(const std::vector<PodSet>& pod_sets, const std::vector<Member>& members,
                                                const FreeCapacity& free_capacity);

}  // namespace qm::placement
