// Each GPU in order receives one of the combinations of profiles that fit on it and that no other
// combination contains. GPUs in equal states are adjacent and receive their combinations in one
// fixed order, since swapping two equal GPUs makes no difference. A branch ends when the remaining
// gain, with slices divided fractionally, does not exceed the best packing so far, or when the same
// GPUs were visited with the same remaining demand.
#include "qm/placement/mig/pack.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace qm::placement::mig {
namespace {

using Combination = std::array<std::int8_t, StateTable::kMostProfiles>;  // instances by profile
using Left = std::array<int, StateTable::kMostProfiles>;

/// What fits on a GPU in addition to its instances: each combination with the state that it leads
/// to.
using Offers = std::vector<std::pair<Combination, StateId>>;

bool contains(const Combination& larger, const Combination& smaller) {
  return std::ranges::equal(larger, smaller, std::ranges::greater_equal());
}

Offers offers_of(const StateTable& table, StateId from, std::span<const Pending> pending) {
  Offers found;
  for (StateId state = from; state < table.size(); ++state) {
    if ((table.mask(state) & table.mask(from)) != table.mask(from)) continue;
    // A state with more instances of a profile than are pending is skipped: the same state without
    // that instance is in the table, too.
    Combination more{};
    SpotMask rest = table.mask(state) & ~table.mask(from);
    for (; rest != 0; rest &= rest - 1) {
      const ProfileId profile = table.spot(static_cast<SpotId>(std::countr_zero(rest))).profile;
      if (++more[profile] > pending[profile].count) break;
    }
    if (rest == 0) found.emplace_back(more, state);
  }
  std::ranges::sort(found);
  const auto same = std::ranges::unique(found, {}, &Offers::value_type::first);
  found.erase(same.begin(), same.end());
  Offers out;
  for (const auto& offer : found) {
    const bool contained = std::ranges::any_of(
        found, [&](const auto& other) { return other.first != offer.first && contains(other.first, offer.first); });
    if (!contained) out.push_back(offer);
  }
  return out;
}

class Search {
 public:
  Search(const StateTable& table, std::span<const StateId> gpus, std::span<const Pending> pending, std::int64_t steps)
      : table_(table), pending_(pending), steps_(steps), order_(gpus.size()), from_(gpus.begin(), gpus.end()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, {}, [&](std::size_t gpu) { return gpus[gpu]; });
    for (const StateId state : gpus) {
      if (!offers_.contains(state)) offers_.emplace(state, offers_of(table, state, pending));
    }
    for (std::size_t id = 0; id < pending.size(); ++id) left_[id] = pending[id].count;
    taken_.assign(gpus.size(), nullptr);
    best_taken_ = taken_;
    sum_supply();
    by_worth(compute_order_, [](const Profile& profile) { return profile.compute; });
    by_worth(memory_order_, [](const Profile& profile) { return profile.memory; });
  }

  Packing run() {
    const std::int64_t bound = most(0);
    dive();
    descend(0, 0, 0, bound);
    Packing out{from_, std::vector<int>(pending_.size()), best_, stopped_ ? bound : best_};
    out.weight = 0;
    for (std::size_t at = 0; at < order_.size(); ++at) place(out, order_[at], *best_taken_[at]);
    QM_ASSERT(out.weight == best_, "{} placed, {} found", out.weight, best_);
    return out;
  }

 private:
  struct Supply {
    std::int64_t compute = 0, memory = 0;
    std::vector<std::int64_t> of;  ///< instances by profile
  };

  void sum_supply() {
    supply_.assign(order_.size() + 1, Supply{0, 0, std::vector<std::int64_t>(pending_.size())});
    for (std::size_t at = order_.size(); at-- > 0;) {
      Supply& supply = supply_[at] = supply_[at + 1];
      const StateId from = from_[order_[at]];
      std::vector<std::int64_t> most_of(pending_.size());
      std::int64_t compute = 0, memory = 0;
      for (const auto& [combination, state] : offers_.at(from)) {
        compute = std::max<std::int64_t>(compute, table_.compute_used(state) - table_.compute_used(from));
        memory = std::max<std::int64_t>(memory, table_.memory_used(state) - table_.memory_used(from));
        for (std::size_t id = 0; id < most_of.size(); ++id)
          most_of[id] = std::max<std::int64_t>(most_of[id], combination[id]);
      }
      supply.compute += compute;
      supply.memory += memory;
      for (std::size_t id = 0; id < most_of.size(); ++id) supply.of[id] += most_of[id];
    }
  }

  /// Profiles by weight for each slice, highest first.
  template <class Slices>
  void by_worth(std::vector<std::pair<ProfileId, std::int64_t>>& order, Slices&& slices) {
    for (ProfileId id = 0; id < pending_.size(); ++id) order.emplace_back(id, slices(table_.geometry().profiles[id]));
    std::ranges::stable_sort(order, [&](const auto& a, const auto& b) {
      return pending_[a.first].weight * b.second > pending_[b.first].weight * a.second;
    });
  }

