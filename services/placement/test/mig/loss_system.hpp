#pragma once
// Requests for MIG instances come to a fleet at random times, stay for random times, and go away where nothing can take
// them: the loss system of the literature. All policies see the same requests.
#include "qm/placement/mig/fleet.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>
#include <random>
#include <string_view>
#include <vector>

namespace qm::placement::mig::testing {

struct NamedMix {
  std::string_view name;
  Mix mix;  ///< per cent of requests: 1g, 1g+me, 1g.2m, 2g, 3g, 4g, 7g
};

/// The four of the acceptance, and 1g with 4g alone, where a 4g goes to start 0 or nowhere.
inline const std::vector<NamedMix>& mixes() {
  static const std::vector<NamedMix> all{{"uniform", {1, 0, 1, 1, 1, 1, 1}},
                                         {"small", {50, 0, 15, 20, 10, 4, 1}},
                                         {"large", {10, 0, 5, 10, 25, 25, 25}},
                                         {"1g+4g+7g", {70, 0, 0, 0, 0, 15, 15}},
                                         {"1g+4g", {60, 0, 0, 0, 0, 40, 0}}};
  return all;
}

/// Small ones with a 4g, which goes to start 0 or nowhere: of all pairs, and triples in equal parts, those where the choice of a place matters
/// most at load 1.
inline const std::vector<NamedMix>& mixes_with_4g() {
  static const std::vector<NamedMix> all{{"1g.2m+4g", {0, 0, 50, 0, 0, 50, 0}},
                                         {"2g+4g", {0, 0, 0, 50, 0, 50, 0}},
                                         {"1g+1g.2m+4g", {1, 0, 1, 0, 0, 1, 0}},
                                         {"1g.2m+2g+4g", {0, 0, 1, 1, 0, 1, 0}}};
  return all;
}

/// Compute slices of a mean request.
inline double mean_size(const Geometry& geometry, const Mix& mix) {
  double sum = 0, weight = 0;
  for (ProfileId id = 0; id < mix.size(); ++id) {
    sum += static_cast<double>(mix[id]) * geometry.profiles[id].compute;
    weight += static_cast<double>(mix[id]);
  }
  return sum / weight;
}

/// Mean stays by profile.
using Stays = std::array<double, seven::kProfiles>;
inline constexpr Stays kEqualStays{1, 1, 1, 1, 1, 1, 1};

struct Request {
  double at = 0, stays = 0;
  ProfileId profile = 0;
};

/// Poisson arrivals with `load` times the compute slices of the fleet in demand, exponential stays of these means.
inline std::vector<Request> requests(const Geometry& geometry, const Mix& mix, std::size_t gpus, double load,
                                     double until, std::uint64_t seed, const Stays& stays = kEqualStays) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11U) / 9007199254740992.0; };  // 2^53
  std::int64_t all = 0;
  double slices = 0;  // of all requests, times their stays
  for (ProfileId id = 0; id < mix.size(); ++id) {
    all += mix[id];
    slices += static_cast<double>(mix[id]) * geometry.profiles[id].compute * stays[id];
  }
  const double fleet = static_cast<double>(gpus) * geometry.compute_slices;
  const double rate = load * fleet / (slices / static_cast<double>(all));
  std::vector<Request> out;
  for (double at = -std::log(1 - uniform()) / rate; at < until; at += -std::log(1 - uniform()) / rate) {
    auto pick = static_cast<std::int64_t>(uniform() * static_cast<double>(all));
    ProfileId profile = 0;
    while (pick >= mix[profile]) pick -= mix[profile++];
    out.push_back({at, -std::log(1 - uniform()) * stays[profile], profile});
  }
  return out;
}

struct Accepted {
  double asked = 0, taken = 0, slices_asked = 0, slices_taken = 0;
  [[nodiscard]] double requests() const { return 100 * taken / asked; }
  [[nodiscard]] double slices() const { return 100 * slices_taken / slices_asked; }
  Accepted& operator+=(const Accepted& other) {
    asked += other.asked, taken += other.taken;
    slices_asked += other.slices_asked, slices_taken += other.slices_taken;
    return *this;
  }
};

