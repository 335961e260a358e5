// S-085, S-116: within a queue only workloads of strictly lower priority are preempted.
#include "qm/admission/engine.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace qm::admission {
namespace preemption_prop_test {

using rc::gen::inRange;

ApplyObjects one_queue(std::int64_t gpus) {
  ClusterQueue queue;
  queue.name = QueueName("q");
  queue.within_cluster_queue = PreemptPolicy::kLowerPriority;
  ResourceGroup group{{std::string(words::kGpuResource)}, {}};
  group.flavors.push_back({FlavorName("f"), {{std::string(words::kGpuResource), Quota{gpus * 1000, {}, {}}}}});
  queue.groups.push_back(group);
  ApplyObjects apply;
  apply.flavors.push_back({FlavorName("f"), {}, {}, {}, {}});
  apply.cluster_queues.push_back(queue);
  apply.local_queues.push_back({Namespace("ns"), "l", QueueName("q"), StopPolicy::kNone, {}});
  for (int p = 0; p < 4; ++p) apply.priority_classes.push_back({fmt::format("p{}", p), p, true, false, {}});
  return apply;
}

JobUpdated job(int n, int priority, int gpus) {
  JobUpdated seen;
  seen.spec.uid = WorkloadUid(fmt::format("w{}", n));
  seen.spec.ns = Namespace("ns");
  seen.spec.name = fmt::format("w{}", n);
  seen.spec.queue = "l";
  seen.spec.priority_class = fmt::format("p{}", priority);
  PodSet pods;
  pods.shape.gpu.whole = gpus;
  seen.spec.pod_sets.push_back(pods);
  return seen;
}

/// A workload with pods is evicted first; one without pods is requeued at once. A row that is requeued after its pods
/// are gone still has the reason, but it was evicted before.
bool is_preempted(const Event& event) { return event.workload.reason == "Preempted"; }

/// Runs random jobs with priorities below `top` through one queue. Returns the number of preemptions.
int run(int top) {
  Engine engine;
  Instant now = from_micros(1'000'000);
  const std::vector<Command> setup{one_queue(*inRange(4, 12))};
  (void)engine.step(setup, now);
  engine.commit();
  int gone = 0;
  const int jobs = *inRange(4, 24);
  for (int n = 0; n < jobs; ++n) {
    now += std::chrono::seconds(*inRange(0, 3));
    const int priority = *inRange(0, top);
    std::vector<Command> batch{job(n, priority, *inRange(1, 5))};
    // Some workloads with quota are placed, and evicted workloads end.
    for (const auto& [uid, w] : engine.tables().workloads) {
      const bool evicting = w.phase == Phase::kEvicting;
      if (!evicting && (w.phase != Phase::kQuotaReserved || *inRange(0, 2) == 0)) continue;
      PlacementUpdated updated;
      updated.uid = uid;
      updated.attempt = w.attempt;
      updated.state = evicting ? Answer::kReleased : Answer::kReserved;
      batch.emplace_back(updated);
    }
    std::int32_t strongest = 0;
    for (const auto& [uid, w] : engine.tables().workloads) {
      if (w.phase == Phase::kPending) strongest = std::max(strongest, w.spec.priority);
    }
    strongest = std::max(strongest, priority);
    const auto out = engine.step(batch, now);
    for (const auto& event : out.events) {
      if (!is_preempted(event)) continue;
      // The preemptor is pending in this step, so its priority is at most the highest pending one.
      RC_ASSERT(event.workload.spec.priority < strongest);
      ++gone;
    }
    engine.commit();
  }
  engine.check_laws();
  return gone;
}

RC_GTEST_PROP(AdmissionPreemption, EqualPriorityIsNeverPreempted, ()) { RC_ASSERT(run(1) == 0); }

RC_GTEST_PROP(AdmissionPreemption, OnlyLowerPriorityIsPreempted, ()) { (void)run(4); }

// Restrictions of a victim end with it, even if it is not competing for quota then: an engine that loads the rows
// decides the same.
TEST(AdmissionPreemption, VictimThatEndsWhileInactiveBindsNothing) {
  Engine engine;
  Instant now = from_micros(1'000'000);
  const auto step = [&](Command command) {
    (void)engine.step(std::vector<Command>{std::move(command)}, now += std::chrono::seconds(1));
    engine.commit();
    engine.check_laws();
  };
  step(one_queue(4));
  step(job(1, 0, 4));
  step(job(2, 3, 4));
  ASSERT_FALSE(engine.find(WorkloadUid("w1"))->preemptors.empty());
  SetActive stop;
  stop.uid = WorkloadUid("w1");
  stop.active = false;
  step(stop);
  EXPECT_FALSE(engine.find(WorkloadUid("w1"))->preemptors.empty());
  step(JobDeleted{WorkloadUid("w1")});
  EXPECT_TRUE(engine.find(WorkloadUid("w1"))->preemptors.empty());
}

TEST(AdmissionPreemption, LowerPriorityIsPreempted) {
  Engine engine;
  const Instant now = from_micros(1'000'000);
  const std::vector<Command> batch{one_queue(4), job(1, 0, 4)};
  (void)engine.step(batch, now);
  engine.commit();
  const std::vector<Command> stronger{job(2, 1, 4)};
  const auto out = engine.step(stronger, now);
  EXPECT_TRUE(std::any_of(out.events.begin(), out.events.end(), is_preempted));
  EXPECT_EQ(engine.find(WorkloadUid("w2"))->phase, Phase::kQuotaReserved);
  EXPECT_EQ(engine.find(WorkloadUid("w1"))->phase, Phase::kPending);
}

}  // namespace preemption_prop_test
}  // namespace qm::admission
