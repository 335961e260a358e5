#pragma once
#include "state/engine_state.hpp"

#include <cstdint>
#include <vector>

namespace qm::admission {

/// What attempts hold of budgets.
///
/// Writes   holds, and the balances of their budgets.
class Holds {
 public:
  explicit Holds(EngineState& state) : state_(state) {}

  /// The holds of an attempt, one for each budget that pays for it.
  [[nodiscard]] std::vector<HoldKey> of(const WorkloadUid& uid, std::int32_t attempt) const;
  /// Calls fn(forecast::Budget&, Hold&). A new hold is empty.
  template <class Fn>
  void edit(const HoldKey& key, Fn&& fn);
  void drop(const HoldKey& key);
  /// The attempt of this row, as it was before, is over. If it started, its hold stays until cost has settled it. If
  /// another scheduler bound its pods, cost reports nothing, and it is settled here.
  void release(const Workload& before);

 private:
  EngineState& state_;
};

template <class Fn>
void Holds::edit(const HoldKey& key, Fn&& fn) {
  auto& account = state_.tables.budgets.edit(key.budget).account;
  Hold& hold = state_.tables.holds.edit(key);
  state_.indexes.holds_due.erase({hold.until, key});
  fn(account, hold);
  if (hold.until != Instant{}) state_.indexes.holds_due.emplace(hold.until, key);
}

}  // namespace qm::admission
