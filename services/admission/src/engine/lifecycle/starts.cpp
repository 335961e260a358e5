#include "lifecycle/starts.hpp"

#include <algorithm>
#include <limits>

namespace qm::admission {

Duration Starts::counts_for(std::int32_t pods) { return kLonger + pods * kLater; }

bool Starts::is_large(const Workload& w) const { return w.running_pods() >= state_.options.start_window; }

std::int64_t Starts::window(const EngineState& state) {
  const auto& bound = state.indexes.bound_gangs;
  const bool pause = bound.empty() || bound.rbegin()->first + kPause <= state.now;
  return pause ? std::min(state.options.start_window, kFirst) : state.options.start_window;
}

bool Starts::may_start(const Workload& w) const {
  const auto window = Starts::window(state_);
  const auto pods = w.running_pods();
  // The pods of a bound gang exist: an answer from before a restore.
  if (window == 0 || pods <= 1 || w.answer == Answer::kBound) return true;
  if (is_large(w) && w.quota_reserved + state_.options.start_gather > state_.now) return false;
  std::int64_t unbound = 0;
  const auto& starting = state_.indexes.starting_gangs;
  for (auto gang = starting.rbegin(); gang != starting.rend() && gang->until > state_.now; ++gang) {
    if (gang->pods <= pods) unbound += gang->pods;
    if (unbound >= window) return false;
  }
  return true;
}

std::optional<Instant> Starts::next() const {
  std::optional<Instant> out;
  const auto at = [&](Instant t) {
    if (t > state_.now && (!out || t < *out)) out = t;
  };
  for (const auto& [turn, position, uid] : state_.indexes.startable) {
    const Workload& w = state_.workload(uid);
    if (is_large(w)) at(w.quota_reserved + state_.options.start_gather);
    at(w.reserved_until);
  }
  if (state_.indexes.startable.empty()) return out;
  for (const StartingGang& gang : state_.indexes.starting_gangs) at(gang.until);
  return out;
}

void Starts::on_reserved(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  const bool alone = state_.indexes.startable.size() <= 1;  // this one is in it
  if ((alone || w.running_pods() <= 1 || w.answer == Answer::kBound) && may_start(w)) transitions_.admit(uid);
}

// A gang that may not start delays none that is smaller. It is considered before them, and what blocks it counts for a
// limited time, so that it is not starved.
void Starts::start_in_turn() {
  const auto startable = state_.indexes.startable;
  std::int32_t smallest = std::numeric_limits<std::int32_t>::max();  // of the gangs that may not start
  for (const auto& [turn, position, uid] : startable) {
    const Workload& w = state_.workload(uid);
    const auto pods = w.running_pods();
    if (w.reserved_until != Instant{} && w.reserved_until <= state_.now) {
      rows_.update(uid, [](Workload& row) { row.answer = Answer::kNone; });  // the request is published again in time
    } else if (pods < smallest && may_start(w)) {
      transitions_.admit(uid);
    } else {
      smallest = std::min(smallest, pods);
    }
  }
}

}  // namespace qm::admission
