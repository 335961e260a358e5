// Topology: whole searches for assignments and their parts, each on the recorded states.
#include "qm/admission/kueue/topology_objects.hpp"
#include "qm/topology/assign.hpp"
#include "qm/topology/balanced.hpp"
#include "vectors.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace qm::admission::vectors {
namespace {

using namespace topology;
using kueue::node_constraints, kueue::replacement_of, kueue::topology_assignment, kueue::topology_node,
    kueue::topology_request, kueue::topology_requests;

// ---- reading ----

std::vector<std::string> strings_of(const Json& json) {
  std::vector<std::string> out;
  for (const auto& item : json.items()) out.push_back(item.string());
  return out;
}

Labels labels_of(const Json& json) {
  Labels out;
  for (const auto& [key, value] : json.members()) out[key] = value.string();
  return out;
}

PodSetRequest pod_set_of(ResourceNames& names, const Json& json) {
  PodSetRequest out;
  out.name = json["podSetName"].string();
  out.count = json["count"].integer();
  out.per_pod = topology_requests(names, json["requests"]);
  if (!json["topologyRequest"].is_null())
    out.topology = topology_request(json["topologyRequest"]).value_or(TopologyRequest{});
  out.implied = !out.topology;
  if (json.contains("podSetGroupName")) out.group = json["podSetGroupName"].string();
  out.rules = node_constraints(json["nodeSelector"], json["tolerations"], json["nodeAffinity"]);
  if (!json["previousAssignment"].is_null()) out.previous = topology_assignment(json["previousAssignment"]);
  return out;
}

// ---- printing ----

std::string text_of(const Assignment& assignment) {
  std::vector<std::string> domains;
  for (const auto& d : assignment.domains) domains.push_back(fmt::format("{}:{}", fmt::join(d.values, ","), d.count));
  return fmt::format("[{}] {}", fmt::join(assignment.levels, ","), fmt::join(domains, " "));
}

template <class T>
std::string compare(std::string_view what, const T& seen, const T& recorded) {
  return seen == recorded ? "" : fmt::format("{} {} where {} was recorded", what, seen, recorded);
}
std::string compare(std::string_view what, const Assignment& seen, const Json& recorded) {
  return compare(what, text_of(seen), text_of(topology_assignment(recorded)));
}
std::string compare_lists(std::string_view what, const std::vector<std::string>& seen, const Json& recorded) {
  return compare(what, fmt::format("{}", fmt::join(seen, " ")),
                 fmt::format("{}", fmt::join(strings_of(recorded), " ")));
}

// ---- whole searches ----

bool is_over(const Json& pod) {
  const auto& phase = pod.path("status.phase").string();
  return phase == "Failed" || phase == "Succeeded";
}

/// Pods on the nodes that were not placed by topology.
void take_pods(ResourceNames& names, Topology& topology, const Json& pods) {
  for (const auto& pod : pods.items()) {
    const DomainId leaf = topology.leaf_of_node(pod.path("spec.nodeName").string());
    if (leaf == kNoDomain || is_over(pod)) continue;
    Requests asked;
    for (const auto& c : pod.path("spec.containers").items())
      add(asked, topology_requests(names, c.path("resources.requests")));
    topology.take_outside(leaf, usage_of(asked, 1));
  }
}

void take_usage(ResourceNames& names, Topology& topology, const Json& usage) {
  for (const auto& u : usage.items()) {
    const DomainId leaf = topology.tree().find_leaf(strings_of(u["values"]));
    if (leaf == kNoDomain) continue;
    topology.take(leaf, usage_of(topology_requests(names, u["singlePodRequests"]), u["count"].integer()));
  }
}

/// Usage by other flavors of hosts that this flavor has too; leaves other than hosts belong to one flavor. For a host
/// with both kinds of usage, that of pods counts.
void take_shared(ResourceNames& names, Topology& topology, const Json& input) {
  if (!topology.tree().leaves_are_hosts()) return;
  std::map<DomainId, Requests> shared, pods;
  for (const auto& [host, usage] : input["aggregatedDomainUsages"].members()) {
    const std::vector<std::string> values{host};
    shared[topology.tree().find_leaf(values)] = topology_requests(names, usage);
  }
  for (const auto& u : input["priorFlavorUsage"].items()) {
    add(pods[topology.tree().find_leaf(strings_of(u["values"]))],
        usage_of(topology_requests(names, u["singlePodRequests"]), u["count"].integer()));
  }
  for (const auto& [leaf, usage] : pods) shared[leaf] = usage;
  for (const auto& [leaf, usage] : shared) {
    if (leaf != kNoDomain) topology.take(leaf, usage);
  }
}

std::string compare_pod_set(const std::vector<PodSetResult>& results, const std::string& name, const Json& want) {
  const auto it = std::ranges::find(results, name, &PodSetResult::pod_set);
  const PodSetResult seen = it == results.end() ? PodSetResult{} : *it;
  if (auto out = compare("reason", seen.reason, want["wantReason"].string()); !out.empty()) return out;
  const auto& recorded = want["wantAssignment"];
  if (recorded.is_null() != !seen.assignment) {
    return fmt::format("pod set \"{}\" has {} where {} was recorded", name,
                       seen.assignment ? text_of(*seen.assignment) : "nothing", recorded.dump());
  }
  return seen.assignment ? compare("assignment", *seen.assignment, recorded) : "";
}

std::string replay_search(const Json& record) {
  const auto& input = record["input"];
  ResourceNames names;
  std::vector<Node> nodes;
  for (const auto& n : input["nodes"].items()) nodes.push_back(topology_node(names, n));
  const Flavor flavor{"default", strings_of(input["levels"]), labels_of(input["nodeLabels"]),
                      node_constraints({}, input["tolerations"], {}).tolerations};
  std::vector<PodSetRequest> pod_sets;
  for (Json p : input["podSets"].items()) {
    auto& asked = p.set("topologyRequest");
    if (asked.is_object() && !gate(record, "TASMultiLayerTopology")) {
      asked.erase("podsetSliceRequiredTopologyConstraints");
    }
    pod_sets.push_back(pod_set_of(names, p));
  }
  Topology topology(names, flavor, nodes);
  take_pods(names, topology, input["pods"]);
  take_usage(names, topology, input["priorOwnUsage"]);

  if (gate(record, "TASHandleOverlappingFlavors")) take_shared(names, topology, input);
  AssignOptions options;
  const auto replacement = replacement_of(input["workload"], gate(record, "SkipReassignmentForPodOwnedWorkloads"));
  if (replacement) options.replacement = &*replacement;
  Search search(topology, topology_gates(record));
  const auto results = assign(search, pod_sets, options);

  const auto& expected = record["expected"];
  if (!expected.contains("podSets")) return compare_pod_set(results, pod_sets.front().name, expected);
  for (const auto& want : expected["podSets"].items()) {
    if (auto out = compare_pod_set(results, want["podSetName"].string(), want); !out.empty()) return out;
  }
  return "";
}

// ---- parts, on domains with given counts ----

Counts counts_of(const Json& json) {
  return {.pods = json["podCount"].integer(),
          .slices = json["sliceCount"].integer(),
          .pods_with_leader = json["podCountWithLeader"].integer(),
          .slices_with_leader = json["sliceCountWithLeader"].integer(),
          .leaders = json["leaderCount"].integer(),
          .affinity = json["affinityScore"].integer()};
}

/// A tree of recorded domains. Where the record has no position of a domain, it follows from the order of the list.
class Fixture {
 public:
  using Path = std::vector<std::string>;

