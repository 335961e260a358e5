#include "world.hpp"

#include "qm/testing/testing.hpp"
#include "test/rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::fleet {
namespace world_test {

std::unique_ptr<World> make_world(World::Options options = {}) {
  return std::make_unique<World>(std::move(options), PriceTable::built_in(),
                                 manual_clock(*from_rfc3339("2026-11-21T09:00:00.4Z")));
}

std::int64_t whole_second(Instant t) { return micros(t) % 1'000'000; }

TEST(World, TimersRunInOrderOfTimeAndMaking) {
  auto world = make_world();
  std::string order;
  const Instant start = world->now();
  world->after(std::chrono::seconds(2), [&] { order += 'c'; });
  world->after(std::chrono::seconds(1), [&] {
    order += 'a';
    EXPECT_EQ(world->now(), start + std::chrono::seconds(1));
    world->after(std::chrono::seconds(1), [&] { order += 'd'; });
  });
  world->after(std::chrono::seconds(1), [&] { order += 'b'; });
  const auto never = world->after(std::chrono::seconds(1), [&] { order += 'x'; });
  world->cancel(never);
  world->advance(std::chrono::seconds(3));
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(world->now(), start + std::chrono::seconds(3));
}

TEST(World, ThreadRunsTimersOfARunningClock) {
  testing::TempDir dir;
  auto writer = ScaledClockWriter::create(dir.path() + "/clock", *from_rfc3339("2026-11-21T09:00:00Z"), 1000);
  ASSERT_TRUE(writer.has_value()) << writer.error().to_string();
  World::Options options;
  options.factor = 1000;
  std::atomic<bool> ran = false;
  World world(options, PriceTable::built_in(), file_clock(std::move(*writer)));
  world.start();
  world.after(std::chrono::seconds(60), [&] { ran = true; });
  EXPECT_TRUE(testing::wait_until([&] { return ran.load(); }));
  world.stop();
}

TEST(World, HoldsCapTheFactorUntilTheLastIsReleased) {
  World::Options options;
  options.factor = 120;
  auto world = make_world(options);
  EXPECT_EQ(world->factor(), 120);
  world->hold("a");
  world->hold("b");
  EXPECT_EQ(world->factor(), 10);
  world->set_factor(5);
  EXPECT_EQ(world->factor(), 5);
  world->set_factor(60);
  EXPECT_EQ(world->factor(), 10);
  world->release("a");
  EXPECT_EQ(world->factor(), 10);
  world->release("b");
  EXPECT_EQ(world->factor(), 60);
  std::vector<double> recorded;
  for (const auto& line : world->history().lines()) recorded.push_back((*Json::parse(line))["factor"].number());
  EXPECT_EQ(recorded, (std::vector<double>{120, 10, 5, 10, 60}));
}

TEST(World, AnInstanceBootsAndStopsAtWholeSeconds) {
  auto world = make_world();
  std::vector<InstanceEvent> events;
  world->listen([&](const Instance&, InstanceEvent event) { events.push_back(event); });
  LaunchSpec spec;
  spec.type = "g5.xlarge";
  spec.market = Market::kSpot;
  spec.client_token = "t1";
  spec.tags["karpenter.sh/nodeclaim"] = "claim-1";
  const auto launched = world->launch_instance(spec);
  ASSERT_TRUE(launched.has_value()) << launched.error().to_string();
  EXPECT_EQ(launched->state, InstanceState::kPending);
  EXPECT_EQ(launched->nano_usd_hour, 302'000'000);
  EXPECT_EQ(whole_second(launched->launched), 0);
  EXPECT_LE(launched->launched, world->now());
  EXPECT_EQ(launched->id.size(), 19u);

  world->advance(std::chrono::seconds(20));
  EXPECT_EQ(world->instance(launched->id)->state, InstanceState::kRunning);
  EXPECT_EQ(events, (std::vector{InstanceEvent::kLaunched, InstanceEvent::kRunning}));
  world->advance(std::chrono::seconds(100));
  EXPECT_EQ(events.back(), InstanceEvent::kBooted);

  ASSERT_TRUE(world->terminate_instance(launched->id, "Client.UserInitiatedShutdown").has_value());
  ASSERT_TRUE(world->terminate_instance(launched->id, "again").has_value()) << "stopping twice is not an error";
  const auto stopped = world->instance(launched->id);
  EXPECT_EQ(stopped->state, InstanceState::kShuttingDown);
  EXPECT_EQ(whole_second(*stopped->stopped), 0);
  EXPECT_GE(*stopped->stopped, world->now());
  EXPECT_EQ(stopped->stop_reason, "Client.UserInitiatedShutdown");
  world->advance(std::chrono::seconds(31));
  EXPECT_EQ(world->instance(launched->id)->state, InstanceState::kTerminated);
  world->advance(std::chrono::hours(1));
  EXPECT_FALSE(world->instance(launched->id).has_value());
  EXPECT_TRUE(world->instances().empty());
}

TEST(World, StoppingABootingInstanceMeansItNeverRegisters) {
  auto world = make_world();
  std::vector<InstanceEvent> events;
  world->listen([&](const Instance&, InstanceEvent event) { events.push_back(event); });
  LaunchSpec spec;
  spec.type = "g5.xlarge";
  const auto launched = world->launch_instance(spec);
  ASSERT_TRUE(world->terminate_instance(launched->id, "x").has_value());
  world->advance(std::chrono::minutes(5));
  EXPECT_EQ(events, (std::vector{InstanceEvent::kLaunched, InstanceEvent::kStopping, InstanceEvent::kTerminated}));
}

TEST(World, RefusesWhatTheCloudWouldRefuse) {
  auto world = make_world();
  LaunchSpec spec;
  spec.type = "p9.huge";
  EXPECT_EQ(world->launch_instance(spec).error().code, Code::kInvalid);
  spec.type = "g5.xlarge";
  spec.zone = "eu-west-1a";
  EXPECT_EQ(world->launch_instance(spec).error().field, "Placement.AvailabilityZone");
  spec.zone.clear();
  world->limit_capacity("g5.xlarge", Market::kOnDemand, 1);
  ASSERT_TRUE(world->launch_instance(spec).has_value());
  const auto full = world->launch_instance(spec);
  EXPECT_EQ(full.error().code, Code::kExhausted);
  EXPECT_EQ(full.error().field, "capacity");
  spec.market = Market::kSpot;
  EXPECT_TRUE(world->launch_instance(spec).has_value()) << "the other market has capacity";
  world->block_capacity("g5.xlarge", Market::kSpot, world->now() + std::chrono::seconds(60));
  EXPECT_EQ(world->launch_instance(spec).error().code, Code::kExhausted);
  world->advance(std::chrono::seconds(61));
  EXPECT_TRUE(world->launch_instance(spec).has_value());
  EXPECT_EQ(world->terminate_instance("i-0", "x").error().code, Code::kNotFound);
  EXPECT_EQ(world->set_tags("i-0", {}).error().code, Code::kNotFound);
}

TEST(World, ASpotNoticeSlowsTheClockUntilTheInstanceIsGone) {
  World::Options options;
  options.factor = 100;
  auto world = make_world(options);
  LaunchSpec spec;
  spec.type = "g5.xlarge";
  spec.initial = true;
  const auto firm = world->launch_instance(spec);
  EXPECT_EQ(world->give_spot_notice(firm->id, std::chrono::seconds(120)).error().code, Code::kFailedPrecondition);
  spec.market = Market::kSpot;
  const auto spot = world->launch_instance(spec);
  ASSERT_TRUE(world->give_spot_notice(spot->id, std::chrono::seconds(120)).has_value());
  EXPECT_EQ(world->factor(), World::kSlowFactor);
  world->advance(std::chrono::seconds(119));
  EXPECT_TRUE(world->instance(spot->id)->alive());
  world->advance(std::chrono::seconds(2));
  EXPECT_EQ(world->instance(spot->id)->stop_reason, "Server.SpotInstanceTermination");
  EXPECT_EQ(world->factor(), 100);
}

TEST(World, ApiFaultsEndByThemselves) {
  auto world = make_world();
  EXPECT_EQ(world->api_fault("ec2"), World::ApiFault::kNone);
  world->disturb(World::ApiFault::kThrottled, "ec2", 1, world->now() + std::chrono::seconds(10));
  EXPECT_EQ(world->api_fault("ec2"), World::ApiFault::kThrottled);
  EXPECT_EQ(world->api_fault("kube"), World::ApiFault::kNone);
  world->disturb(World::ApiFault::kServerError, "", 1, world->now() + std::chrono::seconds(20));
  EXPECT_EQ(world->api_fault("kube"), World::ApiFault::kServerError);
  world->advance(std::chrono::seconds(20));
  EXPECT_EQ(world->api_fault("ec2"), World::ApiFault::kNone);
}

TEST(World, HistoryGoesToItsFileLineByLine) {
  testing::TempDir dir;
  World::Options options;
  options.history_path = dir.path() + "/history.jsonl";
  auto world = make_world(options);
  world->signal("test", {});
  const std::string text = testing::read_file(options.history_path);
  EXPECT_NE(text.find(R"("e":"signal","kind":"test"})"), std::string::npos) << "flushed while the fleet still runs";
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  History elsewhere;
  EXPECT_EQ(elsewhere.open(dir.path() + "/no/such/folder").error().code, Code::kUnavailable);
}

TEST(Prices, TableIsExactAndNamesTheLineItCannotRead) {
  const InstanceType* p5 = PriceTable::built_in().find("p5.48xlarge");
  ASSERT_NE(p5, nullptr);
  EXPECT_EQ(p5->gpus, 8);
  EXPECT_EQ(p5->on_demand_nano_hour, 55'040'000'000);
  for (const auto& [name, type] : PriceTable::built_in().all()) {
    EXPECT_LT(type.spot_nano_hour, type.on_demand_nano_hour) << name;
    EXPECT_EQ(type.gpus > 0, !type.gpu_product.empty()) << name;
  }
  EXPECT_EQ(*parse_nano_usd("0.000000001"), 1);
  EXPECT_FALSE(parse_nano_usd("1.0000000001").has_value());
  EXPECT_FALSE(parse_nano_usd("-1").has_value());
  const std::string header =
      "instance_type,gpus,gpu_model,gpu_product,gpu_memory_mib,vcpu,memory_mib,on_demand_usd_hour,"
      "spot_usd_hour\n";
  EXPECT_EQ(PriceTable::parse(header + "x,1,A,B,1,1,1,1.5,0.5\ny,1,A,B,1,1,1,free,0\n").error().field,
            "line 3, on_demand_usd_hour");
  EXPECT_EQ(PriceTable::parse(header + "x,1\n").error().field, "line 2");
  EXPECT_EQ(PriceTable::parse("a,b\n").error().field, "line 1");
}

TEST(NodesFile, MakesATypeOfEachShape) {
  PriceTable prices;
  const auto nodes =
      read_nodes_file("sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,P100\nn-1,32000,131072,0,\n", prices);
  ASSERT_TRUE(nodes.has_value()) << nodes.error().to_string();
  ASSERT_EQ(nodes->size(), 2u);
  EXPECT_EQ(prices.find((*nodes)[0].type)->gpus, 2);
  EXPECT_EQ(prices.find("openb.0xcpu-32c-128g")->vcpu, 32);
  EXPECT_EQ(read_nodes_file("sn,cpu_milli,memory_mib,gpu,model\nn-0,many,1,1,T4\n", prices).error().field,
            "nodes file, line 2");
  EXPECT_EQ(uniform_nodes(2, "none", Market::kSpot, prices).error().field, "shape");
}

}  // namespace world_test
}  // namespace qm::fleet
