// Applies each remedy to the engine itself: it admits its workload and as many others as its text states.
#include "qm/admission/queries/remedies.hpp"

#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/queries/workloads.hpp"

#include <gtest/gtest.h>

#include <random>

namespace qm::admission {
namespace remedies_prop_test {

const std::string kGpu(words::kGpuResource);
constexpr int kStates = 1000;

class Fleet {
 public:
  explicit Fleet(unsigned seed) : random_(seed) {
    step({objects()});
    const int jobs = upto(3, 12);
    for (int i = 0; i < jobs; ++i) {
      step({job(i)});
      if (upto(0, 1) == 0) settle(upto(0, 2));
    }
    settle(upto(0, 3));
    // Quota that is lowered below its usage.
    if (upto(0, 3) == 0) {
      auto lowered = *engine.tables().cluster_queues.find(QueueName("q0"));
      for (auto& flavor : lowered.groups[0].flavors) flavor.resources[kGpu].nominal /= 2;
      ApplyObjects change;
      change.cluster_queues.push_back(lowered);
      step({change});
    }
  }

  Engine engine;
  Instant now = from_micros(5'000'000);

  void step(std::vector<Command> batch) {
    (void)engine.step(batch, now);
    engine.commit();
  }
  /// Placement places every request, and pods end when they are evicted.
  void settle(int rounds = 64) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<Command> answers;
      for (const auto& [uid, w] : engine.tables().workloads) {
        if (w.phase == Phase::kQuotaReserved) {
          answers.emplace_back(PlacementUpdated{uid, w.attempt, Answer::kReserved, "r", {}, {}});
        } else if (w.phase == Phase::kEvicting) {
          answers.emplace_back(PlacementUpdated{uid, w.attempt, Answer::kReleased, {}, {}, {}});
        }
      }
      if (answers.empty()) return;
      step(answers);
    }
  }
  /// Copies the rows into another engine.
  void copy_to(Fleet& other) const {
    auto& to = other.engine.tables_for_load();
    const auto& from = engine.tables();
    const auto copy = [](const auto& rows, auto& into) {
      for (const auto& [key, row] : rows) into.restore(key, row);
    };
    copy(from.cluster_queues, to.cluster_queues);
    copy(from.local_queues, to.local_queues);
    copy(from.cohorts, to.cohorts);
    copy(from.flavors, to.flavors);
    copy(from.priority_classes, to.priority_classes);
    copy(from.workloads, to.workloads);
    other.engine.loaded(now);
  }
  Fleet() = default;

