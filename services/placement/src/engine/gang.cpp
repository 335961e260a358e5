// Which nodes a gang gets: see place_gang in policy.hpp for the sketch.
#include "qm/base/assert.hpp"
#include "qm/placement/nearness.hpp"
#include "qm/placement/numa.hpp"
#include "qm/placement/preference.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace qm::placement {
namespace {

std::string rejected_by(const Room& room, const PodShape& shape) {
  for (const Filter* filter : filters()) {
    if (auto why = filter->rejects(room, shape); !why.empty()) return why;
  }
  return {};
}

/// What stands between the pod set and its place, from the rooms as they are.
std::string explain(const PodSet& set, std::int64_t fitting, const Rooms& rooms, std::size_t position,
                    const Neighbourhood* beside) {
  std::int64_t eligible = 0, idle = 0, no_gpu = 0, no_slice = 0, no_cpu = 0, no_memory = 0, no_other = 0, no_pods = 0;
  std::map<std::string, std::int64_t> rejected;
  for (const auto& [name, room] : rooms) {
    auto why = rejected_by(room, set.shape);
    if (why.empty() && beside != nullptr) why = beside->rejects(position, name);
    if (!why.empty()) {
      ++rejected[why];
      continue;
    }
    ++eligible;
    idle += room.idle_gpus();
    if (pods_that_fit(room, set.shape) > 0) continue;
    if (!room.zones.empty()) {
      Room whole = room;
      whole.zones.clear();
      if (pods_that_fit(whole, set.shape) > 0) {
        ++rejected[refused_by_zones(room, set.shape)];
        continue;
      }
    }
    PodShape gpu_only;
    gpu_only.gpu = set.shape.gpu;
    if (room.pods < 1) {
      ++no_pods;
    } else if (pods_that_fit(room, gpu_only) == 0) {
      ++(set.shape.gpu.whole > 0 && shares_of(*room.facts) > 1 ? no_slice : no_gpu);
    } else if (set.shape.cpu_milli > room.cpu_milli) {
      ++no_cpu;
    } else if (set.shape.memory_bytes > room.memory_bytes) {
      ++no_memory;
    } else {
      ++no_other;
    }
  }
  std::string text = fmt::format("{} of {} pods fit", fitting, set.count);
  if (rooms.empty()) return text + ": there are no nodes";
  if (set.shape.gpu.whole > 0) {
    text +=
        fmt::format(": {} eligible nodes have {} free GPUs, needs {}", eligible, idle, set.shape.gpu.whole * set.count);
  } else {
    text += fmt::format(": {} eligible nodes", eligible);
  }
  const auto add = [&](std::int64_t nodes, std::string_view words) {
    if (nodes > 0) text += fmt::format("; {} {}", nodes, words);
  };
  if (set.shape.gpu.milli > 0) {
    add(no_gpu, fmt::format("have no device with {} milli free", set.shape.gpu.milli));
  } else if (set.shape.gpu.mig_count > 0) {
    add(no_gpu, fmt::format("have too few free {} instances", set.shape.gpu.mig_profile));
  } else {
    add(no_gpu, fmt::format("have fewer than the {} free GPUs a pod asks", set.shape.gpu.whole));
  }
  add(no_slice, "with no-free-slice: pods have all shares of their GPUs");
  add(no_cpu, "lack CPU");
  add(no_memory, "lack memory");
  add(no_other, "lack another resource");
  add(no_pods, "run as many pods as they may");
  for (const auto& [why, nodes] : rejected) add(nodes, why);
  return text;
}

}  // namespace

