// Gangs with a topology request: the nodes become a fleet of the gang library, and its answer becomes
// members.
#include "qm/placement/topology_placement.hpp"

#include "engine/allocator/gang_request_builder.hpp"
#include "qm/base/assert.hpp"
#include "qm/placement/preference.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace qm::placement {
namespace {

/// A node that fits fewer pods than the library counts, for resources that it does not know, is excluded;
/// maximum number of such rounds.
constexpr int kMaxRounds = 32;
constexpr std::int64_t kWholeNode = std::int64_t{1} << 40;

std::vector<PodSet> without_topology(std::vector<PodSet> pod_sets) {
  for (PodSet& set : pod_sets) set.topology = {};
  return pod_sets;
}

class TopologyQuery {
 public:
  TopologyQuery(const std::vector<PodSet>& pod_sets, const FreeCapacity& free_capacity, const Preference& preference,
                const TopologyLevels& levels, const InterPodConstraints* constraints)
      : asked_(pod_sets, levels), fleet_(levels, preference.policy()) {
    for (const auto& [name, capacity] : free_capacity) {
      auto state = preference.state_of(capacity);
      if (constraints != nullptr && pod_sets.size() == 1)
        state.pods = static_cast<std::int32_t>(std::min<std::int64_t>(state.pods, constraints->most(0, name)));
      const auto node = fleet_.add(asked_.path(name, capacity), name.value(), state);
      names_.push_back(&name);
      fleet_.set_gate(node, asked_.gate(name, capacity, constraints));
    }
  }

  /// Translates the gang for the library; fails if it names an unknown level.
  Status read() { return asked_.read(fleet_.tree()); }
  [[nodiscard]] gang::Answer ask() { return gang::place(fleet_, asked_.request()).value(); }
  void leave_out(gang::NodeId node) { fleet_.remove(node); }

  [[nodiscard]] const gang::Tree& tree() const { return fleet_.tree(); }
  [[nodiscard]] const NodeName& name(gang::NodeId node) const { return *names_[node]; }
  [[nodiscard]] std::size_t position(std::int32_t set) const { return asked_.position(set); }
  [[nodiscard]] const std::vector<std::size_t>& positions(std::int32_t group) const { return asked_.positions(group); }
  [[nodiscard]] std::string level_name(gang::Level level) const {
    if (level == gang::kFleet) return "fleet";
    return level == tree().depth() ? std::string(kHostname) : tree().name(level);
  }

 private:
  GangRequestBuilder asked_;
  gang::Fleet fleet_;
  std::vector<const NodeName*> names_;  // by number
};

PlacementResult short_of(const TopologyQuery& query, const std::vector<PodSet>& pod_sets, const gang::Answer& answer) {
  std::int64_t pods = 0;
  for (const PodSet& set : pod_sets) pods += minimum_of(set);
  return {std::nullopt,
          {fmt::format(
              "{} pods fit, but not {}: {}", pods,
              is_exclusive(pod_sets) ? "in the requested topology on exclusive nodes" : "in the requested topology",
              gang::explain(query.tree(), answer))}};
}

}  // namespace

bool has_topology(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets, [](const PodSet& set) { return !set.topology.none(); });
}

