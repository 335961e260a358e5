// Launches that several offerings serve: what the engine allows the cloud to choose, and what it makes of the choice.
#include "test/engine/script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace fleet_cases_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Options with_alternatives() {
  Options options;
  options.alternatives = 19;
  return options;
}

Pool pool(std::vector<std::string> types, std::vector<Market> markets = {Market::kOnDemand}) {
  Pool p;
  p.name = "p";
  p.instance_types = std::move(types);
  p.markets = std::move(markets);
  p.zones = {"z1", "z2", "z3"};
  return p;
}

DemandUpdated demand(std::vector<std::pair<std::string, std::int32_t>> gangs) {
  DemandUpdated out;
  for (const auto& [uid, pods] : gangs) out.items.push_back({{WorkloadUid(uid), 1}, {pod_set(pods, 8)}});
  return out;
}

SpotPricesUpdated spot(std::vector<std::tuple<std::string, std::string, std::int64_t>> prices, Instant now) {
  SpotPricesUpdated out;
  for (const auto& [type, zone, usd] : prices)
    out.quotes.push_back({type, zone, HourlyRate{Money::nano(usd * 1'000'000'000)}, now});
  return out;
}

struct Choices : ::testing::Test {
  Script script{with_alternatives()};
  const Claim& claim(const char* name) { return *script.engine().tables().claims.find(ClaimName(name)); }
  Output step(std::vector<Command> batch) {
    Output out = script.step(batch);
    EXPECT_EQ(script.complaint(), "");
    return out;
  }
  static LaunchEnded at(const char* claim, const char* instance, const char* type, const char* zone) {
    return {ClaimName(claim), InstanceId(instance), "", Refusal::kCapacity, type, zone};
  }
};

TEST_F(Choices, TheOthersAreRankedByPriceAndOfOneMarket) {
  const auto out = step({PoolsApplied{{pool({"a8", "h8"}, {Market::kOnDemand, Market::kSpot})}},
                         spot({{"a8", "z2", 10}, {"h8", "z1", 20}, {"a8", "z3", 30}, {"h8", "z2", 41}}, script.now()),
                         demand({{"w", 2}})});
  ASSERT_EQ(out.launches.size(), 2U);
  EXPECT_EQ(out.launches[0].row.zone, "z2");
  // h8 in z2 is more expensive than a8 on demand, which is 40 and the next request if all of these are refused.
  EXPECT_THAT(out.launches[0].others, ElementsAre(LaunchOption{"h8", "z1"}, LaunchOption{"a8", "z3"}));
  EXPECT_TRUE(claim("p-00001").zone_open);
}

TEST_F(Choices, AnotherTypeUsesNoMoreOfTheLimits) {
  Pool limited = pool({"a8", "g4", "h8"});
  limited.limit_cpu_milli = 1'000'000;
  EXPECT_EQ(step({PoolsApplied{{limited}}, demand({{"w", 1}})}).launches.at(0).others.size(), 5U);
  // Four GPUs a node would be twice as many nodes: another launch, not another offering of it.
  DemandUpdated small;
  small.items.push_back({{WorkloadUid("x"), 1}, {pod_set(1, 4)}});
  const auto out = Script(with_alternatives()).step({PoolsApplied{{limited}}, small});
  ASSERT_EQ(out.launches.size(), 1U);
  EXPECT_EQ(out.launches[0].row.type, "g4");
  for (const auto& other : out.launches[0].others) EXPECT_EQ(other.type, "g4") << "a8 has more CPUs than g4";
}

TEST_F(Choices, TheChoiceOfTheCloudIsThatOfTheClaims) {
  step({PoolsApplied{{pool({"a8", "h8"})}}, demand({{"w", 2}})});
  EXPECT_EQ(claim("p-00001").zone, "z1");
  step({OfferingsRefused{
            {{"a8", "z1", Market::kOnDemand, Refusal::kCapacity}, {"a8", "z2", Market::kOnDemand, Refusal::kType}}},
        at("p-00001", "i-1", "h8", "z3"), at("p-00002", "i-2", "h8", "z3")});
  for (const char* name : {"p-00001", "p-00002"}) {
    EXPECT_EQ(claim(name).type, "h8");
    EXPECT_EQ(claim(name).zone, "z3");
    EXPECT_FALSE(claim(name).zone_open);
  }
  // What was refused on the way is held: the next gang begins elsewhere.
  const auto out = step({demand({{"w", 2}, {"x", 2}})});
  ASSERT_EQ(out.launches.size(), 2U);
  EXPECT_EQ(out.launches[0].row.type, "h8");
  for (const auto& other : out.launches[0].others) EXPECT_EQ(other.type, "h8") << "its type was refused in all zones";
}

TEST_F(Choices, AllRefusedHoldsEachOfferingAndNothingRemains) {
  step({PoolsApplied{{pool({"a8"})}}, demand({{"w", 2}})});
  OfferingsRefused refused;
  for (const char* zone : {"z1", "z2", "z3"}) refused.offerings.push_back({"a8", zone, Market::kOnDemand});
  const auto out =
      step({refused, LaunchEnded{ClaimName("p-00001"), {}, "none"}, LaunchEnded{ClaimName("p-00002"), {}, "none"}});
  EXPECT_THAT(out.launches, IsEmpty());
  EXPECT_EQ(script.engine().tables().blocked.size(), 3U);
}

TEST_F(Choices, GangsDoNotMeetOnInstancesWhoseZoneIsOpen) {
  step({PoolsApplied{{pool({"a8"})}}, demand({{"v", 1}, {"w", 1}})});
  ASSERT_EQ(script.engine().tables().claims.size(), 2U);
  // Both are assumed in z1; a gang on both would be split if they come in two zones.
  const auto out = step({demand({{"x", 2}})});
  EXPECT_EQ(out.launches.size(), 2U) << "instances of its own";
}

TEST_F(Choices, ALostMemberIsReplacedInTheChosenZone) {
  step({PoolsApplied{{pool({"a8"})}}, demand({{"w", 2}})});
  step({at("p-00001", "i-1", "a8", "z2"), at("p-00002", "i-2", "a8", "z2")});
  InstanceFact lost{InstanceId("i-2"), ClaimName("p-00002"), "p", "a8", "z2", Market::kOnDemand, {},
                    script.now(),      script.now()};
  InstanceFact stays = lost;
  stays.id = InstanceId("i-1"), stays.claim = ClaimName("p-00001"), stays.stopped.reset();
  const auto out = step({InstancesListed{{stays, lost}}});
  ASSERT_EQ(out.launches.size(), 1U);
  EXPECT_EQ(out.launches[0].row.zone, "z2");
  EXPECT_THAT(out.launches[0].others, IsEmpty());
}

TEST_F(Choices, PodsThatArePlannedTogetherHaveAlternativesToo) {
  const auto out = step({PoolsApplied{{pool({"a8"})}}, demand({{"v", 1}, {"w", 1}, {"x", 1}})});
  ASSERT_EQ(out.launches.size(), 3U);
  for (const auto& one : out.launches)
    EXPECT_THAT(one.others, ElementsAre(LaunchOption{"a8", "z2"}, LaunchOption{"a8", "z3"}));
}

}  // namespace fleet_cases_test
}  // namespace qm::autoscaler::testing
