// Every reported change admits the workload, and a smaller one of its kind does not.
#include "qm/admission/kueue/unlocks.hpp"

#include "qm/admission/kueue/any_fit.hpp"
#include "qm/admission/kueue/continuous.hpp"
#include "random_forest.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace qm::admission::kueue {
namespace unlocks_prop_test {

bool fits(QuotaState& field, const Work& work) { return any_fit(field, work).has_value(); }

bool fits_with(QuotaState field, const Work& work, const QuotaRemedy& unlock, std::int64_t less) {
  for (const auto& [cell, amount] : unlock.more) {
    Quota quota = field.tree.quota(work.queue, cell);
    (unlock.kind == QuotaRemedy::Kind::kQuota ? quota.nominal : *quota.borrowing_limit) += amount - less;
    field.tree.set_quota(work.queue, cell, quota);
  }
  return fits(field, work);
}

void check(QuotaState& field, const Work& work, const QuotaRemedy& unlock) {
  switch (unlock.kind) {
    case QuotaRemedy::Kind::kQuota:
    case QuotaRemedy::Kind::kBorrowingLimit:
      RC_ASSERT(fits_with(field, work, unlock, 0));
      // With one flavor to choose the amounts are minimal; else another flavor might need less of some resource.
      if (unlock.more.size() == 1) RC_ASSERT(!fits_with(field, work, unlock, 1));
      return;
    case QuotaRemedy::Kind::kPriority: {
      Work stronger = work;
      stronger.priority = unlock.priority;
      RC_ASSERT(unlock.priority > work.priority);
      RC_ASSERT(!nominate(field, stronger).targets.empty());
      return;
    }
    case QuotaRemedy::Kind::kVictims: {
      std::vector<const Work*> gone;
      for (const auto& holders : field.holders) {
        for (const auto* one : holders) {
          if (std::ranges::find(unlock.works, one->id) != unlock.works.end()) gone.push_back(one);
        }
      }
      RC_ASSERT(gone.size() == unlock.works.size() && !gone.empty());
      for (const auto* one : gone) field.give_back(one->queue, one->usage, {});
      RC_ASSERT(fits(field, work));
      for (const auto* one : gone) {  // all of them are needed
        field.take(one->queue, one->usage, {});
        RC_ASSERT(!fits(field, work));
        field.give_back(one->queue, one->usage, {});
      }
      for (const auto* one : gone) field.take(one->queue, one->usage, {});
      return;
    }
    case QuotaRemedy::Kind::kFlavor: {
      Work welcome = work;
      for (auto& set : welcome.pod_sets) {
        std::erase_if(set.refused, [&](const Refusal& r) { return r.flavor == unlock.refusal.flavor; });
      }
      RC_ASSERT(fits(field, welcome));
      return;
    }
    case QuotaRemedy::Kind::kFewerPods: {
      Work smaller = work;
      auto& set = smaller.pod_sets[unlock.set];
      set.min_count.reset();
      set.count = unlock.count;
      RC_ASSERT(fits(field, smaller));
      set.count = unlock.count + 1;
      RC_ASSERT(!fits(field, smaller));
      return;
    }
  }
}

RC_GTEST_PROP(Unlocks, EachIsTrueAndMinimal, ()) {
  const Forest forest = some_forest();
  auto planted = forest.plant();
  std::vector<Continuous> trees;
  for (auto& field : planted.fields) trees.emplace_back(std::move(field));
  std::map<int, std::pair<std::size_t, Work>> works;
  const int n = *rc::gen::inRange(1, 25);
  for (int id = 1; id <= n; ++id) {
    auto queue = planted.queues.begin();
    std::advance(queue, upto(static_cast<int>(planted.queues.size()) - 1));
    Work work = some_work(id, queue->second.second);
    work.uid = WorkloadUid(fmt::format("{:03}", id));
    if (one_in(4)) work.pod_sets[0].refused.push_back({upto(1), Refusal::Why::kTaint, "spot"});
    works.emplace(id, std::pair(queue->second.first, work));
    trees[queue->second.first].enqueue(work);
    if (one_in(2)) {
      for (auto& tree : trees) (void)tree.run(id);
    }
  }
  for (const auto& [id, where] : works) {
    auto& tree = trees[where.first];
    if (!tree.waits(id)) continue;
    auto& field = tree.field();
    const auto found = quota_remedies(field, where.second);
    if (fits(field, where.second)) RC_ASSERT(found.empty());
    std::set<QuotaRemedy::Kind> kinds;
    for (const auto& one : found) {
      if (one.kind != QuotaRemedy::Kind::kFlavor) RC_ASSERT(kinds.insert(one.kind).second);
      check(field, where.second, one);
    }
    // More quota of its own queue admits a workload that no flavor refuses.
    const bool welcome = std::ranges::all_of(where.second.pod_sets, [](const PodSet& s) { return s.refused.empty(); });
    if (welcome && !fits(field, where.second)) RC_ASSERT(kinds.contains(QuotaRemedy::Kind::kQuota));
  }
}

}  // namespace unlocks_prop_test
}  // namespace qm::admission::kueue
