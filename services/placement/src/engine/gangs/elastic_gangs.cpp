// Elastic gangs: the awaited ranks, and where they may be placed.
//
// Part       where a required topology binds the gang, and first where it is preferred.
#include "engine/gangs/elastic_gangs.hpp"

#include "qm/placement/nearness.hpp"

#include <algorithm>
#include <numeric>

namespace qm::placement {

namespace {

/// Members on lost nodes are kept for billing; a gang with so many lost members does not scale up any more.
constexpr std::ptrdiff_t kMaxLost = 1024;

bool has_value(const NodeName& node, const NodeFacts& facts, const std::string& key, const std::string& value) {
  if (key == kHostname) return node.value() == value;
  const auto label = facts.labels.find(key);
  return label != facts.labels.end() && label->second == value;
}

}  // namespace

/// Ranks of a set that are placed in one request: a slice, or all awaited ones.
struct ElasticGangs::Unit {
  std::vector<std::int32_t> ranks;
  PodSet asked;                                            // with the number of these ranks
  std::vector<TopologyPart> parts;                         // tried in order; empty = anywhere
  std::vector<std::pair<std::string, std::string>> bound;  // required node labels
};

std::vector<ElasticGangs::Unit> ElasticGangs::units_of(const AttemptId& id, const Assignment& row, std::size_t set,
                                                       const std::vector<PodSet>& pod_sets) const {
  const auto& topology = pod_sets[set].topology;
  const auto size = topology.slice.empty() ? 0 : std::max(topology.slice_size, 1);
  std::map<std::int32_t, std::vector<std::int32_t>> runs;
  for (const auto rank : attempts_.awaited_ranks(id, row, set)) runs[size == 0 ? 0 : rank / size].push_back(rank);

  // Nodes that the set should be near to.
  std::vector<std::pair<NodeName, const NodeFacts*>> near;
  std::map<std::int32_t, std::pair<NodeName, const NodeFacts*>> of_run;
  std::vector<const NodeFacts*> gang_nodes;
  const PodSet* asks = nullptr;  // sets of one group follow the request of the first one
  for (std::size_t other = 0; other < pod_sets.size(); ++other) {
    const bool together = other == set || (!topology.group.empty() && pod_sets[other].topology.group == topology.group);
    if (together && asks == nullptr) asks = &pod_sets[other];
    for (const Member& member : row.members) {
      if (static_cast<std::size_t>(member.set) != other || !member.live()) continue;
      const NodeFacts& facts = tables_.nodes.find(member.node)->facts;
      gang_nodes.push_back(&facts);
      if (together) near.emplace_back(member.node, &facts);
      if (other == set && size > 0) of_run.try_emplace(member.index / size, member.node, &facts);
    }
  }

  std::vector<Unit> out;
  for (auto& [run, ranks] : runs) {
    Unit unit{std::move(ranks), pod_sets[set], {}, {}};
    unit.asked.count = static_cast<std::int32_t>(unit.ranks.size());
    unit.asked.min_count = size == 0 ? 1 : 0;
    unit.asked.topology = {};
    unit.asked.topology.exclusive = topology.exclusive;

    auto& bound = unit.bound;
    const auto value_at = [](const std::pair<NodeName, const NodeFacts*>& node, const std::string& key) {
      if (key == kHostname) return node.first.value();
      const auto label = node.second->labels.find(key);
      return label == node.second->labels.end() ? std::string() : label->second;
    };
    if (const auto there = of_run.find(run); there != of_run.end()) {
      bound.emplace_back(topology.slice, value_at(there->second, topology.slice));
    } else if (size > 0) {
      unit.asked.topology.required = topology.slice;
    }
    if (!asks->topology.required.empty()) {
      if (!near.empty()) {
        bound.emplace_back(asks->topology.required, value_at(near.front(), asks->topology.required));
      } else if (size == 0) {
        unit.asked.topology.required = asks->topology.required;
      }
    }
    const auto add = [&](const std::string& name, std::function<bool(const NodeName&, const NodeFacts&)> also) {
      unit.parts.push_back(
          {name, [bound, also = std::move(also)](const NodeName& node, const NodeFacts& facts) {
             return std::ranges::all_of(
                        bound, [&](const auto& label) { return has_value(node, facts, label.first, label.second); }) &&
                    also(node, facts);
           }});
    };
    const std::string& rather = asks->topology.preferred;
    if (!rather.empty() && !near.empty()) {
      const auto value = value_at(near.front(), rather);
      add(value, [rather, value](const NodeName& node, const NodeFacts& facts) {
        return has_value(node, facts, rather, value);
      });
    }
    if (!gang_nodes.empty() && has_fabric(*gang_nodes.front()) && unit.asked.shape.gpu.whole > 0) {
      for (const FabricDomain& domain : fabric_domains(index_.free_capacity)) {
        if (!std::ranges::all_of(gang_nodes, [&](const NodeFacts* facts) { return is_in(domain, *facts); })) continue;
        add(domain.name, [domain](const NodeName&, const NodeFacts& facts) { return is_in(domain, facts); });
      }
    }
    if (!bound.empty() || !unit.parts.empty())
      add("where the gang is", [](const NodeName&, const NodeFacts&) { return true; });
    out.push_back(std::move(unit));
    if (near.empty() && !asks->topology.required.empty()) break;  // the others follow the first one
  }
  return out;
}

bool ElasticGangs::scale_up(const WorkloadUid& uid) {
  const bool any_placed = place_awaited(uid);
  note_unplaced(uid);
  return any_placed;
}

bool ElasticGangs::place_awaited(const WorkloadUid& uid) {
  const AttemptId id{uid, tables_.workloads.find(uid)->attempt};
  Assignment next = *tables_.assignments.find(id);
  if (std::ranges::count_if(next.members, &Member::lost) >= kMaxLost) return false;
  const auto before = next.members.size();
  const PlacementRequest asked = allocator_.request_for(uid);
  if (asked.pod_sets != next.pod_sets) return false;  // the assignment was made for other sets
  const auto pod_sets = allocator_.mounted(asked).pod_sets;
  for (std::size_t set = 0; set < pod_sets.size(); ++set) {
    for (Unit& unit : units_of(id, next, set, pod_sets)) {
      PlacementRequest more{{unit.asked}, {}, asked.type, asked.pool};
      if (!asked.rules.empty()) more.rules = {asked.rules[set]};
      if (!asked.own_claims.empty()) more.own_claims = {asked.own_claims[set]};
      const auto tries = std::max<std::size_t>(unit.parts.size(), 1);
      for (std::size_t i = 0; i < tries && !unit.ranks.empty(); ++i) {
        more.pod_sets[0].count = static_cast<std::int32_t>(unit.ranks.size());
        const TopologyPart* part = unit.parts.empty() ? nullptr : &unit.parts[i];
        auto placed = allocator_.place(more, index_.free_capacity, index_.preference, &index_.lists,
                                       ResultDetail::kPlan, {nullptr, part});
        if (!placed.plan) continue;
        auto& members = placed.plan->members;
        for (std::size_t at = 0; at < members.size(); ++at) {
          members[at].set = static_cast<std::int32_t>(set);
          members[at].index = unit.ranks[at];
          next.members.push_back(std::move(members[at]));
        }
        unit.ranks.erase(unit.ranks.begin(), unit.ranks.begin() + std::ssize(members));
      }
    }
  }
  if (next.members.size() == before) return false;
  rows_.store(id, std::move(next));
  rows_.reserve_places(id, std::span(tables_.assignments.find(id)->members).subspan(before));
  return true;
}

/// The awaited ranks that are left go on the demand list.
void ElasticGangs::note_unplaced(const WorkloadUid& uid) {
  const Workload& workload = *tables_.workloads.find(uid);
  const AttemptId id{uid, workload.attempt};
  const Assignment& row = *tables_.assignments.find(id);
  UnplacedPods next;
  for (std::size_t set = 0; set < row.pod_sets.size(); ++set) {
    next.by_set.push_back(static_cast<std::int32_t>(attempts_.awaited_ranks(id, row, set).size()));
  }
  if (std::ranges::all_of(next.by_set, [](auto pods) { return pods == 0; })) next.by_set.clear();
  if (next.by_set == workload.unplaced.by_set) return;
  if (!next.by_set.empty()) next.since = workload.unplaced.by_set.empty() ? scratch_.now : workload.unplaced.since;
  tables_.workloads.edit(uid).unplaced = std::move(next);
  rows_.index_workload(uid);
  scratch_.demand = true;
}

std::vector<PodSet> ElasticGangs::unplaced_pods(const WorkloadUid& uid) const {
  const AttemptId id{uid, tables_.workloads.find(uid)->attempt};
  const Assignment& row = *tables_.assignments.find(id);
  std::vector<PodSet> out;
  for (std::size_t set = 0; set < row.pod_sets.size(); ++set) {
    for (Unit& unit : units_of(id, row, set, row.pod_sets)) {
      unit.asked.min_count = 0;
      for (auto& label : unit.bound) unit.asked.shape.node_selector.insert(std::move(label));
      out.push_back(std::move(unit.asked));
    }
  }
  return out;
}

}  // namespace qm::placement
