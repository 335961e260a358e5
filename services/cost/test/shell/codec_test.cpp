#include "qm/testing/state.hpp"
#include "wire.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace qm::cost::test {
namespace codec_test {

template <class Fact>
Fact only(const service::Input& input) {
  const auto commands = Codec{}.decode(input);
  EXPECT_TRUE(commands) << commands.error().to_string();
  EXPECT_EQ(commands->size(), 1u);
  return std::get<Fact>(commands->front());
}

TEST(Codec, ReadsInstancesOnceTheyAreBilled) {
  const auto fact = only<InstanceUpdated>(instance("i-1", 10, 20, 3));
  EXPECT_EQ(fact.id.value(), "i-1");
  EXPECT_EQ(fact.claim.value(), "claim-i-1");
  EXPECT_EQ(fact.version, 3u);
  EXPECT_EQ(fact.gpus, 8);
  EXPECT_EQ(micros(fact.launched), us(10));
  EXPECT_EQ(micros(fact.stopped), us(20));

  pb::CapacityEvent asked;
  asked.mutable_instance()->set_claim("c");
  asked.mutable_instance()->set_state(pb::INSTANCE_REQUESTED);
  EXPECT_TRUE(Codec{}.decode(bus_input("qm.capacity", "instance/c", 1, asked.SerializeAsString()))->empty());
}

TEST(Codec, ATombstoneWithoutALaunchEndsWhatTheClaimHas) {
  pb::CapacityEvent event;
  event.mutable_instance()->set_claim("claim-i-1");
  event.mutable_instance()->set_state(pb::INSTANCE_STOPPED);
  auto input = bus_input("qm.capacity", "instance/claim-i-1", 1, event.SerializeAsString());
  EXPECT_TRUE(Codec{}.decode(input)->empty()) << "stopped before it was launched";
  input.tombstone = true;
  EXPECT_EQ(only<InstanceForgotten>(input).claim, ClaimName("claim-i-1"));
}

// S-074: a gang that has no place is charged nothing: all of the node is idle.
TEST(Codec, AGangWithoutAPlaceIsChargedNothing) {
  pb::PlacementEvent waits;
  auto* a = waits.mutable_assignment();
  a->set_uid("w");
  a->set_attempt(1);
  a->set_state(pb::SHORT);
  a->set_team("research");
  a->set_short_reason("5 of 8 pods fit");
  Engine engine;
  Instant now = from_micros(us(0));
  for (const auto& input : {prices_input(builtin_prices()), instance("i-1", 0), node("n1", "i-1", pb::NODE_READY, 0),
                            bus_input("qm.placement", "w/1", 1, waits.SerializeAsString())}) {
    const auto commands = Codec{}.decode(input);
    ASSERT_TRUE(commands) << commands.error().to_string();
    (void)engine.step(*commands, now);
    engine.commit();
  }
  now = from_micros(us(3600));
  const std::vector<Engine::Command> tick{Tick{}};
  (void)engine.step(tick, now);
  engine.commit();
  const auto charge = engine.allocate(from_micros(us(0)), now, Group::kTeam);
  ASSERT_TRUE(charge);
  EXPECT_FALSE(charge->contains("research"));
  EXPECT_EQ(std::accumulate(charge->begin(), charge->end(), std::int64_t{0},
                            [](std::int64_t sum, const auto& part) { return sum + part.second.gpu_micros; }),
            8 * 3600 * kSecond);
}

TEST(Codec, ReadsSpotPricesAndSkipsTheRestOfTheTopic) {
  pb::CapacityEvent event;
  event.mutable_price()->set_instance_type("t");
  event.mutable_price()->set_zone("z");
  event.mutable_price()->set_nano_usd_hour(7);
  event.mutable_price()->set_from_us(9);
  const auto fact = only<SpotPriceUpdated>(bus_input("qm.capacity", "price/t/z", 2, event.SerializeAsString()));
  EXPECT_EQ(fact.pool, (SpotPool{"t", "z"}));
  EXPECT_EQ(fact.rate.per_hour.nano(), 7);
  EXPECT_EQ(micros(fact.from), 9);

  pb::CapacityEvent drain;
  drain.mutable_drain()->set_node("n");
  EXPECT_TRUE(Codec{}.decode(bus_input("qm.capacity", "drain/n", 1, drain.SerializeAsString()))->empty());
  pb::PlacementEvent demand;
  demand.mutable_demand();
  EXPECT_TRUE(Codec{}.decode(bus_input("qm.placement", "demand", 1, demand.SerializeAsString()))->empty());
}

TEST(Codec, DistinguishesHealthCordonsFromDrains) {
  const auto state = [](pb::NodeState s, const std::string& reason) {
    return only<NodeUpdated>(node("n", "i-1", s, 5, reason)).state;
  };
  EXPECT_EQ(state(pb::NODE_READY, ""), NodeState::kReady);
  EXPECT_EQ(state(pb::NODE_NOT_READY, "lost"), NodeState::kNotReady);
  EXPECT_EQ(state(pb::NODE_CORDONED, "health: XID 79; drain: SpotInterruption"), NodeState::kUnhealthy);
  EXPECT_EQ(state(pb::NODE_CORDONED, "drain: SpotInterruption"), NodeState::kDraining);
  EXPECT_EQ(state(pb::NODE_GONE, ""), NodeState::kDraining);
  EXPECT_EQ(only<NodeUpdated>(node("n", "i-1", pb::NODE_READY, 5)).instance.value(), "i-1");
}

TEST(Codec, ReadsSharesAndMigInstances) {
  auto input = stay("w", "", "lab", "n", 2, 5);
  pb::PlacementEvent event;
  ASSERT_TRUE(event.ParseFromString(input.bytes));
  auto* device = event.mutable_assignment()->mutable_members(0)->mutable_devices(1);
  device->set_milli(0);
  device->set_mig_profile("2g.20gb");
  (*event.mutable_assignment()->mutable_labels())["product"] = "search";
  input.bytes = event.SerializeAsString();
  const auto fact = only<AssignmentUpdated>(input);
  EXPECT_EQ(fact.labels, (Labels{{"product", "search"}}));
  EXPECT_EQ(fact.owner, (Owner{"lab", "lab", "job-w", "w"}));  // the namespace is charged without a team
  EXPECT_EQ(fact.members[0].devices, (std::vector<DeviceShare>{{0, 1000}, {1, 0, 2}}));
}

TEST(Codec, RefusesWhatCannotBeRightByField) {
  const auto refused = [](const service::Input& input) {
    const auto out = Codec{}.decode(input);
    EXPECT_FALSE(out);
    return out ? Error{} : out.error();
  };
  EXPECT_EQ(refused(bus_input("qm.node", "n", 1, "\xff")).field, "payload");
  EXPECT_EQ(refused(instance("i-1", 1, 0, 1, -1)).field, "gpus");
  EXPECT_EQ(refused(instance("", 1)).field, "instance_id");
  EXPECT_EQ(refused(bus_input("qm.unknown", "k", 1, "x")).code, Code::kUnimplemented);
  pb::CapacityEvent price;
  price.mutable_price()->set_nano_usd_hour(-1);
  EXPECT_EQ(refused(bus_input("qm.capacity", "p", 1, price.SerializeAsString())).field, "nano_usd_hour");
  auto input = stay("w", "t", "ns", "n", 1, 5);
  pb::PlacementEvent event;
  ASSERT_TRUE(event.ParseFromString(input.bytes));
  event.mutable_assignment()->mutable_members(0)->mutable_devices(0)->set_milli(1001);
  input.bytes = event.SerializeAsString();
  EXPECT_EQ(refused(input).field, "devices.milli");
  service::Input prices;
  prices.source = service::Source::kWatch;
  prices.name = "prices";
  prices.bytes = R"({"name":"p","entries":[{"instanceType":"t"}]})";
  EXPECT_EQ(refused(prices).field, "entries.nanoUsdHour");
}

TEST(Codec, PricePlansMakeTheRoundTrip) {
  const auto fact = only<PriceApplied>(prices_input(builtin_prices(), from_micros(77)));
  EXPECT_EQ(fact.plan, builtin_prices());
  EXPECT_EQ(fact.from, from_micros(77));
  EXPECT_FALSE(only<PriceApplied>(prices_input(builtin_prices())).from);
}

Budget weekly() {
  Budget out;
  out.name = "lab";
  out.ns = "lab";
  out.unit = BudgetUnit::kNanoUsd;
  out.amount = 5'000'000'000;
  out.period = BudgetPeriod::kWeek;
  out.utc_offset = std::chrono::hours(1);
  out.carry_over_permille = 500;
  out.soft = true;
  out.default_run = std::chrono::minutes(30);
  return out;
}

TEST(Codec, BudgetsMakeTheRoundTrip) {
  const std::vector<Budget> budgets{weekly()};
  EXPECT_EQ(only<BudgetsApplied>(budgets_input(budgets)).budgets, budgets);
  service::Input wrong = budgets_input(budgets);
  wrong.bytes = R"({"budgets":[{"name":"b"}]})";
  EXPECT_FALSE(Codec{}.decode(wrong));
}

TEST(Codec, AnAssignmentEndsWhenItIsReleasedOrExpired) {
  EXPECT_FALSE(only<AssignmentUpdated>(stay("w", "t", "lab", "n", 1, 5)).ended);
  EXPECT_TRUE(only<AssignmentUpdated>(stay("w", "t", "lab", "n", 1, 5, 9)).ended);
  pb::PlacementEvent event;
  event.mutable_assignment()->set_uid("w");
  event.mutable_assignment()->set_attempt(1);
  event.mutable_assignment()->set_state(pb::EXPIRED);
  EXPECT_TRUE(only<AssignmentUpdated>(bus_input("qm.placement", "w/1", 2, event.SerializeAsString())).ended);
}

TEST(Codec, StateMakesTheRoundTrip) {
  Shell shell(std::make_unique<Engine>(), Codec{});
  std::map<std::pair<std::string, std::string>, std::string> rows;
  const auto run = [&](std::vector<service::Input> batch, std::int64_t now) {
    service::Effects effects;
    std::vector<std::pair<std::size_t, Error>> poison;
    shell.step(batch, from_micros(us(now)), effects, poison);
    EXPECT_TRUE(poison.empty());
    for (auto& row : effects.state) {
      if (row.value) {
        rows[{row.kind, row.key}] = *row.value;
      } else {
        rows.erase({row.kind, row.key});
      }
    }
    shell.commit();
    return effects;
  };
  pb::CapacityEvent price;
  price.mutable_price()->set_instance_type("p5.48xlarge");
  price.mutable_price()->set_zone("us-east-1a");
  price.mutable_price()->set_nano_usd_hour(20'000'000'000);
  price.mutable_price()->set_from_us(us(1));
  const std::vector<Budget> budgets{weekly()};
  const auto granted = run({prices_input(builtin_prices()), budgets_input(budgets)}, 0);
  ASSERT_EQ(granted.events.size(), 1u);
  EXPECT_EQ(granted.events[0].key, "budget/lab");
  pb::CostEvent reported;
  ASSERT_TRUE(reported.ParseFromString(granted.events[0].payload));
  EXPECT_EQ(reported.grant().sequence(), 1u);
  EXPECT_EQ(reported.grant().namespace_(), "lab");
  EXPECT_EQ(reported.grant().unit(), pb::BUDGET_NANO_USD);
  EXPECT_TRUE(reported.grant().soft());
  EXPECT_EQ(reported.grant().default_run_us(), 1800 * kSecond);
  ASSERT_EQ(reported.grant().allotments_size(), 2);
  EXPECT_EQ(reported.grant().allotments(0).to_us(), reported.grant().allotments(1).from_us());
  EXPECT_EQ(reported.grant().allotments(1).amount(), 5'000'000'000);
  EXPECT_EQ(reported.grant().allotments(1).carry_over_permille(), 500);
  EXPECT_GT(reported.grant().prices_size(), 5);
  run({prices_input(builtin_prices()), instance("i-1", 0), node("n1", "i-1", pb::NODE_READY, 60),
       stay("w", "research", "lab", "n1", 3, 100), bus_input("qm.capacity", "p", 1, price.SerializeAsString())},
      300);
  const auto settled = run({stay("w", "research", "lab", "n1", 3, 100, 900, 2)}, 5000);
  // Four slices: starting, idle, the stay, idle again; each with lines that add up, and one event per changed total.
  EXPECT_EQ(settled.appends.size(), 2u + 2u + 3u + 2u);
  std::int64_t nano = 0, gpu = 0;
  for (const auto& line : settled.appends) {
    ASSERT_EQ(line.names.size(), line.columns.size());
    nano += std::stoll(*line.columns[11]);
    gpu += std::stoll(*line.columns[12]);
  }
  EXPECT_EQ(nano, 0);
  EXPECT_EQ(gpu, 0);
  ASSERT_EQ(settled.events.size(), 4u);  // (idle), (starting), research, and the cost of the attempt
  EXPECT_EQ(settled.events[3].key, "spent/w/1");
  ASSERT_TRUE(reported.ParseFromString(settled.events[3].payload));
  EXPECT_EQ(reported.spent().gpu_micros(), 3 * 800 * kSecond);
  EXPECT_TRUE(reported.spent().final());
  EXPECT_FALSE(settled.events[3].tombstone);
  EXPECT_EQ(settled.events[2].key, "total/2026-11/research");
  pb::CostEvent event;
  ASSERT_TRUE(event.ParseFromString(settled.events[2].payload));
  EXPECT_EQ(event.totals().gpu_micros(), 3 * 800 * kSecond);
  EXPECT_EQ(settled.wake_at, from_micros(us(7200 + 600)));

  std::vector<store::StateRow> stored;
  for (const auto& [key, value] : rows) stored.push_back({key.first, key.second, value});
  Shell other(std::make_unique<Engine>(), Codec{});
  ASSERT_TRUE(other.load(stored));
  EXPECT_EQ(other.digest(), shell.digest());
  EXPECT_EQ(other.engine().audit(), "");
  EXPECT_EQ(qm::testing::whole_state<service::StateDump>(other).dump(),
            qm::testing::whole_state<service::StateDump>(shell).dump());

  stored.push_back({"slice", "odd", "\xff\xff"});
  EXPECT_EQ(other.load(stored).error().code, Code::kInvalid);
  stored.back() = {"future", "x", ""};
  EXPECT_FALSE(other.load(stored));
}

}  // namespace codec_test
}  // namespace qm::cost::test
