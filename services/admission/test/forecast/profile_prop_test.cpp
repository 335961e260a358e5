#include "qm/admission/forecast/profile.hpp"

#include "test/kueue/random_forest.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm::admission::forecast {
namespace profile_prop_test {

using kueue::Amounts;
using kueue::Node;
using std::chrono::hours;
using std::chrono::minutes;

const Instant kNow = from_micros(0) + hours(1000);

/// Two queues of four GPUs each in one cohort; the first one lends at most two.
kueue::Tree two_queues() {
  kueue::Quota first, second;
  first.nominal = second.nominal = 4;
  first.lending_limit = 2;
  return kueue::Tree({{"all", -1, false, 1, {}}, {"a", 0, true, 1, {{0, first}}}, {"b", 0, true, 1, {{0, second}}}},
                     {0});
}
Amounts gpus(std::int64_t n) { return {{0, n}}; }

TEST(Profile, FindsFirstIntervalWithEnoughCapacity) {
  auto tree = two_queues();
  tree.add(1, gpus(4));
  tree.add(2, gpus(3));
  Profile profile(std::move(tree), kNow);
  profile.frees(1, gpus(4), kNow + hours(2));
  profile.frees(2, gpus(3), kNow + hours(5));
  EXPECT_EQ(profile.earliest(2, gpus(1), hours(1), kNow), kNow);
  EXPECT_EQ(profile.earliest(2, gpus(3), hours(1), kNow), kNow + hours(2));  // borrows the two that a lends
  EXPECT_EQ(profile.earliest(2, gpus(4), hours(1), kNow), kNow + hours(5));
  EXPECT_EQ(profile.earliest(2, gpus(7), hours(1), kNow), std::nullopt);  // more than can ever be lent
  EXPECT_EQ(profile.earliest(1, gpus(8), hours(1), kNow), kNow + hours(5));
  EXPECT_EQ(profile.available(2, 0, kNow + hours(3)), 3);

  profile.reserve(2, gpus(1), kNow + hours(1), hours(2));
  EXPECT_EQ(profile.earliest(2, gpus(1), minutes(60), kNow), kNow);
  EXPECT_EQ(profile.earliest(2, gpus(1), minutes(61), kNow), kNow + hours(2));  // would overlap a reservation
  EXPECT_EQ(profile.earliest(2, gpus(1), minutes(30), kNow + minutes(45)), kNow + hours(2));
  profile.drop(2, gpus(1), kNow + hours(1), hours(2));
  EXPECT_EQ(profile.earliest(2, gpus(1), minutes(61), kNow), kNow);
}

TEST(Profile, RoundsEndsUpAndKeepsToItsBounds) {
  auto tree = two_queues();
  tree.add(1, gpus(4));
  Profile profile(std::move(tree), kNow, {hours(10), minutes(10), 3});
  profile.frees(1, gpus(1), kNow - hours(1));  // overdue: it is expected to end at any moment
  profile.frees(1, gpus(3), kNow + minutes(11));
  EXPECT_EQ(profile.earliest(1, gpus(7), hours(1), kNow), kNow + minutes(20));
  EXPECT_EQ(profile.earliest(1, gpus(5), hours(1), kNow), kNow);
  EXPECT_EQ(profile.earliest(1, gpus(1), hours(1), kNow + hours(11)), std::nullopt);  // beyond the horizon
  profile.reserve(1, gpus(8), kNow + minutes(20), hours(11));
  EXPECT_EQ(profile.steps(), 3U);
  EXPECT_EQ(profile.earliest(1, gpus(1), minutes(1), kNow), std::nullopt);  // the limit of steps is reached
}

TEST(Backfill, SmallWorkloadGoesFirstOnlyWhereItDelaysNoStart) {
  auto tree = two_queues();
  tree.add(1, gpus(4));
  tree.add(2, gpus(2));
  Profile profile(std::move(tree), kNow);
  profile.frees(1, gpus(4), kNow + hours(2));
  profile.frees(2, gpus(2), kNow + hours(2));
  Backfill plan(std::move(profile), 5);
  EXPECT_EQ(plan.next({1, 1, {gpus(8)}, hours(4)}), (Backfill::Reservation{1, kNow + hours(2), 0}));
  const auto small = plan.next({2, 2, {gpus(2)}, hours(2)});
  EXPECT_EQ(small, (Backfill::Reservation{2, kNow, 0}));
  EXPECT_EQ(plan.next({3, 2, {gpus(1)}, hours(3)}), (Backfill::Reservation{3, kNow + hours(6), 0}));
  EXPECT_EQ(plan.next({4, 2, {gpus(9)}, hours(1)}), std::nullopt);  // never fits, and does not hold up others
  EXPECT_EQ(plan.next({5, 2, {gpus(9), gpus(2)}, hours(1)}), (Backfill::Reservation{5, kNow + hours(6), 1}));
  EXPECT_TRUE(plan.next({6, 2, {gpus(1)}, hours(1)}));
  EXPECT_FALSE(plan.next({7, 2, {gpus(1)}, hours(1)}));  // the reservation depth is reached
  EXPECT_EQ(plan.reservations().size(), 5U);
  EXPECT_EQ(plan.profile().available(1, 0, kNow + hours(3)), 0);
}

TEST(Backfill, StrictQueueIsNotBackfilled) {
  Backfill plan{Profile(two_queues(), kNow)};
  EXPECT_EQ(plan.next({1, 1, {gpus(8)}, hours(1), true})->start, kNow);
  EXPECT_EQ(plan.next({2, 1, {gpus(8)}, hours(1), true})->start, kNow + hours(1));
  EXPECT_EQ(plan.next({3, 1, {gpus(9)}, hours(1), true}), std::nullopt);
  EXPECT_EQ(plan.next({4, 1, {gpus(1)}, hours(1), true}), std::nullopt);  // the head of its queue never starts
  EXPECT_EQ(plan.next({5, 2, {gpus(1)}, hours(1), true})->start, kNow + hours(2));
}

TEST(Ways, FlavorsInOrderOfQueue) {
  kueue::Forest forest;
  auto& queue = forest.queues["q"];
  queue.cohort = "c";
  queue.rules.groups = {{{0, 1}, {{0, {}}, {1, {}}}}, {{2}, {{2, {}}}}};
  kueue::Quota some;
  some.nominal = 8;
  for (int f = 0; f < 2; ++f) {
    for (int r = 0; r < 2; ++r) queue.quotas.push_back({f, r, some});
  }
  queue.quotas.push_back({2, 2, some});
  const auto planted = forest.plant();
  const auto& field = planted.fields.front();
  const auto cell = [&](int flavor, int resource) { return planted.cells.front().at({flavor, resource}); };
  kueue::Work work;
  work.queue = planted.queues.at("q").second;
  work.pod_sets = {{"head", 1, {}, {{0, 1}, {1, 2}}, {}}, {"rest", 3, {}, {{0, 1}, {2, 1}, {1, 0}}, {}}};
  const auto made = [&](int head, int rest) {
    Amounts out;
    kueue::add_to(out, cell(head, 0), 1);
    kueue::add_to(out, cell(head, 1), 2);
    kueue::add_to(out, cell(rest, 0), 3);
    kueue::add_to(out, cell(2, 2), 3);
    return out;
  };
  EXPECT_EQ(remedies_of(field, work), (std::vector<Amounts>{made(0, 0), made(0, 1), made(1, 0), made(1, 1)}));
  auto refused = work;
  refused.pod_sets[1].refused = {{0, kueue::Refusal::Why::kTaint, "", 0}};
  EXPECT_EQ(remedies_of(field, refused), (std::vector<Amounts>{made(0, 1), made(1, 1)}));
  auto together = work;
  together.pod_sets[0].group = together.pod_sets[1].group = 0;
  EXPECT_EQ(remedies_of(field, together), (std::vector<Amounts>{made(0, 0), made(1, 1)}));
  work.pod_sets[0].each.emplace_back(7, 1);
  EXPECT_TRUE(remedies_of(field, work).empty());  // no quota for that resource
}

struct Planned {
  Backfill::Waiting work;
  std::optional<Backfill::Reservation> made;
};

RC_GTEST_PROP(BackfillProperty, NoReservationMovesAndNoQuotaIsExceeded, ()) {
  const auto planted = kueue::some_forest().plant();
  RC_PRE(!planted.fields.empty());
  const auto& field = planted.fields.front();
  std::vector<Node> queues;
  for (Node n = 0; n < field.tree.size(); ++n) {
    if (field.tree.is_queue(n)) queues.push_back(n);
  }
  RC_PRE(!queues.empty());
  const auto some_waiting = [&](int id) {
    const Node queue = *rc::gen::elementOf(queues);
    return Backfill::Waiting{id, queue, remedies_of(field, kueue::some_work(id, queue)), minutes(1 + kueue::upto(90)),
                             field.rules[static_cast<std::size_t>(queue)].strict};
  };
  // Workloads that hold quota now, each until some instant.
  auto tree = field.tree;
  std::vector<std::tuple<Node, Amounts, Instant>> holders;
  for (int i = 0, n = kueue::upto(6); i < n; ++i) {
    const auto one = some_waiting(i);
    if (one.ways.empty() || !tree.fits(one.queue, one.ways[0])) continue;
    tree.add(one.queue, one.ways[0]);
    holders.emplace_back(one.queue, one.ways[0], kNow + minutes(1 + kueue::upto(120)));
  }
  const auto profile = [&](Instant now, const kueue::Tree& used) {
    Profile out(used, now);
    for (const auto& [queue, amounts, end] : holders) out.frees(queue, amounts, end);
    return out;
  };
  Backfill plan{profile(kNow, tree)};
  std::vector<Planned> planned;
  for (int i = 0, n = kueue::upto(12); i < n; ++i) {
    const auto work = some_waiting(100 + i);
    const auto before = plan.reservations();
    const auto made = plan.next(work);
    RC_ASSERT(std::equal(before.begin(), before.end(), plan.reservations().begin()));
    planned.push_back({work, made});
  }
  // At every start, a newly built tree fits each workload that is present, added one by one: those that were present
  // before come first.
  for (const auto& [unused, at] : planned) {
    if (!at) continue;
    auto fresh = field.tree;
    for (const auto& [queue, amounts, end] : holders) {
      if (end > at->start) fresh.add(queue, amounts);
    }
    auto present = planned;
    std::erase_if(present, [&](const Planned& p) {
      return !p.made || p.made->start > at->start || p.made->start + p.work.run <= at->start;
    });
    for (const auto& p : present) {
      const auto& amounts = p.work.ways[p.made->way];
      fresh.add(p.work.queue, amounts);
    }
    for (const Node queue : queues) {
      for (kueue::Cell c = 0; c < fresh.cells(); ++c) {
        // Without any single one of them it fits again.
        for (const auto& p : present) {
          if (p.work.queue != queue) continue;
          const auto amount = kueue::amount_at(p.work.ways[p.made->way], c);
          if (amount == 0) continue;
          fresh.remove(queue, c, amount);
          RC_ASSERT(fresh.available(queue, c) >= amount);
          fresh.add(queue, c, amount);
        }
      }
    }
  }
  // No workload could have started earlier, given those before it: each start is the first one of a profile that has
  // only those.
  Profile again = profile(kNow, tree);
  std::map<Node, Instant> not_before;
  for (const auto& [work, made] : planned) {
    if (!made) continue;
    auto& from = not_before.try_emplace(work.queue, kNow).first->second;
    for (Instant t = work.in_order ? from : kNow; t < made->start; t += minutes(1)) {
      for (const auto& way : work.ways) RC_ASSERT(again.earliest(work.queue, way, work.run, t) != t);
    }
    if (work.in_order) from = made->start;
    again.reserve(work.queue, work.ways[made->way], made->start, work.run);
  }
}

}  // namespace profile_prop_test
}  // namespace qm::admission::forecast
