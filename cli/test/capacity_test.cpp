// capacity why, plan and simulate.
#include "fake_suite.hpp"
#include "qm/base/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace qm::cli {
namespace capacity_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kUsd = 1'000'000'000;

pb::CapacityDecision decision() {
  pb::CapacityDecision out;
  out.set_workload("vision/train");
  out.set_priority(5);
  out.set_since_us(kNow - 90 * kSecond);
  auto& request = *out.add_requests();
  request.set_pod_set("main");
  request.set_count(4);
  request.set_in_room(1);
  request.set_gpu_milli(8000);
  request.set_cpu_milli(1500);
  request.set_memory_bytes(std::int64_t{64} << 30);
  out.set_pods(4);
  out.set_pods_in_room(1);
  out.set_room_zone("za");
  out.set_outcome("no capacity now");
  out.set_bound_nano_usd_hour(90 * kUsd);
  out.set_bound_by("nvidia.com/gpu");
  auto& candidate = *out.add_candidates();
  candidate.set_node_pool("gpu");
  candidate.set_instance_type("p5.48xlarge");
  candidate.set_zone("za");
  candidate.set_capacity_type("spot");
  candidate.set_nodes(3);
  candidate.set_node_nano_usd_hour(30 * kUsd);
  candidate.set_nano_usd_hour(90 * kUsd);
  candidate.set_reason("NoCapacity");
  candidate.set_message("refused at 10:00");
  (*out.mutable_counts())["NoCapacity"] = 2;
  (*out.mutable_counts())["DoesNotFit"] = 40;
  return out;
}

TEST(Capacity, WhyPrintsDemandBoundAndCandidatesWithNumbers) {
  FakeSuite suite;
  *suite.state.capacity.add_decisions() = decision();
  const auto ran = qmctl(suite, {"capacity", "why", "vision/train", "--candidates", "7"});
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_EQ(suite.state.capacity_request.name(), "vision/train");
  EXPECT_EQ(suite.state.capacity_request.candidates(), 7);
  EXPECT_THAT(ran.out, HasSubstr("vision/train (priority 5, pending for 90s)\n"));
  EXPECT_THAT(ran.out, HasSubstr("4 x main: 8 GPUs, 1.5 CPUs, 64Gi memory each"));
  EXPECT_THAT(ran.out, HasSubstr("1 of 4 pods fit running nodes in zone za"));
  EXPECT_THAT(ran.out, HasSubstr("no launch from these candidates costs less than 90.00 USD/h (by nvidia.com/gpu)"));
  EXPECT_THAT(ran.out, HasSubstr("NoCapacity  gpu        p5.48xlarge    za    spot               3       30.00  90.00  "
                                 "refused at 10:00"));
  EXPECT_THAT(ran.out, HasSubstr("not listed: 40 DoesNotFit, 1 NoCapacity; --candidates N lists more\n"));
}

TEST(Capacity, PlanPrintsLaunchesCostBoundAndRoom) {
  FakeSuite suite;
  auto& plan = *suite.state.simulation.mutable_present();
  for (int i = 0; i < 2; ++i) {
    auto& launch = *plan.add_launches();
    launch.set_node_pool("gpu");
    launch.set_instance_type("g5.xlarge");
    launch.set_capacity_type("on-demand");
    launch.set_nano_usd_hour(kUsd);
    launch.set_workload("vision/train");
    if (i == 1) launch.set_other_owner("karpenter");
  }
  plan.set_nano_usd_hour(2 * kUsd);
  plan.set_bound_nano_usd_hour(kUsd * 16 / 10);
  plan.set_bound_by("pods of main");
  plan.set_gpus(2);
  plan.set_pods(5);
  plan.set_pods_in_room(3);
  const auto ran = qmctl(suite, {"capacity", "plan"});
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("2 instance(s) with 2 GPUs would be launched at 2.00 USD/h\n"));
  EXPECT_THAT(ran.out, HasSubstr("3 of 5 pending pods fit running nodes; the others cost at least 1.60 USD/h (by pods "
                                 "of main), 25.0 % above the lower bound\n"));
  EXPECT_THAT(ran.out, HasSubstr("karpenter\n"));
  EXPECT_THAT(ran.out, HasSubstr("quartermaster\n"));
}

