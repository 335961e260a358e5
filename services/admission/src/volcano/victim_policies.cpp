// bestFit: tries sets of k candidates in the order of the policy, for k = 1, 2, ... A branch is pruned when the
// largest remaining candidates cannot meet the need, or when it already frees more than the best set of k.
#include "qm/admission/volcano/victim_policies.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace qm::admission::volcano {
namespace {

using Places = std::vector<std::size_t>;

/// Candidates in the order in which the policy evicts them.
Places in_order(VictimPolicy policy, std::span<const Candidate> candidates) {
  Places out(candidates.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::ranges::sort(out, [&](std::size_t i, std::size_t j) {
    const Candidate &a = candidates[i], &b = candidates[j];
    if (policy != VictimPolicy::kFifo && a.priority != b.priority) return a.priority < b.priority;
    if (a.since != b.since) return a.since > b.since;
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.name > b.name;
  });
  return out;
}

Resources freed_by(std::span<const Candidate> candidates, const Places& places, std::size_t resources) {
  Resources out(resources);
  for (const auto i : places) add(out, candidates[i].frees);
  return out;
}

/// Removes, from the end of the list, the candidates that are not needed.
void spare(std::span<const Candidate> candidates, const Resources& need, Places& chosen) {
  auto freed = freed_by(candidates, chosen, need.size());
  for (auto i = chosen.size(); i-- > 0;) {
    const auto without = rest(freed, candidates[chosen[i]].frees);
    if (!within(need, without)) continue;
    freed = without;
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// Adds one candidate after the other until the need is met.
Places one_by_one(std::span<const Candidate> candidates, const Places& order, const Resources& need) {
  Places out;
  Resources freed(need.size());
  for (const auto i : order) {
    if (within(need, freed)) break;
    if (!in_common(candidates[i].frees, rest(need, freed))) continue;
    add(freed, candidates[i].frees);
    out.push_back(i);
  }
  spare(candidates, need, out);
  return out;
}

/// Finds the smallest set of victims.
class BestFit {
 public:
  BestFit(std::span<const Candidate> candidates, Places order, const Resources& need, std::int64_t steps)
      : candidates_(candidates), order_(std::move(order)), need_(need), steps_(steps) {
    std::map<Resources, std::size_t> kinds;
    for (const auto i : order_) {
      // Jobs that differ only in resources that are not needed are equivalent.
      auto counts = candidates[i].frees;
      for (std::size_t r = 0; r < need.size(); ++r) counts[r] = need[r] > 0 ? counts[r] : 0;
      kind_.push_back(kinds.emplace(std::move(counts), kinds.size()).first->second);
    }
    kinds_ = kinds.size();
  }

  Victims run() {
    Victims out;
    out.enough = true;
    const Resources nothing_yet(need_.size());
    // Binary search for a lower bound of k: sets that are too small even with the largest amount of each
    // resource are skipped.
    std::size_t k = 1;
    for (auto enough = order_.size(); k < enough;) {
      const auto half = (k + enough) / 2;
      if (reaches(0, half, nothing_yet)) {
        enough = half;
      } else {
        k = half + 1;
      }
    }
    for (; k <= order_.size() && !found_ && steps_ > 0; ++k) {
      Places picked;
      search(0, k, nothing_yet, picked);
    }
    out.proven = steps_ > 0;
    out.chosen = found_ ? best_ : largest_first();
    return out;
  }

 private:
  /// Whether the k largest amounts of each resource, from `from` on and each resource by itself, would meet the need.
  bool reaches(std::size_t from, std::size_t k, const Resources& freed) {
    steps_ -= static_cast<std::int64_t>(order_.size() - from);
    for (std::size_t r = 0; r < need_.size(); ++r) {
      if (need_[r] <= freed[r]) continue;
      std::vector<std::int64_t> left;
      for (std::size_t i = from; i < order_.size(); ++i) left.push_back(candidates_[order_[i]].frees[r]);
      const auto count = std::min(k, left.size());
      std::ranges::partial_sort(left, left.begin() + static_cast<std::ptrdiff_t>(count), std::greater<>());
      auto most = freed[r];
      for (std::size_t i = 0; i < count; ++i) most = kueue::plus(most, left[i]);
      if (most < need_[r]) return false;
    }
    return true;
  }

  Share surplus(const Resources& freed) const { return dominant(rest(freed, need_), need_); }

  void search(std::size_t from, std::size_t k, const Resources& freed, Places& picked) {
    if (steps_ <= 0) return;
    if (k == 0) {
      if (!within(need_, freed)) return;
      best_ = picked;
      least_ = surplus(freed);
      found_ = true;
      return;
    }
    if (found_ && surplus(freed) >= least_) return;
    if (!reaches(from, k, freed)) return;
    std::vector<char> tried(kinds_, 0);
    for (std::size_t i = from; i + k <= order_.size() && steps_ > 0; ++i) {
      if (std::exchange(tried[kind_[i]], 1) != 0) continue;  // an equivalent candidate was tried already
      const auto then = sum(freed, candidates_[order_[i]].frees);
      if (found_ && surplus(then) >= least_) continue;
      picked.push_back(order_[i]);
      search(i + 1, k - 1, then, picked);
      picked.pop_back();
    }
  }

  Places largest_first() const {
    auto order = order_;
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return dominant(candidates_[b].frees, need_) < dominant(candidates_[a].frees, need_);
    });
    return one_by_one(candidates_, order, need_);
  }

  std::span<const Candidate> candidates_;
  Places order_;
  const Resources& need_;
  std::int64_t steps_;
  std::vector<std::size_t> kind_;
  std::size_t kinds_ = 0;
  bool found_ = false;
  Places best_;
  Share least_;
};

}  // namespace

std::optional<VictimPolicy> policy_of(std::string_view word) {
  std::string lower;
  for (const char c : word) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "fifo") return VictimPolicy::kFifo;
  if (lower == "priority") return VictimPolicy::kPriority;
  if (lower == "bestfit") return VictimPolicy::kBestFit;
  return std::nullopt;
}

Victims choose(VictimPolicy policy, std::span<const Candidate> candidates, const Resources& need, std::int64_t steps) {
  auto order = in_order(policy, candidates);
  std::erase_if(order, [&](std::size_t i) { return !in_common(candidates[i].frees, need); });
  if (!within(need, freed_by(candidates, order, need.size()))) return {};
  if (nothing(need)) return {{}, true, true};
  if (policy == VictimPolicy::kBestFit) return BestFit(candidates, std::move(order), need, steps).run();
  return {one_by_one(candidates, order, need), true, true};
}

}  // namespace qm::admission::volcano
