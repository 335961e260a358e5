// If other pods of a group remain, its moved pods must stay in their domain. A group that moves as a whole is
// placed as gangs are, inside the domain required by its parent. Pods of one set are placed node by node, the
// tightest node first. Each node counts by itself there, so this order loses no capacity.
#include "replace_pods.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <tuple>

namespace qm::placement::plan {
namespace {

using gang::Group;

class PodReplacement {
 public:
  PodReplacement(ClusterModel& model, GangId gang, NodeId from, const Targets& targets)
      : model_(model), gang_(gang), from_(from), targets_(targets), sets_(sets_of(model.gang(gang).request)) {
    for (const auto& placement : one().placements) (placement.node == from ? moving_ : staying_).push_back(placement);
    for (const auto& placement : moving_) model_.remove_pod(gang_, placement);
  }
  PodReplacement(const PodReplacement&) = delete;
  PodReplacement& operator=(const PodReplacement&) = delete;
  ~PodReplacement() {
    for (const auto& placement : placed_) model_.remove_pod(gang_, placement);
    for (const auto& placement : moving_) model_.add_pod(gang_, placement);
    model_.sync();
  }

  std::optional<std::vector<PodPlacement>> run() {
    if (!place_group(one().request.gang, 0, {})) return std::nullopt;
    auto out = staying_;
    out.insert(out.end(), placed_.begin(), placed_.end());
    std::ranges::sort(out);
    return out;
  }

 private:
  [[nodiscard]] const gang::Tree& tree() const { return model_.tree(); }
  [[nodiscard]] const Gang& one() const { return model_.gang(gang_); }
  [[nodiscard]] Domain above(NodeId node, Level level) const { return tree().above({tree().depth(), node}, level); }

  static std::int32_t sets_in(const Group& group) {
    auto sum = static_cast<std::int32_t>(group.sets.size());
    for (const auto& child : group.children) sum += sets_in(child);
    return sum;
  }
  /// Placements of sets [first, end).
  static std::vector<PodPlacement> of(const std::vector<PodPlacement>& placements, std::int32_t first,
                                      std::int32_t end) {
    std::vector<PodPlacement> out;
    std::ranges::copy_if(placements, std::back_inserter(out),
                         [&](const PodPlacement& s) { return s.set >= first && s.set < end; });
    return out;
  }

  bool place_group(const Group& group, std::int32_t first, Domain within) {
    const auto end = first + sets_in(group);
    if (of(moving_, first, end).empty()) return true;
    const auto rest = of(staying_, first, end);
    if (rest.empty()) return place_moved_group(group, first, end, within);
    within = std::max(within, above(rest.front().node, std::min(group.required, tree().depth())));
    for (std::size_t i = 0; i < group.sets.size(); ++i) {
      if (!place_set(first + static_cast<std::int32_t>(i), within)) return false;
    }
    first += static_cast<std::int32_t>(group.sets.size());
    for (const auto& child : group.children) {
      if (!place_group(child, first, within)) return false;
      first += sets_in(child);
    }
    return true;
  }

  /// True if the node may be a target at all.
  [[nodiscard]] bool open(NodeId node, Domain within) const {
    return node != from_ && tree().within({tree().depth(), node}, within) && !model_.on(node).empty();
  }

  bool place_moved_group(const Group& group, std::int32_t first, std::int32_t end, Domain within) {
    const bool plain = group.sets.size() == 1 && group.children.empty() && group.sets[0].slices.size <= 1;
    const auto pods = of(moving_, first, end);
    if (!plain) return place_as_gang(group, first, end, within);
    if (pods.size() == 1 || group.required <= within.level) return place_pods(first, pods, within);
    const auto places = domains(within, std::min(group.required, tree().depth()));
    return std::ranges::any_of(places, [&](Domain domain) { return place_pods(first, pods, domain); });
  }
  bool place_as_gang(const Group& group, std::int32_t first, std::int32_t end, Domain within) {
    gang::Request request{group, one().request.exclusive};
    const auto moving = of(moving_, first, end);
    std::vector<std::int32_t> counts(static_cast<std::size_t>(end - first), 0);
    for (const auto& placement : moving) ++counts[static_cast<std::size_t>(placement.set - first)];
    std::size_t at = 0;
    fix(request.gang, counts, at);
    std::vector<NodeId> excluded;
    for (NodeId node = 0; node < model_.nodes(); ++node) {
      if (!open(node, within) && model_.exclude(node, true)) excluded.push_back(node);
    }
    model_.sync();
    const auto found = gang::place(model_.fleet(), request);
    QM_ASSERT(found.has_value(), "a part of a gang is not a valid gang: {}", found.error().message);
    for (const auto node : excluded) model_.exclude(node, false);
    if (!found->placed()) return false;
    auto placements = model_.placements_for(request, *found);
    for (std::size_t i = 0; i < placements.size(); ++i) {
      placements[i].set += first;
      placements[i].rank = moving[i].rank;
      QM_ASSERT(placements[i].set == moving[i].set, "placement {} is of another set", i);
      place_pod(placements[i]);
    }
    return true;
  }
  /// Sets the counts to the current number of pods.
  static void fix(Group& group, const std::vector<std::int32_t>& counts, std::size_t& at) {
    for (auto& set : group.sets) {
      set.count = counts[at++];
      set.min_count = 0;
    }
    for (auto& child : group.children) fix(child, counts, at);
  }
  void place_pod(const PodPlacement& placement) {
    model_.add_pod(gang_, placement);
    placed_.push_back(placement);
  }

