// Capacity reservations and capacity blocks as paid offerings: preferred, used up to their number, and left in time.
#include "test/engine/script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace qm::autoscaler::testing {
namespace reservation_cases_test {

using std::chrono::minutes;
using ::testing::IsEmpty;

Pool pool() {
  Pool p;
  p.name = "p";
  p.instance_types = {"a8", "h8"};
  p.markets = {Market::kOnDemand};
  p.zones = {"z1", "z2"};
  p.reserved = true;
  return p;
}

DemandUpdated demand(const std::vector<std::pair<std::string, std::int32_t>>& gangs) {
  DemandUpdated out;
  for (const auto& [uid, pods] : gangs) out.items.push_back({{WorkloadUid(uid), 1}, {pod_set(pods, 8)}});
  return out;
}

ReservationsListed listed(Reservation one, std::int64_t available, std::vector<std::string> classes = {"default"}) {
  return {{{std::move(one), available, std::move(classes)}}};
}

struct Reservations : ::testing::Test {
  Script script;
  Reservation plain{"cr-1", "h8", "z2", false, Instant{}, std::nullopt, 2};
  Output step(const std::vector<Command>& batch) {
    Output out = script.step(batch);
    EXPECT_EQ(script.complaint(), "");
    return out;
  }
  [[nodiscard]] std::int64_t in_use() {
    return std::ranges::count_if(script.engine().tables().claims, [](const auto& entry) {
      const Claim& c = entry.second;
      return !c.reservation.empty() && c.state != ClaimState::kGone && c.state != ClaimState::kFailed;
    });
  }
};

TEST_F(Reservations, ArePaidAndComeFirstUpToTheirNumber) {
  const auto out = step({PoolsApplied{{pool()}}, listed(plain, 2), demand({{"u", 1}, {"v", 1}, {"w", 1}})});
  ASSERT_EQ(out.launches.size(), 3U);
  int reserved = 0;
  for (const auto& launch : out.launches) {
    reserved += launch.row.reservation == "cr-1" ? 1 : 0;
    // h8 costs twice as much as a8 on demand, and nothing in the reservation.
    EXPECT_EQ(launch.row.type, launch.row.reservation.empty() ? "a8" : "h8");
    EXPECT_EQ(launch.row.zone, launch.row.reservation.empty() ? "z1" : "z2");
  }
  EXPECT_EQ(reserved, 2);
}

TEST_F(Reservations, AGangIsInOneAsAWholeOrNotAtAll) {
  auto out = step({PoolsApplied{{pool()}}, listed(plain, 2), demand({{"w", 3}})});
  ASSERT_EQ(out.launches.size(), 3U);
  EXPECT_EQ(in_use(), 0);
  out = step({demand({{"w", 3}, {"x", 2}})});
  ASSERT_EQ(out.launches.size(), 2U);
  EXPECT_EQ(out.launches[1].row.reservation, "cr-1");
  EXPECT_EQ(in_use(), 2);
}

TEST_F(Reservations, InstancesOfOthersAreNotUsed) {
  step({PoolsApplied{{pool()}}, listed(plain, 1), demand({{"u", 1}, {"v", 1}})});
  EXPECT_EQ(in_use(), 1);
  // The list of the cloud has the instance of the claim now, which is not one of others.
  const auto name = std::ranges::find_if(script.engine().tables().claims, [](const auto& entry) {
                      return !entry.second.reservation.empty();
                    })->first;
  step({LaunchEnded{name, InstanceId("i-1"), ""}});
  step({listed(plain, 1), demand({{"u", 1}, {"v", 1}, {"w", 1}})});
  EXPECT_EQ(in_use(), 2);
}

TEST_F(Reservations, OfAClassOrPoolThatDoesNotSelectThemAreNotUsed) {
  step({PoolsApplied{{pool()}}, listed(plain, 2, {"other"}), demand({{"u", 1}})});
  EXPECT_EQ(in_use(), 0);
  Pool on_demand = pool();
  on_demand.reserved = false;
  step({PoolsApplied{{on_demand}}, listed(plain, 2), demand({{"u", 1}, {"v", 1}})});
  EXPECT_EQ(in_use(), 0);
  Pool elsewhere = pool();
  elsewhere.zones = {"z1"};
  step({PoolsApplied{{elsewhere}}, demand({{"u", 1}, {"v", 1}, {"w", 1}})});
  EXPECT_EQ(in_use(), 0);
}

TEST_F(Reservations, PodsMaySelectReservedCapacity) {
  auto on_demand = demand({{"u", 1}});
  on_demand.items[0].pod_sets[0].shape.node_selector = {{"karpenter.sh/capacity-type", "on-demand"}};
  step({PoolsApplied{{pool()}}, listed(plain, 2), on_demand});
  EXPECT_EQ(in_use(), 0);
  auto reserved = demand({{"v", 1}});
  reserved.items[0].pod_sets[0].shape.node_selector = {{"karpenter.sh/capacity-type", "reserved"}};
  step({reserved});
  EXPECT_EQ(in_use(), 1);
}

TEST_F(Reservations, AfterARefusalOtherCapacityIsLaunched) {
  step({PoolsApplied{{pool()}}, listed(plain, 2), demand({{"w", 1}})});
  const auto out = step({LaunchEnded{ClaimName("p-00001"), {}, "ReservationCapacityExceeded"}});
  ASSERT_EQ(out.launches.size(), 1U);
  EXPECT_EQ(out.launches[0].row.reservation, "");
  EXPECT_EQ(out.launches[0].row.type, "a8");
}

TEST_F(Reservations, AStaticPoolHasItsNodesInThem) {
  Pool fixed = pool();
  fixed.replicas = 3;
  step({PoolsApplied{{fixed}}, listed(plain, 2)});
  EXPECT_EQ(in_use(), 2);
  EXPECT_EQ(script.engine().tables().claims.size(), 3U);
}

struct Blocks : Reservations {
  Reservation block{"cb-1", "h8", "z1", true, Instant{}, std::nullopt, 4};
  void begin(Duration length) {
    block.start = script.now();
    block.end = script.now() + length;
    step({PoolsApplied{{pool()}}, listed(block, 4)});
  }
};

TEST_F(Blocks, AreNotUsedByAGangThatCannotFinish) {
  begin(minutes(140));
  WorkloadUpdated workload;
  workload.uid = WorkloadUid("w");
  workload.expected = minutes(101);
  step({workload, demand({{"w", 2}})});
  EXPECT_EQ(in_use(), 0) << "its nodes are drained after 100 minutes";
  workload.uid = WorkloadUid("x");
  workload.expected = minutes(100);
  step({workload, demand({{"w", 2}, {"x", 2}})});
  EXPECT_EQ(in_use(), 2);
}

TEST_F(Blocks, BeginAtTheirStart) {
  block.start = script.now() + minutes(10);
  block.end = script.now() + minutes(600);
  step({PoolsApplied{{pool()}}, listed(block, 4), demand({{"v", 1}})});
  EXPECT_EQ(in_use(), 0);
  script.advance(minutes(10));
  step({demand({{"v", 1}, {"w", 1}})});
  EXPECT_EQ(in_use(), 1);
}

TEST_F(Blocks, AreLeftBeforeTheCloudTakesThemBack) {
  begin(minutes(100));
  step({demand({{"w", 1}})});
  ASSERT_EQ(in_use(), 1);
  InstanceFact fact{InstanceId("i-1"), ClaimName("p-00001"), "p",          "h8", "z1",
                    Market::kOnDemand, NodeName("n1"),       script.now(), {}};
  NodeUpdated node{NodeName("n1"), true, false, false, 1, {}, fact.id};
  step({InstancesListed{{fact}}, node, demand({})});
  AssignmentUpdated runs{{WorkloadUid("w"), 1}, true, {NodeName("n1")}};
  WorkloadUpdated workload;
  workload.uid = WorkloadUid("w");
  workload.checkpoints = true;
  step({runs, workload});
  script.advance(minutes(59));
  EXPECT_THAT(step({Tick{}}).drains, IsEmpty());
  script.advance(minutes(1));
  const auto out = step({Tick{}});
  ASSERT_EQ(out.drains.size(), 1U);
  EXPECT_EQ(out.drains[0].reason, "ReservationEnd");
  EXPECT_EQ(out.drains[0].deadline, block.end.value() - minutes(30));
  ASSERT_EQ(out.orders.size(), 1U) << "it saves before it leaves";
  // Nothing is launched into the block any more.
  step({demand({{"x", 1}})});
  EXPECT_EQ(in_use(), 1);
  // It was not emptied: at the deadline the instance is terminated with its pods.
  script.advance(minutes(10));
  const auto last = step({Tick{}});
  EXPECT_GE(last.evictions.size() + last.terminations.size(), 1U);
}

// Demand that comes and goes, instances of others, refusals: never more instances than the reservation has.
TEST_F(Reservations, AreNeverExceeded) {
  std::mt19937 random(7);
  const auto roll = [&](unsigned sides) { return static_cast<int>(random() % sides); };
  plain.count = 5;
  step({PoolsApplied{{pool()}}, listed(plain, 5)});
  std::map<InstanceId, InstanceFact> cloud;
  int others = 0, serial = 0;
  std::int64_t most = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<std::pair<std::string, std::int32_t>> gangs;
    for (int g = 0; g < roll(5); ++g) gangs.emplace_back(fmt::format("w{}", roll(8)), 1 + roll(3));
    std::ranges::sort(gangs);
    gangs.erase(std::unique(gangs.begin(), gangs.end(), [](auto& a, auto& b) { return a.first == b.first; }),
                gangs.end());
    std::vector<Command> batch{demand(gangs)};
    for (const auto& [name, c] : script.engine().tables().claims) {
      if (c.state != ClaimState::kRequested || roll(3) == 0) continue;
      const InstanceId id(fmt::format("i-{}", ++serial));
      const bool refused = roll(6) == 0;
      if (!refused)
        cloud[id] = {id, name, "p", c.type, c.zone, c.market, NodeName(fmt::format("n{}", serial)), script.now(), {}};
      batch.emplace_back(LaunchEnded{name, refused ? InstanceId() : id, refused ? "none" : ""});
    }
    for (auto& [id, fact] : cloud)
      if (!fact.stopped && roll(10) == 0) fact.stopped = script.now();
    InstancesListed seen;
    for (const auto& [id, fact] : cloud) seen.instances.push_back(fact);
    batch.emplace_back(std::move(seen));
    step(batch);
    const std::int64_t mine = in_use();
    ASSERT_LE(mine + others, plain.count) << "round " << round;
    most = std::max(most, mine);
    if (roll(4) == 0) {  // others use what is free; the list has what runs now
      const auto running = std::ranges::count_if(script.engine().tables().claims, [](const auto& entry) {
        return !entry.second.reservation.empty() && !entry.second.instance.empty() &&
               entry.second.state != ClaimState::kGone;
      });
      others = std::min<int>(roll(3), static_cast<int>(plain.count - mine));
      step({listed(plain, plain.count - running - others)});
    }
    script.advance(std::chrono::seconds(roll(60)));
  }
  EXPECT_GE(most, 4) << "the reservation is hardly used";
}

}  // namespace reservation_cases_test
}  // namespace qm::autoscaler::testing
