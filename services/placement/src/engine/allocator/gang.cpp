// Chooses the nodes of a gang: see place_gang in policy.hpp for the sketch.
#include "engine/allocator/one_by_one.hpp"
#include "qm/base/assert.hpp"
#include "qm/placement/nearness.hpp"
#include "qm/placement/numa.hpp"
#include "qm/placement/shortlists.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

namespace qm::placement {
namespace {

/// Text of the constraints that prevent a placement of the pod set. Nodes in `used` have been changed by the
/// gang; their free capacity replaces that of `free_capacity`.
std::string explain(const PodSet& set, std::int64_t fitting, const FreeCapacity& free_capacity,
                    const std::map<NodeName, NodeCapacity>& used, std::size_t position,
                    const InterPodConstraints* constraints) {
  std::int64_t eligible = 0, idle = 0, no_gpu = 0, no_slice = 0, no_cpu = 0, no_memory = 0, no_other = 0, no_pods = 0;
  std::map<std::string, std::int64_t> rejected, faulty;
  std::map<std::string, std::vector<std::string>> cordoned;  ///< the first nodes of each reason
  constexpr std::size_t kMaxNames = 3;
  for (const auto& [name, before] : free_capacity) {
    const auto now = used.find(name);
    const NodeCapacity& capacity = now == used.end() ? before : now->second;
    auto why = rejected_by(capacity, set.shape);
    if (why.empty() && constraints != nullptr) why = constraints->rejects(position, name, capacity);
    if (set.shape.gpu.whole > 0 || set.shape.gpu.milli > 0) {
      for (const auto& fault : capacity.faulty) ++faulty[fault];
    }
    if (!why.empty()) {
      if (auto& names = cordoned[why];
          !capacity.usable && capacity.why_not.starts_with("cordoned") && names.size() < kMaxNames)
        names.push_back(name.value());
      ++rejected[why];
      continue;
    }
    ++eligible;
    idle += capacity.idle_gpus();
    if (pods_that_fit(capacity, set.shape) > 0) continue;
    if (!capacity.zones.empty()) {
      NodeCapacity whole = capacity;
      whole.zones.clear();
      if (pods_that_fit(whole, set.shape) > 0) {
        ++rejected[refused_by_zones(capacity, set.shape)];
        continue;
      }
    }
    PodShape gpu_only;
    gpu_only.gpu = set.shape.gpu;
    if (capacity.pods < 1) {
      ++no_pods;
    } else if (pods_that_fit(capacity, gpu_only) == 0) {
      ++(set.shape.gpu.whole > 0 && shares_of(*capacity.facts) > 1 ? no_slice : no_gpu);
    } else if (set.shape.cpu_milli > capacity.cpu_milli) {
      ++no_cpu;
    } else if (set.shape.memory_bytes > capacity.memory_bytes) {
      ++no_memory;
    } else {
      ++no_other;
    }
  }
  std::string text = fmt::format("{} of {} pods fit", fitting, set.count);
  if (free_capacity.empty()) return text + ": there are no nodes";
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
    add(no_gpu, fmt::format("have fewer than the {} free GPUs that a pod requests", set.shape.gpu.whole));
  }
  add(no_slice, "with no-free-slice: pods have all shares of their GPUs");
  add(no_cpu, "lack CPU");
  add(no_memory, "lack memory");
  add(no_other, "lack another resource");
  add(no_pods, "are at their pod limit");
  for (const auto& [why, nodes] : rejected) {
    const auto& names = cordoned[why];
    const bool more = nodes > std::ssize(names);
    add(nodes, names.empty() ? why : fmt::format("{} ({}{})", why, fmt::join(names, ", "), more ? ", ..." : ""));
  }
  for (const auto& [fault, gpus] : faulty)
    text += fmt::format("; {} {} out of service: {}", gpus, gpus == 1 ? "GPU is" : "GPUs are", fault);
  return text;
}

/// How many pods of the set fit the node now.
std::int64_t pods_on(const NodeName& name, const NodeCapacity& capacity, const PodSet& set, std::size_t position,
                     const InterPodConstraints* constraints) {
  const auto fits = pods_that_fit(capacity, set.shape);
  if (fits == 0 || !admitted(capacity, set.shape)) return 0;
  if (constraints == nullptr) return fits;
  return constraints->admits(position, name, capacity) ? std::min(fits, constraints->most(position, name)) : 0;
}

/// Nodes for the pods of a set, each chosen once. `used` has the current free capacity of nodes that the gang
/// uses.
class Candidates {
 public:
  struct Chosen {
    NodeName node;
    std::int64_t fits = 0;
  };
  virtual ~Candidates() = default;
  [[nodiscard]] virtual std::int64_t pods() const = 0;  ///< total that fits
  /// The best remaining node for so many pods.
  virtual Chosen next(std::int64_t left) = 0;

