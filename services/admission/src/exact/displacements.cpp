#include "qm/admission/exact/displacements.hpp"

#include "qm/base/assert.hpp"

#include <utility>
#include <vector>

namespace qm::admission::exact {
namespace {

/// Visits all workloads above one.
template <class Visit>
void climb(const std::map<int, Displacements::Pairs>& over, int from, Visit&& visit) {
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

void Displacements::displaced(int by, int victim, std::int64_t at) {
  QM_ASSERT(by != victim && !above(victim, by), "{} is above {}, by which it would be displaced", victim, by);
  over_[victim][by] = {at, false};
  under_[by].insert(victim);
  changed_.insert(victim);
}

void Displacements::admitted(int id) {
  const auto found = under_.find(id);
  if (found == under_.end()) return;
  for (const int victim : found->second) {
    if (!std::exchange(over_.at(victim).at(id).settled, true)) changed_.insert(victim);
  }
}

void Displacements::drop(int by, int victim) {
  const auto over = over_.find(victim);
  over->second.erase(by);
  if (over->second.empty()) over_.erase(over);
  const auto under = under_.find(by);
  under->second.erase(victim);
  if (under->second.empty()) under_.erase(under);
  changed_.insert(victim);
}

void Displacements::forget(int id) {
  while (under_.contains(id)) drop(id, *under_.at(id).begin());
  absolve(id);
  changed_.erase(id);
}

void Displacements::relax(std::int64_t instant) {
  std::vector<std::pair<int, int>> old;
  for (const auto& [victim, pairs] : over_) {
    for (const auto& [by, pair] : pairs) {
      if (pair.at < instant) old.emplace_back(by, victim);
    }
  }
  for (const auto& [by, victim] : old) drop(by, victim);
}

void Displacements::clear() {
  for (const auto& [victim, pairs] : over_) changed_.insert(victim);
  over_.clear();
  under_.clear();
}

bool Displacements::above(int a, int b) const {
  bool out = false;
  climb(over_, b, [&](int by) { out = out || by == a; });
  return out;
}

std::set<int> Displacements::barred(int by) const {
  std::set<int> out;
  climb(over_, by, [&](int above) { out.insert(above); });
  if (const auto found = under_.find(by); found != under_.end()) {
    for (const int victim : found->second) {
      if (!over_.at(victim).at(by).settled) out.insert(victim);
    }
  }
  return out;
}

const Displacements::Pairs& Displacements::displacers_of(int victim) const {
  static const Pairs kNobody;
  const auto found = over_.find(victim);
  return found == over_.end() ? kNobody : found->second;
}

void Displacements::restore(int victim, const Pairs& displacers) {
  for (const auto& [by, pair] : displacers) {
    over_[victim][by] = pair;
    under_[by].insert(victim);
  }
}

void Displacements::absolve(int victim) {
  while (over_.contains(victim)) drop(over_.at(victim).begin()->first, victim);
}

std::set<int> Displacements::take_changed() { return std::exchange(changed_, {}); }

}  // namespace qm::admission::exact
