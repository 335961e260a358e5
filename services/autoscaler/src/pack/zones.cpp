#include "zones.hpp"

#include "groups.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace qm::autoscaler::pack {
namespace {

constexpr const char* kNoAffinity = "no zone has both room for the pod and the pods of its pod affinity";
constexpr std::size_t kNoPod = std::numeric_limits<std::size_t>::max();

struct ZoneSpread {
  std::uint32_t group = 0;
  std::int64_t skew = 1;
};

/// The zone constraints of pods that are equal in them.
struct Rules {
  std::vector<ZoneSpread> spread;
  std::vector<std::uint32_t> affinity, anti;
  [[nodiscard]] bool any() const { return !spread.empty() || !affinity.empty() || !anti.empty(); }
};

struct Group {
  std::size_t last_spread = 0;  // one more than the index of the last pod that spreads over the group
  std::size_t first_affine = kNoPod;
  bool repels = false;
  ZoneSet homes = ~ZoneSet{0};                                // zones that suit every pod that is attracted
  std::size_t first_member = kNoPod, second_member = kNoPod;  // of those that have a home
  std::vector<std::int64_t> members, repelling;
  std::int64_t total = 0;
  std::int32_t zone = ZoneChoice::kAnyZone;  // of the pods that are attracted
  bool awaits_member = false;                // an attracted pod has a zone already, and no other member is in it yet
};

ZoneSet bit(std::size_t zone) { return ZoneSet{1} << zone; }

class Chooser {
 public:
  /// `refused` pods are ignored.
  Chooser(const std::vector<ZonedPod>& pods, const std::vector<ZonedShape>& shapes, std::size_t zones,
          const std::vector<bool>& refused)
      : pods_(pods),
        shapes_(shapes),
        zones_(zones),
        refused_(refused),
        level_(shapes.size(), std::vector<std::int64_t>(zones, 0)),
        total_(zones, 0) {
    std::map<std::string, std::uint32_t> known;
    for (const auto& one : pods) rules_of_.push_back(rules_of(*one.pod, known));
    std::uint32_t label_sets = 0;
    for (const auto& one : pods) label_sets = std::max(label_sets, one.labels + 1);
    member_of_.resize(label_sets);
    std::vector<bool> done(label_sets, false);
    for (const auto& one : pods) {
      if (!done[one.labels]) member_of_[one.labels] = selectors_.of(*one.pod);
      done[one.labels] = true;
    }
    groups_.resize(selectors_.size());
    for (auto& group : groups_) group.members.assign(zones, 0), group.repelling.assign(zones, 0);
    for (std::size_t i = 0; i < pods.size(); ++i) {
      if (!refused[i]) note(i);
    }
  }

  std::vector<ZoneChoice> run() {
    std::vector<ZoneChoice> out(pods_.size());
    if (groups_.empty()) return out;
    for (std::size_t i = 0; i < pods_.size(); ++i) {
      if (!refused_[i] && coupled(i)) out[i] = place(i);
    }
    return out;
  }

  /// Whether the pod was placed before any pod that its affinity requires, and none has joined it since.
  [[nodiscard]] bool alone(std::size_t i) const {
    return std::ranges::any_of(rules_[rules_of_[i]].affinity, [&](const auto number) {
      const Group& group = groups_[number];
      return group.awaits_member && (group.total > 1 || !is_member(i, number));
    });
  }

 private:
  std::uint32_t rules_of(const Pod& pod, std::map<std::string, std::uint32_t>& known) {
    if (rules_.empty()) rules_.emplace_back(), known.emplace("", 0);
    std::string key;
    const auto in_zone = [](const auto& term) { return term.topology_key == kZoneLabel; };
    for (const auto& one : pod.spread) {
      if (in_zone(one) && one.required) append_key(key += 's', one.pods), append_key(key, std::to_string(one.max_skew));
    }
    for (const auto& one : pod.affinity) {
      if (in_zone(one)) append_key(key += 'a', one.pods);
    }
    for (const auto& one : pod.anti_affinity) {
      if (in_zone(one)) append_key(key += 'n', one.pods);
    }
    if (key.empty()) return 0;
    append_key(key, pod.name_space);
    const auto [found, fresh] = known.emplace(std::move(key), static_cast<std::uint32_t>(rules_.size()));
    if (!fresh) return found->second;
    Rules rules;
    for (const auto& one : pod.spread) {
      if (in_zone(one) && one.required)
        rules.spread.push_back({selectors_.add(pod.name_space, one.pods), one.max_skew});
    }
    for (const auto& one : pod.affinity) {
      if (in_zone(one)) rules.affinity.push_back(selectors_.add(pod.name_space, one.pods));
    }
    for (const auto& one : pod.anti_affinity) {
      if (in_zone(one)) rules.anti.push_back(selectors_.add(pod.name_space, one.pods));
    }
    rules_.push_back(std::move(rules));
    return found->second;
  }