 protected:
  struct Candidate {
    const NodeName* name;
    std::int64_t fits;
    bool apart;  // its devices there would be in several NVLink islands
    std::int64_t score;
    bool used;
    bool has_data;
  };
  /// (does not fit all, not yet used, pods that do not fit, apart, score, without its data, name): the
  /// smallest is the best.
  using Rank = std::tuple<bool, bool, std::int64_t, bool, std::int64_t, bool, const NodeName&>;
  static Rank rank(const Candidate& c, std::int64_t left) {
    return {c.fits < left, c.fits >= left && !c.used, left - std::min(c.fits, left), c.apart, -c.score, !c.has_data,
            *c.name};
  }
  static bool apart(const PodSet& set, std::int64_t fits, std::int64_t joined) {
    const auto devices = std::min<std::int64_t>(fits, set.count) * set.shape.gpu.whole;
    return devices > 1 && devices > joined;
  }
  static bool apart(const PodSet& set, std::int64_t fits, const NodeCapacity& capacity) {
    return set.shape.gpu.whole > 0 && apart(set, fits, joined_gpus(capacity));
  }
  /// The index of the best candidate; the size of the list if it is empty.
  static std::size_t best_of(const std::vector<Candidate>& candidates, std::int64_t left) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      if (rank(candidates[i], left) < rank(candidates[best], left)) best = i;
    }
    return best;
  }
};

/// Candidates from a pass over all nodes. A heap orders them by the pods that fit, then by rank. Until one
/// fits all remaining pods, the best is among those that fit most; then it is the best of all that fit them.
class Scanned final : public Candidates {
 public:
  Scanned(const FreeCapacity& free_capacity, const std::map<NodeName, NodeCapacity>& used, const PodSet& set,
          const Preference& preference, std::size_t position, const InterPodConstraints* constraints) {
    Scores scores(preference, set.shape);
    for (const auto& [name, capacity] : free_capacity) {
      const auto taken = used.empty() ? used.end() : used.find(name);
      const NodeCapacity& now = taken == used.end() ? capacity : taken->second;
      const auto fits = pods_on(name, now, set, position, constraints);
      if (fits == 0) continue;
      const bool has_data = constraints != nullptr && constraints->has_data(position, now);
      candidates_.push_back({&name, fits, apart(set, fits, now), scores.of(now), taken != used.end(), has_data});
      pods_ += fits;
    }
    std::ranges::make_heap(candidates_, after);
  }
  [[nodiscard]] std::int64_t pods() const override { return pods_; }
  Chosen next(std::int64_t left) override {
    QM_ASSERT(!candidates_.empty(), "candidates ran out with {} pods left", left);
    if (candidates_.front().fits >= left) {
      const Candidate& best = candidates_[best_of(candidates_, left)];
      candidates_ = {best};
    }
    std::ranges::pop_heap(candidates_, after);
    const Chosen chosen{*candidates_.back().name, candidates_.back().fits};
    candidates_.pop_back();
    return chosen;
  }

 private:
  static bool after(const Candidate& a, const Candidate& b) {
    const auto key = [](const Candidate& c) {
      return std::tuple<std::int64_t, bool, std::int64_t, bool, const NodeName&>(-c.fits, c.apart, -c.score,
                                                                                 !c.has_data, *c.name);
    };
    return key(b) < key(a);
  }

  std::vector<Candidate> candidates_;
  std::int64_t pods_ = 0;
};

