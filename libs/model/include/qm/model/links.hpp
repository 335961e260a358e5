#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qm::links {

/// A small model of the links between the GPUs of a gang: the bandwidth of their data exchange.
///
/// Units    GB/s is 10^9 bytes a second, from one GPU to its neighbor in a ring.
/// Source   NVLink 900 and PCIe 25 GB/s for an all-reduce, InfiniBand and RoCE 200 to 400, Ethernet 25 to 100
///          Gbit/s: the table of network bandwidths in the requirements. A ring on PCIe within one socket gets twice
///          the bandwidth of one across sockets. This is the ratio of raw PCIe 5.0 (64 GB/s) to links between
///          sockets (about 32).
/// Threads  any; plain functions.
inline constexpr double kNvlink = 900, kPcie = 50, kAcrossSockets = 25;

/// The network between nodes, the slowest first.
enum class Fabric : std::uint8_t { kEthernet, kRoce, kInfiniband };
/// The speed of one rail of a node.
[[nodiscard]] double speed_of(Fabric fabric);
/// "ethernet", "roce", "infiniband".
[[nodiscard]] std::string_view name_of(Fabric fabric);
/// Also accepts "ib"; none for any other word.
[[nodiscard]] std::optional<Fabric> fabric_of(std::string_view word);

/// The location of one GPU of a gang. Numbers only distinguish; unknown values are equal for all GPUs.
struct LinkEndpoint {
  std::string node;
  std::int32_t gpu = 0;
  std::int32_t zone = 0;    ///< NUMA node
  std::int32_t pcie = -1;   ///< PCIe switch; -1 = unknown
  std::int32_t island = 0;  ///< NVLink island; -1 = without NVLink
  double nvlink = kNvlink;  ///< NVLink bandwidth of its model
  Fabric fabric = Fabric::kEthernet;
  std::string domain;  ///< fabric domain: nodes of one domain are connected without a bottleneck
  std::int32_t rails = 1;
  friend auto operator<=>(const LinkEndpoint&, const LinkEndpoint&) = default;
};

/// What two GPUs share, the nearest first.
enum class Level : std::uint8_t { kGpu, kSwitch, kNuma, kIsland, kNode, kFabric, kNone };
[[nodiscard]] Level level_of(const LinkEndpoint& a, const LinkEndpoint& b);
/// The narrowest level that contains all of them.
[[nodiscard]] Level level_of(std::span<const LinkEndpoint> endpoints);
[[nodiscard]] std::string_view name_of(Level level);

/// The bandwidth of a ring in the order of the seats, limited by its slowest link. Hops that share a link between
/// two sockets or out of a node divide its bandwidth. Between fabric domains it is half of that inside. Nothing for
/// fewer than two seats.
[[nodiscard]] double ring(std::span<const LinkEndpoint> endpoints);

/// One step of training: the computation of each rank, then an all-reduce of this many bytes over the ring.
struct Step {
  double compute_s = 0;
  double bytes = 0;
};
/// Seconds; without neighbors only the computation counts.
[[nodiscard]] double seconds_of(const Step& step, std::span<const LinkEndpoint> endpoints);

}  // namespace qm::links
