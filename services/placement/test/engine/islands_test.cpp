// Devices that NVLink joins: what a pod gets of a node that is used in part.
#include "qm/placement/policy.hpp"
#include "script.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace qm::placement {
namespace {

std::vector<std::int32_t> occupancy(unsigned taken) {
  std::vector<std::int32_t> free(8, 1000);
  for (unsigned i = 0; i < 8; ++i) {
    if ((taken >> i & 1) != 0) free[i] = 0;
  }
  return free;
}

// S-067: for every occupancy of a node of eight in two islands of four, two and four devices come from one island where one has
// so many idle, and from the one that has fewest beyond them.
TEST(Islands, DevicesOfOneIslandForEveryOccupancy) {
  int together = 0, apart = 0;
  for (unsigned taken = 0; taken < 256; ++taken) {
    const auto free = occupancy(taken);
    const auto idle_in = [&](unsigned island) { return 4 - std::popcount(taken >> (island * 4) & 0xFU); };
    for (const int count : {1, 2, 3, 4, 5, 6, 7, 8}) {
      if (idle_in(0) + idle_in(1) < count) continue;
      const auto chosen = choose_devices(free, 4, count);
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
      ASSERT_TRUE(idle_in(other) < count || idle_in(other) >= idle_in(1 - other)) << "the fuller island is left whole";
    }
  }
  EXPECT_GT(together, 400);
  EXPECT_GT(apart, 100);
}

TEST(Islands, WithoutALabelTheNodeIsOne) {
  EXPECT_EQ(choose_devices(occupancy(0b0001'0001), 0, 3), (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_EQ(choose_devices(occupancy(0b0001'0001), 4, 3), (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_EQ(choose_devices(occupancy(0b0000'0111), 0, 3), (std::vector<std::size_t>{3, 4, 5}));
  EXPECT_EQ(choose_devices(occupancy(0b0000'0111), 4, 3), (std::vector<std::size_t>{4, 5, 6}));
  // Seven devices: the last island is smaller.
  auto seven = occupancy(0);
  seven.pop_back();
  EXPECT_EQ(choose_devices(seven, 4, 3), (std::vector<std::size_t>{4, 5, 6}));
}

TEST(Islands, AreReadFromTheLabel) {
  const auto of = [](const std::string& text) { return island_of({{"gpu.nvidia.com/nvlink-gpus-per-island", text}}); };
  EXPECT_EQ(of("4"), 4);
  EXPECT_EQ(of("0"), 0);
  EXPECT_EQ(of("-4"), 0);
  EXPECT_EQ(of("four"), 0);
  EXPECT_EQ(island_of({}), 0);
}

TEST(Islands, OfANodeThatSaysSoAreObeyed) {
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

}  // namespace
}  // namespace qm::placement
