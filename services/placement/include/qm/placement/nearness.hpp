#pragma once
#include "qm/model/links.hpp"
#include "qm/placement/policy.hpp"

#include <string>
#include <vector>

namespace qm::placement {

/// How fast the GPUs of a gang reach one another where they are, by the model of qm/model/links.hpp and what nodes tell of themselves:
///
///   gpu.nvidia.com/nvlink-enabled, -gpus-per-island   which devices NVLink joins; without the first a model that comes on an NVSwitch board
///   annotation quartermaster.dev/numa                 on which socket a device is
///   annotation quartermaster.dev/pcie-switches        under which PCIe switch
///   quartermaster.dev/fabric                          infiniband (ib), roce or ethernet; not said counts as ethernet
///   quartermaster.dev/fabric-domain                   nodes of one value are joined without a bottleneck
///   quartermaster.dev/fabric-rails                    how many adapters a node has for it; 1 where it does not say
///   quartermaster.dev/fabric-seen, -rails-seen        the same as the node's agent sees it; what people say stands over it
///
/// Threads  any; plain functions.
inline constexpr std::string_view kFabricLabel = "quartermaster.dev/fabric";
inline constexpr std::string_view kFabricDomainLabel = "quartermaster.dev/fabric-domain";
inline constexpr std::string_view kFabricRailsLabel = "quartermaster.dev/fabric-rails";
inline constexpr std::string_view kFabricSeenLabel = "quartermaster.dev/fabric-seen";
inline constexpr std::string_view kRailsSeenLabel = "quartermaster.dev/fabric-rails-seen";

/// Whether the node says what fabric it is on.
[[nodiscard]] bool has_fabric(const NodeFacts& facts);
[[nodiscard]] links::Fabric fabric_of(const NodeFacts& facts);

/// The seats of these devices of one node, in their order.
[[nodiscard]] std::vector<links::Seat> seats_of(const NodeName& node, const NodeFacts& facts,
                                                const std::vector<DeviceRef>& devices);
/// The seats of a gang in the order of its ranks; members on nodes that are not known are left out.
[[nodiscard]] std::vector<links::Seat> seats_of(const std::vector<Member>& members, const Rooms& rooms);

/// So many idle devices are joined by NVLink; any number where nothing is told of it.
[[nodiscard]] std::int64_t joined_gpus(const Room& room);

/// Parts of the fleet that one fabric joins, the fastest fabric first, then the part with the least idle GPUs, then by name. Nodes that say
/// nothing are in none.
struct FabricDomain {
  links::Fabric fabric = links::Fabric::kEthernet;
  std::string name;
  std::int64_t idle_gpus = 0;
};
[[nodiscard]] std::vector<FabricDomain> fabric_domains(const Rooms& rooms);
[[nodiscard]] bool is_in(const FabricDomain& domain, const NodeFacts& facts);

/// Where the gang is, by its slowest link, and other ways in which it would fit one node now, the fastest first:
/// "8 GPUs in one NVLink domain of node a: 900 GB/s", "rather than 8 GPUs over PCIe across the sockets of node b: 25 GB/s". Nothing for a gang
/// with fewer than two GPUs. `rooms` without the gang.
///
/// Cost     O(nodes) and a copy of each room that takes the gang.
[[nodiscard]] std::vector<std::string> compared(const std::vector<PodSet>& pod_sets, const std::vector<Member>& members,
                                                const Rooms& rooms);

}  // namespace qm::placement
