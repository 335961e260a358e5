// Scarcity. One GPU; of each profile p requests come at kOffers times the rate that would fill it, in the proportions of the
// mix, and an instance ends at rate 1. Taking a request pays price[p]. The best way to manage the GPU has an average income
// and a relative value of each state, v. Two things are sought at once, by turns:
//
//   v       the Bellman equation, a few sweeps over the states (value iteration of the uniformised chain);
//   price   dearer where less was taken than the mix has, cheaper where more: the subgradient of the dual of "take as much
//           as possible in the proportions of the mix". What is taken follows from the share of time spent in each state,
//           which a few sweeps move on, too.
//
// The choice between the places for a request is soft (by the exponential of the gain, over kSoftness), or prices would
// have no fixed point: at the price where two profiles pay alike the best choice jumps from all of one to all of the other.
#include "qm/placement/mig/value.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace qm::placement::mig {
namespace {

constexpr double kOffers = 4;
constexpr double kSoftness = 0.3;
constexpr int kRounds = 120, kSweeps = 15;
constexpr double kPriceStep = 0.1;
constexpr double kUnits = 1e6;

/// The mix without media extensions: such an instance counts as a plain one of its size.
Mix plain_mix(const Geometry& geometry, const Mix& mix) {
  Mix out = mix;
  for (ProfileId id = 0; id < mix.size(); ++id) {
    if (!geometry.profiles[id].media) continue;
    const auto plain = std::ranges::find_if(geometry.profiles, [&](const Profile& other) {
      return !other.media && other.compute == geometry.profiles[id].compute &&
             other.memory == geometry.profiles[id].memory;
    });
    QM_ASSERT(plain != geometry.profiles.end(), "{} has no plain sibling", geometry.profiles[id].shape);
    out[static_cast<std::size_t>(plain - geometry.profiles.begin())] += out[id];
    out[id] = 0;
  }
  return out;
}

class Market {
 public:
  Market(const StateTable& table, const Mix& mix)
      : table_(table),
        share_(mix.size()),
        price_(mix.size()),
        value_(table.size()),
        time_(table.size()),
        moves_(table.size()) {
    const double sum = static_cast<double>(std::accumulate(mix.begin(), mix.end(), std::int64_t{0}));
    for (ProfileId id = 0; id < mix.size(); ++id) {
      share_[id] = static_cast<double>(mix[id]) / sum;
      price_[id] = table.geometry().profiles[id].compute;
      mean_price_ += share_[id] * price_[id];
    }
    offers_ = kOffers * table.geometry().compute_slices / mean_price_;
    clock_ = offers_ + table.geometry().compute_slices + 1;
    time_[StateTable::empty()] = 1;
    for (StateId state = 0; state < table.size(); ++state) {
      for (SpotId spot = 0; spot < table.spots().size(); ++spot) {
        const StateId next = table.place(state, spot);
        if (next != kNoState && share_[table.spot(spot).profile] > 0) {
          moves_[state].push_back({table.spot(spot).profile, next, 0});
        }
      }
    }
  }

  std::vector<double> solve() {
    for (int round = 0; round < kRounds; ++round) {
      for (int sweep = 0; sweep < kSweeps; ++sweep) improve_values();
      for (int sweep = 0; sweep < kSweeps; ++sweep) pass_time();
      adjust_prices();
    }
    return value_;
  }

 private:
  struct Move {
    ProfileId profile;
    StateId next;
    double rate;  ///< of taking a request so
  };

  void improve_values() {
    std::vector<double> better(value_.size());
    for (StateId state = 0; state < value_.size(); ++state) {
      double income = 0, rate = 0;
      auto& moves = moves_[state];
      for (auto first = moves.begin(); first != moves.end();) {
        const auto last = std::find_if(first, moves.end(), [&](const Move& m) { return m.profile != first->profile; });
        const double arrivals = offers_ * share_[first->profile];
        income += arrivals * (value_[state] + choose_softly(state, arrivals, first, last));
        rate += arrivals;
        first = last;
      }
      for (SpotMask rest = table_.mask(state); rest != 0; rest &= rest - 1) {
        income += value_[table_.free(state, static_cast<SpotId>(std::countr_zero(rest)))];
        rate += 1;
      }
      better[state] = (income + (clock_ - rate) * value_[state]) / clock_;
    }
    const double zero = better[StateTable::empty()];
    for (double& value : better) value -= zero;
    value_ = std::move(better);
  }