/// What came after `warm` is counted.
inline Accepted run(Fleet fleet, const std::vector<Request>& coming, double warm, const Policy& policy) {
  struct End {
    double at;
    Choice choice;
    bool operator>(const End& other) const { return at > other.at; }
  };
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  Accepted out;
  for (const Request& request : coming) {
    for (; !ends.empty() && ends.top().at <= request.at; ends.pop()) {
      fleet.give_back(ends.top().choice.gpu, ends.top().choice.spot);
    }
    const auto choice = choose(fleet, request.profile, policy);
    if (choice) {
      fleet.take(choice->gpu, choice->spot);
      ends.push({request.at + request.stays, *choice});
    }
    if (request.at < warm) continue;
    const double size = fleet.table().geometry().profiles[request.profile].compute;
    out += {1, choice ? 1.0 : 0.0, size, choice ? size : 0};
  }
  return out;
}

inline Fleet made_on_demand(const StateTable& table, std::size_t gpus) {
  Fleet fleet(table);
  for (std::size_t i = 0; i < gpus; ++i) fleet.add();
  return fleet;
}

/// GPUs cut once, so that the instances are as near to the proportions of the mix as whole layouts come: each GPU in turn
/// gets the layout that covers most of what is still lacking.
inline Fleet cut_for(const StateTable& table, std::size_t gpus, const Mix& mix) {
  const Geometry& geometry = table.geometry();
  double weight = 0;
  for (const std::int64_t each : mix) weight += static_cast<double>(each);
  std::vector<double> lacking(mix.size());
  for (ProfileId id = 0; id < mix.size(); ++id) {
    lacking[id] = static_cast<double>(mix[id]) / weight * geometry.compute_slices * static_cast<double>(gpus) /
                  mean_size(geometry, mix);
  }
  Fleet fleet(table);
  for (std::size_t i = 0; i < gpus; ++i) {
    StateId best = StateTable::empty();
    double most = -1;
    for (StateId state = 0; state < table.size(); ++state) {
      auto left = lacking;
      double covers = 0;
      for (const Spot& spot : table.instances(state)) {
        covers += std::clamp(left[spot.profile], 0.0, 1.0) * geometry.profiles[spot.profile].compute;
        left[spot.profile] -= 1;
      }
      if (covers > most) most = covers, best = state;
    }
    for (const Spot& spot : table.instances(best)) lacking[spot.profile] -= 1;
    fleet.add({StateTable::empty(), best});
  }
  return fleet;
}

/// Per cent of requests that any scheduler could take, with foresight, with moves for nothing and with the right to refuse:
/// as many of the smallest as fit when memory, or compute, may be divided at will.
inline double at_most(const Geometry& geometry, const Mix& mix, double load) {
  const double size = mean_size(geometry, mix);
  double weight = 0;
  for (const std::int64_t each : mix) weight += static_cast<double>(each);
  const double requests = load * geometry.compute_slices / size;  // of one GPU
  const auto packed = [&](double room, auto&& takes) {
    std::vector<ProfileId> order(mix.size());
    for (ProfileId id = 0; id < order.size(); ++id) order[id] = id;
    std::ranges::sort(order, {}, [&](ProfileId id) { return takes(geometry.profiles[id]); });
    double taken = 0;
    for (const ProfileId id : order) {
      const double asked = requests * static_cast<double>(mix[id]) / weight;
      const double some =
          std::min({asked, room / takes(geometry.profiles[id]), double{geometry.profiles[id].most * 1.0}});
      taken += some;
      room -= some * takes(geometry.profiles[id]);
    }
    return 100 * taken / requests;
  };
  return std::min(packed(geometry.compute_slices, [](const Profile& p) { return p.compute * 1.0; }),
                  packed(geometry.memory_slices, [](const Profile& p) { return p.memory * 1.0; }));
}

}  // namespace qm::placement::mig::testing
