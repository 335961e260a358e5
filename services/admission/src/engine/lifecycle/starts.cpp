#include "lifecycle/starts.hpp"

namespace qm::admission {

bool Starts::is_large(const Workload& w) const { return w.running_pods() >= state_.options.start_window; }

bool Starts::may_start(const Workload& w) const {
  const auto window = state_.options.start_window;
  const auto pods = w.running_pods();
  if (window == 0 || pods <= 1) return true;
  if (is_large(w) && w.quota_reserved + state_.options.start_gather > state_.now) return false;
  std::int64_t unbound = 0;
  const auto& starting = state_.indexes.starting_gangs;
  for (auto gang = starting.rbegin(); gang != starting.rend(); ++gang) {
    if (gang->since + state_.options.start_limit <= state_.now) break;
    if (gang->pods <= pods) unbound += gang->pods;
    if (unbound >= window) return false;
  }
  return true;
}

std::optional<Instant> Starts::next() const {
  if (state_.indexes.startable.empty()) return std::nullopt;
  const Workload& first = state_.workload(state_.indexes.startable.begin()->second);
  const Instant gathered = first.quota_reserved + state_.options.start_gather;
  if (is_large(first) && gathered > state_.now) return gathered;
  for (const StartingGang& gang : state_.indexes.starting_gangs) {
    const Instant until = gang.since + state_.options.start_limit;
    if (until > state_.now) return until;
  }
  return std::nullopt;
}

void Starts::on_reserved(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  const bool alone = w.running_pods() <= 1 || state_.indexes.startable.size() <= 1;  // this one is in it
  if (alone && may_start(w)) transitions_.admit(uid);
}

void Starts::start_in_turn() {
  auto& startable = state_.indexes.startable;
  while (!startable.empty()) {
    const WorkloadUid uid = startable.begin()->second;
    if (!may_start(state_.workload(uid))) return;
    transitions_.admit(uid);
  }
}

}  // namespace qm::admission
