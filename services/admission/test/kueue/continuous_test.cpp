// Continuous decisions, case by case.
#include "qm/admission/kueue/continuous.hpp"

#include "qm/admission/kueue/forest.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission::kueue {
namespace continuous_test {

/// Queues a, b, ... of one cohort, each with the given quota of one resource.
struct World {
  Forest forest;
  std::map<std::string, Node> queues;
  std::optional<Continuous> tree;
  int next = 1;

  World& queue(const std::string& name, std::int64_t nominal, const std::function<void(QueueRules&)>& change = {}) {
    Forest::Queue queue;
    queue.cohort = "all";
    queue.quotas = {{0, 0, {nominal, {}, {}}}};
    queue.rules.groups = {{{0}, {{0, {}}}}};
    if (change) change(queue.rules);
    forest.queues[name] = std::move(queue);
    return *this;
  }
  World& ready(bool fair = false) {
    auto planted = forest.plant();
    for (const auto& [name, at] : planted.queues) queues[name] = at.second;
    planted.fields[0].fair_sharing = fair;
    tree.emplace(std::move(planted.fields[0]));
    return *this;
  }
  int add(const std::string& queue, std::int64_t amount, std::int32_t priority = 0, std::int64_t created = 0) {
    Work work;
    work.id = next++;
    work.queue = queues.at(queue);
    work.priority = priority;
    work.created = created == 0 ? work.id : created;
    work.shape = static_cast<int>(amount);
    work.pod_sets = {{"main", 1, {}, {{0, amount}}, {}}};
    tree->enqueue(std::move(work));
    return next - 1;
  }
  /// "+3 -1<4": 3 was admitted, 1 was preempted by 4.
  std::string run() {
    const auto outcome = tree->run(next);
    std::string out;
    for (const auto& one : outcome.admitted) out += fmt::format("+{} ", one.id);
    for (const auto& one : outcome.preempted) out += fmt::format("-{}<{} ", one.id, one.by);
    if (!out.empty()) out.pop_back();
    return out;
  }
};

TEST(Continuous, QueueIsAdmittedInOneRunAndInOrder) {
  World w;
  w.queue("a", 3).ready();
  for (int i = 0; i < 5; ++i) w.add("a", 1, i);
  EXPECT_EQ(w.run(), "+5 +4 +3");
  EXPECT_EQ(w.run(), "");
  w.tree->finish(4);
  EXPECT_EQ(w.run(), "+2");
}

TEST(Continuous, WorkloadThatFitsIsAdmittedBeforeHeadThatDoesNot) {
  World w;
  w.queue("a", 4).ready();
  w.add("a", 5);
  w.add("a", 3);
  w.add("a", 2);
  w.add("a", 1);
  EXPECT_EQ(w.run(), "+2 +4");
  w.tree->finish(2);
  EXPECT_EQ(w.run(), "+3");
}

TEST(Continuous, StrictQueueBlocksOnItsHead) {
  World w;
  w.queue("a", 4, [](auto& rules) { rules.strict = true; }).ready();
  w.add("a", 3);
  w.add("a", 2);
  w.add("a", 1);
  EXPECT_EQ(w.run(), "+1");
  w.tree->finish(1);
  EXPECT_EQ(w.run(), "+2 +3");
  const int blocks = w.add("a", 5, 9);
  w.add("a", 1);
  EXPECT_EQ(w.run(), "");
  w.tree->finish(blocks);  // the blocking workload is deleted
  EXPECT_EQ(w.run(), "+5");
}

TEST(Continuous, WorkloadWithoutBorrowingGoesFirst) {
  World w;
  w.queue("a", 2).queue("b", 2).ready();
  for (int i = 0; i < 4; ++i) w.add("a", 1, 5);
  w.add("b", 1);
  w.add("b", 1);
  EXPECT_EQ(w.run(), "+1 +2 +5 +6");
}

TEST(Continuous, QuotaIsSharedOutOneByOne) {
  World w;
  w.queue("a", 0).queue("b", 0).queue("c", 6).ready(true);
  for (int i = 0; i < 6; ++i) w.add("a", 1, 5);
  for (int i = 0; i < 6; ++i) w.add("b", 1);
  EXPECT_EQ(w.run(), "+1 +7 +2 +8 +3 +9");
}

TEST(Continuous, ClaimedQuotaIsReserved) {
  World w;
  w.queue("a", 4, [](auto& rules) { rules.within_cluster_queue = PreemptPolicy::kLowerPriority; })
      .queue("b", 0)
      .ready();
  w.add("a", 2);
  w.add("a", 2);
  EXPECT_EQ(w.run(), "+1 +2");
  w.add("a", 3, 9);
  EXPECT_EQ(w.run(), "-1<3 -2<3");
  w.add("b", 1);
  w.tree->evicted(2);
  EXPECT_EQ(w.run(), "");  // the free capacity is claimed
  w.tree->evicted(1);
  EXPECT_EQ(w.run(), "+3 +4");
  EXPECT_TRUE(w.tree->waits(1));
  w.tree->finish(3);
  EXPECT_EQ(w.run(), "+1");
}

TEST(Continuous, ClaimEndsWithItsWorkload) {
  World w;
  w.queue("a", 4, [](auto& rules) { rules.within_cluster_queue = PreemptPolicy::kLowerPriority; }).ready();
  w.add("a", 4);
  EXPECT_EQ(w.run(), "+1");
  w.add("a", 4, 9);
  EXPECT_EQ(w.run(), "-1<2");
  EXPECT_TRUE(w.tree->claims(2));
  w.tree->finish(2);
  w.tree->evicted(1);
  EXPECT_EQ(w.run(), "+1");
}

TEST(Continuous, ClaimUsesAnyReleasedQuota) {
  World w;
  w.queue("a", 4, [](auto& rules) { rules.within_cluster_queue = PreemptPolicy::kLowerPriority; }).ready();
  w.add("a", 2, 1);
  w.add("a", 2, 5);
  EXPECT_EQ(w.run(), "+2 +1");
  w.add("a", 2, 9);
  EXPECT_EQ(w.run(), "-1<3");
  w.tree->finish(2);  // another one ends before the pods of the victim are gone
  EXPECT_EQ(w.run(), "+3");
}

TEST(Continuous, ClaimsSurviveRestart) {
  World w;
  const auto first = [](auto& rules) { rules.within_cluster_queue = PreemptPolicy::kLowerPriority; };
  w.queue("a", 4, first).queue("b", 0).ready();
  Work leaving;
  leaving.id = 1;
  leaving.queue = w.queues.at("a");
  leaving.usage = {{0, 4}};
  leaving.evicted = true;
  w.tree->hold(leaving);
  Work claimer;
  claimer.id = 2;
  claimer.queue = leaving.queue;
  claimer.priority = 9;
  claimer.pod_sets = {{"main", 1, {}, {{0, 3}}, {}}};
  w.next = 3;
  w.add("b", 4, 99);
  w.tree->claim(claimer, {{0, 3}}, {}, {1});
  EXPECT_EQ(w.run(), "");
  EXPECT_TRUE(w.tree->claims(2));
  w.tree->finish(1);
  EXPECT_EQ(w.run(), "+2");
}

TEST(Continuous, RequeuedVictimIsNoLongerLeaving) {
  World w;
  w.queue("a", 4, [](auto& rules) { rules.within_cluster_queue = PreemptPolicy::kLowerPriority; }).ready();
  Work leaving;  // restored while it leaves: the first known work of its class
  leaving.id = 1;
  leaving.queue = w.queues.at("a");
  leaving.usage = {{0, 4}};
  leaving.evicted = true;
  leaving.pod_sets = {{"main", 1, {}, {{0, 4}}, {}}};
  w.tree->hold(leaving);
  w.next = 2;
  w.tree->evicted(1);
  EXPECT_EQ(w.run(), "+1");
  w.add("a", 4, 9);
  EXPECT_EQ(w.run(), "-1<2");
}

}  // namespace continuous_test
}  // namespace qm::admission::kueue
