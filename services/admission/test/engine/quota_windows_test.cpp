// Quota that is valid in calendar windows.
#include "qm/admission/engine.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/queries/queues.hpp"
#include "src/queries/copied.hpp"
#include "test/engine/jobs.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm::admission {
namespace quota_windows_test {

using namespace std::chrono_literals;
using rc::gen::inRange;

const std::string kGpu(words::kGpuResource);
/// A Friday, 19:00 UTC.
const Instant kEvening = from_micros(1'800'000'000'000'000 + 11LL * 3600 * 1'000'000);
const Instant kOpens = kEvening + 1h, kCloses = kOpens + 10h;

struct World {
  Engine engine;
  Instant now = kEvening;

  /// Two GPUs by day, and eight for ten hours from 20:00.
  static ApplyObjects objects(bool drains) {
    ApplyObjects out;
    out.flavors.push_back({FlavorName("h100"), {}, {}, {}, {}});
    ClusterQueue queue;
    queue.name = QueueName("q");
    queue.groups = {{{kGpu}, {{FlavorName("h100"), {{kGpu, Quota{2000, {}, {}}}}}}}};
    queue.drains = drains;
    queue.windows.push_back({*forecast::Window::make(*forecast::Cron::parse("0 20 * * *"), 10h, 0min),
                             {{FlavorName("h100"), {{kGpu, 8000}}}}});
    out.cluster_queues.push_back(queue);
    out.local_queues.push_back({Namespace("team"), "q", QueueName("q"), StopPolicy::kNone, {}});
    return out;
  }
  Output step(std::vector<Command> batch) {
    auto out = engine.step(batch, now);
    engine.commit();
    engine.check_laws();
    return out;
  }
  JobUpdated job(const std::string& uid, std::int64_t gpus, std::int32_t priority = 0) const {
    return testing::job_of(uid, gpus, now, priority);
  }
  Phase phase(const std::string& uid) const { return engine.find(WorkloadUid(uid))->phase; }
  std::string cause(const std::string& uid, const std::string& code) const {
    for (const auto& one : explain(engine.state(), *engine.find(WorkloadUid(uid)), now).causes) {
      if (one.code == code) return one.message;
    }
    return {};
  }
  std::int64_t nominal() const {
    return queue_view(engine.state(), *engine.tables().cluster_queues.find(QueueName("q"))).nominal.at(kGpu);
  }
};

struct QuotaWindows : ::testing::Test, World {};

TEST_F(QuotaWindows, EngineWakesAtOpeningAndAdmits) {
  auto out = step({objects(false), job("day", 2), job("night", 6)});
  EXPECT_EQ(out.wake_at, kOpens);
  EXPECT_EQ(phase("day"), Phase::kAdmitted);
  EXPECT_EQ(phase("night"), Phase::kPending);
  EXPECT_EQ(nominal(), 2000);
  EXPECT_EQ(cause("night", "QuotaWindow"),
            "ClusterQueue q has 8 of nvidia.com/gpu in flavor h100 from 2027-01-15T20:00:00Z on, and 2 until then");
  now = kOpens;
  out = step({Tick{}});
  EXPECT_EQ(phase("night"), Phase::kAdmitted);
  EXPECT_EQ(nominal(), 8000);
  EXPECT_EQ(out.wake_at, kCloses);
  // Running workloads are kept when the window closes, and no new ones are admitted.
  now = kCloses;
  step({Tick{}, job("late", 1)});
  EXPECT_EQ(phase("night"), Phase::kAdmitted);
  EXPECT_EQ(phase("day"), Phase::kAdmitted);
  EXPECT_EQ(phase("late"), Phase::kPending);
  EXPECT_EQ(nominal(), 2000);
  EXPECT_NE(cause("late", "QuotaWindow").find("from 2027-01-16T20:00:00Z on"), std::string::npos);
}

TEST_F(QuotaWindows, EndDrainsLowestPriorityAndNewestFirst) {
  now = kOpens;
  step({objects(true), job("strong", 2, 5), job("old", 2)});
  now += 1h;
  step({job("new", 2), job("newest", 1)});
  for (const char* uid : {"strong", "old", "new", "newest"}) ASSERT_EQ(phase(uid), Phase::kAdmitted) << uid;
  now = kCloses;
  step({Tick{}});
  EXPECT_EQ(phase("strong"), Phase::kAdmitted) << "it is within the daytime quota";
  for (const char* uid : {"old", "new", "newest"}) {
    ASSERT_EQ(phase(uid), Phase::kEvicting) << uid;
    EXPECT_EQ(engine.find(WorkloadUid(uid))->eviction->reason, "QuotaWindowClosed");
  }
}

TEST_F(QuotaWindows, NoWorkloadIsDrainedWithoutNeed) {
  now = kOpens;
  step({objects(true), job("old", 1)});
  now += 1h;
  step({job("large", 6)});
  now += 1h;
  step({job("newest", 1)});
  now = kCloses;
  step({Tick{}});
  EXPECT_EQ(phase("large"), Phase::kEvicting);
  EXPECT_EQ(phase("newest"), Phase::kAdmitted) << "with the large one gone it is within the daytime quota";
  EXPECT_EQ(phase("old"), Phase::kAdmitted);
  // Workloads are being evicted already: no more are.
  now += 1min;
  step({Reconsider{}});
  EXPECT_EQ(phase("newest"), Phase::kAdmitted);
  EXPECT_EQ(phase("old"), Phase::kAdmitted);
}

TEST_F(QuotaWindows, LentQuotaIsNotDrained) {
  auto both = objects(true);
  both.cluster_queues[0].cohort = "c";
  auto other = both.cluster_queues[0];
  other.name = QueueName("other");
  other.windows.clear();
  other.groups[0].flavors[0].resources[kGpu].nominal = 3000;
  both.cluster_queues.push_back(other);
  now = kOpens;
  step({both, job("a", 2, 2), job("b", 3, 1), job("c", 3)});
  for (const char* uid : {"a", "b", "c"}) ASSERT_EQ(phase(uid), Phase::kAdmitted) << uid;
  now = kCloses;
  step({Tick{}});
  EXPECT_EQ(phase("a"), Phase::kAdmitted);
  EXPECT_EQ(phase("b"), Phase::kAdmitted) << "it runs on what the other queue does not use";
  EXPECT_EQ(phase("c"), Phase::kEvicting);
}

TEST_F(QuotaWindows, CohortIsDrainedOnce) {
  auto both = objects(true);
  both.cluster_queues[0].cohort = "c";
  both.cluster_queues[0].windows[0].nominal[FlavorName("h100")][kGpu] = 4000;
  auto other = both.cluster_queues[0];
  other.name = QueueName("other");
  both.cluster_queues.push_back(other);
  both.local_queues.push_back({Namespace("team"), "other", other.name, StopPolicy::kNone, {}});
  auto lender = other;
  lender.name = QueueName("lender");
  lender.windows.clear();
  both.cluster_queues.push_back(lender);
  now = kOpens;
  std::vector<Command> batch{both};
  for (const char* uid : {"a1", "a2", "a3", "a4"}) batch.emplace_back(job(uid, 1));
  for (const char* uid : {"b1", "b2", "b3", "b4"}) {
    auto one = job(uid, 1);
    one.spec.queue = "other";
    batch.emplace_back(one);
  }
  step(batch);
  now = kCloses;
  step({Tick{}});
  std::map<Phase, int> phases;
  for (const auto& [uid, w] : engine.tables().workloads) ++phases[w.phase];
  EXPECT_EQ(phases, (std::map<Phase, int>{{Phase::kAdmitted, 6}, {Phase::kEvicting, 2}}))
      << "8 run, and 6 is what the three have together";
}

TEST_F(QuotaWindows, ExplainNamesOnlyWindowsThatHelp) {
  auto least = objects(false);
  least.cluster_queues[0].windows[0].nominal[FlavorName("h100")][kGpu] = 1000;
  step({least, job("day", 2), job("more", 2)});
  EXPECT_EQ(cause("more", "QuotaWindow"), "");
  EXPECT_NE(cause("more", "QuotaExceeded"), "");
}

TEST_F(QuotaWindows, ReloadAfterEndDrainsThen) {
  now = kOpens;
  step({objects(true), job("strong", 2, 5), job("weak", 4)});
  Engine copy;
  load_copied(copy, engine.tables(), true, {});
  now = kCloses + 5min;
  (void)copy.step(std::vector<Command>{Tick{}}, now);
  EXPECT_EQ(copy.find(WorkloadUid("weak"))->phase, Phase::kEvicting);
  step({Tick{}});
  EXPECT_EQ(copy.digest(), engine.digest());
}

TEST_F(QuotaWindows, UndoneStepUndoesOpening) {
  step({objects(false), job("day", 2), job("night", 6)});
  const auto before = engine.digest();
  now = kOpens;
  (void)engine.step(std::vector<Command>{Tick{}}, now);
  EXPECT_EQ(phase("night"), Phase::kAdmitted);
  engine.undo();
  EXPECT_EQ(engine.digest(), before);
  EXPECT_EQ(nominal(), 2000);
  step({Tick{}});
  EXPECT_EQ(phase("night"), Phase::kAdmitted);
}

TEST_F(QuotaWindows, UndoOfALaterStepKeepsTheOpening) {
  step({objects(false), job("day", 2), job("night", 6)});
  const auto before = engine.digest();
  now = kOpens;
  (void)engine.step(std::vector<Command>{Tick{}}, now);
  const auto opened = engine.digest();
  const auto open_nominal = nominal();
  EXPECT_NE(open_nominal, 2000);
  (void)engine.step(std::vector<Command>{job("late", 1)}, now + 1min);
  engine.undo();
  EXPECT_EQ(engine.digest(), opened);
  EXPECT_EQ(nominal(), open_nominal);
  engine.undo();
  EXPECT_EQ(engine.digest(), before);
  EXPECT_EQ(nominal(), 2000);
}

/// Two queues that lend to each other, with windows of their own, in steps of random lengths.
RC_GTEST_PROP(QuotaWindowsLaw, ReloadDecidesAlikeAndUndoneStepsLeaveNothing, ()) {
  World base;
  auto world = base.objects(false);
  world.cluster_queues.clear();
  world.local_queues.clear();
  for (const char* name : {"a", "b"}) {
    auto queue = base.objects(*rc::gen::arbitrary<bool>()).cluster_queues.at(0);
    queue.name = QueueName(name);
    queue.cohort = "c";
    queue.within_cluster_queue = *rc::gen::element(PreemptPolicy::kNever, PreemptPolicy::kLowerPriority);
    queue.reclaim_within_cohort = *rc::gen::element(PreemptPolicy::kNever, PreemptPolicy::kAny);
    if (*rc::gen::arbitrary<bool>()) queue.aging = forecast::Aging{3h, 4};
    queue.windows.clear();
    for (int i = *inRange(0, 3); i > 0; --i) {
      const auto begins = fmt::format("{} {} * * *", *rc::gen::element(0, 30), *inRange(0, 24));
      queue.windows.push_back({*forecast::Window::make(*forecast::Cron::parse(begins), *inRange(1, 12) * 1h, 0min),
                               {{FlavorName("h100"), {{kGpu, *inRange<std::int64_t>(0, 9) * 1000}}}}});
    }
    world.cluster_queues.push_back(queue);
    world.local_queues.push_back({Namespace("team"), name, QueueName(name), StopPolicy::kNone, {}});
  }
  base.step({world});
  const bool drained = world.cluster_queues[0].drains && world.cluster_queues[1].drains &&
                       !world.cluster_queues[0].windows.empty() && !world.cluster_queues[1].windows.empty();
  Engine& engine = base.engine;
  std::vector<std::string> known;
  for (int i = *inRange(1, 30); i > 0; --i) {
    base.now += *inRange(0, 300) * 1min;
    std::vector<Command> batch{Reconsider{}};  // as with the lists that a starting replica reads
    for (int n = *inRange(0, 4); n > 0; --n) {
      auto one = base.job(fmt::format("j{}", known.size()), *inRange<std::int64_t>(1, 5), *inRange(0, 3));
      one.spec.queue = *rc::gen::element<std::string>("a", "b");
      known.push_back(one.spec.uid.value());
      batch.emplace_back(one);
    }
    for (const auto& [uid, w] : engine.tables().workloads) {
      if (w.ended() || w.phase == Phase::kPending || *inRange(0, 3) > 0) continue;
      if (w.phase == Phase::kEvicting) {
        IntentOutcome gone{"job.suspend", {}, uid.value(), w.attempt};
        gone.quiet = true;
        batch.emplace_back(gone);
      } else {
        auto over = base.job(uid.value(), 1);
        over.complete = true;
        batch.emplace_back(over);
      }
    }
    Engine copy;
    load_copied(copy, engine.tables(), true, {});
    const auto before = engine.digest();
    if (*rc::gen::arbitrary<bool>()) {
      (void)engine.step(batch, base.now);
      // Also two steps, as when a batch is decided while the one before it is written.
      if (*rc::gen::arbitrary<bool>()) {
        const auto between = engine.digest();
        base.now += *inRange(0, 300) * 1min;
        (void)engine.step(std::vector<Command>{Tick{}}, base.now);
        engine.undo();
        engine.check_laws();
        RC_ASSERT(engine.digest() == between);
      }
      engine.undo();
      engine.check_laws();
      RC_ASSERT(engine.digest() == before);
    }
    const auto wake = base.step(batch).wake_at;
    const auto wake_of_copy = copy.step(batch, base.now).wake_at;
    copy.commit();
    copy.check_laws();
    RC_ASSERT(copy.digest() == engine.digest());
    RC_ASSERT(copy.tables().workloads.size() == engine.tables().workloads.size());
    RC_ASSERT(wake == wake_of_copy);
    // The remaining workloads are within the quota of both, and the engine wakes when that changes.
    std::int64_t held = 0, all = 0;
    for (const auto& [uid, w] : engine.tables().workloads) {
      if (w.phase == Phase::kAdmitted) held += w.spec.total_gpu_milli();
    }
    for (const auto& queue : world.cluster_queues) {
      all += groups_at(queue, base.now).at(0).flavors.at(0).resources.at(kGpu).nominal;
      const auto turn = quota_changes_after(queue, base.now);
      if (turn) RC_ASSERT(wake && *wake <= *turn);
    }
    if (drained) RC_ASSERT(held <= all);
  }
}

}  // namespace quota_windows_test
}  // namespace qm::admission
