// Backfill and aging: reserved starts, and priorities that increase with the waiting time.
#include "qm/admission/engine.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "src/queries/copied.hpp"
#include "test/engine/jobs.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace qm::admission {
namespace passing_prop_test {

using namespace std::chrono_literals;
using rc::gen::inRange;

const std::string kGpu(words::kGpuResource);
const Instant kBegin = from_micros(1'800'000'000'000'000);

/// One queue of 8 GPUs for workloads that an external scheduler binds: an admitted workload runs.
struct World {
  Engine engine;
  Instant now = kBegin;

  explicit World(const std::function<void(ClusterQueue&)>& with) {
    ApplyObjects objects;
    objects.flavors.push_back({FlavorName("h100"), {}, {}, {}, {}});
    ClusterQueue queue;
    queue.name = QueueName("q");
    queue.groups = {{{kGpu}, {{FlavorName("h100"), {{kGpu, Quota{8000, {}, {}}}}}}}};
    with(queue);
    objects.cluster_queues.push_back(queue);
    objects.local_queues.push_back({Namespace("team"), "q", QueueName("q"), StopPolicy::kNone, {}});
    step({objects});
  }
  Output step(std::vector<Command> batch) {
    auto out = engine.step(batch, now);
    engine.commit();
    engine.check_laws();
    return out;
  }
  JobUpdated job(const std::string& uid, std::int64_t gpus, Duration run, std::int32_t priority = 0) const {
    return testing::job_of(uid, gpus, now, priority, run);
  }
  void finish(const std::string& uid) {
    auto one = job(uid, 1, 0s);
    one.complete = true;
    step({one});
  }
  [[nodiscard]] bool runs(const std::string& uid) const {
    return engine.find(WorkloadUid(uid))->phase == Phase::kAdmitted;
  }
  [[nodiscard]] std::string cause(const std::string& uid, const std::string& code) const {
    for (const auto& one : explain(engine.state(), *engine.find(WorkloadUid(uid)), now).causes) {
      if (one.code == code) return one.message;
    }
    return {};
  }
  /// The reserved start, as explain() reports it.
  [[nodiscard]] std::optional<Instant> reserved(const std::string& uid) const {
    const auto text = cause(uid, "ReservedStart");
    const std::string before = "reserved for it at ";
    const auto at = text.find(before);
    if (at == std::string::npos) return {};
    const auto begin = at + before.size();
    return *from_rfc3339(text.substr(begin, text.find(',', begin) - begin));
  }
};

void conservative(ClusterQueue& queue) { queue.backfill = true; }

TEST(Backfill, WorkloadThatDelaysNoReservedStartIsAdmitted) {
  for (const bool backfill : {false, true}) {
    World world([&](ClusterQueue& queue) {
      queue.strategy = Strategy::kStrictFifo;
      queue.backfill = backfill;
    });
    world.step({world.job("runs", 6, 1h)});
    world.step({world.job("large", 8, 1h)});
    world.step({world.job("short", 2, 30min), world.job("slow", 2, 2h), world.job("silent", 2, 0s)});
    EXPECT_TRUE(world.runs("runs"));
    EXPECT_FALSE(world.runs("large"));
    EXPECT_EQ(world.runs("short"), backfill);
    EXPECT_FALSE(world.runs("slow")) << "it would delay the start of the large one";
    EXPECT_FALSE(world.runs("silent")) << "its run time is unknown";
    EXPECT_EQ(world.reserved("large"), backfill ? std::optional(kBegin + 1h) : std::nullopt);
    if (!backfill) continue;
    EXPECT_EQ(world.reserved("slow"), kBegin + 2h) << "after the large one, which runs for an hour";
    world.now = kBegin + 1h;
    world.finish("short");
    world.finish("runs");
    EXPECT_TRUE(world.runs("large")) << "at the very instant";
  }
}

TEST(Backfill, LearnedRunTimesApplyWhereNoneIsDeclared) {
  World world(conservative);
  for (int i = 0; i < 6; ++i) {
    world.step({world.job(fmt::format("eval-{}", i), 2, 0s)});
    world.now += 10min;
    world.finish(fmt::format("eval-{}", i));
  }
  const Instant begin = world.now;
  world.step({world.job("runs", 6, 1h)});
  world.step({world.job("large", 8, 1h)});
  world.step({world.job("eval-7", 2, 0s), world.job("new", 2, 0s)});
  EXPECT_TRUE(world.runs("eval-7")) << "six like it ran for ten minutes";
  EXPECT_FALSE(world.runs("new"));
  EXPECT_EQ(world.reserved("large"), begin + 1h);
}

RC_GTEST_PROP(BackfillLaw, NoReservedStartMovesLater, ()) {
  World world(conservative);
  struct Job {
    Duration comes{}, run{};
    std::int64_t gpus = 0;
  };
  std::vector<Job> jobs;
  Duration at{0};
  const int n = *inRange(1, 14);
  for (int i = 0; i < n; ++i) {
    at += *inRange(0, 30) * 1min;
    jobs.push_back({at, *inRange(2, 200) * 1min, *inRange<std::int64_t>(1, 9)});
  }
  const auto name = [](std::size_t i) { return fmt::format("j{:02}", i); };
  std::map<std::size_t, Instant> promised, started;
  std::size_t next = 0, ended = 0;
  while (ended < jobs.size()) {
    Instant when = Instant::max();
    if (next < jobs.size()) when = kBegin + jobs[next].comes;
    for (const auto& [i, began] : started) when = std::min(when, began + jobs[i].run);
    world.now = when;
    std::vector<std::size_t> over;
    for (const auto& [i, began] : started) {
      if (began + jobs[i].run == when) over.push_back(i);
    }
    for (const auto i : over) {
      world.finish(name(i));
      started.erase(i);
      ++ended;
    }
    for (; next < jobs.size() && kBegin + jobs[next].comes == when; ++next)
      world.step({world.job(name(next), jobs[next].gpus, jobs[next].run)});
    for (std::size_t i = 0; i < next; ++i) {
      const auto& w = *world.engine.find(WorkloadUid(name(i)));
      if (w.ended()) continue;
      if (w.phase == Phase::kAdmitted) {
        started.emplace(i, w.admitted);
        if (promised.contains(i)) RC_ASSERT(w.admitted <= promised.at(i));
        continue;
      }
      const auto start = world.reserved(name(i));
      RC_ASSERT(start.has_value());
      if (promised.contains(i)) RC_ASSERT(*start <= promised.at(i));
      promised[i] = *start;
    }
  }
}

void ages(ClusterQueue& queue) { queue.aging = forecast::Aging{2h, 10}; }

TEST(Aging, NoNewerWorkloadIsAdmittedFirstAfterTheBound) {
  World world(ages);
  world.step({world.job("small-00", 4, 0s)});
  world.step({world.job("large", 8, 0s)});
  int last = 0;
  std::vector<std::string> passed;
  // A workload that fits arrives every half hour and runs for an hour: without a bound the large one would
  // be pending forever.
  for (int i = 1; i < 12; ++i) {
    world.now += 30min;
    const auto name = [](int k) { return fmt::format("small-{:02}", k); };
    world.step({world.job(name(i), 4, 0s)});
    if (i >= 2 && world.engine.find(WorkloadUid(name(i - 2)))->phase == Phase::kAdmitted) world.finish(name(i - 2));
    if (world.now < kBegin + 2h) {
      EXPECT_TRUE(world.runs(name(i)) || world.runs(name(i - 1)));
      EXPECT_NE(world.cause("large", "Aging"), "");
      last = i;
    } else if (world.engine.find(WorkloadUid("large"))->phase == Phase::kPending) {
      EXPECT_NE(world.cause("large", "Overdue"), "");
      if (world.engine.find(WorkloadUid(name(i)))->phase == Phase::kAdmitted) passed.push_back(name(i));
    }
  }
  EXPECT_GT(last, 2);
  EXPECT_TRUE(passed.empty()) << passed.front();
  EXPECT_TRUE(world.runs("large"));
}

TEST(Aging, PriorityRisesAndEngineWakesForIt) {
  World world([](ClusterQueue& queue) { queue.aging = forecast::Aging{10h, 10}; });
  world.step({world.job("runs", 8, 0s)});
  auto out = world.step({world.job("old", 8, 0s)});
  EXPECT_EQ(out.wake_at, kBegin + 1h) << "one step of priority an hour";
  for (int i = 1; i <= 6; ++i) {
    world.now = kBegin + i * 1h;
    out = world.step({Tick{}});
    EXPECT_EQ(out.wake_at, kBegin + (i + 1) * 1h);
  }
  EXPECT_NE(world.cause("old", "Aging").find("is 6 instead of 0"), std::string::npos) << world.cause("old", "Aging");
  world.step({world.job("new", 8, 0s, 5)});
  world.finish("runs");
  EXPECT_TRUE(world.runs("old"));
  EXPECT_FALSE(world.runs("new"));
}

TEST(Aging, WorkloadAdmittedByAgeIsNotPreemptedByNewer) {
  World world([](ClusterQueue& queue) {
    queue.aging = forecast::Aging{10h, 10};
    queue.within_cluster_queue = PreemptPolicy::kLowerPriority;
  });
  world.step({world.job("runs", 8, 0s, 20)});
  world.step({world.job("old", 8, 0s)});
  world.now += 6h;
  world.step({world.job("new", 8, 0s, 5), world.job("newer", 8, 0s, 6)});
  world.finish("runs");
  EXPECT_TRUE(world.runs("old")) << "its effective priority is 6, and it is older than those of 5 and 6";
  world.step({Reconsider{}});
  EXPECT_TRUE(world.runs("old"));
  Engine copy;
  load_copied(copy, world.engine.tables(), true, {});
  const auto stronger = world.job("strong", 8, 0s, 7);
  (void)copy.step(std::vector<Command>{stronger}, world.now);
  world.step({stronger});
  EXPECT_EQ(world.engine.find(WorkloadUid("old"))->phase, Phase::kEvicting) << "its effective priority is at most 6";
  EXPECT_EQ(copy.digest(), world.engine.digest());
}

TEST(Aging, ReloadedEngineDecidesAlike) {
  World world(ages);
  world.step({world.job("runs", 8, 0s), world.job("a", 4, 0s), world.job("b", 4, 0s, 1), world.job("c", 8, 0s, 3)});
  world.now += 90min;
  world.step({Tick{}});
  Engine copy;
  load_copied(copy, world.engine.tables(), true, {});
  world.now += 17min;
  auto end = world.job("runs", 8, 0s);
  end.complete = true;
  (void)copy.step(std::vector<Command>{end}, world.now);
  world.step({end});
  EXPECT_EQ(copy.digest(), world.engine.digest());
  copy.commit();
  copy.check_laws();
}

}  // namespace passing_prop_test
}  // namespace qm::admission