  /// The mean gain of a request over the state as it is, of which refusing it is 0; sets the rates of the moves.
  double choose_softly(StateId state, double arrivals, std::vector<Move>::iterator first,
                       std::vector<Move>::iterator last) {
    double most = 0;
    for (auto move = first; move != last; ++move) {
      move->rate = (value_[move->next] + price_[move->profile] - value_[state]) / kSoftness;
      most = std::max(most, move->rate);
    }
    double sum = std::exp(-most);
    for (auto move = first; move != last; ++move) sum += move->rate = std::exp(move->rate - most);
    for (auto move = first; move != last; ++move) move->rate *= arrivals / sum;
    return kSoftness * (most + std::log(sum));
  }

  void pass_time() {
    std::vector<double> next(time_.size());
    for (StateId state = 0; state < time_.size(); ++state) {
      if (time_[state] == 0) continue;
      double stays = clock_;
      for (const Move& move : moves_[state]) {
        next[move.next] += time_[state] * move.rate / clock_;
        stays -= move.rate;
      }
      for (SpotMask rest = table_.mask(state); rest != 0; rest &= rest - 1) {
        next[table_.free(state, static_cast<SpotId>(std::countr_zero(rest)))] += time_[state] / clock_;
        stays -= 1;
      }
      next[state] += time_[state] * stays / clock_;
    }
    time_ = std::move(next);
  }

  void adjust_prices() {
    std::vector<double> taken(price_.size());
    for (StateId state = 0; state < time_.size(); ++state) {
      for (const Move& move : moves_[state]) taken[move.profile] += time_[state] * move.rate;
    }
    const double all = std::accumulate(taken.begin(), taken.end(), 0.0);
    double mean = 0;
    for (ProfileId id = 0; id < price_.size(); ++id) {
      if (share_[id] == 0) continue;
      constexpr double kLeast = 1e-6;
      const double lacking = std::log(share_[id] / std::max(kLeast, taken[id] / all));
      price_[id] *= std::exp(kPriceStep * std::clamp(lacking, -1.0, 1.0));
      mean += share_[id] * price_[id];
    }
    for (double& price : price_) price *= mean_price_ / mean;
  }

  const StateTable& table_;
  std::vector<double> share_, price_;
  double mean_price_ = 0, offers_ = 0, clock_ = 0;  // clock_ = a rate above that of all events together
  std::vector<double> value_, time_;
  std::vector<std::vector<Move>> moves_;
};

}  // namespace

Worth fragmentation_worth(const StateTable& table, const Mix& mix) {
  const auto slices = [&](SpotId spot) {
    return ((1U << table.profile_at(spot).memory) - 1U) << static_cast<unsigned>(table.spot(spot).start);
  };
  QM_ASSERT(mix.size() == table.geometry().profiles.size(), "a mix of {} profiles", mix.size());
  Worth out(table.size(), 0);
  for (StateId state = 0; state < table.size(); ++state) {
    const int idle = table.geometry().memory_slices - table.memory_used(state);
    for (ProfileId profile = 0; profile < mix.size(); ++profile) {
      unsigned usable = 0;
      for (const SpotId spot : table.spots_of(profile)) {
        if (table.place(state, spot) != kNoState) usable |= slices(spot);
      }
      out[state] -= mix[profile] * (idle - std::popcount(usable));
    }
  }
  return out;
}

Worth scarcity_worth(const StateTable& table, const Mix& mix) {
  const Geometry& geometry = table.geometry();
  QM_ASSERT(mix.size() == geometry.profiles.size(), "a mix of {} profiles", mix.size());
  Worth out(table.size(), 0);
  const Mix plain = plain_mix(geometry, mix);
  if (std::ranges::all_of(plain, [](std::int64_t weight) { return weight == 0; })) return out;

  // Solved over the layouts without media extensions: a third of the states.
  Geometry smaller{geometry.compute_slices, geometry.memory_slices, {}};
  Mix of_smaller;
  std::vector<ProfileId> to_smaller(geometry.profiles.size());
  for (ProfileId id = 0; id < geometry.profiles.size(); ++id) {
    const Profile& profile = geometry.profiles[id];
    const auto same = std::ranges::find_if(smaller.profiles, [&](const Profile& other) {
      return profile.media && other.compute == profile.compute && other.memory == profile.memory;
    });
    to_smaller[id] = static_cast<ProfileId>(same - smaller.profiles.begin());
    if (profile.media) continue;
    smaller.profiles.push_back(profile);
    of_smaller.push_back(plain[id]);
  }
  const StateTable without_media(smaller);
  const auto value = Market(without_media, of_smaller).solve();
  for (StateId state = 0; state < table.size(); ++state) {
    std::vector<Spot> instances = table.instances(state);
    for (Spot& instance : instances) instance.profile = to_smaller[instance.profile];
    const StateId same = without_media.find(instances);
    QM_ASSERT(same != kNoState, "state {} has no plain sibling", state);
    out[state] = std::llround(value[same] * kUnits);
  }
  return out;
}

}  // namespace qm::placement::mig