  void note(std::size_t i) {
    const Rules& rules = rules_[rules_of_[i]];
    for (const auto& one : rules.spread) groups_[one.group].last_spread = i + 1;
    for (const auto group : rules.affinity) {
      groups_[group].first_affine = std::min(groups_[group].first_affine, i);
      groups_[group].homes &= shapes_[pods_[i].shape].homes;
    }
    for (const auto group : rules.anti) groups_[group].repels = true;
    if (shapes_[pods_[i].shape].homes == 0) return;
    for (const auto number : memberships(i)) {
      Group& group = groups_[number];
      if (group.first_member == kNoPod) {
        group.first_member = i;
      } else if (group.second_member == kNoPod) {
        group.second_member = i;
      }
    }
  }

  [[nodiscard]] const std::vector<std::uint32_t>& memberships(std::size_t i) const {
    return member_of_[pods_[i].labels];
  }

  /// Whether the zone of the pod matters to a constraint.
  [[nodiscard]] bool coupled(std::size_t i) const {
    if (rules_[rules_of_[i]].any()) return true;
    return std::ranges::any_of(memberships(i), [&](const auto number) {
      const Group& group = groups_[number];
      return group.last_spread > i || group.repels || group.awaits_member ||
             (group.first_affine != kNoPod && group.first_affine > i);
    });
  }

  [[nodiscard]] bool is_member(std::size_t i, std::uint32_t group) const {
    return std::ranges::binary_search(memberships(i), group);
  }

  [[nodiscard]] ZoneSet attracted(std::size_t i, ZoneSet allowed) const {
    for (const auto number : rules_[rules_of_[i]].affinity) {
      const Group& group = groups_[number];
      if (group.zone >= 0) {
        allowed &= bit(static_cast<std::size_t>(group.zone));
        continue;
      }
      const std::size_t other = group.first_member == i ? group.second_member : group.first_member;
      if (other == kNoPod && group.first_member == i) continue;  // its affinity requires no pod but itself
      if (other == kNoPod) return 0;
      if (group.total == 0) allowed &= shapes_[pods_[other].shape].homes;
      for (std::size_t z = 0; z < zones_ && group.total > 0; ++z) {
        if (group.members[z] == 0) allowed &= ~bit(z);
      }
      if ((allowed & group.homes) != 0) allowed &= group.homes;
    }
    for (const auto number : memberships(i)) {
      const Group& group = groups_[number];
      if (group.awaits_member && (allowed & bit(static_cast<std::size_t>(group.zone))) != 0) {
        allowed &= bit(static_cast<std::size_t>(group.zone));
      }
    }
    return allowed;
  }

  [[nodiscard]] ZoneSet not_repelled(std::size_t i, ZoneSet allowed) const {
    for (std::size_t z = 0; z < zones_; ++z) {
      for (const auto number : rules_[rules_of_[i]].anti) {
        if (groups_[number].members[z] > 0) allowed &= ~bit(z);
      }
      for (const auto number : memberships(i)) {
        if (groups_[number].repelling[z] > 0) allowed &= ~bit(z);
      }
    }
    return allowed;
  }

  [[nodiscard]] ZoneSet level(std::size_t i, ZoneSet allowed) const {
    const ZoneSet counted = shapes_[pods_[i].shape].admitted;
    for (const auto& one : rules_[rules_of_[i]].spread) {
      const auto& members = groups_[one.group].members;
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (std::size_t z = 0; z < zones_; ++z) {
        if ((counted & bit(z)) != 0) least = std::min(least, members[z]);
      }
      const std::int64_t self = is_member(i, one.group) ? 1 : 0;
      for (std::size_t z = 0; z < zones_; ++z) {
        if (members[z] + self - least > one.skew) allowed &= ~bit(z);
      }
    }
    return allowed;
  }