TEST(Capacity, SimulateSendsItsChangesAndPrintsTheDifference) {
  FakeSuite suite;
  auto& answer = suite.state.simulation;
  answer.mutable_present()->set_nano_usd_hour(2 * kUsd);
  answer.mutable_present()->add_launches()->set_nano_usd_hour(2 * kUsd);
  answer.mutable_changed()->set_nano_usd_hour(5 * kUsd);
  answer.mutable_changed()->set_gpus(8);
  *answer.mutable_changed()->add_unmet() = decision();
  for (int i = 0; i < 3; ++i) answer.mutable_changed()->add_launches();
  answer.add_warnings("pool.yaml:3: kubelet is not read");
  const auto file = suite.file("pool.yaml", "apiVersion: karpenter.sh/v1\nkind: NodePool\n");
  const auto ran = qmctl(
      suite, {"capacity", "simulate", "-f", file, "--price", "p5.48xlarge/za:spot=12.5", "--price", "g5.xlarge=-20%",
              "--add-demand", "4x8,cpu=96,memory=1Ti,model=H100,team=a,priority=7", "--remove-demand", "vision/old",
              "--unavailable", "p4d.24xlarge:on-demand", "--available", "g5.xlarge", "--delete", "old"});
  EXPECT_EQ(ran.code, kDone) << ran.err;
  const auto& sent = suite.state.simulation_request;
  EXPECT_EQ(sent.source(), file);
  EXPECT_THAT(sent.manifest(), HasSubstr("kind: NodePool"));
  ASSERT_EQ(sent.prices_size(), 2);
  EXPECT_EQ(sent.prices(0).nano_usd_hour(), kUsd * 25 / 2);
  EXPECT_EQ(sent.prices(0).zone(), "za");
  EXPECT_EQ(sent.prices(0).capacity_type(), "spot");
  EXPECT_FALSE(sent.prices(1).has_nano_usd_hour());
  EXPECT_EQ(sent.prices(1).permille(), 800);
  ASSERT_EQ(sent.demand_size(), 1);
  EXPECT_EQ(sent.demand(0).pods(), 4);
  EXPECT_EQ(sent.demand(0).gpus(), 8);
  EXPECT_EQ(sent.demand(0).cpu_milli(), 96'000);
  EXPECT_EQ(sent.demand(0).memory_bytes(), std::int64_t{1} << 40);
  EXPECT_EQ(sent.demand(0).gpu_model(), "H100");
  EXPECT_EQ(sent.demand(0).priority(), 7);
  EXPECT_EQ(sent.demand(0).node_selector().at("team"), "a");
  EXPECT_EQ(sent.removed(0), "vision/old");
  EXPECT_EQ(sent.deleted(0), "old");
  ASSERT_EQ(sent.availability_size(), 2);
  EXPECT_FALSE(sent.availability(0).available());
  EXPECT_EQ(sent.availability(0).capacity_type(), "on-demand");
  EXPECT_TRUE(sent.availability(1).available());
  EXPECT_THAT(ran.out, HasSubstr("difference: +2 instance(s), +8 GPUs, +3.00 USD/h, +1 workload(s) not met\n"));
  EXPECT_THAT(ran.out, HasSubstr("not met: vision/train: no capacity now\n"));
  EXPECT_THAT(ran.err, HasSubstr("warning: pool.yaml:3: kubelet is not read\n"));
}

TEST(Capacity, AnAnswerIsPrintedAsJson) {
  FakeSuite suite;
  *suite.state.capacity.add_decisions() = decision();
  const auto ran = qmctl(suite, {"capacity", "why", "vision/train", "--output", "json"});
  const auto read = Json::parse(ran.out);
  ASSERT_TRUE(read) << ran.out;
  const Json& shown = (*read)["decisions"].items().at(0);
  EXPECT_EQ(shown["boundBy"].string(), "nvidia.com/gpu");
  EXPECT_EQ(shown["candidates"].items().at(0)["reason"].string(), "NoCapacity");
}

TEST(Capacity, AWrongCommandLineNamesTheRightForm) {
  FakeSuite suite;
  const auto refused = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "capacity");
    const auto ran = qmctl(suite, args);
    EXPECT_EQ(ran.code, kUsage) << ran.out;
    return ran.err;
  };
  EXPECT_THAT(refused({"why"}), HasSubstr("give NAMESPACE/NAME, a uid or a NodeClaim"));
  EXPECT_THAT(refused({"plan", "vision/train"}), HasSubstr("capacity plan has no name"));
  EXPECT_THAT(refused({"simulate"}), HasSubstr("simulate needs a change"));
  EXPECT_THAT(refused({"plan", "--delete", "p"}), HasSubstr("a change needs capacity simulate"));
  for (const std::string wrong : {"p5", "=3", "p5=", "p5=x", "p5=-3", "p5=20%", "p5=-120%", "p5:cheap=3"}) {
    EXPECT_THAT(refused({"simulate", "--price", wrong}), HasSubstr("TYPE[/ZONE][:spot|on-demand]=USD or =+20%"))
        << wrong;
  }
  for (const std::string wrong : {"4", "x8", "0x8", "4x-1", "4x8,cpu", "4x8,cpu=many", "4x8,=a"}) {
    EXPECT_THAT(refused({"simulate", "--add-demand", wrong}), HasSubstr("PODSxGPUS")) << wrong;
  }
  EXPECT_THAT(refused({"simulate", "--unavailable", "p5:cheap"}), HasSubstr("--unavailable"));
  EXPECT_THAT(refused({"plan", "--journal", "host=db"}), HasSubstr("--journal needs capacity simulate"));
  EXPECT_THAT(refused({"plan", "--demand", "50"}), HasSubstr("need --journal"));
  EXPECT_THAT(refused({"simulate", "--journal", "host=db", "--add-demand", "1x1"}), HasSubstr("--demand PERCENT"));
}