  Fixture(const Json& levels, const Json& domains, Path above = {}) : tree_({"level"}, {}) {
    for (std::size_t i = 0; i < domains.size(); ++i) read(domains.at(i), above, i, true);
    // Where domains are listed one by one, the values of a domain name those that contain it.
    std::erase_if(leaves_, [all = leaves_](const Path& path) {
      return std::ranges::any_of(all, [&](const Path& other) {
        return other.size() > path.size() && std::equal(path.begin(), path.end(), other.begin());
      });
    });
    std::size_t depth = 1;
    for (const auto& leaf : leaves_) depth = std::max(depth, leaf.size());
    for (auto& leaf : leaves_) leaf.resize(depth);
    auto keys = strings_of(levels);
    for (std::size_t i = keys.size(); i < depth; ++i) keys.push_back(fmt::format("level-{}", i));
    keys.resize(depth);
    tree_ = Tree(keys, leaves_);
    state_.resize(static_cast<std::size_t>(tree_.size()));
    for (DomainId d = 0; d < tree_.size(); ++d) at_[tree_.values(d)] = d;
    for (const auto& row : rows_) {
      const DomainId d = at_.at(row.path);
      state_[static_cast<std::size_t>(d)] = row.counts;
      ids_[d] = row.id;
      if (row.given) given_.push_back(d);
    }
  }

