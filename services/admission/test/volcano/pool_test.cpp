// A pool as an index: its decisions follow from the state of its jobs, and terminate.
#include "qm/admission/volcano/pool.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace qm::admission::volcano {
namespace pool_test {

Queue named(std::string name, std::int32_t weight = 1, std::int64_t deserved = 0) {
  Queue out;
  out.name = std::move(name);
  out.weight = weight;
  out.deserved = {deserved};
  return out;
}
Pool pool_of(std::vector<Queue> queues, std::int64_t total, Sharing by) {
  return {*Queues::plant(std::move(queues), {total}), by};
}
Pool::Job job(const Pool& pool, int id, std::string_view queue, std::int64_t needs, std::int32_t priority = 0) {
  return {id, *pool.queues().find(queue), {needs}, priority, id, fmt::format("job-{:03}", id)};
}

TEST(Pool, NamesOfRules) {
  EXPECT_EQ(sharing_of("proportion"), Sharing::kProportion);
  EXPECT_EQ(sharing_of("capacity"), Sharing::kCapacity);
  EXPECT_EQ(sharing_of("drf"), Sharing::kDrf);
  EXPECT_EQ(sharing_of("Capacity"), std::nullopt);
}

// Victims hold their resources until they are gone, and no other job gets what they release.
TEST(Pool, ClaimReservesCapacityOfVictims) {
  auto pool = pool_of({named("lender", 1, 8), named("borrower", 1, 0)}, 8, Sharing::kCapacity);
  pool.hold(job(pool, 1, "borrower", 4));
  pool.hold(job(pool, 2, "borrower", 4));
  pool.wait(job(pool, 3, "lender", 4));
  auto made = pool.run(10);
  ASSERT_EQ(made.displaced.size(), 1U);
  EXPECT_EQ(made.displaced[0].victim, 2) << "the newest one";
  EXPECT_EQ(made.claimed, std::vector{3});
  EXPECT_EQ(pool.victims_of(3), std::vector{2});
  pool.wait(job(pool, 4, "borrower", 2));
  made = pool.run(11);
  EXPECT_TRUE(made.admitted.empty() && made.displaced.empty()) << "quota of leaving jobs is claimed";
  pool.remove(2);
  made = pool.run(12);
  EXPECT_EQ(made.admitted, std::vector{3});
}

// Resources that victims free in excess of the need go to the next job, once the victims are gone.
TEST(Pool, RemainingCapacityIsClaimedToo) {
  auto pool = pool_of({named("lender", 1, 8), named("borrower", 1, 0)}, 8, Sharing::kCapacity);
  pool.hold(job(pool, 1, "borrower", 8));
  pool.wait(job(pool, 2, "lender", 5));
  pool.wait(job(pool, 3, "lender", 3));
  const auto made = pool.run(10);
  ASSERT_EQ(made.displaced.size(), 1U);
  EXPECT_EQ(made.claimed, (std::vector{2, 3}));
  EXPECT_TRUE(pool.victims_of(3).empty());
  pool.remove(1);
  EXPECT_EQ(pool.run(11).admitted, (std::vector{2, 3}));
}

// A job that a later decision of the same run would preempt is not admitted first: no pod starts in vain.
TEST(Pool, NoJobIsAdmittedAndPreemptedInOneRun) {
  auto pool = pool_of({named("deserving", 1, 6), named("a-borrower", 1, 0)}, 8, Sharing::kCapacity);
  pool.hold(job(pool, 1, "deserving", 3));
  pool.wait(job(pool, 2, "a-borrower", 5));
  pool.wait(job(pool, 3, "deserving", 3));
  const auto made = pool.run(10);
  EXPECT_TRUE(made.displaced.empty());
  EXPECT_EQ(made.admitted, std::vector{3});
}

TEST(Pool, PriorityPreemptsWithinItsQueue) {
  for (const bool preemptable : {true, false}) {
    auto queue = named("q", 1, 8);
    queue.preemptable = preemptable;
    auto pool = pool_of({queue}, 8, Sharing::kCapacity);
    pool.hold(job(pool, 1, "q", 8, 1));
    pool.wait(job(pool, 2, "q", 2, 5));
    const auto made = pool.run(10);
    EXPECT_EQ(made.displaced.size(), preemptable ? 1U : 0U);
    if (preemptable) {
      EXPECT_EQ(made.displaced[0].why, Pool::Why::kPriority);
    }
  }
}

TEST(Pool, JobBelowMinimumRunTimeIsNotPreempted) {
  auto pool = pool_of({named("lender", 1, 8), named("borrower", 1, 0)}, 8, Sharing::kCapacity);
  auto kept = job(pool, 1, "borrower", 8);
  kept.min_runtime_until = 100;
  pool.hold(kept);
  pool.wait(job(pool, 2, "lender", 4));
  EXPECT_TRUE(pool.run(99).displaced.empty());
  EXPECT_EQ(pool.run(100).displaced.size(), 1U);
}

TEST(Pool, ClosedQueueIsReported) {
  auto closed = named("closed");
  closed.state = QueueState::kClosed;
  auto pool = pool_of({closed, named("open")}, 8, Sharing::kProportion);
  pool.wait(job(pool, 1, "closed", 1));
  EXPECT_TRUE(pool.run(1).admitted.empty());
  const auto why = pool.obstacles(job(pool, 1, "closed", 1));
  ASSERT_EQ(why.size(), 1U);
  EXPECT_EQ(why[0].kind, Pool::Obstacle::Kind::kClosed);
}

TEST(Pool, ClaimBeyondSmallerPoolIsDropped) {
  auto pool = pool_of({named("q", 1, 8)}, 4, Sharing::kCapacity);
  pool.hold(job(pool, 1, "q", 2));
  pool.claim(job(pool, 2, "q", 4), {});
  const auto made = pool.run(5);
  EXPECT_EQ(made.unclaimed, std::vector{2});
}

TEST(Pool, ObstaclesNameTheirRule) {
  using Kind = Pool::Obstacle::Kind;
  auto queue = named("q");
  queue.capability = {6};
  auto pool = pool_of({queue, named("other", 3)}, 8, Sharing::kProportion);
  pool.hold(job(pool, 1, "other", 6));
  pool.hold(job(pool, 2, "q", 2));
  const auto kind_of = [&](std::int64_t needs) {
    const auto all = pool.obstacles(job(pool, 3, "q", needs));
    return all.empty() ? std::optional<Kind>() : all[0].kind;
  };
  EXPECT_EQ(kind_of(7), Kind::kNever);
  EXPECT_EQ(kind_of(5), Kind::kCapability);
  EXPECT_EQ(kind_of(1), Kind::kShare) << "a quarter of eight is two";
  auto alone = pool_of({named("q", 1, 8), named("other", 1, 0)}, 8, Sharing::kCapacity);
  alone.hold(job(alone, 1, "other", 8));
  EXPECT_EQ(alone.obstacles(job(alone, 2, "q", 3))[0].kind, Kind::kIdle);
}

TEST(Pool, EndsThatAdmitAreTried) {
  auto queue = named("q", 1, 4);
  auto pool = pool_of({queue, named("other", 1, 8)}, 8, Sharing::kDrf);
  pool.hold(job(pool, 1, "other", 3));
  pool.hold(job(pool, 2, "other", 5));
  EXPECT_EQ(pool.holders_to_finish(job(pool, 3, "q", 4)), std::vector{2});
  EXPECT_EQ(pool.holders_to_finish(job(pool, 3, "q", 2)), std::vector{1});
  EXPECT_TRUE(pool.holders_to_finish(job(pool, 3, "q", 9)).empty()) << "more than the capacity";
}

TEST(Pool, WakesAtWaitingTimes) {
  auto pool = pool_of({named("q")}, 8, Sharing::kProportion);
  auto one = job(pool, 1, "q", 9);
  one.deadline = 50;
  pool.wait(one);
  EXPECT_EQ(pool.alarm(49), 50);
  EXPECT_EQ(pool.alarm(50), std::nullopt);
}

/// A random pool with jobs that arrive, end, leave and return.
struct World {
  explicit World(std::mt19937_64& from) : random(from), sharing(static_cast<Sharing>(upto(2))), pool(made()) {}
  int upto(int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); }
  Pool made() {
    std::vector<Queue> queues;
    for (int i = 0; i < 3; ++i) {
      auto& queue = queues.emplace_back(named(fmt::format("q{}", i), 1 + upto(4)));
      queue.deserved = {upto(12), upto(12)};
      queue.capability = {8 + upto(20), 8 + upto(20)};
      queue.guarantee = {upto(2), upto(2)};
      queue.victims = static_cast<VictimPolicy>(upto(2));
      queue.reclaimable = upto(3) > 0;
      queue.strict = upto(4) == 0;
      for (int r = 0; r < 2; ++r) {
        const auto i_r = static_cast<std::size_t>(r);
        queue.deserved[i_r] = std::max(queue.deserved[i_r], queue.guarantee[i_r]);
      }
    }
    return {*Queues::plant(queues, {16 + upto(16), 16 + upto(16)}), sharing};
  }
  Pool::Job fresh(int id) {
    return {id, 1 + upto(2), {1 + upto(7), upto(7)}, upto(3), now, fmt::format("job-{:03}", id), upto(5) > 0};
  }
  std::mt19937_64& random;
  Sharing sharing;
  std::int64_t now = 0;
  Pool pool;
};

