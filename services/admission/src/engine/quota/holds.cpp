#include "quota/holds.hpp"

#include "state/budget_amounts.hpp"

namespace qm::admission {

std::vector<HoldKey> Holds::of(const WorkloadUid& uid, std::int32_t attempt) const {
  std::vector<HoldKey> out;
  const auto& rows = state_.tables.holds.rows();
  for (auto it = rows.lower_bound({uid, attempt, {}});
       it != rows.end() && it->first.uid == uid && it->first.attempt == attempt; ++it) {
    out.push_back(it->first);
  }
  return out;
}

void Holds::drop(const HoldKey& key) {
  edit(key, [&](forecast::Budget& account, Hold& hold) {
    account.release(hold, state_.now);
    hold.until = Instant{};
  });
  state_.tables.holds.erase(key);
}

void Holds::release(const Workload& before) {
  const bool started = before.phase == Phase::kAdmitted || before.phase == Phase::kEvicting;
  for (const auto& key : of(before.spec.uid, before.attempt)) {
    if (started && before.external_scheduler) {
      const auto& terms = state_.tables.budgets.find(key.budget)->terms;
      const auto spent =
          cost_of(state_.tables, terms, before, before.flavors, before.counts, state_.now - before.admitted);
      edit(key, [&](forecast::Budget& account, Hold& hold) { (void)account.settle(hold, spent, state_.now); });
    }
    if (!started || before.external_scheduler) {
      drop(key);
    } else {
      edit(key, [](forecast::Budget&, Hold& hold) { hold.until = Instant{}; });
    }
  }
}

}  // namespace qm::admission