  [[nodiscard]] const Tree& tree() const { return tree_; }
  [[nodiscard]] State& state() { return state_; }
  [[nodiscard]] const std::vector<DomainId>& given() const { return given_; }
  [[nodiscard]] std::vector<std::string> ids(const std::vector<DomainId>& domains) const {
    std::vector<std::string> out;
    for (const DomainId d : domains) out.push_back(ids_.at(d));
    return out;
  }
  [[nodiscard]] const Counts& counts(const std::string& id) const {
    const auto it = std::ranges::find_if(ids_, [&](const auto& entry) { return entry.second == id; });
    return state_[static_cast<std::size_t>(it == ids_.end() ? 0 : it->first)];
  }

 private:
  struct Row {
    Path path;
    std::string id;
    Counts counts;
    bool given = false;
  };

  void read(const Json& json, const Path& above, std::size_t index, bool given) {
    const Json& domain = json.contains("domain") ? json["domain"] : json;
    const auto id = domain["id"].string();
    Path path = strings_of(domain["levelValues"]);
    if (path.empty()) {
      path = above;
      path.push_back(id.empty() ? std::to_string(index) : id);
    }
    rows_.push_back({path, id, counts_of(json.contains("state") ? json["state"] : json), given});
    const auto& children = domain["children"];
    for (std::size_t i = 0; i < children.size(); ++i) read(children.at(i), path, i, false);
    if (children.size() == 0) leaves_.push_back(path);
  }

