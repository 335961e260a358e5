// Victims with the least loss: never more than the plain search takes, and as little as any of its answers on small
// instances. No victim before its minimum run time, and no change of state by the search.
#include "qm/admission/kueue/cheapest.hpp"
#include "qm/admission/kueue/outcome.hpp"
#include "random_forest.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <deque>

namespace qm::admission::kueue {
namespace cheapest_victims_prop_test {

constexpr std::int64_t kSecond = 1'000'000, kNow = 1000 * kSecond;

Stake some_stake() {
  Stake out;
  out.gpu_milli = 1000 * upto(8);
  out.saved = kNow - upto(600) * kSecond;
  out.restart_us = upto(120) * kSecond;
  if (one_in(5)) out.min_runtime_until = kNow + 1;
  return out;
}

/// A tree of workloads with quota, with more or less to lose, and one pending workload that requests one cell.
struct Instance {
  std::deque<Work> works;
  QuotaState field{Tree({{}}, {}), {}, {}};
  Contest contest{works.emplace_back(), {}, {}};

  explicit Instance(int most) {
    auto planted = some_forest().plant();
    field = std::move(planted.fields.front());
    field.fair_sharing = one_in(2);
    field.now = kNow;
    std::vector<Node> queues;
    for (const auto& [name, place] : planted.queues) {
      if (place.first == 0) queues.push_back(place.second);
    }
    const auto somewhere = [&] { return queues[static_cast<std::size_t>(upto(static_cast<int>(queues.size()) - 1))]; };
    const int holders = upto(most);
    for (int id = 1; id <= holders && !queues.empty(); ++id) {
      Work& work = works.emplace_back();
      work.id = id;
      work.uid = WorkloadUid(std::to_string(id));
      work.queue = somewhere();
      work.priority = upto(2);
      work.created = upto(10);
      work.reserved = upto(3);
      work.evicted = one_in(8);
      work.stake = some_stake();
      for (Cell c = 0; c < field.tree.cells(); ++c) {
        const auto room = std::min<std::int64_t>(field.tree.available(work.queue, c), 4);
        if (const auto amount = upto(static_cast<int>(at_least_zero(room))); amount > 0) add_to(work.usage, c, amount);
      }
      if (work.usage.empty()) {
        works.pop_back();
      } else {
        field.hold(work);
      }
    }
    Work& by = works.front();
    by.id = 100;
    by.uid = WorkloadUid("by");
    if (queues.empty() || field.tree.cells() == 0) return;
    by.queue = somewhere();
    by.priority = 2;
    by.created = upto(10);
    const Cell cell = upto(field.tree.cells() - 1);
    contest.contested = {cell};
    contest.usage = {{cell, 1 + upto(6)}};
  }
  [[nodiscard]] std::vector<Target> victims(int cheaper_plan_searches) {
    field.cheaper_plan_searches = cheaper_plan_searches;
    return contest.usage.empty() ? std::vector<Target>{} : Victims(field).find(contest);
  }
  /// Whether the preemptor borrows after these preemptions.
  [[nodiscard]] bool borrows_after(const std::vector<Target>& victims) const {
    Tree left = field.tree;
    for (const auto& target : victims) left.remove(target.work->queue, target.work->usage);
    const auto& [cell, amount] = contest.usage.front();
    return left.borrows_with(contest.work.queue, cell, amount);
  }
  /// Whether a victim is one that may only be reclaimed by a workload that does not borrow.
  [[nodiscard]] static bool reclaims(const std::vector<Target>& victims) {
    return std::ranges::any_of(victims, [](const Target& t) { return t.reason == Reason::kInCohortReclamation; });
  }
  [[nodiscard]] static std::int64_t lost(const std::vector<Target>& victims) { return loss({victims, true}, kNow); }
};

constexpr int kInstancesEach = 30;

/// Checks one random instance; returns whether a cheaper plan was found.
bool as_cheap_as_any() {
  Instance instance(8);
  const auto plain = instance.victims(0);
  if (plain.empty()) {
    RC_ASSERT(instance.victims(100000).empty());
    return false;
  }
  const auto found = instance.victims(100000);
  // The search never takes a workload before its minimum run time has passed, so this tries all subsets of
  // candidates. Only answers that take all other candidates count: the search finds others by adding a victim and
  // removing it again, and no choice of refused victims need lead to them.
  std::vector<Work*> free;
  for (auto& work : instance.works) {
    if (!work.evicted && work.stake.min_runtime_until <= kNow) free.push_back(&work);
  }
  auto least = Instance::lost(plain);
  const bool borrows = instance.borrows_after(plain);
  for (unsigned kept = 0; kept < 1U << free.size(); ++kept) {
    for (std::size_t i = 0; i < free.size(); ++i)
      free[i]->stake.min_runtime_until = (kept >> i & 1U) != 0 ? kNow + 1 : kNow;
    const auto other = instance.victims(0);
    if (other.empty() || strongest_of(other) > strongest_of(plain)) continue;
    const auto taken = std::ranges::count_if(other, [](const Target& target) { return !target.work->evicted; });
    if (taken != std::ssize(free) - std::popcount(kept)) continue;
    // Borrowing and reclaim take precedence over the loss: where the plain answer settled these, cheaper answers must
    // match it.
    const bool same =
        instance.borrows_after(other) == borrows && Instance::reclaims(other) <= Instance::reclaims(plain);
    if (same) least = std::min(least, Instance::lost(other));
  }
  // A spared workload still counts as a candidate, so sparing may find plans that refusing does not.
  RC_ASSERT(Instance::lost(found) <= least);
  return least < Instance::lost(plain);
}

RC_GTEST_PROP(CheapestVictims, LoseAtMostAsMuchAsAnySearchResult, ()) {
  int cheaper = 0;
  for (int i = 0; i < kInstancesEach; ++i) cheaper += as_cheap_as_any() ? 1 : 0;
  RC_CLASSIFY(cheaper > 0, "with cheaper plans");
}

void never_loses_more() {
  Instance instance(40);
  const Tree before = instance.field.tree;
  const auto plain = instance.victims(0);
  const auto found = instance.victims(upto(60));
  RC_ASSERT(found.empty() == plain.empty());
  RC_ASSERT(Instance::lost(found) <= Instance::lost(plain));
  RC_ASSERT(strongest_of(found) <= strongest_of(plain));
  for (const auto& target : found) RC_ASSERT(target.work->evicted || target.work->stake.min_runtime_until <= kNow);
  auto& tree = instance.field.tree;
  for (Node n = 0; n < tree.size(); ++n) {
    for (Cell c = 0; c < tree.cells(); ++c) RC_ASSERT(tree.used(n, c) == before.used(n, c));
  }
  if (found.empty()) return;
  for (const auto& target : found) instance.field.release(*target.work);
  RC_ASSERT(tree.fits(instance.contest.work.queue, instance.contest.usage));
}

RC_GTEST_PROP(CheapestVictims, NeverLoseMoreAndRestoreState, ()) {
  for (int i = 0; i < kInstancesEach; ++i) never_loses_more();
}

/// Two queues that lend to each other. The rules are implemented a second time here, and every set of victims is
/// tried, in the order of candidates.
bool cheapest_legal_set() {
  Forest forest;
  for (const char* name : {"a", "b"}) {
    Forest::Queue queue;
    queue.cohort = "co";
    queue.quotas = {{0, 0, {5 + upto(6), {}, {}}}};
    queue.rules.groups = {{{0}, {{0, {}}}}};
    queue.rules.within_cluster_queue = PreemptPolicy::kLowerPriority;
    queue.rules.reclaim_within_cohort = PreemptPolicy::kAny;
    forest.queues[name] = std::move(queue);
  }
  auto planted = forest.plant();
  QuotaState field = std::move(planted.fields.at(0));
  field.now = kNow;
  const Node own = planted.queues.at("a").second, other = planted.queues.at("b").second;
  std::deque<Work> works;
  for (int id = 1; id <= 9; ++id) {
    Work work;
    work.id = id;
    work.uid = WorkloadUid(std::to_string(id));
    work.queue = one_in(3) ? own : other;
    work.priority = upto(2);
    work.stake = some_stake();
    const auto size = 1 + upto(4);
    if (field.tree.available(work.queue, 0) < size) continue;
    work.usage = {{0, size}};
    field.hold(works.emplace_back(std::move(work)));
  }
  Work by;
  by.id = 100;
  by.queue = own;
  by.priority = 1;
  const auto nominal = field.tree.quota(own, 0).nominal;
  const std::int64_t wants = 1 + upto(6);
  if (nominal < field.tree.used(own, 0) + wants) return false;  // within its own quota, so that it need not borrow

  std::vector<const Work*> candidates;
  for (const auto& work : works) {
    if (work.stake.min_runtime_until > kNow) continue;
    if (work.queue == other || work.priority < by.priority) candidates.push_back(&work);
  }
  std::ranges::sort(candidates, [&](const Work* a, const Work* b) { return Victims::sooner(*a, *b, own); });
  std::optional<std::int64_t> least;
  const Contest contest{by, {0}, {{0, wants}}};
  const auto strongest = strongest_of(Victims(field).find(contest));
  for (unsigned set = 0; set < 1U << candidates.size(); ++set) {
    auto used_there = field.tree.used(other, 0), used_here = field.tree.used(own, 0);
    bool legal = true;
    std::int64_t lost = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      const auto& work = *candidates[i];
      auto& used = work.queue == other ? used_there : used_here;
      legal = legal && work.priority <= strongest;
      legal = legal && (work.queue == own || used > field.tree.quota(other, 0).nominal);
      used -= work.usage[0].amount;
      lost += work.stake.loss(kNow);
    }
    const bool fits = used_here + used_there + wants <= field.tree.subtree(0, 0);
    if (legal && fits && (!least || lost < *least)) least = lost;
  }
  field.cheaper_plan_searches = 100000;
  const auto found = Victims(field).find(contest);
  if (found.empty() || field.tree.fits(own, {{0, wants}})) return false;
  RC_ASSERT(least.has_value());
  RC_ASSERT(Instance::lost(found) == *least);
  return true;
}

RC_GTEST_PROP(CheapestVictims, AreCheapestLegalSetOfCohort, ()) {
  int contested = 0;
  for (int i = 0; i < kInstancesEach; ++i) contested += cheapest_legal_set() ? 1 : 0;
  RC_CLASSIFY(contested > 0, "with victims");
}

/// One queue, in which every set of lower priority is legal: the result is the cheapest set that covers the shortage.
RC_GTEST_PROP(CheapestVictims, CoverShortageAtLeastLoss, ()) {
  constexpr int kHolders = 11, kMaxSize = 6;
  for (int instance = 0; instance < kInstancesEach; ++instance) {
    Forest forest;
    auto& queue = forest.queues["q"];
    queue.quotas = {{0, 0, {kHolders * kMaxSize, {}, {}}}};
    queue.rules.groups = {{{0}, {{0, {}}}}};
    queue.rules.within_cluster_queue = PreemptPolicy::kLowerPriority;
    QuotaState field = std::move(forest.plant().fields.at(0));
    field.fair_sharing = one_in(2);
    field.now = kNow;
    field.cheaper_plan_searches = 1000000;
    std::deque<Work> works;
    std::int64_t held = 0;
    for (int id = 1; id <= kHolders; ++id) {
      Work& work = works.emplace_back();
      work.id = id;
      work.uid = WorkloadUid(std::to_string(id));
      work.usage = {{0, 1 + upto(kMaxSize - 1)}};
      work.stake.gpu_milli = 1000;
      work.stake.saved = kNow - (1 + upto(30)) * kSecond;
      held += work.usage[0].amount;
      field.hold(work);
    }
    Work by;
    by.id = 100;
    by.priority = 1;
    const auto missing = 1 + upto(static_cast<int>(held) / 2);
    const auto wants = kHolders * kMaxSize - held + missing;
    auto least = kUnlimited;
    for (unsigned set = 0; set < 1U << kHolders; ++set) {
      std::int64_t given = 0, lost = 0;
      for (std::size_t i = 0; i < works.size(); ++i) {
        if ((set >> i & 1U) == 0) continue;
        given += works[i].usage[0].amount;
        lost += works[i].stake.loss(kNow);
      }
      if (given >= missing) least = std::min(least, lost);
    }
    const auto found = Victims(field).find({by, {0}, {{0, wants}}});
    RC_ASSERT(Instance::lost(found) == least);
  }
}

/// The search takes 1 before 2, and then may not take 2, so that without 3 it finds nothing. Sparing 1 as
/// well, 2 suffices.
TEST(CheapestVictims, AreFoundBehindFailedSearches) {
  Forest forest;
  for (const auto& [name, nominal] : {std::pair("a", 3), std::pair("b", 3), std::pair("c", 0)}) {
    Forest::Queue queue;
    queue.cohort = "co";
    queue.quotas = {{0, 0, {nominal, {}, {}}}};
    queue.rules.groups = {{{0}, {{0, {}}}}};
    queue.rules.within_cluster_queue = PreemptPolicy::kLowerPriority;
    queue.rules.reclaim_within_cohort = PreemptPolicy::kAny;
    forest.queues[name] = std::move(queue);
  }
  auto planted = forest.plant();
  QuotaState field = std::move(planted.fields.at(0));
  field.now = kNow;
  std::deque<Work> works;
  const auto hold = [&](const char* queue, std::int64_t size, std::int64_t seconds) {
    Work& work = works.emplace_back();
    work.id = static_cast<int>(works.size());
    work.uid = WorkloadUid(std::to_string(work.id));
    work.queue = planted.queues.at(queue).second;
    work.usage = {{0, size}};
    work.stake = {.gpu_milli = 1000, .saved = kNow - seconds * kSecond};
    field.hold(work);
  };
  hold("b", 2, 1), hold("b", 3, 3), hold("c", 1, 100);
  Work by;
  by.id = 100;
  by.priority = 1;
  by.queue = planted.queues.at("a").second;
  const Contest contest{by, {0}, {{0, 3}}};
  const auto ids = [&](int cheaper_plan_searches) {
    field.cheaper_plan_searches = cheaper_plan_searches;
    std::set<int> out;
    for (const auto& target : Victims(field).find(contest)) out.insert(target.work->id);
    return out;
  };
  EXPECT_EQ(ids(0), (std::set<int>{1, 3}));
  EXPECT_EQ(ids(1000), (std::set<int>{2}));
}

TEST(CheapestVictims, LossIsWorkSinceCheckpointAndRecovery) {
  Stake stake;
  stake.gpu_milli = 2000;
  stake.saved = kNow - 30 * kSecond;
  stake.restart_us = 12 * kSecond;
  EXPECT_EQ(stake.loss(kNow), 2 * 42 * 1'000'000);
  EXPECT_EQ(stake.loss(kNow - 60 * kSecond), 2 * 12 * 1'000'000) << "saved in the future: only the way back";
  stake.gpu_milli = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(stake.loss(kNow), kUnlimited);
}

}  // namespace cheapest_victims_prop_test
}  // namespace qm::admission::kueue
