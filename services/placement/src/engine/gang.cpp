// Which nodes a gang gets: see place_gang in policy.hpp for the sketch.
#include "qm/base/assert.hpp"
#include "qm/placement/nearness.hpp"
#include "qm/placement/numa.hpp"
#include "qm/placement/preference.hpp"
#include "qm/placement/shortlists.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

namespace qm::placement {
namespace {

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

/// Nodes that pods of a set may have, each to be taken once. `used` are the rooms that the gang has taken from, as they are then.
class Candidates {
 public:
  struct Chosen {
    NodeName node;
    std::int64_t fits = 0;
  };
  virtual ~Candidates() = default;
  [[nodiscard]] virtual std::int64_t pods() const = 0;  ///< that fit all of them
  /// The best of those that are left, for so many pods.
  virtual Chosen next(std::int64_t left) = 0;

 protected:
  struct Candidate {
    const NodeName* name;
    std::int64_t fits;
    bool apart;  // its devices there would not be of one NVLink island
    std::int64_t score;
    bool used;
    bool has_data;
  };
  /// (takes not all, not yet used, pods it does not take, apart, score, without its data, name): the smallest wins.
  using Rank = std::tuple<bool, bool, std::int64_t, bool, std::int64_t, bool, const NodeName&>;
  static Rank rank(const Candidate& c, std::int64_t left) {
    return {c.fits < left, c.fits >= left && !c.used, left - std::min(c.fits, left), c.apart, -c.score, !c.has_data,
            *c.name};
  }
  static bool apart(const PodSet& set, std::int64_t fits, std::int64_t joined) {
    const auto devices = std::min<std::int64_t>(fits, set.count) * set.shape.gpu.whole;
    return devices > 1 && devices > joined;
  }
  /// The place of the best among them; their number where there is none.
  static std::size_t best_of(const std::vector<Candidate>& candidates, std::int64_t left) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      if (rank(candidates[i], left) < rank(candidates[best], left)) best = i;
    }
    return best;
  }
};

/// By a look at all rooms.
class Scanned final : public Candidates {
 public:
  template <class Admits, class HasData>
  Scanned(const Rooms& rooms, const std::map<NodeName, Room>& used, const PodSet& set, const Preference& preference,
          Admits&& admits, HasData&& has_data) {
    for (const auto& [name, room] : rooms) {
      if (!admits(name, room)) continue;
      const auto taken = used.find(name);
      const Room& now = taken == used.end() ? room : taken->second;
      const auto fits = pods_that_fit(now, set.shape);
      if (fits == 0) continue;
      candidates_.push_back({&name, fits, apart(set, fits, joined_gpus(now)), preference.score(now, set.shape),
                             taken != used.end(), has_data(name)});
      pods_ += fits;
    }
  }
  [[nodiscard]] std::int64_t pods() const override { return pods_; }
  Chosen next(std::int64_t left) override {
    QM_ASSERT(!candidates_.empty(), "candidates ran out with {} pods left", left);
    const auto best = candidates_.begin() + static_cast<std::ptrdiff_t>(best_of(candidates_, left));
    const Chosen chosen{*best->name, best->fits};
    candidates_.erase(best);
    return chosen;
  }

 private:
  std::vector<Candidate> candidates_;
  std::int64_t pods_ = 0;
};

/// By a shortlist, and a look at the few rooms that the gang itself has taken from.
class Listed final : public Candidates {
 public:
  template <class Admits>
  Listed(const Shortlists::List& list, const std::map<NodeName, Room>& used, const PodSet& set,
         const Preference& preference, Admits&& admits)
      : list_(list), set_(set), pods_(list.fits) {
    for (const auto& [name, room] : used) {
      passed_.insert(name);
      if (const auto there = list.nodes.find(name); there != list.nodes.end()) pods_ -= there->second.bucket.first;
      const auto fits = pods_that_fit(room, set.shape);
      if (fits == 0 || !admits(name, room)) continue;
      again_.push_back(
          {&name, fits, apart(set, fits, joined_gpus(room)), preference.score(room, set.shape), true, false});
      pods_ += fits;
    }
  }
  [[nodiscard]] std::int64_t pods() const override { return pods_; }
  Chosen next(std::int64_t left) override {
    const auto fresh = first(left);
    const auto at = best_of(again_, left);
    QM_ASSERT(fresh || at < again_.size(), "candidates ran out with {} pods left", left);
    if (fresh && (at >= again_.size() || rank(*fresh, left) < rank(again_[at], left))) {
      ++cursors_.at(taken_from_);
      return {*fresh->name, fresh->fits};
    }
    const Chosen chosen{*again_[at].name, again_[at].fits};
    again_.erase(again_.begin() + static_cast<std::ptrdiff_t>(at));
    return chosen;
  }

 private:
  /// The best of those nodes that the gang has taken nothing from.
  std::optional<Candidate> first(std::int64_t left) {
    std::optional<Candidate> best;
    // From the most pods down: where none takes all that are left, those that take most are enough to look at.
    for (auto bucket = list_.by_fits.rbegin(); bucket != list_.by_fits.rend(); ++bucket) {
      const auto fits = bucket->first.first;
      if (best && fits < std::min(best->fits, left)) break;
      const auto candidate = head(*bucket);
      if (!candidate || (best && !(rank(*candidate, left) < rank(*best, left)))) continue;
      best = candidate;
      taken_from_ = bucket->first;
    }
    return best;
  }
  std::optional<Candidate> head(const std::pair<const Shortlists::List::Bucket, Shortlists::List::Order>& bucket) {
    const auto& [key, order] = bucket;
    const auto& [fits, joined] = key;
    auto& cursor = cursors_.try_emplace(key, order.begin()).first->second;
    while (cursor != order.end() && passed_.contains(cursor->second)) ++cursor;
    if (cursor == order.end()) return std::nullopt;
    return Candidate{&cursor->second, fits, apart(set_, fits, joined), -cursor->first, false, false};
  }

  const Shortlists::List& list_;
  const PodSet& set_;
  std::vector<Candidate> again_;
  std::set<NodeName> passed_;
  std::map<Shortlists::List::Bucket, Shortlists::List::Order::const_iterator> cursors_;  // the first that is left
  Shortlists::List::Bucket taken_from_;                                                  // by the last look
  std::int64_t pods_;
};

}  // namespace

Placed place_gang(const std::vector<PodSet>& pod_sets, Rooms& rooms, const Preference& preference,
                  Neighbourhood* beside, const Kept* kept) {
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
      if (kept != nullptr && !kept->tells_why) return {};
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
    std::unique_ptr<Candidates> candidates;
    if (kept == nullptr) {
      candidates = std::make_unique<Scanned>(
          rooms, used, set, preference, admits,
          [&, at = position](const NodeName& name) { return beside != nullptr && beside->has_data(at, name); });
    } else {
      const auto& list = kept->lists.of(set.shape, kept->type, kept->pool, rooms, preference);
      candidates = std::make_unique<Listed>(list, used, set, preference, admits);
    }
    if (candidates->pods() < set.count) return short_of(candidates->pods());
    for (std::int32_t index = 0; index < set.count;) {
      const auto [node, fits] = candidates->next(set.count - index);
      for (auto pods = std::min<std::int64_t>(fits, set.count - index); pods > 0; --pods, ++index) put(node, index);
    }
  }
  std::ranges::sort(plan.members, [](const Member& a, const Member& b) {
    return std::tie(a.set, a.index) < std::tie(b.set, b.index);
  });
  for (auto& [name, room] : used) rooms[name] = std::move(room);
  return {std::move(plan), {}};
}

}  // namespace qm::placement