  Tree tree_;
  State state_;
  std::vector<Row> rows_;
  std::vector<Path> leaves_;
  std::map<Path, DomainId> at_;
  std::map<DomainId, std::string> ids_;
  std::vector<DomainId> given_;
};

Ordering ordering_of(const Json& record) {
  const auto& input = record["input"];
  const Gates gates = topology_gates(record);
  return {.least_free = input["unconstrained"].boolean() && gates.profile_mixed,
          .affinity = gates.preferred_affinity || input["enableTASPreferredSchedulingAffinity"].boolean()};
}

Load load_of(const Json& input, std::string_view slices) {
  return {.slices = input[slices].integer(),
          .leaders = input["leaderCount"].integer(),
          .slice_size = input["sliceSize"].integer()};
}

std::string replay_order(const Json& record, bool with_leader) {
  Fixture f(record["input"]["levels"], record["input"]["domains"]);
  const auto ordering = ordering_of(record);
  const auto seen =
      with_leader ? sorted_with_leader(f.state(), f.given(), ordering) : sorted(f.state(), f.given(), ordering);
  return compare_lists("order", f.ids(seen), record["expected"]["wantOrder"]);
}

std::string replay_level_values(const Json& record) {
  const auto& input = record["input"];
  const Fixture f(input["levels"], Json::array({input["a"], input["b"]}));
  const DomainId a = f.given().front(), b = f.given().back();
  return compare<std::int64_t>("comparison", a < b ? -1 : a > b ? 1 : 0, record["expected"]["want"].integer());
}

std::string replay_evenness(const Json& record) {
  Fixture f(Json(), record["input"]["domains"]);
  return compare_lists("order", f.ids(sorted_by_evenness(f.tree(), f.state(), f.given())), record["expected"]["want"]);
}

std::string replay_fewest(const Json& record) {
  const auto& input = record["input"];
  Fixture f(input["levels"], input["domains"]);
  const auto seen = fewest_that_fit(f.tree(), f.state(), f.given(), load_of(input, "workerCount"),
                                    input["prioritizeByEntropy"].boolean(), false);
  const auto& expected = record["expected"];
  return compare_lists("domains", f.ids(seen), expected.contains("want") ? expected["want"] : expected["wantResult"]);
}

std::string compare_counts(const std::string& id, const Counts& seen, const Json& recorded) {
  const Counts want = counts_of(recorded);
  if (seen == want) return "";
  return fmt::format("{} has {} pods, {} slices, with leader {} and {}, {} leaders where {} was recorded", id,
                     seen.pods, seen.slices, seen.pods_with_leader, seen.slices_with_leader, seen.leaders,
                     recorded.dump());
}

std::string replay_share(const Json& record) {
  const auto& input = record["input"];
  Fixture f(input["levels"], input["domains"]);
  const auto seen =
      share_evenly(f.tree(), f.state(), f.given(), load_of(input, "sliceCount"), input["threshold"].integer(), false);
  const auto& want = record["expected"]["want"];
  if (auto out = compare("number of domains", seen.size(), want.size()); !out.empty()) return out;
  const auto ids = f.ids(seen);
  for (const auto& [id, counts] : want.members()) {
    if (std::ranges::find(ids, id) == ids.end()) return fmt::format("{} is not chosen", id);
    if (auto out = compare_counts(id, f.counts(id), counts); !out.empty()) return out;
  }
  return "";
}

std::string replay_siblings(const Json& record) {
  const auto& input = record["input"];
  const auto& params = input["params"];
  Fixture f(input["levels"], input["domains"]);
  const SliceShape slices{
      .size = params["sliceSize"].integer(), .level = static_cast<int>(params["sliceLevelIdx"].integer()), .inner = {}};
  const Load load{.slices = params["count"].integer() / std::max<Pods>(1, slices.size),
                  .leaders = params["leaderCount"].integer(),
                  .slice_size = slices.size};
  const auto level = static_cast<int>(params["requestedLevelIdx"].integer());
  const auto seen =
      choose_siblings(f.tree(), f.state(), level, load, slices, topology_gates(record).preferred_affinity);
  const auto& expected = record["expected"];
  if (auto out = compare<Pods>("threshold", seen ? seen->threshold : 0, expected["wantThreshold"].integer());
      !out.empty())
    return out;
  return compare<Pods>("domains", seen ? seen->siblings.size() : 0, expected["wantDomainsCount"].integer());
}

std::string replay_prune(const Json& record) {
  const auto& input = record["input"];
  const auto level = static_cast<std::size_t>(input["level"].integer());
  Fixture f(Json(), input["domains"], Fixture::Path(level));
  const auto [least, most] = std::ranges::minmax(f.given());
  const SliceShape slices{
      .size = input["sliceSize"].integer(), .level = static_cast<int>(input["sliceLevelIdx"].integer()), .inner = {}};
  prune_below(f.tree(), f.state(), {least, most + 1}, input["threshold"].integer(), slices,
              input["leaderRequired"].boolean());
  for (const auto& [name, want] : record["expected"]["want"].members()) {
    const Counts& c = f.counts(input["domainsByName"][name]["id"].string());
    const std::vector<Pods> seen{c.pods, c.slices, c.pods_with_leader, c.slices_with_leader, c.leaders};
    std::vector<Pods> recorded;
    for (const auto& n : want.items()) recorded.push_back(n.integer());
    if (seen != recorded) {
      return fmt::format("{} has {} where {} was recorded", name, fmt::join(seen, " "), fmt::join(recorded, " "));
    }
  }
  return "";
}

// ---- parts, on assignments ----

/// A tree that only has the domains of the given assignments.
Tree tree_of(const std::vector<std::string>& levels, const std::vector<Assignment>& assignments) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& assignment : assignments) {
    for (const auto& domain : assignment.domains) rows.push_back(domain.values);
  }
  return Tree(levels, rows);
}

std::string replay_has_level(const Json& record) {
  const Tree tree(strings_of(record["input"]["levels"]), {});
  const bool seen = has_levels(tree, topology_request(record["input"]["podSetTopologyRequest"]));
  return compare("answer", seen, record["expected"]["want"].boolean());
}

