// The rules together over a simulated cluster: the steady state of queues.
#include "session.hpp"

#include "qm/admission/volcano/objects.hpp"

#include <fmt/format.h>

#include <cmath>
#include <random>

namespace qm::admission::volcano {
namespace session_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Queue weighted(std::string name, std::int32_t weight) {
  Queue out;
  out.name = std::move(name);
  out.weight = weight;
  return out;
}

Queue owed(std::string name, std::int64_t deserved) {
  Queue out;
  out.name = std::move(name);
  out.deserved = {deserved};
  return out;
}

template <Sharing by>
void fill(Session<by>& session, const std::string& queue, int jobs, std::int64_t gpus) {
  for (int i = 0; i < jobs; ++i) session.add({fmt::format("{}-{:03}", queue, i), queue, {gpus}});
}

// S-104: weights 50 and 100 over 96 GPUs converge to 32 and 64, within one gang, and nothing changes after that.
TEST(VolcanoSession, WeightsFiftyAndHundredConvergeToOneThirdAndTwoThirds) {
  for (const auto& [light, heavy] : std::vector<std::pair<int, int>>{{1, 1}, {4, 4}, {8, 8}, {5, 8}, {3, 7}}) {
    SCOPED_TRACE(fmt::format("gangs of {} and {}", light, heavy));
    Session<Sharing::kProportion> session{{weighted("light", 50), weighted("heavy", 100)}, {96}};
    fill(session, "light", 96 / light + 5, light);
    session.pass(minutes(1), seconds(10));
    EXPECT_EQ(session.used("light")[0], 96 / light * light) << "alone it may use all";
    fill(session, "heavy", 96 / heavy + 5, heavy);
    session.pass(minutes(2), seconds(10));
    EXPECT_NEAR(static_cast<double>(session.used("light")[0]), 32, light);
    EXPECT_NEAR(static_cast<double>(session.used("heavy")[0]), 64, heavy);
    const auto settled = session.victims.size();
    EXPECT_GT(settled, 0U);
    session.pass(minutes(5), seconds(10));
    EXPECT_EQ(session.victims.size(), settled) << "the shares do not converge";
  }
}

// S-105: the 33rd GPU is refused although the cluster is idle.
template <Sharing by>
void capability_is_a_ceiling() {
  Queue queue = weighted("research", 50);
  queue.capability = {32, 256'000};
  queue.deserved = {32, 256'000};
  Session<by> session{{queue, weighted("other", 1)}, {96, 1'000'000}};
  for (int i = 0; i < 40; ++i) session.add({fmt::format("job-{:02}", i), "research", {1, 2'000}});
  session.pass(minutes(5), seconds(10));
  EXPECT_EQ(session.used("research"), (Resources{32, 64'000}));
  EXPECT_EQ(session.waiting("research"), 8);
  EXPECT_EQ(session.used("other"), (Resources{0, 0}));
}
TEST(VolcanoSession, CapabilityRefusesThirtyThirdGpuInIdleCluster) {
  capability_is_a_ceiling<Sharing::kProportion>();
  capability_is_a_ceiling<Sharing::kCapacity>();
}

// S-106: both values of reclaimable.
template <Sharing by>
void reclaimable_decides() {
  for (const bool reclaimable : {true, false}) {
    auto lender = owed("lender", 48), borrower = owed("borrower", 48);
    borrower.reclaimable = reclaimable;
    Session<by> session{{lender, borrower}, {96}};
    fill(session, "borrower", 24, 4);
    session.pass(minutes(1), seconds(10));
    ASSERT_EQ(session.used("borrower")[0], 96) << "it borrows unused capacity";
    fill(session, "lender", 24, 4);
    session.pass(minutes(5), seconds(10));
    EXPECT_EQ(session.used("borrower")[0], reclaimable ? 48 : 96);
    EXPECT_EQ(session.used("lender")[0], reclaimable ? 48 : 0);
    EXPECT_EQ(session.victims.size(), reclaimable ? 12U : 0U);
  }
}
TEST(VolcanoSession, OnlyReclaimableQueueIsReclaimed) {
  reclaimable_decides<Sharing::kProportion>();
  reclaimable_decides<Sharing::kCapacity>();
}

/// Random queues, jobs and arrivals; queue "safe" specifies whether its jobs may be victims, and so do some jobs of
/// other queues.
template <Sharing by>
Session<by> some_session(std::mt19937_64& random, bool safe_is_preemptable) {
  const auto upto = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  Session<by> session{{}, {16 + upto(48)}};
  for (const auto* name : {"safe", "a", "b"}) {
    auto queue = owed(name, upto(20));
    queue.weight = 1 + upto(9);
    queue.victims = static_cast<VictimPolicy>(upto(2));
    if (queue.name == "safe") queue.preemptable = safe_is_preemptable;
    session.queues.push_back(queue);
  }
  int n = 0;
  for (int round = 0; round < 6; ++round) {
    // In the first round only the safe queue has jobs: it borrows, so other queues would reclaim from it.
    for (int i = 3 + upto(6); i > 0; --i) {
      SimJob job{fmt::format("job-{}", n++), "safe", {1 + upto(7)}};
      if (round > 0) job.queue = session.queues[static_cast<std::size_t>(upto(2))].name;
      job.priority = upto(3);
      job.runs = minutes(1 + upto(9));
      job.preemptable = upto(4) > 0;
      session.add(std::move(job));
    }
    session.pass(minutes(2), minutes(1));
  }
  return session;
}

// S-107: 1,000 random cases; jobs of a queue with preemptable: false are never victims, nor are jobs that set it
// themselves.
TEST(VolcanoSession, JobsOfNonPreemptableQueueAreNeverVictims) {
  const auto victims_in = [](const auto& session, auto predicate) {
    std::size_t out = 0;
    for (const auto& name : session.victims) {
      const auto job = std::ranges::find(session.jobs, name, &SimJob::name);
      out += predicate(*job) ? 1U : 0U;
    }
    return out;
  };
  const auto of_safe = [](const SimJob& job) { return job.queue == "safe"; };
  const auto says_no = [](const SimJob& job) { return !job.preemptable; };
  std::size_t victims = 0, when_allowed = 0;
  for (unsigned seed = 0; seed < 1'000; ++seed) {
    std::mt19937_64 random(seed), again(seed);
    if (seed % 2 == 0) {
      const auto session = some_session<Sharing::kProportion>(random, false);
      ASSERT_EQ(victims_in(session, of_safe), 0U) << "seed " << seed;
      ASSERT_EQ(victims_in(session, says_no), 0U) << "seed " << seed;
      victims += session.victims.size();
      when_allowed += victims_in(some_session<Sharing::kProportion>(again, true), of_safe);
    } else {
      const auto session = some_session<Sharing::kCapacity>(random, false);
      ASSERT_EQ(victims_in(session, of_safe), 0U) << "seed " << seed;
      ASSERT_EQ(victims_in(session, says_no), 0U) << "seed " << seed;
      victims += session.victims.size();
      when_allowed += victims_in(some_session<Sharing::kCapacity>(again, true), of_safe);
    }
  }
  EXPECT_GT(victims, 1'000U) << "others do have victims";
  EXPECT_GT(when_allowed, 1'000U) << "and so has this queue when it is preemptable";
}

// S-108: the policy of the queue decides which of its jobs are reclaimed.
TEST(VolcanoSession, QueueChoosesItsVictimPolicy) {
  const std::map<VictimPolicy, std::vector<std::string>> expected{
      {VictimPolicy::kFifo, {"late-d", "late-c", "late-b", "late-a"}},
      {VictimPolicy::kPriority, {"humble-b", "humble-a"}},
      {VictimPolicy::kBestFit, {"whole"}}};
  for (const auto& [policy, victims] : expected) {
    auto borrower = owed("borrower", 20);
    borrower.victims = policy;
    Session<Sharing::kCapacity> session{{owed("lender", 20), borrower}, {40}};
    const std::vector<SimJob> jobs{
        {"first", "borrower", {16}, 3},   {"whole", "borrower", {8}, 9},  {"humble-a", "borrower", {4}, 1},
        {"humble-b", "borrower", {4}, 1}, {"late-a", "borrower", {2}, 3}, {"late-b", "borrower", {2}, 3},
        {"late-c", "borrower", {2}, 3},   {"late-d", "borrower", {2}, 3},
    };
    for (const auto& job : jobs) {
      session.add(job);
      session.pass(seconds(10), seconds(10));
    }
    ASSERT_EQ(session.used("borrower")[0], 40);
    session.add({"needy", "lender", {8}});
    session.hold();
    EXPECT_EQ(session.victims_of["needy"], victims);
    EXPECT_EQ(session.used("lender")[0], 8);
  }
}

// S-099: the minimum resources of a group are checked before any member exists.
TEST(VolcanoSession, GroupWithOneCpuTooFewIsPendingWithReason) {
  QueueObject queue;
  queue.rules.name = "research-queue";
  const auto planted =
      *plant({queue}, {{"nvidia.com/gpu", 16}, {"cpu", 128'000}, {"memory", std::int64_t{1024} << 30}});
  GroupObject group;
  group.min_resources = Named{{"nvidia.com/gpu", 8}, {"cpu", 64'000}, {"memory", std::int64_t{512} << 30}};
  const auto needs = planted.gang(group).min_resources;
  Session<Sharing::kCapacity> session{{planted.queues[1]}, planted.queues.total()};
  session.add({"other", "research-queue", planted.amounts({{"nvidia.com/gpu", 8}, {"cpu", 65'000}})}).runs = minutes(3);
  session.hold();
  session.add({"pytorch-distributed", "research-queue", needs});
  session.pass(minutes(2), seconds(10));
  const auto& waiting = session.jobs.back();
  EXPECT_FALSE(waiting.running) << "8 GPUs are free, and 63 cpu";
  ASSERT_EQ(waiting.short_of.size(), 1U);
  EXPECT_EQ("minResources." + planted.resources[waiting.short_of[0]], "minResources.cpu");
  session.pass(minutes(2), seconds(10));
  EXPECT_TRUE(session.jobs.back().running);
}

// S-115: over a contended hour shares follow the weights; the deviation is below five percent.
TEST(VolcanoSession, SharesFollowWeightsOverContendedHour) {
  Session<Sharing::kProportion> session{{weighted("one", 1), weighted("two", 2), weighted("three", 3)}, {96, 960}};
  std::mt19937_64 random(115);
  int n = 0;
  const auto keep_full = [&] {
    for (const auto& queue : session.queues) {
      while (session.waiting(queue.name) < 12) {
        const auto gpus = std::int64_t{1} << random() % 3;
        SimJob job{
            fmt::format("job-{:05}", n++), queue.name, {gpus, gpus * static_cast<std::int64_t>(2 + random() % 7)}};
        job.runs = minutes(1 + random() % 9);
        session.add(std::move(job));
      }
    }
  };
  session.pass(minutes(10), seconds(10), keep_full);  // until all queues are contended
  std::map<std::string, double> gpu_seconds;
  double all = 0;
  session.pass(hours(1), seconds(10), [&] {
    keep_full();
    for (const auto& queue : session.queues) {
      const auto share = dominant(session.used(queue.name), session.total);
      const auto part = static_cast<double>(share.part) / static_cast<double>(share.whole) * 10;
      gpu_seconds[queue.name] += part;
      all += part;
    }
  });
  EXPECT_GT(all, 3'600 * 0.9) << "the cluster is full";
  for (const auto& queue : session.queues) {
    const auto fair = queue.weight / 6.0;
    EXPECT_LT(std::abs(gpu_seconds[queue.name] / all - fair) / fair, 0.05) << queue.name;
  }
}

TEST(VolcanoSession, JobAfterWaitingTimeIsAdmittedAndCapacityIsReserved) {
  const auto run = [](std::optional<Duration> waiting_time) {
    Session<Sharing::kCapacity> session{{owed("q", 0)}, {8}};
    int n = 0;
    // Small jobs arrive continuously: eight GPUs are never free at the same time.
    const auto small_jobs = [&] { session.add({fmt::format("small-{:04}", n++), "q", {1}}).runs = minutes(8); };
    session.pass(minutes(20), minutes(1), small_jobs);
    auto& big = session.add({"big", "q", {8}});
    big.waiting_time = waiting_time;
    session.pass(hours(2), minutes(1), small_jobs);
    const auto found = std::ranges::find(session.jobs, "big", &SimJob::name);
    return found->running ? std::optional(found->started - found->created) : std::nullopt;
  };
  EXPECT_EQ(run(std::nullopt), std::nullopt) << "it starves";
  const auto waited = run(minutes(30));
  ASSERT_TRUE(waited);
  EXPECT_GE(*waited, minutes(30));
  EXPECT_LE(*waited, minutes(39)) << "when the eight that ran have ended";
}

TEST(VolcanoSession, StrictQueueBlocksOnItsHead) {
  for (const bool strict : {true, false}) {
    auto queue = owed("q", 8);
    queue.strict = strict;
    Session<Sharing::kProportion> session{{queue}, {8}};
    session.add({"running", "q", {4}});
    session.hold();
    session.add({"a-head", "q", {5}});
    session.add({"b-next", "q", {2}});
    session.hold();
    EXPECT_EQ(session.jobs[2].running, !strict);
  }
}

}  // namespace session_test
}  // namespace qm::admission::volcano
