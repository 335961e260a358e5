// Small fleets in which the right placement is obvious.
#include "test/gang/gangs.hpp"

#include <gmock/gmock.h>

namespace qm::placement::gang::testing {
namespace gang_test {

constexpr Level kBlock = 1, kRack = 2, kNode = 3;

/// Two blocks of two racks of four nodes; the numbers are the free GPUs of 8, rack by rack.
class Gangs : public ::testing::Test {
 protected:
  void make(const std::vector<std::vector<std::int32_t>>& racks) {
    for (std::size_t r = 0; r < racks.size(); ++r) {
      for (std::size_t n = 0; n < racks[r].size(); ++n) {
        const std::vector<std::string> path{fmt::format("b{}", r / 2), fmt::format("r{}", r)};
        const auto node = fleet_.add(path, fmt::format("r{}n{}", r, n), empty_node(8));
        auto state = empty_node(8);
        if (racks[r][n] < 8) state = pack::with(state, gpu_pod(8 - racks[r][n]), pack::kDevice);
        fleet_.set(node, state);
      }
    }
  }
  Answer ask(const Request& request) {
    auto answer = place(fleet_, request);
    if (!answer) {
      ADD_FAILURE() << answer.error().to_string();
      return {};
    }
    return std::move(*answer);
  }
  /// The nodes in rank order with the number of pods of the set on each: "r0n0:4 r0n1:1".
  std::string where(const Answer& answer, std::int32_t set = 0) const {
    std::string text;
    for (std::size_t i = 0; i < answer.members.size();) {
      const auto& member = answer.members[i];
      std::size_t pods = 0;
      for (; i < answer.members.size() && answer.members[i].node == member.node && answer.members[i].set == member.set;
           ++i)
        ++pods;
      if (member.set != set) continue;
      text += fmt::format("{}{}:{}", text.empty() ? "" : " ", fleet_.tree().name(Domain{kNode, member.node}), pods);
    }
    return text;
  }
  std::string why(const Request& request) { return explain(fleet_.tree(), ask(request)); }
  static Request one(std::int32_t count, Level required, Level preferred, std::int32_t gpus = 1) {
    Request request;
    request.gang = {required, preferred, {set_of(gpu_pod(gpus), count)}, {}};
    return request;
  }

