// Displacements by hand; published preemption loops, written from their descriptions; and the ping-pong of the
// recorded random traces. Each one loops without displacements and terminates with them.
#include "displacement_arena.hpp"
#include "qm/admission/kueue/forest.hpp"
#include "qm/testing/testing.hpp"
#include "vectors.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>

namespace qm::admission::kueue {
namespace displacements_test {

TEST(PreemptionGraph, AboveIsTransitive) {
  PreemptionGraph d;
  d.displaced(1, 2, 10);
  d.displaced(2, 3, 20);
  EXPECT_TRUE(d.above(1, 2) && d.above(2, 3) && d.above(1, 3));
  EXPECT_FALSE(d.above(3, 1) || d.above(2, 1) || d.above(1, 1));
  EXPECT_EQ(d.excluded_victims(3), (std::set<int>{1, 2}));
  EXPECT_TRUE(d.knows(1) && d.knows(3));
  EXPECT_FALSE(d.knows(4));
}

TEST(PreemptionGraph, NoWorkloadIsPreemptedTwiceForOneAdmission) {
  PreemptionGraph d;
  d.displaced(1, 2, 10);
  EXPECT_EQ(d.excluded_victims(1), std::set<int>{2});
  d.admitted(1);
  EXPECT_EQ(d.excluded_victims(1), std::set<int>{});
  d.displaced(1, 2, 20);
  EXPECT_EQ(d.excluded_victims(1), std::set<int>{2}) << "it is pending again, and preempted again";
}

TEST(PreemptionGraph, EndWithWorkloadsTimeAndRules) {
  PreemptionGraph d;
  d.displaced(1, 2, 10);
  d.displaced(2, 3, 20);
  EXPECT_EQ(d.take_changed(), (std::set<int>{2, 3}));
  d.relax(15);
  EXPECT_EQ(d.excluded_victims(3), std::set<int>{2});
  EXPECT_EQ(d.take_changed(), std::set<int>{2});
  d.displaced(1, 2, 30);
  d.forget(2);
  EXPECT_TRUE(d.all().empty());
  EXPECT_EQ(d.take_changed(), std::set<int>{3}) << "2 has no row";
  d.displaced(1, 3, 40);
  d.clear();
  EXPECT_TRUE(d.all().empty());
  EXPECT_FALSE(d.knows(1) || d.knows(3));
}

TEST(PreemptionGraph, AreRestoredFromRows) {
  PreemptionGraph d;
  d.displaced(1, 2, 10);
  d.admitted(1);
  d.displaced(3, 2, 11);
  d.displaced(2, 4, 12);
  PreemptionGraph again;
  for (const auto& [victim, pairs] : d.all()) again.restore(victim, pairs);
  EXPECT_EQ(again.all(), d.all());
  EXPECT_EQ(again.excluded_victims(4), (std::set<int>{1, 2, 3}));
  EXPECT_EQ(again.excluded_victims(1), std::set<int>{});
  EXPECT_EQ(again.excluded_victims(3), std::set<int>{2});
  EXPECT_TRUE(again.take_changed().empty());
}

TEST(DisplacementsDeathTest, CycleBreaksLaw) {
  PreemptionGraph d;
  d.displaced(1, 2, 10);
  d.displaced(2, 3, 10);
  EXPECT_DEATH(d.displaced(3, 1, 10), "is above");
}

// ---- published loops ----

/// Queues of one cohort with one resource of one flavor, and workloads by hand.
class PreemptionLoops : public ::testing::Test {
 protected:
  void queue(const std::string& name, std::int64_t nominal, PreemptPolicy within, bool while_borrowing = false,
             const std::string& cohort = "root") {
    Forest::Queue out;
    out.cohort = cohort;
    out.quotas = {{0, 0, {nominal, {}, {}}}};
    out.rules.groups = {{{0}, {{0, {}}}}};
    out.rules.within_cluster_queue = within;
    out.rules.reclaim_within_cohort = PreemptPolicy::kAny;
    out.rules.preempts_while_borrowing = while_borrowing;
    forest_.queues[name] = std::move(out);
  }
  void start(bool fair, bool loop_free) {
    planted_ = forest_.plant();
    ASSERT_EQ(planted_.fields.size(), 1U);
    planted_.fields[0].fair_sharing = fair;
    arena_ = std::make_unique<Arena>(std::move(planted_.fields[0]), loop_free);
  }
  int add(const std::string& queue, std::int64_t size, std::int32_t priority = 0) {
    Work work;
    work.id = next_++;
    work.uid = WorkloadUid(fmt::format("{:03}", work.id));
    work.created = work.id;
    work.queue = planted_.queues.at(queue).second;
    work.priority = priority;
    work.pod_sets = {{"main", 1, {}, {{0, size}}, {}}};
    arena_->add(std::move(work));
    return next_ - 1;
  }
  /// "+1" was admitted, "-2/1" was preempted by 1; "" where nothing can be done.
  std::string look(int id) {
    const auto happened = arena_->look(id);
    if (!happened) return "";
    if (happened->displaced.empty()) return fmt::format("+{}", id);
    std::string out;
    for (const auto& [victim, reason] : happened->displaced) {
      out += fmt::format("{}-{}/{}", out.empty() ? "" : " ", victim, id);
    }
    return out;
  }
  /// The number of workloads that are displaced until nothing can be decided for these; after each change the first
  /// one is considered again. At most `most`.
  int displaced(const std::vector<int>& order, int most) {
    int out = 0;
    while (out < most) {
      bool happened = false;
      for (const int id : order) {
        const auto one = arena_->look(id);
        if (!one) continue;
        out += static_cast<int>(one->displaced.size());
        happened = true;
        break;
      }
      if (!happened) break;
    }
    return out;
  }

