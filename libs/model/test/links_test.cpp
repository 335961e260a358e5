#include "qm/model/links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace qm::links {
namespace links_test {

/// GPU `gpu` of a node with two sockets and two islands of four GPUs.
LinkEndpoint endpoint(const std::string& node, std::int32_t gpu) {
  LinkEndpoint out;
  out.node = node;
  out.gpu = gpu;
  out.zone = out.island = gpu / 4;
  out.fabric = Fabric::kInfiniband;
  out.domain = "fabric-1";
  out.rails = 1;
  return out;
}

// S-033: gpu < numa < island < node < fabric, a case for each.
TEST(Links, WhatTwoGpusHaveInCommon) {
  const LinkEndpoint a = endpoint("a", 0);
  EXPECT_EQ(level_of(a, endpoint("a", 0)), Level::kGpu);
  EXPECT_EQ(level_of(a, endpoint("a", 3)), Level::kNuma);
  LinkEndpoint left = a, right = endpoint("a", 3);
  left.pcie = right.pcie = 2;
  EXPECT_EQ(level_of(left, right), Level::kSwitch);
  right.pcie = 3;
  EXPECT_EQ(level_of(left, right), Level::kNuma);
  LinkEndpoint joined = endpoint("a", 4);  // one island over both sockets, as with NVSwitches
  joined.island = 0;
  EXPECT_EQ(level_of(a, joined), Level::kIsland);
  EXPECT_EQ(level_of(a, endpoint("a", 4)), Level::kNode);
  EXPECT_EQ(level_of(a, endpoint("b", 0)), Level::kFabric);
  LinkEndpoint elsewhere = endpoint("b", 0);
  elsewhere.domain = "fabric-2";
  EXPECT_EQ(level_of(a, elsewhere), Level::kNone);
  LinkEndpoint apart = endpoint("a", 4);
  apart.island = -1;
  LinkEndpoint alone = a;
  alone.island = -1;
  EXPECT_EQ(level_of(alone, apart), Level::kNode) << "NVLink joins neither";

  std::vector<LinkEndpoint> all{a};
  for (const auto& [next, level] : {std::pair(a, Level::kGpu), std::pair(endpoint("a", 3), Level::kNuma),
                                    std::pair(joined, Level::kIsland), std::pair(endpoint("a", 4), Level::kNode),
                                    std::pair(endpoint("b", 0), Level::kFabric), std::pair(elsewhere, Level::kNone)}) {
    all.push_back(next);
    EXPECT_EQ(level_of(all), level) << name_of(level);
  }
  EXPECT_LT(Level::kGpu, Level::kSwitch);
  EXPECT_LT(Level::kSwitch, Level::kNuma);
  EXPECT_LT(Level::kNuma, Level::kIsland);
  EXPECT_LT(Level::kIsland, Level::kNode);
  EXPECT_LT(Level::kNode, Level::kFabric);
}

TEST(Links, ARingGoesAsItsSlowestLink) {
  std::vector<LinkEndpoint> island, node, pcie;
  for (int gpu = 0; gpu < 4; ++gpu) island.push_back(endpoint("a", gpu));
  for (int gpu = 0; gpu < 8; ++gpu) node.push_back(endpoint("a", gpu));
  EXPECT_EQ(ring({}), 0);
  EXPECT_EQ(ring({island.data(), 1}), 0);
  EXPECT_EQ(ring(island), 900);
  EXPECT_EQ(ring(node), 25) << "two islands are joined across the sockets";
  pcie = island;
  for (LinkEndpoint& s : pcie) s.island = -1;
  EXPECT_EQ(ring(pcie), 50);
  // One more hop across the sockets halves the bandwidth of each.
  std::swap(node[1], node[5]);
  EXPECT_EQ(ring(node), 25.0 / 3) << "0 5 2 3 4 1 6 7: three hops leave the first socket";
}

TEST(Links, FabricsInOrderAndWhatAGangSharesOfThem) {
  EXPECT_GT(speed_of(Fabric::kInfiniband), speed_of(Fabric::kRoce));
  EXPECT_GT(speed_of(Fabric::kRoce), speed_of(Fabric::kEthernet));
  for (const auto fabric : {Fabric::kEthernet, Fabric::kRoce, Fabric::kInfiniband}) {
    EXPECT_EQ(fabric_of(name_of(fabric)), fabric);
    std::vector<LinkEndpoint> two{endpoint("a", 0), endpoint("b", 0)};
    two[0].fabric = two[1].fabric = fabric;
    EXPECT_EQ(ring(two), speed_of(fabric));
    two[1].domain = "fabric-2";
    EXPECT_EQ(ring(two), speed_of(fabric) / 2);
  }
  EXPECT_EQ(fabric_of("ib"), Fabric::kInfiniband);
  EXPECT_FALSE(fabric_of("token-ring"));
  // Two hops out of node a over one rail, or over one rail each.
  std::vector<LinkEndpoint> four{endpoint("a", 0), endpoint("b", 0), endpoint("a", 1), endpoint("b", 1)};
  EXPECT_EQ(ring(four), 25);
  for (LinkEndpoint& s : four) s.rails = 2;
  EXPECT_EQ(ring(four), 50);
}

// S-256: the slowest link determines the duration of a step, wherever in the ring it is.
TEST(Links, AStepTakesAsLongAsTheSlowestLinkMakesIt) {
  const Step step{0.5, 140e9};
  std::vector<LinkEndpoint> ranks;
  for (int gpu = 0; gpu < 4; ++gpu) ranks.push_back(endpoint("a", gpu));
  EXPECT_EQ(seconds_of(step, {ranks.data(), 1}), 0.5);
  EXPECT_DOUBLE_EQ(seconds_of(step, ranks), 0.5 + 1.5 * 140 / 900);
  for (std::size_t slow = 0; slow < ranks.size(); ++slow) {
    auto one = ranks;
    one[slow].node = "b";
    EXPECT_DOUBLE_EQ(seconds_of(step, one), 0.5 + 1.5 * 140 / 50) << "rank " << slow << " is on another node";
    for (LinkEndpoint& s : one) s.fabric = Fabric::kEthernet;
    EXPECT_DOUBLE_EQ(seconds_of(step, one), 0.5 + 1.5 * 140 / 12.5);
  }
}

}  // namespace links_test
}  // namespace qm::links
