#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qm::links {

/// How fast the GPUs of a gang exchange what they have computed: a small model of the links between them.
///
/// Units    GB/s is 10^9 bytes a second, of one GPU toward its neighbour in a ring.
/// Source   NVLink 900 and PCIe 25 GB/s for an all-reduce, InfiniBand and RoCE 200 to 400, Ethernet 25 to 100 Gbit/s: the table of
///          network bandwidths that the requirements bring. A ring on PCIe that stays on one socket gets twice what one across sockets
///          gets, as raw PCIe 5.0 (64 GB/s) and links between sockets (about 32) stand to one another.
/// Threads  any; plain functions.
inline constexpr double kNvlink = 900, kPcie = 50, kAcrossSockets = 25;

/// What joins nodes, the slowest first.
enum class Fabric : std::uint8_t { kEthernet, kRoce, kInfiniband };
/// Of one rail of a node.
[[nodiscard]] double speed_of(Fabric fabric);
/// "ethernet", "roce", "infiniband".
[[nodiscard]] std::string_view name_of(Fabric fabric);
/// Also "ib"; none for any other word.
[[nodiscard]] std::optional<Fabric> fabric_of(std::string_view word);

/// Where one GPU of a gang is. Numbers tell apart, no more; what is not known is the same for all.
struct Seat {
  std::string node;
  std::int32_t gpu = 0;
  std::int32_t zone = 0;    ///< NUMA node
  std::int32_t pcie = -1;   ///< switch that it is under; -1 = not told
  std::int32_t island = 0;  ///< that NVLink joins; -1 = it joins none
  double nvlink = kNvlink;  ///< of its model
  Fabric fabric = Fabric::kEthernet;
  std::string domain;  ///< of the fabric: nodes of one are joined without a bottleneck
  std::int32_t rails = 1;
  friend auto operator<=>(const Seat&, const Seat&) = default;
};

/// What two GPUs have in common, the nearest first.
enum class Level : std::uint8_t { kGpu, kSwitch, kNuma, kIsland, kNode, kFabric, kNone };
[[nodiscard]] Level level_of(const Seat& a, const Seat& b);
/// The narrowest level that holds all of them.
[[nodiscard]] Level level_of(std::span<const Seat> seats);
[[nodiscard]] std::string_view name_of(Level level);

/// What a ring in the order of the seats gets, by its slowest link: what several hops share, of the way between two sockets or out of a
/// node, is divided among them. Between fabric domains it is half of what it is inside. Nothing for fewer than two seats.
[[nodiscard]] double ring(std::span<const Seat> seats);

/// One step of training: what each rank computes, and then an all-reduce of so many bytes over the ring.
struct Step {
  double compute_s = 0;
  double bytes = 0;
};
/// Seconds; without neighbours only the computing counts.
[[nodiscard]] double seconds_of(const Step& step, std::span<const Seat> seats);

}  // namespace qm::links