  ZoneChoice place(std::size_t i) {
    const ZonedShape& shape = shapes_[pods_[i].shape];
    const ZoneSet near = attracted(i, shape.homes);
    if (near == 0) return {ZoneChoice::kNoZone, kNoAffinity};
    const ZoneSet apart = not_repelled(i, near);
    if (apart == 0) return {ZoneChoice::kNoZone, "every zone with room for the pod has pods of a zone anti-affinity"};
    const ZoneSet allowed = level(i, apart);
    if (allowed == 0) {
      return {ZoneChoice::kNoZone, "every zone with room for the pod would exceed maxSkew of its topology spread"};
    }
    using Rank = std::tuple<double, std::int64_t, std::int64_t, std::int64_t>;
    std::size_t best = zones_;
    Rank least;
    for (std::size_t z = 0; z < zones_; ++z) {
      if ((allowed & bit(z)) == 0) continue;
      std::int64_t counted = 0;
      for (const auto number : memberships(i)) {
        if (groups_[number].last_spread > i) counted += groups_[number].members[z];
      }
      const Rank rank{shape.price[z], counted, level_[pods_[i].shape][z], total_[z]};
      if (best == zones_ || rank < least) best = z, least = rank;
    }
    book(i, best);
    return {static_cast<std::int32_t>(best), {}};
  }

  void book(std::size_t i, std::size_t zone) {
    for (const auto number : memberships(i)) {
      Group& group = groups_[number];
      ++group.members[zone];
      ++group.total;
      if (group.zone == static_cast<std::int32_t>(zone)) group.awaits_member = false;
    }
    for (const auto number : rules_[rules_of_[i]].affinity) {
      Group& group = groups_[number];
      group.zone = static_cast<std::int32_t>(zone);
      group.awaits_member = group.members[zone] == (is_member(i, number) ? 1 : 0);
    }
    for (const auto number : rules_[rules_of_[i]].anti) ++groups_[number].repelling[zone];
    ++level_[pods_[i].shape][zone];
    ++total_[zone];
  }

  const std::vector<ZonedPod>& pods_;
  const std::vector<ZonedShape>& shapes_;
  std::size_t zones_;
  const std::vector<bool>& refused_;
  SelectorGroups selectors_;
  std::vector<Rules> rules_;  // [0] is without constraints
  std::vector<std::uint32_t> rules_of_;
  std::vector<std::vector<std::uint32_t>> member_of_;  // by label set
  std::vector<Group> groups_;
  std::vector<std::vector<std::int64_t>> level_;  // pods of each shape by zone
  std::vector<std::int64_t> total_;
};

}  // namespace

std::vector<ZoneChoice> choose_zones(const std::vector<ZonedPod>& pods, const std::vector<ZonedShape>& shapes,
                                     std::size_t zones) {
  // A pod that is refused after it was placed has taken part in the choices for later pods: these are made again.
  std::vector<ZoneChoice> reasons(pods.size());
  std::vector<bool> refused(pods.size(), false);
  while (true) {
    Chooser chooser(pods, shapes, zones, refused);
    auto out = chooser.run();
    bool late = false;
    for (std::size_t i = 0; i < pods.size(); ++i) {
      if (out[i].zone >= 0 && chooser.alone(i)) out[i] = {ZoneChoice::kNoZone, kNoAffinity}, late = true;
      if (refused[i]) out[i] = reasons[i];
      refused[i] = out[i].zone == ZoneChoice::kNoZone;
    }
    if (!late) return out;
    reasons = std::move(out);
  }
}

ZoneSet admitted_zones(const Pod& pod, const std::vector<std::string>& zones) {
  const std::string key(kZoneLabel);
  ZoneSet out = 0;
  for (std::size_t z = 0; z < zones.size(); ++z) {
    const auto selected = pod.node_selector.find(key);
    if (selected != pod.node_selector.end() && selected->second != zones[z]) continue;
    const auto allows = [&](const NodeTerm& term) {
      return std::ranges::all_of(term, [&](const auto& one) { return one.key != key || holds(one, &zones[z]); });
    };
    if (pod.required.empty() || std::ranges::any_of(pod.required, allows)) out |= bit(z);
  }
  return out;
}

}  // namespace qm::autoscaler::pack
