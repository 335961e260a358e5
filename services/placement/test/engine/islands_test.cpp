// Devices connected by NVLink: which of them a pod gets on a partly used node.
#include "qm/placement/policy.hpp"
#include "script.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace qm::placement {
namespace islands_test {

std::vector<std::int32_t> occupancy(unsigned taken) {
  std::vector<std::int32_t> free(8, 1000);
  for (unsigned i = 0; i < 8; ++i) {
    if ((taken >> i & 1) != 0) free[i] = 0;
  }
  return free;
}

// S-067: for every occupancy of a node of eight GPUs in two islands of four, two and four devices come
// from one island if an island has that many idle, and from the one with the fewest idle beyond them.
TEST(Islands, OneIslandForEveryOccupancy) {
  int together = 0, apart = 0;
  for (unsigned taken = 0; taken < 256; ++taken) {
    const auto free = occupancy(taken);
    const auto idle_in = [&](unsigned island) { return 4 - std::popcount(taken >> (island * 4) & 0xFU); };
    for (const int count : {1, 2, 3, 4, 5, 6, 7, 8}) {
      if (idle_in(0) + idle_in(1) < count) continue;
      const auto chosen = choose_devices(free, {4, {}, {}}, count);
      ASSERT_EQ(std::ssize(chosen), count);
      ASSERT_TRUE(std::ranges::is_sorted(chosen));
      std::set<std::size_t> islands;
      for (const auto device : chosen) {
        ASSERT_EQ(free[device], 1000) << "device " << device << " of occupancy " << taken;
        islands.insert(device / 4);
      }
      ASSERT_EQ(std::set(chosen.begin(), chosen.end()).size(), chosen.size());
      const bool one = idle_in(0) >= count || idle_in(1) >= count;
      ASSERT_EQ(islands.size() == 1, one) << count << " of occupancy " << taken;
      (one ? together : apart) += 1;
      if (!one) continue;
      const auto other = 1 - static_cast<unsigned>(*islands.begin());
      ASSERT_TRUE(idle_in(other) < count || idle_in(other) >= idle_in(1 - other)) << "the fuller island stays whole";
    }
  }
  EXPECT_GT(together, 400);
  EXPECT_GT(apart, 100);
}

// Two sockets with two PCIe switches each, and no NVLink, compared with every subset of the idle
// devices: the chosen ones use the fewest sockets, and among such choices the fewest switches.
TEST(Islands, OneSocketAndSwitchForEveryOccupancy) {
  const std::vector<NumaZone> zones{{0, 0, {0, 1, 2, 3}}, {0, 0, {4, 5, 6, 7}}};
  const std::vector<std::int32_t> switches{0, 1, 0, 1, 2, 2, 3, 3};
  const auto spread = [&](unsigned devices) {
    std::set<std::int32_t> sockets, under;
    for (unsigned i = 0; i < 8; ++i) {
      if ((devices >> i & 1) != 0) sockets.insert(i < 4 ? 0 : 1), under.insert(switches[i]);
    }
    return std::pair(sockets.size(), under.size());
  };
  int asked = 0;
  for (unsigned taken = 0; taken < 256; ++taken) {
    for (int count = 1; count <= 8 - std::popcount(taken); ++count) {
      auto best = std::pair(std::size_t{9}, std::size_t{9});
      std::size_t left = 9;  // idle devices on the fuller socket, if one is enough
      for (unsigned some = 0; some < 256; ++some) {
        if ((some & taken) == 0 && std::popcount(some) == count) best = std::min(best, spread(some));
      }
      unsigned chosen = 0;
      for (const auto device : choose_devices(occupancy(taken), {0, zones, switches}, count)) chosen |= 1U << device;
      ASSERT_EQ(chosen & taken, 0U);
      ASSERT_EQ(std::popcount(chosen), count);
      const auto got = spread(chosen);
      ASSERT_EQ(got.first, best.first) << count << " of occupancy " << taken;
      // The socket with fewest idle devices is used first, so that the other stays whole; within
      // it, the fewest switches.
      for (unsigned some = 0; some < 256 && got.first == 1; ++some) {
        const unsigned socket = (chosen & 0xF) != 0 ? 0xF : 0xF0;
        if ((some & taken) == 0 && (some & ~socket) == 0 && std::popcount(some) == count)
          left = std::min(left, spread(some).second);
      }
      if (got.first == 1) {
        ASSERT_EQ(got.second, left) << count << " of occupancy " << taken;
      }
      ++asked;
    }
  }
  EXPECT_EQ(asked, 1024);  // of eight devices, each subset of n gives n requests
  // Equally many idle on both sockets: the pair under one switch.
  EXPECT_EQ(choose_devices(occupancy(0b1100'1100), {0, zones, switches}, 2), (std::vector<std::size_t>{4, 5}));
}

TEST(Islands, WithoutLabelTheNodeIsOneIsland) {
  EXPECT_EQ(choose_devices(occupancy(0b0001'0001), {0, {}, {}}, 3), (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_EQ(choose_devices(occupancy(0b0001'0001), {4, {}, {}}, 3), (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_EQ(choose_devices(occupancy(0b0000'0111), {0, {}, {}}, 3), (std::vector<std::size_t>{3, 4, 5}));
  EXPECT_EQ(choose_devices(occupancy(0b0000'0111), {4, {}, {}}, 3), (std::vector<std::size_t>{4, 5, 6}));
  // Seven devices: the last island is smaller.
  auto seven = occupancy(0);
  seven.pop_back();
  EXPECT_EQ(choose_devices(seven, {4, {}, {}}, 3), (std::vector<std::size_t>{4, 5, 6}));
}

TEST(Islands, AreReadFromTheLabel) {
  const auto of = [](const std::string& text) { return island_of({{"gpu.nvidia.com/nvlink-gpus-per-island", text}}); };
  EXPECT_EQ(of("4"), 4);
  EXPECT_EQ(of("0"), 0);
  EXPECT_EQ(of("-4"), 0);
  EXPECT_EQ(of("four"), 0);
  EXPECT_EQ(island_of({}), 0);
}

TEST(Islands, OfTheNodeLabelAreEnforced) {
  EXPECT_EQ(testing::Script().run(R"(
    node a gpus=8 label=gpu.nvidia.com/nvlink-gpus-per-island=4
    synced
    want one/1 1x1
    => reserved one/1 0:a[0]
    want four/1 1x4
    => reserved four/1 0:a[4,5,6,7]
    want three/1 1x3
    => reserved three/1 0:a[1,2,3]
  )"),
            "");
}

}  // namespace islands_test
}  // namespace qm::placement
