// The effects of a change, before it is made.
#include "qm/admission/queries/what_if.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace what_if_test {

const std::string kGpu(words::kGpuResource);

ApplyObjects queue_of(const std::string& name, std::int64_t gpus, PreemptPolicy within = PreemptPolicy::kNever) {
  ApplyObjects out;
  ClusterQueue queue;
  queue.name = QueueName(name);
  queue.within_cluster_queue = within;
  queue.groups = {{{kGpu}, {{FlavorName("h100"), {{kGpu, Quota{gpus * 1000, {}, {}}}}}}}};
  out.cluster_queues.push_back(queue);
  out.local_queues.push_back({Namespace("team"), name, QueueName(name), StopPolicy::kNone, {}});
  return out;
}

JobUpdated job(const std::string& uid, const std::string& queue, std::int64_t gpus, std::int32_t priority = 0) {
  JobUpdated out;
  out.spec.uid = WorkloadUid(uid);
  out.spec.ns = Namespace("team");
  out.spec.name = uid;
  out.spec.queue = queue;
  out.spec.priority = priority;
  out.spec.submitted = from_micros(1'000'000);
  PodSet pods;
  pods.shape.gpu.whole = gpus;
  out.spec.pod_sets.push_back(pods);
  return out;
}

struct WhatIf : ::testing::Test {
  Engine engine;
  Instant now = from_micros(5'000'000);

  void SetUp() override {
    ApplyObjects flavors;
    flavors.flavors.push_back({FlavorName("h100"), {}, {}, {}, {}});
    step({flavors, queue_of("q", 8, PreemptPolicy::kLowerPriority)});
    step({job("runs", "q", 8)});
    step({PlacementUpdated{WorkloadUid("runs"), 1, Answer::kReserved, "r", {}, {}}});
    step({job("waits", "q", 4), job("waits-too", "q", 8)});
  }
  void step(std::vector<Command> batch) {
    (void)engine.step(batch, now);
    engine.commit();
  }
  std::string ask(const HypotheticalChange& supposed) {
    const auto before = engine.digest();
    const auto found = what_if(engine.tables(), {}, supposed, now);
    EXPECT_EQ(engine.digest(), before);
    if (!found) return found.error().to_string();
    std::string out;
    for (const auto& c : *found) {
      out += fmt::format("{} {} {}->{}; ", c.workload.spec.name, name_of(c.what), c.before, c.after);
    }
    return out;
  }
};

TEST_F(WhatIf, NoChangeGivesNoDifference) { EXPECT_EQ(ask({}), ""); }

TEST_F(WhatIf, MoreQuotaAdmits) {
  EXPECT_EQ(ask({queue_of("q", 12), {}, {}}), "waits admitted 1->0; waits-too advanced 2->1; ");
  EXPECT_EQ(ask({queue_of("q", 20), {}, {}}), "waits admitted 1->0; waits-too admitted 2->0; ");
}

TEST_F(WhatIf, HigherPriorityJobPreemptsAndDelays) {
  EXPECT_EQ(ask({{}, {}, {job("strong", "q", 8, 9)}}),
            "strong admitted 0->0; runs displaced 0->1; waits delayed 1->2; waits-too delayed 2->3; ");
}

TEST_F(WhatIf, PendingJobHasReason) {
  const auto found = what_if(engine.tables(), {}, {{}, {}, {job("zzz", "q", 2)}}, now);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().what, Consequence::What::kWaits);
  EXPECT_NE(found->front().why.find("2 of nvidia.com/gpu wanted"), std::string::npos) << found->front().why;
}

TEST_F(WhatIf, StoppedQueueKeepsRunningWorkloadsUnlessDrained) {
  auto held = queue_of("q", 20);
  held.cluster_queues[0].stop = StopPolicy::kHold;
  EXPECT_EQ(ask({held, {}, {}}), "");
  held.cluster_queues[0].stop = StopPolicy::kHoldAndDrain;
  EXPECT_EQ(ask({held, {}, {}}), "runs displaced 0->1; waits delayed 1->2; waits-too delayed 2->3; ");
}

TEST_F(WhatIf, DeletedLocalQueueRemovesItsPendingWorkloads) {
  // Objects from manifests stay; objects from the API server are removed.
  ApplyObjects watched = queue_of("w", 8);
  watched.cluster_queues[0].from_cluster = watched.local_queues[0].from_cluster = true;
  step({watched, job("theirs", "w", 8)});
  EXPECT_EQ(engine.find(WorkloadUid("theirs"))->phase, Phase::kQuotaReserved);
  EXPECT_EQ(ask({{}, {{"ClusterQueue", {}, "w"}}, {}}), "theirs displaced 0->0; ");
}

TEST_F(WhatIf, FinishedWorkloadReleasesItsQuota) {
  EXPECT_EQ(ask({{}, {{"Job", Namespace("team"), "runs"}}, {}}), "waits admitted 1->0; waits-too advanced 2->1; ");
  EXPECT_NE(ask({{}, {{"Workload", Namespace("team"), "missing"}}, {}}).find("team/missing is not known"),
            std::string::npos);
}

TEST_F(WhatIf, JobWithNameOfWorkloadReplacesIt) {
  // As parsed from a manifest: with a generated uid.
  auto stronger = job("supposed/team/waits-too", "q", 8, 9);
  stronger.spec.name = "waits-too";
  EXPECT_EQ(ask({{}, {}, {stronger}}), "waits-too admitted 2->0; runs displaced 0->1; waits delayed 1->2; ");
}

}  // namespace what_if_test
}  // namespace qm::admission