std::string replay_stale(const Json& record) {
  const auto& input = record["input"];
  std::vector<std::vector<std::string>> rows;
  for (const auto& [id, values] : input["leafDomains"].members()) rows.push_back(strings_of(values));
  const auto seen = stale_domain(Tree(strings_of(input["levels"]), rows), topology_assignment(input["assignment"]));
  if (auto out = compare("stale", seen.has_value(), record["expected"]["wantStale"].boolean()); !out.empty())
    return out;
  return compare("domain", seen.value_or(""), record["expected"]["wantStaleDomain"].string());
}

std::string replay_merge(const Json& record) {
  const auto a = topology_assignment(record["input"]["a"]), b = topology_assignment(record["input"]["b"]);
  const Tree tree = tree_of(a.levels, {a, b});
  const auto seen = to_assignment(tree, merged(to_placement(tree, a), to_placement(tree, b)));
  return compare("assignment", seen, record["expected"]["want"]);
}

std::string replay_truncate(const Json& record) {
  const auto before = topology_assignment(record["input"]["assignment"]);
  const Tree tree = tree_of(before.levels, {before});
  const auto seen = to_assignment(tree, truncated(to_placement(tree, before), record["input"]["newCount"].integer()));
  return compare("assignment", seen, record["expected"]["want"]);
}

std::string replay_count(const Json& record) {
  const auto assignment = topology_assignment(record["input"]["assignment"]);
  if (assignment.levels.empty()) return compare<Pods>("pods", 0, record["expected"]["want"].integer());
  const Pods seen = pods_of(to_placement(tree_of(assignment.levels, {assignment}), assignment));
  return compare("pods", seen, record["expected"]["want"].integer());
}

std::string replay_assume(const Json& record, const Json& per_pod) {
  const auto& input = record["input"];
  auto assignment = topology_assignment(input["assignment"]);
  Assignment before;
  for (const auto& [name, usage] : input["assumedUsage"].members()) before.domains.push_back({{name}, 0});
  const Tree tree = tree_of(assignment.levels, {assignment, before});
  ResourceNames names;
  AssumedUsage seen;
  for (const auto& [name, usage] : input["assumedUsage"].members()) {
    const std::vector<std::string> values{name};
    seen[tree.find_leaf(values)] = topology_requests(names, usage);
  }
  assume(seen, to_placement(tree, assignment), topology_requests(names, per_pod));
  Json out = Json::object();
  for (const auto& [leaf, usage] : seen) {
    Json& amounts = out.set(fmt::format("{}", fmt::join(tree.values(leaf), ",")));
    for (const Amount& a : usage) amounts.set(names.name(a.resource), a.amount);
  }
  return compare("usage equals", out == record["expected"]["want"], true);
}

}  // namespace

std::string replay_tas_unit(const Json& record) {
  static const std::map<std::string, Replay, std::less<>> parts{
      {"TestFindTopologyAssignments", replay_search},
      {"TestFindTopologyAssignmentsMultiLayerReplacement", replay_search},
      {"TestHasLevel", replay_has_level},
      {"TestSortedDomains", [](const Json& r) { return replay_order(r, false); }},
      {"TestSortedDomainsWithLeader", [](const Json& r) { return replay_order(r, true); }},
      {"TestCompareDomainLevelValues", replay_level_values},
      {"TestCompareDomainCapacityAndEntropy", replay_evenness},
      {"TestSelectOptimalDomainSetToFit", replay_fewest},
      {"TestSelectOptimalDomainSetToFitStableTieBreak", replay_fewest},
      {"TestPlaceSlicesOnDomainsBalanced", replay_share},
      {"TestPruneDomainsBelowThreshold", replay_prune},
      {"TestFindBestDomainsForBalancedPlacement", replay_siblings},
      {"TestIsTopologyAssignmentStale", replay_stale},
      {"TestMergeTopologyAssignments", replay_merge},
      {"TestTruncateAssignment", replay_truncate},
      {"TestCountPodsInAssignment", replay_count},
      {"TestComputeAssumedUsageFromAssignment",
       [](const Json& r) { return replay_assume(r, r["input"]["singlePodRequests"]); }},
      {"TestAddAssumedUsage",
       [](const Json& r) { return replay_assume(r, r["input"]["tasRequests"]["singlePodRequests"]); }},
  };
  const auto it = parts.find(record["test"].string());
  return it == parts.end() ? "this test is not replayed yet" : it->second(record);
}

}  // namespace qm::admission::vectors
