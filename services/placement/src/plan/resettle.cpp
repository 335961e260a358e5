// If other pods of a group remain, its moved pods must stay in their domain. A group that moves as a whole is
// placed as gangs are, inside the domain required by its parent. Pods of one set are placed node by node, the
// nearest or the tightest node first. Each node counts by itself there, so this order loses no capacity.
#include "resettle.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <tuple>

namespace qm::placement::plan {
namespace {

using gang::Group;

class Resettler {
 public:
  Resettler(Scene& scene, GangId gang, NodeId from, const Targets& targets)
      : scene_(scene), gang_(gang), from_(from), targets_(targets), sets_(sets_of(scene.gang(gang).request)) {
    for (const auto& seat : one().seats) (seat.node == from ? leaving_ : staying_).push_back(seat);
    for (const auto& seat : leaving_) scene_.lift(gang_, seat);
  }
  Resettler(const Resettler&) = delete;
  Resettler& operator=(const Resettler&) = delete;
  ~Resettler() {
    for (const auto& seat : settled_) scene_.lift(gang_, seat);
    for (const auto& seat : leaving_) scene_.put_down(gang_, seat);
    scene_.sync();
  }

  std::optional<std::vector<Seat>> run() {
    if (!settle(one().request.gang, 0, {})) return std::nullopt;
    auto out = staying_;
    out.insert(out.end(), settled_.begin(), settled_.end());
    std::ranges::sort(out);
    return out;
  }
  [[nodiscard]] const std::optional<Cramped>& cramped() const { return cramped_; }

 private:
  [[nodiscard]] const gang::Tree& tree() const { return scene_.tree(); }
  [[nodiscard]] const Gang& one() const { return scene_.gang(gang_); }
  [[nodiscard]] Domain above(NodeId node, Level level) const { return tree().above({tree().depth(), node}, level); }

  static std::int32_t sets_in(const Group& group) {
    auto sum = static_cast<std::int32_t>(group.sets.size());
    for (const auto& child : group.children) sum += sets_in(child);
    return sum;
  }
  /// Seats of sets [first, end).
  static std::vector<Seat> of(const std::vector<Seat>& seats, std::int32_t first, std::int32_t end) {
    std::vector<Seat> out;
    std::ranges::copy_if(seats, std::back_inserter(out), [&](const Seat& s) { return s.set >= first && s.set < end; });
    return out;
  }

  bool settle(const Group& group, std::int32_t first, Domain within) {
    const auto end = first + sets_in(group);
    if (of(leaving_, first, end).empty()) return true;
    const auto rest = of(staying_, first, end);
    if (rest.empty()) return settle_alone(group, first, end, within);
    within = std::max(within, above(rest.front().node, std::min(group.required, tree().depth())));
    for (std::size_t i = 0; i < group.sets.size(); ++i) {
      if (!settle_set(first + static_cast<std::int32_t>(i), within)) return false;
    }
    first += static_cast<std::int32_t>(group.sets.size());
    for (const auto& child : group.children) {
      if (!settle(child, first, within)) return false;
      first += sets_in(child);
    }
    return true;
  }

  /// True if the node may be a target at all.
  [[nodiscard]] bool open(NodeId node, Domain within) const {
    return node != from_ && (targets_.spares || !scene_.spare(node)) && tree().within({tree().depth(), node}, within) &&
           (targets_.empty_nodes || !scene_.on(node).empty());
  }