// The journal is read by qm-replay, which gets the change as a file.
TEST(Capacity, SimulateOverAJournalStartsQmReplayWithTheChange) {
  FakeSuite suite;
  const auto program =
      suite.file("qm-replay", "#!/bin/sh\necho \"$@\" >\"$QM_TEST_OUT\"\ncat \"$8\" >>\"$QM_TEST_OUT\"\nexit 0\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const auto folder = std::filesystem::path(program).parent_path().string();
  const auto out = folder + "/out";
  ::setenv("QM_REPLAY", program.c_str(), 1);
  ::setenv("QM_TEST_OUT", out.c_str(), 1);
  const std::vector<std::string> args{"capacity", "simulate",       "--journal", "host=db",
                                      "--price",  "g5.xlarge=+50%", "--demand",  "150",
                                      "--set",    "node-price=0.1", "-o",        "json"};
  const auto ran = qmctl(suite, args);
  ::setenv("QM_REPLAY", "/nowhere/qm-replay", 1);
  const auto missing = qmctl(suite, args);
  ::unsetenv("QM_REPLAY");
  EXPECT_EQ(missing.code, kFailed);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/qm-replay cannot be started"));
  EXPECT_EQ(ran.code, kDone) << ran.err;
  const auto text = testing::read_file(out);
  EXPECT_THAT(text, HasSubstr("--postgres host=db --service autoscaler --shard default --what-if "));
  EXPECT_THAT(text, HasSubstr("--demand 150 --set node-price=0.1 --output json\n"));
  EXPECT_THAT(text, HasSubstr("\"permille\":\"1500\""));
}

}  // namespace capacity_test
}  // namespace qm::cli
