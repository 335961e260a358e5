// Victims in other queues, and in the queue of the job itself.
#include "qm/admission/volcano/reclaim.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace qm::admission::volcano {
namespace reclaim_test {

Queue owed(std::string name, std::int64_t deserved, std::string parent = {}) {
  Queue out;
  out.name = std::move(name);
  out.parent = std::move(parent);
  out.deserved = {deserved};
  return out;
}

/// A cluster with all of its GPUs in use.
struct Cluster {
  Queues queues;
  std::vector<Running> running = {};

  void run(const std::string& queue, const std::string& job, std::int64_t gpus, std::int32_t priority = 0) {
    const auto id = *queues.find(queue);
    queues.allocate(id, {gpus});
    queues.ask(id, {gpus});
    running.push_back({id, {job, priority, static_cast<std::int64_t>(running.size()), {gpus}}, true});
  }
  [[nodiscard]] std::vector<std::string> names(const Reclaimed& taken) const {
    std::vector<std::string> out;
    for (const auto i : taken) out.push_back(running[i].piece.name);
    return out;
  }
  [[nodiscard]] std::vector<std::string> reclaimed(const std::string& to, std::int64_t need,
                                                   std::int64_t idle = 0) const {
    return names(reclaim(Capacity(queues), queues, running, *queues.find(to), {need}, {idle}));
  }
};

using Names = std::vector<std::string>;

TEST(Reclaim, NearestQueueFirstThenMostOverused) {
  Cluster cluster{*Queues::plant(
      {owed("x", 20), owed("y", 10), owed("x1", 10, "x"), owed("x2", 2, "x"), owed("y1", 2, "y"), owed("y2", 4, "y")},
      {40})};
  cluster.run("x2", "near", 4);
  cluster.run("y1", "far-over", 8);
  cluster.run("y1", "far-over-more", 4);
  cluster.run("y2", "far", 8);
  EXPECT_EQ(cluster.reclaimed("x1", 4), Names{"near"});
  EXPECT_EQ(cluster.reclaimed("x1", 8), (Names{"near", "far-over-more"}));
  EXPECT_EQ(cluster.reclaimed("x1", 8, 4), Names{"near"}) << "four are idle";
  EXPECT_EQ(cluster.reclaimed("x1", 11), Names{}) << "more than it deserves";
}

TEST(Reclaim, SpareUnneededVictim) {
  Cluster cluster{*Queues::plant({owed("needy", 8), owed("a", 1), owed("b", 2)}, {10})};
  cluster.run("a", "small", 2);
  cluster.run("b", "large", 8);
  // b exceeds its share the most: large alone suffices. If b were the last queue to reclaim from, small
  // would go first.
  EXPECT_EQ(cluster.reclaimed("needy", 8), Names{"large"});
  Cluster other{*Queues::plant({owed("needy", 8), owed("a", 0), owed("b", 7)}, {10})};
  other.run("a", "small", 2);
  other.run("b", "large", 8);
  EXPECT_EQ(other.reclaimed("needy", 8), Names{"large"});
}

TEST(Reclaim, QueueKeepsItsDeserved) {
  Cluster cluster{*Queues::plant({owed("needy", 12), owed("a", 6)}, {12})};
  for (int i = 0; i < 6; ++i) cluster.run("a", fmt::format("a{}", i), 2);
  EXPECT_EQ(cluster.reclaimed("needy", 6), (Names{"a5", "a4", "a3"}));
  EXPECT_EQ(cluster.reclaimed("needy", 7), Names{})
      << "the fourth is within the deserved amount of a: no victim without gain";
}

TEST(Reclaim, ByWeightsUntilShareIsReached) {
  Cluster cluster{*Queues::plant({owed("needy", 0), owed("a", 0)}, {12})};
  for (int i = 0; i < 6; ++i) cluster.run("a", fmt::format("a{}", i), 2);
  const auto needy = *cluster.queues.find("needy");
  cluster.queues.ask(needy, {12});
  const Proportion rule(cluster.queues);
  EXPECT_EQ(cluster.names(reclaim(rule, cluster.queues, cluster.running, needy, {6}, {0})), (Names{"a5", "a4", "a3"}));
  EXPECT_TRUE(reclaim(rule, cluster.queues, cluster.running, needy, {7}, {0}).empty()) << "six are its share";
}

TEST(Preempt, OnlyLowerPriorityOfSameQueue) {
  Cluster cluster{*Queues::plant({owed("a", 8), owed("b", 8)}, {16})};
  cluster.run("a", "low", 4, 1);
  cluster.run("a", "high", 4, 5);
  cluster.run("b", "other", 8, 0);
  const auto a = *cluster.queues.find("a");
  const auto gone = [&](std::int32_t priority, std::int64_t need, std::int64_t idle = 0) {
    return cluster.names(preempt(cluster.queues, cluster.running, a, priority, {need}, {idle}));
  };
  EXPECT_EQ(gone(3, 4), Names{"low"});
  EXPECT_EQ(gone(1, 4), Names{}) << "equal priority stays";
  EXPECT_EQ(gone(3, 5), Names{}) << "not enough: no victims";
  EXPECT_EQ(gone(3, 5, 1), Names{"low"});
  EXPECT_EQ(gone(9, 8), (Names{"high", "low"})) << "FIFO: the newest one";
  EXPECT_EQ(gone(3, 4, 4), Names{}) << "it is idle";
  cluster.running[0].preemptable = false;
  EXPECT_EQ(gone(3, 4), Names{});
}

/// Two levels of queues, all GPUs in use, and one queue that requests some.
Cluster some_cluster(std::mt19937_64& random, std::int64_t gpus) {
  const auto upto = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  std::vector<Queue> list;
  const auto parents = upto(2);
  for (std::int64_t p = 0; p < parents; ++p) list.push_back(owed(fmt::format("p{}", p), upto(gpus)));
  std::vector<std::string> names;
  for (auto n = 1 + upto(4); n > 0; --n) {
    auto queue = owed(names.emplace_back(fmt::format("q{}", n)), upto(3) == 0 ? 0 : upto(gpus / 2));
    if (parents > 0 && upto(2) > 0) queue.parent = fmt::format("p{}", upto(parents - 1));
    queue.weight = static_cast<std::int32_t>(1 + upto(9));
    queue.guarantee = {upto(2) == 0 ? upto(queue.deserved[0]) : 0};
    queue.reclaimable = upto(4) > 0;
    queue.victims = static_cast<VictimPolicy>(upto(2));
    list.push_back(queue);
  }
  auto needy = owed("needy", gpus / 2);
  needy.weight = 10;
  list.push_back(needy);
  Cluster out{*Queues::plant(std::move(list), {gpus})};
  for (int i = 0; out.queues.use(0).allocated[0] < gpus; ++i) {
    const auto left = gpus - out.queues.use(0).allocated[0];
    const auto& queue = names[static_cast<std::size_t>(upto(static_cast<std::int64_t>(names.size()) - 1))];
    out.run(queue, fmt::format("job-{}", i), 1 + upto(std::min<std::int64_t>(left, 8) - 1),
            static_cast<std::int32_t>(upto(2)));
    out.running.back().preemptable = upto(5) > 0;
  }
  return out;
}

/// The laws of one plan: the need is met, the rule holds at each step, and every victim is needed.
template <class Rule>
void check(const Rule& rule, const Cluster& cluster, QueueId to, const Resources& need, const Reclaimed& taken) {
  auto then = cluster.queues;
  Resources freed{0};
  for (const auto i : taken) {
    const auto& victim = cluster.running[i];
    ASSERT_TRUE(victim.preemptable);
    ASSERT_NE(victim.queue, to);
    ASSERT_TRUE(cluster.queues[victim.queue].reclaimable);
    ASSERT_TRUE(rule.gives(then, victim.queue, victim.piece.frees, to, need));
    then.release(victim.queue, victim.piece.frees);
    add(freed, victim.piece.frees);
  }
  ASSERT_TRUE(within(need, freed));
  for (const auto i : taken) {
    const auto& victim = cluster.running[i];
    ASSERT_TRUE(within(cluster.queues[victim.queue].guarantee, then.use(victim.queue).allocated));
    ASSERT_FALSE(within(need, rest(freed, victim.piece.frees))) << victim.piece.name << " could have been spared";
  }
  then.allocate(to, need);
  ASSERT_TRUE(within(then.use(to).allocated, rule.real_capability(to)));
}

template <class Rule, class... Args>
int hold_laws(unsigned cases, Args... args) {
  int plans = 0;
  for (unsigned seed = 0; seed < cases; ++seed) {
    std::mt19937_64 random(seed);
    auto cluster = some_cluster(random, 8 + static_cast<std::int64_t>(random() % 40));
    const auto to = *cluster.queues.find("needy");
    const Resources need{1 + static_cast<std::int64_t>(random() % 12)};
    cluster.queues.ask(to, need);
    const Rule rule(cluster.queues, args...);
    const auto taken = reclaim(rule, cluster.queues, cluster.running, to, need, {0});
    if (!taken.empty()) {
      ++plans;
      check(rule, cluster, to, need, taken);
      if (::testing::Test::HasFatalFailure()) {
        ADD_FAILURE() << "seed " << seed;
        return plans;
      }
    }
    auto turned = cluster;
    std::ranges::reverse(turned.running);
    const auto again = turned.names(reclaim(rule, turned.queues, turned.running, to, need, {0}));
    EXPECT_EQ(again, cluster.names(taken)) << "the order of the list decides, seed " << seed;
  }
  return plans;
}

TEST(ReclaimLaws, AllOrNothingAndRuleHoldsAtEachStep) {
  EXPECT_GT(hold_laws<Capacity>(2'000, 0), 500);
  EXPECT_GT(hold_laws<Capacity>(2'000, 1), 500);
  EXPECT_GT(hold_laws<Proportion>(2'000), 500);
}

}  // namespace reclaim_test
}  // namespace qm::admission::volcano