  Fleet fleet_{{"block", "rack"}, best_fit()};
};

TEST_F(Gangs, TightestNode) {
  make({{8, 8, 5, 3}, {6, 4, 8, 8}});
  EXPECT_EQ(where(ask(one(4, kFleet, kFleet))), "r1n1:4");
  EXPECT_EQ(where(ask(one(7, kFleet, kFleet))), "r0n0:7");  // the first of the empty nodes
}

TEST_F(Gangs, FewestNodesThenTightestRack) {
  make({{8, 4, 4, 4}, {8, 8, 0, 0}, {8, 8, 8, 8}, {2, 2, 2, 2}});
  EXPECT_EQ(where(ask(one(16, kFleet, kFleet))), "r1n0:8 r1n1:8");
  EXPECT_EQ(where(ask(one(18, kFleet, kFleet))), "r2n0:8 r2n1:8 r2n2:2");
  const auto answer = ask(one(20, kRack, kRack));  // three nodes there, four in the tighter r0
  EXPECT_EQ(where(answer), "r2n0:8 r2n1:8 r2n2:4");
  EXPECT_EQ(answer.cost, 64 + 8 + 3);
  fleet_.remove(8);
  fleet_.remove(9);
  // In r0 the last node is the one that fits the rest with the least left over.
  fleet_.set(3, pack::with(empty_node(8), gpu_pod(5), pack::kDevice));
  EXPECT_EQ(where(ask(one(15, kRack, kRack))), "r1n0:8 r1n1:7");
  EXPECT_EQ(where(ask(one(18, kRack, kRack))), "r0n0:8 r0n1:4 r0n2:4 r0n3:2");
}

TEST_F(Gangs, PreferredLevelIsRelaxed) {
  make({{8, 8, 0, 0}, {8, 8, 0, 0}, {8, 8, 8, 0}, {4, 4, 0, 0}});
  const auto answer = ask(one(30, kFleet, kRack));
  EXPECT_EQ(answer.levels, std::vector<Level>{kBlock});
  EXPECT_EQ(where(answer), "r0n0:8 r0n1:8 r1n0:8 r1n1:6");
  EXPECT_EQ(answer.cost, 64 + 2 * 8 + 4);
  EXPECT_EQ(ask(one(48, kFleet, kRack)).levels, std::vector<Level>{kFleet});
}

TEST_F(Gangs, DiagnosisAndRemedies) {
  make({{8, 8, 0, 0}, {8, 8, 0, 0}, {8, 8, 8, 0}, {4, 4, 0, 0}});
  EXPECT_EQ(why(one(30, kRack, kRack)), "rack r2 fits 24 of 30; fits in one block; fits with 24 pods of set 0");
  EXPECT_EQ(why(one(70, kRack, kRack)), "rack r2 fits 24 of 70; fits with 24 pods of set 0");
  auto alone = one(40, kBlock, kBlock);
  alone.exclusive = true;
  EXPECT_EQ(why(alone), "block b0 fits 32 of 40; fits in one fleet; fits with 32 pods of set 0");
  make({{8, 8, 8, 8}, {8, 7, 7, 7}});
  EXPECT_EQ(why([] {
              auto request = one(40, kRack, kRack);
              request.gang.sets[0].pod.gpus = 8;
              return request;
            }()),
            "rack r0 fits 6 of 40; fits with 6 pods of set 0");
}

TEST_F(Gangs, ExclusiveNodesAreNotShared) {
  make({{8, 7, 8, 0}});
  auto request = one(9, kRack, kRack);
  request.exclusive = true;
  const auto answer = ask(request);
  EXPECT_EQ(where(answer), "r0n0:8 r0n2:1");
  book(fleet_, request, answer);
  EXPECT_EQ(where(ask(one(7, kFleet, kFleet))), "r0n1:7");
  EXPECT_EQ(why(one(8, kFleet, kFleet)), "the fleet fits 7 of 8; fits with 7 pods of set 0");
  request.gang.sets[0].count = 1;
  EXPECT_EQ(why(request), "rack r0 fits 0 of 1; fits on shared nodes");
  fleet_.open(2);
  EXPECT_EQ(where(ask(one(7, kFleet, kFleet))), "r0n1:7");
  EXPECT_EQ(where(ask(one(8, kRack, kRack))), "r0n1:7 r0n2:1");
}

TEST_F(Gangs, SlicesStayInOneDomain) {
  make({{6, 6, 6, 6}, {7, 7, 7, 7}});
  auto request = one(16, kBlock, kBlock);
  request.gang.sets[0].slices = {4, kNode};  // nodes with 6 and 7 free GPUs fit one slice each
  EXPECT_EQ(where(ask(request)), "r0n0:4 r0n1:4 r0n2:4 r0n3:4");
  request.gang.sets[0].slices = {8, kRack};
  EXPECT_EQ(where(ask(request)), "r0n0:6 r0n1:6 r0n2:4");
  request.gang.sets[0].count = 48;
  EXPECT_EQ(where(ask(request)), "r0n0:6 r0n1:6 r0n2:6 r0n3:6 r1n0:7 r1n1:7 r1n2:7 r1n3:3");
}

TEST_F(Gangs, SpreadOverDomains) {
  make({{8, 8, 8, 8}, {8, 8, 8, 8}, {8, 8, 8, 8}, {8, 8, 8, 8}});
  auto request = one(4, kFleet, kFleet);
  request.gang.sets[0].spread = {2, kNode};
  EXPECT_EQ(where(ask(request)), "r0n0:2 r0n1:2");
  request.gang.sets[0].spread = {1, kRack};
  EXPECT_EQ(where(ask(request)), "r0n0:1 r1n0:1 r2n0:1 r3n0:1");
  request.gang.sets[0].count = 5;
  EXPECT_EQ(why(request), "the fleet fits 4 of 5; fits with 4 pods of set 0");
}

TEST_F(Gangs, LeaderNextToItsWorkers) {
  make({{8, 8, 0, 0}, {8, 8, 1, 0}});
  Request request;
  request.gang = {kRack, kRack, {set_of(gpu_pod(1), 1), set_of(gpu_pod(8), 2)}, {}};
  auto answer = ask(request);
  EXPECT_EQ(where(answer, 0), "r1n2:1");
  EXPECT_EQ(where(answer, 1), "r1n0:1 r1n1:1");
  fleet_.remove(6);
  // Each set fits in either rack by itself, but not both together.
  EXPECT_EQ(why(request), "rack r0 fits 2 of 3, of all sets together; fits in one block; fits with 1 pods of set 1");
}

TEST_F(Gangs, NestedGroups) {
  make({{4, 4, 0, 0}, {8, 0, 0, 0}, {4, 4, 4, 4}, {8, 8, 0, 0}});
  // Two groups of 16 in a rack each, both in one block.
  Request request;
  request.gang.required = kBlock;
  for (int team = 0; team < 2; ++team) request.gang.children.push_back({kRack, kRack, {set_of(gpu_pod(1), 16)}, {}});
  const auto answer = ask(request);
  EXPECT_EQ(answer.levels, (std::vector<Level>{kBlock, kRack, kRack}));
  EXPECT_EQ(fleet_.tree().above({kNode, answer.members.front().node}, kBlock).index, 1U);
  EXPECT_NE(where(answer, 0), where(answer, 1));
  EXPECT_EQ(answer.cost, 64 + 2 * 8 + 6);
}

TEST_F(Gangs, ElasticSetUsesFreeCapacity) {
  make({{8, 8, 0, 0}, {8, 8, 8, 0}});
  auto request = one(64, kRack, kRack);
  request.gang.sets[0].min_count = 8;
  EXPECT_EQ(ask(request).members.size(), 24U);
  request.gang.sets[0].min_count = 25;
  EXPECT_EQ(why(request), "rack r1 fits 24 of 25; fits in one block; fits with 24 pods of set 0");
}

TEST_F(Gangs, SearchLimitIsReported) {
  make({{8, 8, 0, 0}, {8, 8, 8, 0}, {8, 8, 8, 8}, {8, 8, 8, 8}});
  for (const std::int32_t sets : {1, 2}) {
    Request request;
    for (std::int32_t set = 0; set < sets; ++set)
      request.gang.sets.push_back(set_of(gpu_pod(1 + set), sets == 1 ? 40 : 30));
    Options options;
    EXPECT_TRUE(place(fleet_, request, options)->exact);
    options.effort = 10;
    const auto answer = place(fleet_, request, options);
    EXPECT_TRUE(answer->placed());
    EXPECT_FALSE(answer->exact);
  }
}

// Each set fits by itself, and there are too many distributions to try all: the sum shows that none of them fits.
TEST_F(Gangs, InfeasibleCombinationOfSetsIsDetected) {
  make({{8, 8, 8, 8}, {8, 8, 8, 8}});
  Request request;
  request.gang.required = kRack;
  for (int set = 0; set < 12; ++set) {
    request.gang.sets.push_back(set_of(gpu_pod(0), 5));
    request.gang.sets.back().pod.cpu_milli = 7'000 + 100 * set;
  }
  const auto answer = ask(request);
  EXPECT_FALSE(answer.placed());
  EXPECT_TRUE(answer.exact);
  EXPECT_THAT(explain(fleet_.tree(), answer), ::testing::HasSubstr("of 60, of all sets together; fits in one block"));
}

TEST_F(Gangs, InvalidRequestIsRefusedWithARemedy) {
  make({{8}});
  const auto refused = [&](auto change) {
    auto request = one(8, kRack, kRack);
    change(request);
    const auto answer = place(fleet_, request);
    return answer ? std::string("taken") : answer.error().to_string();
  };
  EXPECT_THAT(refused([](Request& r) { r.gang.sets[0].slices = {3, kRack}; }), ::testing::HasSubstr("in slices of 3"));
  EXPECT_THAT(refused([](Request& r) { r.gang.required = 7; }), ::testing::HasSubstr("level 7 of 3"));
  EXPECT_THAT(refused([](Request& r) { r.gang.sets[0].count = 0; }), ::testing::HasSubstr("a set of 0 pods"));
  EXPECT_THAT(refused([](Request& r) { r.gang.sets[0].min_count = 9; }), ::testing::HasSubstr("at least 9 of 8"));
  EXPECT_THAT(refused([](Request& r) { r.gang.sets.clear(); }), ::testing::HasSubstr("without pods"));
  EXPECT_THAT(refused([](Request& r) { r.gang.sets[0].pod.gpu_milli = 0; }), ::testing::HasSubstr("of 0 milli"));
  EXPECT_THAT(refused([](Request& r) { r.gang.sets[0].pod.cpu_milli = -1; }), ::testing::HasSubstr("negative amount"));
  EXPECT_THAT(refused([](Request& r) {
                r.gang.sets[0].spread = {-1, kRack};
              }),
              ::testing::HasSubstr("0 means no limit"));
  EXPECT_THAT(refused([](Request& r) { r.gang.sets[0].spread.level = 4; }), ::testing::HasSubstr("level 4 of 3"));
  EXPECT_THAT(refused([](Request& r) { r.gang.sets.resize(65, r.gang.sets[0]); }), ::testing::HasSubstr("65 pod sets"));
  EXPECT_FALSE(place(fleet_, one(1, kFleet, kFleet), Options{{1, 1}, 10}));
  EXPECT_FALSE(place(fleet_, one(1, kFleet, kFleet), Options{{1, 0, 1}, 10}));
}

TEST_F(Gangs, FleetWithoutTopology) {
  Fleet flat({}, best_fit());
  for (const std::int32_t gpus : {4, 8, 2}) flat.add({}, "n", empty_node(gpus));
  const auto answer = place(flat, one(10, kFleet, kFleet));
  ASSERT_TRUE(answer->placed());
  EXPECT_EQ(answer->cost, 2);
  EXPECT_EQ(answer->members.back().node, 2U);
}

}  // namespace gang_test
}  // namespace qm::placement::gang::testing