Placed place_gang(const std::vector<PodSet>& pod_sets, Rooms& rooms, const Preference& preference,
                  Neighbourhood* beside) {
  std::vector<std::size_t> order(pod_sets.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return pod_sets[a].shape.gpu.total_milli() > pod_sets[b].shape.gpu.total_milli();
  });

  Plan plan;
  std::map<NodeName, Room> used;  // rooms that this gang has taken from, as they are then
  const auto current = [&](const NodeName& name, const Room& room) -> const Room& {
    const auto it = used.find(name);
    return it == used.end() ? room : it->second;
  };
  for (const std::size_t position : order) {
    const PodSet& set = pod_sets[position];
    const auto admits = [&, at = position](const NodeName& name, const Room& room) {
      return rejected_by(room, pod_sets[at].shape).empty() && (beside == nullptr || beside->admits(at, name));
    };
    const auto put = [&, at = position](const NodeName& node, std::int32_t index) {
      Member member;
      member.set = static_cast<std::int32_t>(at);
      member.index = index;
      member.node = node;
      member.devices = preference.take(used.try_emplace(node, rooms.at(node)).first->second, node, pod_sets[at].shape);
      plan.members.push_back(std::move(member));
      if (beside != nullptr) beside->take(at, node);
    };
    const auto short_of = [&, at = position](std::int64_t fitting) -> Placed {
      Rooms then = rooms;
      for (const auto& [name, room] : used) then[name] = room;
      std::string reason = explain(pod_sets[at], fitting, then, at, beside);
      if (pod_sets.size() > 1) reason = fmt::format("pod set {}: {}", pod_sets[at].name, reason);
      return {std::nullopt, {std::move(reason)}};
    };
    if (beside != nullptr && beside->one_by_one(position)) {
      for (std::int32_t index = 0; index < set.count; ++index) {
        // (less worth, not yet used, score, without its data, name): the smallest wins.
        using Rank = std::tuple<std::int64_t, bool, std::int64_t, bool, const NodeName&>;
        std::optional<Rank> best;
        for (const auto& [name, room] : rooms) {
          if (pods_that_fit(current(name, room), set.shape) == 0 || !admits(name, room)) continue;
          const Rank rank(-beside->worth(position, name), !used.contains(name),
                          -preference.score(current(name, room), set.shape), !beside->has_data(position, name), name);
          if (!best || rank < *best) best.emplace(rank);
        }
        if (!best) return short_of(index);
        put(std::get<4>(*best), index);
      }
      continue;
    }
    struct Candidate {
      const NodeName* name;
      std::int64_t fits;
      bool apart;  // its devices there would not be of one NVLink island
      std::int64_t score;
      bool has_data;
    };
    std::vector<Candidate> candidates;
    std::int64_t total = 0;
    for (const auto& [name, room] : rooms) {
      if (!admits(name, room)) continue;
      const auto fits = pods_that_fit(current(name, room), set.shape);
      if (fits == 0) continue;
      const auto devices = std::min<std::int64_t>(fits, set.count) * set.shape.gpu.whole;
      const bool apart = devices > 1 && !in_one_island(current(name, room), devices);
      candidates.push_back({&name, fits, apart, preference.score(current(name, room), set.shape),
                            beside != nullptr && beside->has_data(position, name)});
      total += fits;
    }
    if (total < set.count) return short_of(total);
    std::int32_t index = 0;
    while (index < set.count) {
      const std::int64_t left = set.count - index;
      // (takes not all, not yet used, pods it does not take, apart, score, without its data, name): the smallest wins.
      using Rank = std::tuple<bool, bool, std::int64_t, bool, std::int64_t, bool, const NodeName&>;
      const auto rank = [&](const Candidate& c) {
        return Rank(c.fits < left, c.fits >= left && !used.contains(*c.name), left - std::min(c.fits, left), c.apart,
                    -c.score, !c.has_data, *c.name);
      };
      std::size_t best = 0;
      for (std::size_t i = 1; i < candidates.size(); ++i) {
        if (rank(candidates[i]) < rank(candidates[best])) best = i;
      }
      const NodeName& node = *candidates[best].name;
      for (auto pods = std::min(candidates[best].fits, left); pods > 0; --pods, ++index) put(node, index);
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(best));
      QM_ASSERT(index >= set.count || !candidates.empty(), "candidates ran out at {} of {}", index, set.count);
    }
  }
  std::ranges::sort(plan.members, [](const Member& a, const Member& b) {
    return std::tie(a.set, a.index) < std::tie(b.set, b.index);
  });
  for (auto& [name, room] : used) rooms[name] = std::move(room);
  return {std::move(plan), {}};
}

}  // namespace qm::placement