  Forest forest_;
  Forest::Planted planted_;
  std::unique_ptr<Arena> arena_;
  int next_ = 1;
};

constexpr int kForEver = 100;

// Kueue issue 14543. a2 first takes a1 of its own queue, which makes its share small enough to take b1 too; then a1
// is removed from the victims, as b1 alone suffices. Now the share of a is larger than that of b was, and b1 takes a2
// for the same reason.
TEST_F(PreemptionLoops, SparedVictimsThatMadeOthersLegal) {
  for (const bool loop_free : {false, true}) {
    forest_ = {};
    next_ = 1;
    queue("a", 0, PreemptPolicy::kLowerOrNewerEqualPriority);
    queue("b", 0, PreemptPolicy::kNever);
    queue("lender", 10, PreemptPolicy::kNever);
    start(true, loop_free);
    const int a2 = add("a", 3), a0 = add("a", 2, 1), a1 = add("a", 2), b1 = add("b", 6);
    EXPECT_EQ(look(a0) + look(a1) + look(b1), "+2+3+4");
    if (!loop_free) {
      EXPECT_EQ(look(a2), "-4/1") << "b1, by which a has 7 where b had 6";
      EXPECT_EQ(displaced({b1, a2}, kForEver), kForEver);
      continue;
    }
    EXPECT_EQ(look(a2), "-3/1 -4/1") << "both, as b1 must not be preempted without a1";
    EXPECT_LT(displaced({b1, a1, a2}, kForEver), 3);
  }
}

// Kueue issue 3779. Tenant A exceeds its nominal quota already and preempts best effort by priority; by shares best
// effort goes first, and is admitted again before tenant A.
TEST_F(PreemptionLoops, VictimsAdmittedBeforeTheirPreemptor) {
  for (const bool loop_free : {false, true}) {
    forest_ = {};
    next_ = 1;
    queue("tenant-a", 150, PreemptPolicy::kLowerPriority, true);
    queue("tenant-b", 150, PreemptPolicy::kLowerPriority, true);
    queue("best-effort", 0, PreemptPolicy::kNever);
    start(false, loop_free);
    const int a1 = add("tenant-a", 250, 10), effort = add("best-effort", 50, 1), a2 = add("tenant-a", 50, 10);
    EXPECT_EQ(look(a1) + look(effort), "+1+2");
    EXPECT_EQ(displaced({effort, a2}, kForEver), loop_free ? 1 : kForEver);
  }
}

// The same issue, first description: a tree of cohorts, where the guaranteed queue has no quota of its own and its
// cohort has all of it.
TEST_F(PreemptionLoops, VictimsAdmittedBeforeTheirPreemptorInTree) {
  for (const bool loop_free : {false, true}) {
    forest_ = {};
    next_ = 1;
    forest_.cohorts["guaranteed"] = {"root", 1, {{0, 0, {300, {}, {}}}}};
    queue("guaranteed", 0, PreemptPolicy::kLowerPriority, true, "guaranteed");
    queue("best-effort-a", 0, PreemptPolicy::kNever);
    queue("best-effort-b", 0, PreemptPolicy::kNever);
    start(false, loop_free);
    const int a1 = add("best-effort-a", 100), a2 = add("best-effort-a", 100);
    const int b1 = add("best-effort-b", 50), b2 = add("best-effort-b", 50);
    const int g1 = add("guaranteed", 50, 10), g2 = add("guaranteed", 100, 10);
    EXPECT_EQ(look(a1) + look(a2) + look(b1) + look(b2), "+1+2+3+4");
    const int turns = displaced({a1, a2, b1, b2, g1, g2}, kForEver);
    EXPECT_EQ(turns == kForEver, !loop_free) << turns;
  }
}

// Kueue issue 7101. Four workloads of two pods hold all quota. In the other queue, the pending workload of three pods
// may preempt two of them, but one of these takes the released quota again.
TEST_F(PreemptionLoops, FreedQuotaAbovePreemptorsNeedBelowItsQueuesDemand) {
  for (const bool loop_free : {false, true}) {
    forest_ = {};
    next_ = 1;
    queue("proj-1", 0, PreemptPolicy::kNever);
    queue("proj-2", 0, PreemptPolicy::kNever);
    queue("lender", 8, PreemptPolicy::kNever);
    start(true, loop_free);
    std::vector<int> order;
    for (int i = 0; i < 4; ++i) {
      order.push_back(add("proj-1", 2));
      EXPECT_EQ(look(order.back()), fmt::format("+{}", order.back()));
    }
    for (const int size : {6, 5, 4, 3}) order.push_back(add("proj-2", size));
    const int turns = displaced(order, kForEver);
    EXPECT_EQ(turns == kForEver, !loop_free) << turns;
  }
}

// ---- recorded ping-pong ----

TEST(RecordedLoops, EndWhereDisplacementsAreKept) {
  // The reference traces where they are available, else our own copy.
  const auto records =
      vectors::read_records(qm::testing::data_folders("vectors").back() + "/kueue/random_cycles.jsonl.gz");
  ASSERT_TRUE(records) << records.error().to_string();
  int capped = 0, turning = 0, restless = 0, preempted_before = 0, preempted = 0, twice = 0;
  for (const auto& record : *records) {
    if (!record["trace"]["capped"].boolean()) continue;
    ++capped;
    const auto before = vectors::rest_at(record, false), rest = vectors::rest_at(record, true);
    if (before.repeats >= 3) ++turning;
    if (!rest.terminates) ++restless;
    preempted_before += before.preempted;
    preempted += rest.preempted;
    EXPECT_TRUE(rest.terminates) << record["id"].string();
    EXPECT_LE(rest.waiting_repeats, 1) << record["id"].string();
    EXPECT_LE(rest.repeats, 2) << record["id"].string();
    if (rest.repeats == 2) ++twice;
  }
  EXPECT_GT(turning, 0);
  EXPECT_GT(twice, 0) << "after a run in between it may preempt again";
  std::cout << capped << " traces reach the cap, " << turning << " by ping-pong with " << preempted_before
            << " preemptions so far; with displacements " << restless << " do not terminate, and there are "
            << preempted << " preemptions; in " << twice
            << " traces one happens twice, after its preemptor ran in between\n";
}

}  // namespace displacements_test
}  // namespace qm::admission::kueue