PlacementResult place_in_topology(const std::vector<PodSet>& pod_sets, FreeCapacity& free_capacity,
                                  const Preference& preference, const TopologyLevels& levels,
                                  InterPodConstraints* constraints, ResultDetail wanted) {
  TopologyQuery query(pod_sets, free_capacity, preference, levels, constraints);
  if (const auto read = query.read(); !read) {
    return {std::nullopt, {fmt::format("{}; {}", read.error().message, read.error().remedy)}};
  }
  for (int round = 0; round < kMaxRounds; ++round) {
    const auto answer = query.ask();
    if (!answer.placed()) {
      if (wanted != ResultDetail::kReason) return {};
      FreeCapacity tried = free_capacity;
      auto anywhere = place_gang(without_topology(pod_sets), tried, preference, constraints);
      return anywhere.plan ? short_of(query, pod_sets, answer) : std::move(anywhere);
    }
    Plan plan;
    std::map<NodeName, NodeCapacity> used;
    std::map<gang::NodeId, std::int64_t> part;  // used fraction of each node's limit by `constraints`
    std::optional<gang::NodeId> full;
    for (const auto& [set, rank, node, device] : answer.members) {
      const auto position = query.position(set);
      const NodeName& name = query.name(node);
      NodeCapacity& capacity = used.try_emplace(name, free_capacity.at(name)).first->second;
      const auto most = constraints == nullptr ? kAnyNumber : constraints->most(position, name);
      if (most < kAnyNumber) part[node] += kWholeNode / std::max<std::int64_t>(most, 1);
      if (most < 1 || part[node] > kWholeNode || pods_that_fit(capacity, pod_sets[position].shape) == 0) {
        full = node;
        break;
      }
      Member member;
      member.set = static_cast<std::int32_t>(position);
      member.index = rank;
      member.node = name;
      member.devices = preference.take(capacity, name, pod_sets[position].shape);
      plan.members.push_back(std::move(member));
    }
    if (full) {
      query.leave_out(*full);
      continue;
    }
    std::ranges::sort(plan.members, [](const Member& a, const Member& b) {
      return std::tie(a.set, a.index) < std::tie(b.set, b.index);
    });
    for (const Member& member : plan.members) {
      if (constraints == nullptr) break;
      const auto set = static_cast<std::size_t>(member.set);
      if (const auto why = constraints->rejects(set, member.node, free_capacity.at(member.node)); !why.empty()) {
        return {std::nullopt,
                {fmt::format("in the requested topology, pod {} of {} would be placed on node {}, which {}",
                             member.index, pod_sets[set].name, member.node, why)}};
      }
      constraints->take(set, member.node);
    }
    if (wanted == ResultDetail::kWhether) return {Plan{}, {}};
    for (auto& [name, capacity] : used) free_capacity[name] = std::move(capacity);
    return {std::move(plan), {}};
  }
  return {std::nullopt, {fmt::format("{} searches found nodes that lack another resource", kMaxRounds)}};
}

Diagnosis diagnose_topology(const std::vector<PodSet>& pod_sets, const FreeCapacity& free_capacity,
                            const Preference& preference, const TopologyLevels& levels) {
  TopologyQuery query(pod_sets, free_capacity, preference, levels, nullptr);
  Diagnosis out;
  if (const auto read = query.read(); !read) {
    out.conflict = {fmt::format("{}; {}", read.error().message, read.error().remedy)};
    return out;
  }
  const auto answer = query.ask();
  if (answer.placed()) return out;
  const auto set = answer.shortfall && answer.shortfall->set >= 0 ? query.position(answer.shortfall->set) : 0;
  out.pod_set = pod_sets[set].name;
  out.conflict = {gang::explain(query.tree(), {.exact = answer.exact, .shortfall = answer.shortfall})};
  for (const auto& [what, of, level, count] : answer.relaxations) {
    if (what == gang::Relaxation::What::kWider) {
      const auto& wider = query.level_name(level);
      const auto group = query.positions(of);
      out.remedies.push_back(
          {fmt::format("with one {} instead of one {}", wider, pod_sets[group.front()].topology.required),
           [group, key = level == gang::kFleet ? std::string() : wider](PlacementRequest& changed) {
             for (const auto position : group) changed.pod_sets[position].topology.required = key;
           }});
    } else if (what == gang::Relaxation::What::kFewer) {
      const auto position = query.position(of);
      out.remedies.push_back(
          {fmt::format("with {} pods instead of {}", count, pod_sets[position].count),
           [position, pods = count](PlacementRequest& changed) { changed.pod_sets[position].count = pods; }});
    }
  }
  return out;
}

}  // namespace qm::placement