/// Candidates from a shortlist, and a pass over the few nodes that the gang already uses.
class Listed final : public Candidates {
 public:
  template <class Admits>
  Listed(const Shortlists::List& list, const std::map<NodeName, NodeCapacity>& used, const PodSet& set,
         const Preference& preference, Admits&& admits)
      : list_(list), set_(set), pods_(list.fits) {
    for (const auto& [name, capacity] : used) {
      passed_.insert(name);
      if (const auto there = list.nodes.find(name); there != list.nodes.end()) pods_ -= there->second.bucket.first;
      const auto fits = pods_that_fit(capacity, set.shape);
      if (fits == 0 || !admits(name, capacity)) continue;
      again_.push_back(
          {&name, fits, apart(set, fits, joined_gpus(capacity)), preference.score(capacity, set.shape), true, false});
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
  /// The best of the nodes that the gang does not use yet.
  std::optional<Candidate> first(std::int64_t left) {
    std::optional<Candidate> best;
    // From the largest count down: if no node fits all remaining pods, only those with the largest count
    // matter.
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
  std::map<Shortlists::List::Bucket, Shortlists::List::Order::const_iterator> cursors_;  // the first remaining one
  Shortlists::List::Bucket taken_from_;                                                  // by the last call of first()
  std::int64_t pods_;
};

/// A gang during its placement: the capacity that it has taken so far.
class GangPlacer {
 public:
  GangPlacer(const std::vector<PodSet>& pod_sets, FreeCapacity& free_capacity, const Preference& preference,
             InterPodConstraints* constraints, const ShortlistView* kept, ResultDetail wanted)
      : pod_sets_(pod_sets),
        free_capacity_(free_capacity),
        preference_(preference),
        constraints_(constraints),
        kept_(kept),
        wanted_(wanted) {}

  /// Places up to `most` pods of the set, from rank `first` on, and returns how many.
  std::int32_t put(std::size_t position, std::int32_t first, std::int32_t most) {
    return constraints_ != nullptr && constraints_->one_by_one(position) ? one_by_one(position, first, most)
                                                                         : by_nodes(position, first, most);
  }
  [[nodiscard]] PlacementResult short_of(std::size_t position, std::int64_t fitting) const {
    if (wanted_ != ResultDetail::kReason) return {};
    PodSet least = pod_sets_[position];
    least.count = minimum_of(least);
    std::string reason = explain(least, fitting, free_capacity_, used_, position, constraints_);
    if (pod_sets_.size() > 1) reason = fmt::format("pod set {}: {}", least.name, reason);
    return {std::nullopt, {std::move(reason)}};
  }
  [[nodiscard]] PlacementResult done() {
    std::ranges::sort(plan_.members, [](const Member& a, const Member& b) {
      return std::tie(a.set, a.index) < std::tie(b.set, b.index);
    });
    for (auto& [name, capacity] : used_) free_capacity_[name] = std::move(capacity);
    return {std::move(plan_), {}};
  }
  /// How many pods fit at the last call of put().
  [[nodiscard]] std::int64_t fitting() const { return fitting_; }

 private:
  std::int32_t one_by_one(std::size_t position, std::int32_t first, std::int32_t most) {
    OneByOne nodes(free_capacity_, used_, position, pod_sets_[position], preference_, *constraints_);
    std::int32_t count = 0;
    for (; count < most; ++count) {
      const NodeName* node = nodes.next();
      if (node == nullptr) break;
      nodes.taken(take(position, *node, first + count));
    }
    fitting_ = first + count;
    return count;
  }
  /// The count that by_nodes() would place of a single set: it does not depend on the choice of nodes.
  std::int32_t enough(std::size_t position, std::int32_t most) {
    fitting_ = 0;
    for (const auto& [name, capacity] : free_capacity_) {
      if (fitting_ >= most) break;
      fitting_ += pods_on(name, capacity, pod_sets_[position], position, constraints_);
    }
    return static_cast<std::int32_t>(std::min<std::int64_t>(fitting_, most));
  }
  std::int32_t by_nodes(std::size_t position, std::int32_t first, std::int32_t most) {
    const PodSet& set = pod_sets_[position];
    if (wanted_ == ResultDetail::kWhether && pod_sets_.size() == 1) return enough(position, most);
    std::unique_ptr<Candidates> candidates;
    if (kept_ == nullptr) {
      candidates = std::make_unique<Scanned>(free_capacity_, used_, set, preference_, position, constraints_);
    } else {
      const auto& list = kept_->lists.of(set.shape, kept_->type, kept_->pool, free_capacity_, preference_);
      candidates = std::make_unique<Listed>(
          list, used_, set, preference_,
          [&](const NodeName& name, const NodeCapacity& capacity) { return admits(position, name, capacity); });
    }
    fitting_ = candidates->pods();
    if (fitting_ < minimum_of(set) && first == 0) return 0;
    const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(fitting_, most));
    for (std::int32_t index = 0; index < count;) {
      const auto [node, fits] = candidates->next(count - index);
      for (auto pods = std::min<std::int64_t>(fits, count - index); pods > 0; --pods, ++index)
        take(position, node, first + index);
    }
    return count;
  }

  [[nodiscard]] bool admits(std::size_t position, const NodeName& name, const NodeCapacity& capacity) const {
    return admitted(capacity, pod_sets_[position].shape) &&
           (constraints_ == nullptr || constraints_->admits(position, name, capacity));
  }
  /// Returns the free capacity of the node afterwards.
  const NodeCapacity& take(std::size_t position, const NodeName& node, std::int32_t index) {
    Member member;
    member.set = static_cast<std::int32_t>(position);
    member.index = index;
    member.node = node;
    auto capacity = used_.find(node);
    if (capacity == used_.end()) capacity = used_.emplace(node, free_capacity_.at(node)).first;
    member.devices = preference_.take(capacity->second, node, pod_sets_[position].shape);
    plan_.members.push_back(std::move(member));
    if (constraints_ != nullptr) constraints_->take(position, node);
    return capacity->second;
  }

  const std::vector<PodSet>& pod_sets_;
  FreeCapacity& free_capacity_;
  const Preference& preference_;
  InterPodConstraints* constraints_;
  const ShortlistView* kept_;
  const ResultDetail wanted_;
  Plan plan_;
  std::map<NodeName, NodeCapacity> used_;  // current free capacity of the nodes that this gang uses
  std::int64_t fitting_ = 0;
};

}  // namespace

std::int32_t minimum_of(const PodSet& set) {
  if (set.min_count <= 0 || set.min_count >= set.count) return set.count;
  const auto slice = set.topology.slice.empty() ? 1 : std::max(set.topology.slice_size, 1);
  return std::min((set.min_count + slice - 1) / slice * slice, set.count);
}

bool is_elastic(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets, [](const PodSet& set) { return minimum_of(set) < set.count; });
}

std::vector<PodSet> minimum_of(std::vector<PodSet> pod_sets) {
  for (PodSet& set : pod_sets) {
    set.count = minimum_of(set);
    set.min_count = 0;
  }
  return pod_sets;
}

PlacementResult place_gang(const std::vector<PodSet>& pod_sets, FreeCapacity& free_capacity,
                           const Preference& preference, InterPodConstraints* constraints, const ShortlistView* kept,
                           ResultDetail wanted) {
  std::vector<std::size_t> order(pod_sets.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return pod_sets[a].shape.gpu.total_milli() > pod_sets[b].shape.gpu.total_milli();
  });
  GangPlacer gang(pod_sets, free_capacity, preference, constraints, kept, wanted);
  for (const std::size_t position : order) {
    const auto least = minimum_of(pod_sets[position]);
    if (gang.put(position, 0, least) < least) return gang.short_of(position, gang.fitting());
  }
  if (wanted == ResultDetail::kWhether) return {Plan{}, {}};  // `free_capacity` is unchanged
  for (const std::size_t position : order) {
    const auto least = minimum_of(pod_sets[position]);
    if (const auto more = pod_sets[position].count - least; more > 0) gang.put(position, least, more);
  }
  return gang.done();
}

}  // namespace qm::placement