  /// An upper bound of the weight that can be packed into the GPUs from here on: slices of either
  /// kind divided fractionally.
  [[nodiscard]] std::int64_t most(std::size_t at) const {
    const auto divided = [&](std::int64_t slices, const std::vector<std::pair<ProfileId, std::int64_t>>& order) {
      std::int64_t weight = 0;
      for (const auto& [id, size] : order) {
        const std::int64_t count = std::min<std::int64_t>(left_[id], supply_[at].of[id]);
        if (count * size > slices) return weight + slices * pending_[id].weight / size;
        slices -= count * size;
        weight += count * pending_[id].weight;
      }
      return weight;
    };
    return std::min(divided(supply_[at].compute, compute_order_), divided(supply_[at].memory, memory_order_));
  }

  /// The first packing: each GPU in order receives the combination of greatest weight.
  void dive() {
    const Left all = left_;
    best_ = 0;
    for (std::size_t at = 0; at < order_.size(); ++at) {
      const Offers& offers = offers_.at(from_[order_[at]]);
      const auto heaviest =
          std::ranges::max_element(offers, {}, [&](const auto& offer) { return weight_of(offer.first); });
      best_ += weight_of(heaviest->first);
      take(heaviest->first);
      best_taken_[at] = &*heaviest;
    }
    left_ = all;
  }

  void take(const Combination& combination) {
    for (std::size_t id = 0; id < left_.size(); ++id) left_[id] -= std::min<int>(left_[id], combination[id]);
  }

  void descend(std::size_t at, std::size_t first, std::int64_t weight, std::int64_t bound) {
    if (weight > best_ && at == order_.size()) {
      best_ = weight;
      best_taken_ = taken_;
    }
    if (at == order_.size() || best_ == bound) return;
    if (weight + most(at) <= best_ || !seen_.insert({at, first, left_}).second) return;

    const Offers& offers = offers_.at(from_[order_[at]]);
    std::vector<std::pair<std::int64_t, std::size_t>> by_weight;
    for (std::size_t i = first; i < offers.size(); ++i) by_weight.emplace_back(-weight_of(offers[i].first), i);
    std::ranges::sort(by_weight);
    for (const auto& [less, i] : by_weight) {
      if (steps_-- <= 0) stopped_ = true;
      if (stopped_) return;
      const Left before = left_;
      take(offers[i].first);
      taken_[at] = &offers[i];
      const bool like = at + 1 < order_.size() && from_[order_[at + 1]] == from_[order_[at]];
      descend(at + 1, like ? i : 0, weight - less, bound);
      left_ = before;
      if (best_ == bound) return;
    }
  }

  [[nodiscard]] std::int64_t weight_of(const Combination& combination) const {
    std::int64_t out = 0;
    for (std::size_t id = 0; id < pending_.size(); ++id)
      out += std::min<int>(left_[id], combination[id]) * pending_[id].weight;
    return out;
  }

  /// Places the instances of the combination that are still pending at the spots of its state;
  /// spots beyond that stay unused.
  void place(Packing& out, std::size_t gpu, const Offers::value_type& taken) const {
    for (SpotId spot = 0; spot < table_.spots().size(); ++spot) {
      const ProfileId profile = table_.spot(spot).profile;
      if (!table_.has(taken.second, spot) || table_.has(from_[gpu], spot)) continue;
      if (out.placed[profile] == pending_[profile].count) continue;
      ++out.placed[profile];
      out.weight += pending_[profile].weight;
      out.states[gpu] = table_.place(out.states[gpu], spot);
    }
  }

  const StateTable& table_;
  std::span<const Pending> pending_;
  std::int64_t steps_;
  bool stopped_ = false;
  std::vector<std::size_t> order_;  // GPUs, those in equal states together
  std::vector<StateId> from_;
  std::map<StateId, Offers> offers_;
  std::vector<Supply> supply_;  // of the GPUs from a position of `order_` on
  std::vector<std::pair<ProfileId, std::int64_t>> compute_order_, memory_order_;
  Left left_{};
  std::vector<const Offers::value_type*> taken_, best_taken_;
  std::int64_t best_ = 0;
  std::set<std::tuple<std::size_t, std::size_t, Left>> seen_;
};

}  // namespace

Packing pack(const StateTable& table, std::span<const StateId> gpus, std::span<const Pending> pending,
             std::int64_t steps) {
  QM_ASSERT(pending.size() == table.geometry().profiles.size(), "{} profiles are pending", pending.size());
  return Search(table, gpus, pending, steps).run();
}

}  // namespace qm::placement::mig