// Laws over random pools: usage never exceeds the total; nothing changes twice without an external event; and a pool
// rebuilt from the state of its jobs decides the same.
TEST(PoolLaws, HoldOverRandomWorlds) {
  std::size_t displaced = 0, admitted = 0;
  for (unsigned seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    World world(random);
    const auto total = world.pool.queues().total();
    const auto queues = world.pool.queues();
    enum class At { kWaiting, kClaiming, kHolding, kLeaving };
    struct Row {
      Pool::Job job;
      At at = At::kWaiting;
      std::vector<int> victims;
    };
    std::map<int, Row> rows;
    int next = 0;
    for (int step = 0; step < 30; ++step) {
      ++world.now;
      for (int n = world.upto(2); n > 0; --n) {
        auto job = world.fresh(next++);
        world.pool.wait(job);
        rows[job.id] = {job, At::kWaiting, {}};
      }
      std::vector<int> ended, gone;
      for (const auto& [id, row] : rows) {
        if (row.at == At::kHolding && world.upto(5) == 0) ended.push_back(id);
        if (row.at == At::kLeaving && world.upto(2) > 0) gone.push_back(id);
      }
      for (const int id : ended) {
        world.pool.remove(id);
        world.pool.preemptions().forget(id);
        rows.erase(id);
      }
      for (const int id : gone) {
        world.pool.remove(id);
        world.pool.wait(rows[id].job);
        rows[id].at = At::kWaiting;
      }
      // The same pool rebuilt, in another order.
      Pool again(*Queues::plant(
                     [&] {
                       std::vector<Queue> all;
                       for (QueueId q = 1; q < queues.size(); ++q) all.push_back(queues[q]);
                       return all;
                     }(),
                     total),
                 world.sharing);
      for (auto it = rows.rbegin(); it != rows.rend(); ++it) {
        const auto& [job, at, victims] = it->second;
        if (at == At::kWaiting) again.wait(job);
        if (at == At::kClaiming) again.claim(job, victims);
        if (at == At::kHolding || at == At::kLeaving) again.hold(job);
        if (at == At::kLeaving) again.leave(job.id);
      }
      for (const auto& [victim, pairs] : world.pool.preemptions().all()) again.preemptions().restore(victim, pairs);
      const auto made = world.pool.run(world.now), same = again.run(world.now);
      ASSERT_EQ(made.admitted, same.admitted);
      ASSERT_EQ(made.claimed, same.claimed);
      ASSERT_EQ(made.displaced.size(), same.displaced.size());
      for (const int id : made.unclaimed) rows[id].at = At::kWaiting;
      for (const auto& one : made.displaced) {
        ASSERT_EQ(rows[one.victim].at, At::kHolding);
        rows[one.victim].at = At::kLeaving;
      }
      for (const int id : made.claimed) rows[id] = {rows[id].job, At::kClaiming, world.pool.victims_of(id)};
      for (const int id : made.admitted) {
        rows[id].at = At::kHolding;
        rows[id].job.since = world.now;
      }
      admitted += made.admitted.size();
      displaced += made.displaced.size();
      Resources held(2);
      for (const auto& [id, row] : rows) {
        if (row.at == At::kHolding || row.at == At::kLeaving) add(held, row.job.needs);
      }
      ASSERT_TRUE(within(held, total)) << "more is held than the capacity";
      for (QueueId q = 1; q < queues.size(); ++q) {
        Resources of_queue(2);
        for (const auto& [id, row] : rows) {
          if (row.job.queue == q && (row.at == At::kHolding || row.at == At::kLeaving)) add(of_queue, row.job.needs);
        }
        ASSERT_TRUE(within(of_queue, queues[q].capability)) << "a queue has more than its capability";
      }
      const auto more = world.pool.run(world.now);
      ASSERT_TRUE(more.admitted.empty() && more.claimed.empty() && more.displaced.empty()) << "it does not rest";
    }
  }
  EXPECT_GT(admitted, 10'000U);
  EXPECT_GT(displaced, 1'000U);
}

}  // namespace pool_test
}  // namespace qm::admission::volcano