  // ---- one set ----

  bool place_set(std::int32_t set, Domain within) {
    const auto& requested = sets_[static_cast<std::size_t>(set)];
    const auto moving = of(moving_, set, set + 1);
    if (moving.empty()) return true;
    if (requested.slices.size <= 1) return place_pods(set, moving, within);
    // Slice by slice: next to the rest of the slice, or the whole slice into one domain.
    for (std::size_t i = 0; i < moving.size();) {
      const auto slice = moving[i].rank / requested.slices.size;
      std::vector<PodPlacement> own;
      for (; i < moving.size() && moving[i].rank / requested.slices.size == slice; ++i) own.push_back(moving[i]);
      const auto level = std::min(requested.slices.level, tree().depth());
      const auto rest = std::ranges::find_if(staying_, [&](const PodPlacement& placement) {
        return placement.set == set && placement.rank / requested.slices.size == slice;
      });
      if (rest != staying_.end()) {
        if (!place_pods(set, own, std::max(within, above(rest->node, level)))) return false;
        continue;
      }
      bool done = false;
      for (const auto domain : domains(within, level)) {
        if (done = place_pods(set, own, domain); done) break;
      }
      if (!done) return false;
    }
    return true;
  }
  /// The domains of the level inside `within`; those that the gang already uses come first.
  [[nodiscard]] std::vector<Domain> domains(Domain within, Level level) const {
    if (within.level >= level) return {within};
    std::vector<Domain> out;
    std::set<Domain> used;
    for (const auto& placement : staying_) used.insert(above(placement.node, level));
    for (std::uint32_t i = 0; i < tree().size(level); ++i) {
      if (tree().within({level, i}, within)) out.push_back({level, i});
    }
    std::ranges::stable_partition(out, [&](Domain domain) { return used.contains(domain); });
    return out;
  }

  bool place_pods(std::int32_t set, const std::vector<PodPlacement>& pods, Domain within) {
    const auto& requested = sets_[static_cast<std::size_t>(set)];
    gang::Kind kind{.pod = requested.pod, .gates = requested.gates, .exclusive = one().request.exclusive};
    const auto level = std::min(requested.spread.level, tree().depth());
    std::map<Domain, std::int32_t> there;  // pods of the set, for its spread
    if (requested.spread.most > 0) {
      for (const auto* placements : {&staying_, &placed_}) {
        for (const auto& placement : *placements) there[above(placement.node, level)] += placement.set == set ? 1 : 0;
      }
    }
    auto left = static_cast<std::int32_t>(pods.size());
    using Key = std::tuple<bool, MicroUsd, std::int64_t, NodeId>;
    std::vector<std::pair<Key, std::int32_t>> order;
    for (const auto node : targets_.nodes) {
      if (!open(node, within)) continue;
      const auto fits = model_.pods_that_fit(node, kind);
      if (fits == 0) continue;
      const auto rest = model_.state(node).free_milli() - requested.pod.total_milli() * std::min(left, fits);
      const auto cost = targets_.cost_to_empty != nullptr ? -(*targets_.cost_to_empty)[node] : 0;
      order.push_back({{fits < left, cost, rest, node}, fits});
    }
    std::ranges::sort(order);
    std::size_t pod = 0;
    for (const auto& [key, fits] : order) {
      const auto node = std::get<NodeId>(key);
      auto capacity = std::min(fits, left);
      if (requested.spread.most > 0) capacity = std::min(capacity, requested.spread.most - there[above(node, level)]);
      for (; capacity > 0; --capacity, --left, ++pod) {
        if (requested.spread.most > 0) ++there[above(node, level)];
        place_pod({set, pods[pod].rank, node, model_.devices_for(node, requested.pod)});
      }
      if (left == 0) return true;
    }
    for (; pod > 0; --pod) {  // undo: the caller may try another domain
      model_.remove_pod(gang_, placed_.back());
      placed_.pop_back();
    }
    return false;
  }

  ClusterModel& model_;
  GangId gang_;
  NodeId from_;
  const Targets& targets_;
  std::vector<gang::PodSet> sets_;
  std::vector<PodPlacement> moving_, staying_, placed_;
};

}  // namespace

std::optional<std::vector<PodPlacement>> replace_pods(ClusterModel& model, GangId gang, NodeId from,
                                                      const Targets& targets) {
  return PodReplacement(model, gang, from, targets).run();
}

}  // namespace qm::placement::plan
