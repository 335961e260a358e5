#include "qm/admission/kueue/displacements.hpp"

#include "qm/base/assert.hpp"

#include <utility>
#include <vector>

namespace qm::admission::kueue {
namespace {

/// Visits all workloads above one.
template <class Visit>
void climb(const std::map<int, PreemptionGraph::Pairs>& over, int from, Visit&& visit) {
  std::set<int> seen;
  std::vector<int> open{from};
  while (!open.empty()) {
    const auto found = over.find(open.back());
    open.pop_back();
    if (found == over.end()) continue;
    for (const auto& [by, pair] : found->second) {
      if (!seen.insert(by).second) continue;
      visit(by);
      open.push_back(by);
    }
  }
}

}  // namespace

void PreemptionGraph::displaced(int by, int victim, std::int64_t at) {
  QM_ASSERT(by != victim && !above(victim, by), "{} is above {}, by which it would be displaced", victim, by);
  over_[victim][by] = {at, false};
  under_[by].insert(victim);
  changed_.insert(victim);
}

void PreemptionGraph::admitted(int id) {
  const auto found = under_.find(id);
  if (found == under_.end()) return;
  for (const int victim : found->second) {
    if (!std::exchange(over_.at(victim).at(id).settled, true)) changed_.insert(victim);
  }
}

void PreemptionGraph::drop(int by, int victim) {
  const auto over = over_.find(victim);
  over->second.erase(by);
  if (over->second.empty()) over_.erase(over);
  const auto under = under_.find(by);
  under->second.erase(victim);
  if (under->second.empty()) under_.erase(under);
  changed_.insert(victim);
}

void PreemptionGraph::forget(int id) {
  while (under_.contains(id)) drop(id, *under_.at(id).begin());
  clear_preemptors(id);
  changed_.erase(id);
}

void PreemptionGraph::relax(std::int64_t instant) {
  std::vector<std::pair<int, int>> old;
  for (const auto& [victim, pairs] : over_) {
    for (const auto& [by, pair] : pairs) {
      if (pair.at < instant) old.emplace_back(by, victim);
    }
  }
  for (const auto& [by, victim] : old) drop(by, victim);
}

void PreemptionGraph::clear() {
  for (const auto& [victim, pairs] : over_) changed_.insert(victim);
  over_.clear();
  under_.clear();
}

bool PreemptionGraph::above(int a, int b) const {
  bool out = false;
  climb(over_, b, [&](int by) { out = out || by == a; });
  return out;
}

std::set<int> PreemptionGraph::excluded_victims(int by) const {
  std::set<int> out;
  climb(over_, by, [&](int above) { out.insert(above); });
  if (const auto found = under_.find(by); found != under_.end()) {
    for (const int victim : found->second) {
      if (!over_.at(victim).at(by).settled) out.insert(victim);
    }
  }
  return out;
}

const PreemptionGraph::Pairs& PreemptionGraph::preemptors_of(int victim) const {
  static const Pairs kNone;
  const auto found = over_.find(victim);
  return found == over_.end() ? kNone : found->second;
}

void PreemptionGraph::restore(int victim, const Pairs& preemptors) {
  for (const auto& [by, pair] : preemptors) {
    over_[victim][by] = pair;
    under_[by].insert(victim);
  }
}

void PreemptionGraph::clear_preemptors(int victim) {
  while (over_.contains(victim)) drop(over_.at(victim).begin()->first, victim);
}

std::set<int> PreemptionGraph::take_changed() { return std::exchange(changed_, {}); }

}  // namespace qm::admission::kueue