 private:
  int upto(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  ApplyObjects objects() {
    ApplyObjects out;
    for (int f = 0; f < 3; ++f) out.flavors.push_back({FlavorName(fmt::format("f{}", f)), {}, {}, {}, {}});
    if (upto(0, 2) == 0) out.flavors[1].node_taints.push_back({"spot", "", "NoSchedule"});
    out.flavors[2].node_labels["zone"] = "b";
    if (upto(0, 1) == 0) out.priority_classes.push_back({"high", 7, true});
    const int queues = upto(1, 4);
    for (int i = 0; i < queues; ++i) {
      ClusterQueue q;
      q.name = QueueName(fmt::format("q{}", i));
      q.cohort = upto(0, 2) == 0 ? "" : "pool";
      ResourceGroup group{{kGpu}, {}};
      for (int f = i % 2; f < 3; f += upto(1, 2)) {
        Quota quota{upto(0, 8) * 1000, {}, {}};
        if (upto(0, 2) == 0) quota.borrowing_limit = upto(0, 4) * 1000;
        if (upto(0, 2) == 0) quota.lending_limit = upto(0, 4) * 1000;
        group.flavors.push_back({FlavorName(fmt::format("f{}", f)), {{kGpu, quota}}});
      }
      q.groups.push_back(group);
      q.strategy = upto(0, 1) == 0 ? Strategy::kStrictFifo : Strategy::kBestEffortFifo;
      q.within_cluster_queue = upto(0, 1) == 0 ? PreemptPolicy::kNever : PreemptPolicy::kLowerPriority;
      q.reclaim_within_cohort = std::vector{PreemptPolicy::kNever, PreemptPolicy::kLowerPriority,
                                            PreemptPolicy::kAny}[std::size_t(upto(0, 2))];
      out.cluster_queues.push_back(q);
      out.local_queues.push_back({Namespace("ns"), fmt::format("l{}", i), q.name, StopPolicy::kNone, {}});
    }
    return out;
  }
  JobUpdated job(int i) {
    JobUpdated out;
    out.spec.uid = WorkloadUid(fmt::format("w{:02}", i));
    out.spec.ns = Namespace("ns");
    out.spec.name = fmt::format("w{:02}", i);
    out.spec.queue = fmt::format("l{}", upto(0, 3) % std::max<int>(1, int(engine.tables().local_queues.size())));
    out.spec.priority = upto(0, 3);
    out.spec.submitted = from_micros(1'000'000 + i);
    PodSet pods;
    pods.count = upto(1, 3);
    pods.shape.gpu.whole = upto(1, 4);
    if (upto(0, 9) == 0) pods.shape.cpu_milli = 1000;
    if (upto(0, 3) == 0) pods.shape.node_selector["zone"] = upto(0, 1) == 0 ? "a" : "b";
    if (upto(0, 3) == 0) pods.shape.tolerations.push_back({"spot", "Exists", "", ""});
    out.spec.pod_sets.push_back(pods);
    return out;
  }

  std::mt19937 random_;
};

bool runs(const Engine& engine, const WorkloadUid& uid) {
  const auto* w = engine.find(uid);
  return w != nullptr && (w->phase == Phase::kAdmitted || w->phase == Phase::kQuotaReserved);
}

// The queue covers no cpu and has too few GPUs: only both changes together admit it.
TEST(Remedies, PairIsFoundWhereNoSingleChangeIsEnough) {
  Engine engine;
  const Instant now = from_micros(5'000'000);
  ApplyObjects objects;
  objects.flavors.push_back({FlavorName("f"), {}, {}, {}, {}});
  ClusterQueue q;
  q.name = QueueName("q");
  q.groups.push_back({{kGpu}, {{FlavorName("f"), {{kGpu, {4000, {}, {}}}}}}});
  objects.cluster_queues.push_back(q);
  objects.local_queues.push_back({Namespace("ns"), "l", q.name, StopPolicy::kNone, {}});
  JobUpdated job;
  job.spec.uid = WorkloadUid("w");
  job.spec.ns = Namespace("ns");
  job.spec.name = "w";
  job.spec.queue = "l";
  PodSet pods;
  pods.shape.gpu.whole = 6;
  pods.shape.cpu_milli = 2000;
  job.spec.pod_sets.push_back(pods);
  for (const auto& command : std::vector<Command>{objects, job}) {
    (void)engine.step(std::vector{command}, now);
    engine.commit();
  }
  std::string causes;
  for (const auto& cause : explain(engine.state(), *engine.find(job.spec.uid), now).causes)
    causes += cause.message + "\n";
  const auto found = remedies(engine.tables(), {}, job.spec.uid, now);
  ASSERT_FALSE(found.empty()) << causes;
  EXPECT_EQ(found[0].code, "CoverResource+RaiseQuota");
  EXPECT_EQ(found[0].message,
            "add to a resource group of ClusterQueue q: cpu with nominalQuota 2; and raise in ClusterQueue q "
            "nominalQuota of nvidia.com/gpu in flavor f from 4 to 6");
  EXPECT_TRUE(std::ranges::none_of(found, [](const Remedy& r) { return r.code.find('+') == std::string::npos; }));
}

// The scheduler that binds the pods is named, and how to change it.
TEST(Explain, NamesSchedulerThatBindsThePods) {
  Fleet fleet(1);
  JobUpdated job;
  job.spec.uid = WorkloadUid("other");
  job.spec.ns = Namespace("ns");
  job.spec.name = "other";
  job.spec.queue = "l0";
  job.spec.pod_sets.emplace_back();
  job.spec.pod_sets[0].shape.gpu.whole = 1000;
  for (const bool external_scheduler : {false, true}) {
    job.external_scheduler = external_scheduler;
    fleet.step({job});
    const auto explained = explain(fleet.engine.state(), *fleet.engine.find(job.spec.uid), fleet.now);
    const auto found = std::ranges::find(explained.causes, "OtherScheduler", &Cause::code);
    ASSERT_EQ(found != explained.causes.end(), external_scheduler);
    if (!external_scheduler) continue;
    EXPECT_NE(found->message.find("default-scheduler"), std::string::npos) << found->message;
    EXPECT_NE(found->remedy.find("set spec.schedulerName of its pod templates to quartermaster"), std::string::npos);
  }
}

TEST(Remedies, EachAdmitsItsWorkloadAndTheStatedNumberOfOthers) {
  std::map<std::string, int> of_code;
  int behind = 0;
  for (unsigned seed = 0; seed < kStates; ++seed) {
    const Fleet fleet(seed);
    Fleet without;
    fleet.copy_to(without);
    without.step({Reconsider{}});
    without.settle();
    for (const auto& [uid, w] : without.engine.tables().workloads) {
      if (w.phase != Phase::kPending) continue;
      const bool waits_in_line = queue_position(without.engine.state(), w) > 1;
      for (const auto& remedy : remedies(fleet.engine.tables(), {}, uid, fleet.now)) {
        const auto failure = fmt::format("seed {}: {}: {}", seed, uid, remedy.message);
        Fleet with;
        fleet.copy_to(with);
        std::vector<Command> batch{Reconsider{}, remedy.change.objects};
        for (const auto& job : remedy.change.jobs) batch.emplace_back(job);
        with.step(batch);
        with.settle();
        with.engine.check_laws();
        ASSERT_TRUE(runs(with.engine, uid)) << failure;
        int others = 0, preempted = 0;
        for (const auto& [other, row] : with.engine.tables().workloads) {
          if (other == uid || row.ended()) continue;
          others += !runs(without.engine, other) && runs(with.engine, other) ? 1 : 0;
          preempted += runs(without.engine, other) && !runs(with.engine, other) ? 1 : 0;
        }
        ASSERT_EQ(others, remedy.others) << failure;
        ASSERT_EQ(preempted, remedy.preempted) << failure;
        // The text states both numbers.
        EXPECT_EQ(remedy.message.find("it admits") != std::string::npos, others > 0) << failure;
        EXPECT_EQ(remedy.message.find("preempted") != std::string::npos, preempted > 0) << failure;
        ++of_code[remedy.code];
        behind += waits_in_line ? 1 : 0;
      }
    }
  }
  // All kinds occur, also for workloads that are not first in their queue.
  for (const char* code : {"RaiseQuota", "RaiseBorrowingLimit", "RaisePriority", "End", "Tolerate", "Relabel",
                           "FewerPods", "AddFlavor", "CoverResource"}) {
    EXPECT_GE(of_code[code], 3) << code;
  }
  EXPECT_GE(of_code["RaiseQuota"], 200);
  int pairs = 0;
  for (const auto& [code, count] : of_code) pairs += code.find('+') == std::string::npos ? 0 : count;
  EXPECT_GE(pairs, 20);
  EXPECT_GE(behind, 50);
}

}  // namespace remedies_prop_test
}  // namespace qm::admission