  bool settle_alone(const Group& group, std::int32_t first, std::int32_t end, Domain within) {
    const bool plain = group.sets.size() == 1 && group.children.empty() && group.sets[0].slices.size <= 1;
    const auto pods = of(leaving_, first, end);
    if (!plain || (targets_.nearest && pods.size() > 1)) return settle_whole(group, first, end, within);
    if (pods.size() == 1 || group.required <= within.level) return settle_pods(first, pods, within);
    const auto places = domains(within, std::min(group.required, tree().depth()));
    return std::ranges::any_of(places, [&](Domain domain) { return settle_pods(first, pods, domain); });
  }
  bool settle_whole(const Group& group, std::int32_t first, std::int32_t end, Domain within) {
    gang::Request request{group, one().request.exclusive};
    const auto leaving = of(leaving_, first, end);
    std::vector<std::int32_t> counts(static_cast<std::size_t>(end - first), 0);
    for (const auto& seat : leaving) ++counts[static_cast<std::size_t>(seat.set - first)];
    std::size_t at = 0;
    fix(request.gang, counts, at);
    std::vector<NodeId> barred, opened;
    for (NodeId node = 0; node < scene_.nodes(); ++node) {
      if (open(node, within)) {
        if (scene_.spare(node)) opened.push_back(node);
      } else if (scene_.bar(node, true)) {
        barred.push_back(node);
      }
    }
    // Nodes kept for repairs are tried only if the other nodes are not enough.
    scene_.sync();
    auto found = gang::place(scene_.fleet(), request);
    QM_ASSERT(found.has_value(), "a part of a gang is no valid gang: {}", found.error().message);
    if (!found->placed() && !opened.empty()) {
      for (const auto node : opened) scene_.keep_spare(node, false);
      found = gang::place(scene_.fleet(), request);
      for (const auto node : opened) scene_.keep_spare(node, true);
    }
    for (const auto node : barred) scene_.bar(node, false);
    if (!found->placed()) return false;
    auto seats = scene_.seats_for(request, *found);
    for (std::size_t i = 0; i < seats.size(); ++i) {
      seats[i].set += first;
      seats[i].rank = leaving[i].rank;
      QM_ASSERT(seats[i].set == leaving[i].set, "seat {} is of another set", i);
      sit(seats[i]);
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
  void sit(const Seat& seat) {
    scene_.put_down(gang_, seat);
    settled_.push_back(seat);
  }

  // ---- one set ----

  bool settle_set(std::int32_t set, Domain within) {
    const auto& asked = sets_[static_cast<std::size_t>(set)];
    const auto leaving = of(leaving_, set, set + 1);
    if (leaving.empty()) return true;
    if (asked.slices.size <= 1) return settle_pods(set, leaving, within);
    // Slice by slice: next to the rest of the slice, or the whole slice into one domain.
    for (std::size_t i = 0; i < leaving.size();) {
      const auto slice = leaving[i].rank / asked.slices.size;
      std::vector<Seat> own;
      for (; i < leaving.size() && leaving[i].rank / asked.slices.size == slice; ++i) own.push_back(leaving[i]);
      const auto level = std::min(asked.slices.level, tree().depth());
      const auto rest = std::ranges::find_if(
          staying_, [&](const Seat& seat) { return seat.set == set && seat.rank / asked.slices.size == slice; });
      if (rest != staying_.end()) {
        if (!settle_pods(set, own, std::max(within, above(rest->node, level)))) return false;
        continue;
      }
      bool done = false;
      for (const auto domain : domains(within, level)) {
        if (done = settle_pods(set, own, domain); done) break;
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
    for (const auto& seat : staying_) used.insert(above(seat.node, level));
    for (std::uint32_t i = 0; i < tree().size(level); ++i) {
      if (tree().within({level, i}, within)) out.push_back({level, i});
    }
    std::ranges::stable_partition(out, [&](Domain domain) { return used.contains(domain); });
    return out;
  }

  /// The level of the deepest domain that a node shares with one of the seats.
  [[nodiscard]] Level nearness(NodeId node, const std::vector<Seat>& seats) const {
    Level best = gang::kFleet;
    for (const auto& seat : seats) {
      Level level = tree().depth();
      while (level > best && above(node, level) != above(seat.node, level)) --level;
      best = std::max(best, level);
    }
    return best;
  }

  bool settle_pods(std::int32_t set, const std::vector<Seat>& pods, Domain within) {
    const auto& asked = sets_[static_cast<std::size_t>(set)];
    gang::Kind kind{.pod = asked.pod, .gates = asked.gates, .exclusive = one().request.exclusive};
    const auto level = std::min(asked.spread.level, tree().depth());
    std::map<Domain, std::int32_t> there;  // pods of the set, for its spread
    if (asked.spread.most > 0) {
      for (const auto* seats : {&staying_, &settled_}) {
        for (const auto& seat : *seats) there[above(seat.node, level)] += seat.set == set ? 1 : 0;
      }
    }
    std::vector<Seat> neighbours;
    for (const auto& seat : staying_) {
      if (seat.set == set && (seat.rank == pods.front().rank - 1 || seat.rank == pods.back().rank + 1))
        neighbours.push_back(seat);
    }
    auto left = static_cast<std::int32_t>(pods.size());
    using Key = std::tuple<Level, Level, bool, bool, MicroUsd, std::int64_t, NodeId>;
    std::vector<std::pair<Key, std::int32_t>> order;
    const auto offer = [&](NodeId node) {
      if (!open(node, within)) return;
      const auto takes = scene_.takes(node, kind, targets_.spares);
      if (takes == 0) return;
      const auto rest = scene_.state(node).free_milli() - asked.pod.total_milli() * std::min(left, takes);
      const auto dear = targets_.dear != nullptr ? -(*targets_.dear)[node] : 0;
      const auto near = targets_.nearest ? -nearness(node, staying_) : 0;
      const auto next = targets_.nearest ? -nearness(node, neighbours) : 0;
      order.push_back({{near, next, scene_.spare(node), takes < left, dear, rest, node}, takes});
    };
    if (targets_.among != nullptr) {
      std::ranges::for_each(*targets_.among, offer);
    } else {
      for (NodeId node = 0; node < scene_.nodes(); ++node) offer(node);
    }
    std::ranges::sort(order);
    std::size_t pod = 0;
    for (const auto& [key, takes] : order) {
      const auto node = std::get<NodeId>(key);
      auto room = std::min(takes, left);
      if (asked.spread.most > 0) room = std::min(room, asked.spread.most - there[above(node, level)]);
      for (; room > 0; --room, --left, ++pod) {
        if (asked.spread.most > 0) ++there[above(node, level)];
        sit({set, pods[pod].rank, node, scene_.devices_for(node, asked.pod)});
      }
      if (left == 0) return true;
    }
    for (; pod > 0; --pod) {  // undo: the caller may try another domain
      scene_.lift(gang_, settled_.back());
      settled_.pop_back();
    }
    cramped_ = Cramped{set, static_cast<std::int32_t>(pods.size()), within};
    return false;
  }

  Scene& scene_;
  GangId gang_;
  NodeId from_;
  const Targets& targets_;
  std::vector<gang::PodSet> sets_;
  std::vector<Seat> leaving_, staying_, settled_;
  std::optional<Cramped> cramped_;
};

}  // namespace

std::optional<std::vector<Seat>> resettle(Scene& scene, GangId gang, NodeId from, const Targets& targets,
                                          std::optional<Cramped>* why) {
  Resettler resettler(scene, gang, from, targets);
  auto seats = resettler.run();
  if (why != nullptr) *why = resettler.cramped();
  return seats;
}

}  // namespace qm::placement::plan
