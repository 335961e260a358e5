// Given assignments: which of their pods are to be placed on nodes, and their total requests.
#include "qm/admission/kueue/flavors.hpp"
#include "qm/admission/kueue/topology_objects.hpp"
#include "vectors.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace qm::admission::vectors {
namespace {

using namespace kueue;

struct NoCandidates final : Oracle {
  Fitting simulate(const Work&, Cell, std::int64_t) override { return {Mode::kNoCandidates, 0}; }
};

Json named(const std::string& name, Json spec) {
  return Json::object({{"metadata", Json::object({{"name", name}})}, {"spec", std::move(spec)}});
}

std::string join(const std::set<std::string>& names) { return fmt::format("[{}]", fmt::join(names, " ")); }

}  // namespace

std::string replay_placement_requests(const Json& record) {
  const auto& input = record["input"];
  const auto& given = input["assignment"].is_object() ? input["assignment"]["podSets"] : input["podSets"];
  Objects objects;
  objects.topologies = std::make_shared<Topologies>(topology_gates(record));
  const auto level = Json::object({{"nodeLabel", "kubernetes.io/hostname"}});
  objects.add_topology(named("hosts", Json::object({{"levels", Json::array({level})}})));
  const auto add = [&](const std::string& flavor) {
    objects.add_flavor(named(flavor, Json::object({{"topologyName", "hosts"}})));
  };
  for (const auto& [flavor, spec] : input["cq"]["tasFlavors"].members()) add(flavor);
  Assignment assignment;
  for (const auto& set : given.items()) {
    auto& made = assignment.sets.emplace_back();
    made.count = static_cast<std::int32_t>(set["count"].integer());
    for (const auto& [resource, choice] : set["flavors"].members()) {
      const auto& flavor = choice["name"].string();
      if (!input["cq"].is_object()) add(flavor);
      made.flavors.push_back({objects.resources.of(resource), objects.flavors.of(flavor), 0, Mode::kFit, 0, -1});
    }
  }
  (void)objects.plant();
  Json workload = input["workload"]["obj"];
  if (!workload.is_object()) workload = named("wl", Json::object({{"podSets", input["wlPodSets"]}}));
  const auto work = objects.work(workload);
  const Tree tree({{.name = "cq", .is_queue = true}}, {});
  QueueRules rules;
  rules.topology_only = input["cq"]["tasOnly"].boolean();
  auto& group = rules.groups.emplace_back();
  for (Flavor flavor = 0; flavor < objects.flavors.size(); ++flavor) group.options.push_back({flavor, {}});
  for (const auto& option : group.options) {
    if (input["cq"]["hasMultiKueueAC"].boolean()) rules.delayed.push_back(option.flavor);
  }
  NoCandidates no_candidates;
  const FlavorAssigner assigner(tree, rules, no_candidates, false, {}, objects.topologies.get());
  const auto node_requests = assigner.node_requests(work, assignment);
  std::string error;  // of the first pod set, as in a message
  for (std::size_t i = 0; i < assignment.sets.size() && error.empty(); ++i) {
    if (const auto fault = assigner.placement_fault(work, assignment, i)) error = objects.to_string(*fault);
  }
  const auto& expected = record["expected"];
  if (error != expected["wantErr"]["$error"].string()) {
    return fmt::format("\"{}\" where \"{}\" was recorded", error, expected["wantErr"]["$error"].string());
  }
  if (!expected.contains("wantTASPodSets")) return {};
  std::set<std::string> found, recorded;
  for (const auto& node_request : node_requests) found.insert(work.pod_sets[node_request.set].name);
  for (const auto& name : expected["wantTASPodSets"].items()) recorded.insert(name.string());
  return found == recorded ? std::string() : fmt::format("{} where {} was recorded", join(found), join(recorded));
}

/// Whether it borrows, or at which level.
std::string replay_borrowing(const Json& record) {
  const auto& input = record["input"];
  Assignment assignment;
  assignment.borrowing =
      static_cast<int>((input["assignment"].is_object() ? input["assignment"] : input)["borrowing"].integer());
  const auto& want = record["expected"]["want"];
  const bool same =
      want.is_bool() ? assignment.requires_borrowing() == want.boolean() : assignment.borrowing == want.integer();
  return same ? std::string() : fmt::format("level {} where {} was recorded", assignment.borrowing, want.dump());
}

/// The nodes are those that the assignments name.
std::string replay_net_usage(const Json& record) {
  const auto& input = record["input"];
  const auto before_of = [&](const std::string& name) {
    const auto& sets = input["prevAdmission"]["podSetAssignments"].items();
    const auto found = std::ranges::find_if(sets, [&](const Json& s) { return s["name"].string() == name; });
    const bool none = found == sets.end() || (*found)["topologyAssignment"].is_null();
    return none ? topology::Assignment() : topology_assignment((*found)["topologyAssignment"]);
  };
  Objects objects;
  objects.topologies = std::make_shared<Topologies>(topology_gates(record));
  auto& names = objects.topologies->names();
  struct Set {
    std::string name;
    topology::Assignment now, before;
    std::set<std::string> flavors;
  };
  std::vector<Set> sets;
  std::map<std::vector<std::string>, Json> nodes;  ///< by the values of their levels
  Json levels = Json::array();
  for (const auto& one : input["assignment"]["podSets"].items()) {
    if (one["topologyAssignment"].is_null()) continue;
    Set set{one["name"].string(), topology_assignment(one["topologyAssignment"]), before_of(one["name"].string()), {}};
    for (const auto& [resource, choice] : one["flavors"].members()) set.flavors.insert(choice["name"].string());
    levels = Json::array();
    for (const auto& level : set.now.levels) levels.push_back(Json::object({{"nodeLabel", level}}));
    for (const auto* assignment : {&set.now, &set.before}) {
      for (const auto& domain : assignment->domains) {
        auto& node = nodes[domain.values];
        node.set("metadata").set("name", fmt::format("{}", fmt::join(domain.values, ",")));
        auto& labels = node.set("metadata").set("labels");
        for (std::size_t i = 0; i < domain.values.size(); ++i) labels.set(set.now.levels[i], domain.values[i]);
        node.set("status", *Json::parse(R"({"conditions":[{"type":"Ready","status":"True"}]})"));
      }
    }
    sets.push_back(std::move(set));
  }
  objects.add_topology(named("levels", Json::object({{"levels", levels}})));
  for (const auto& [values, node] : nodes) objects.add_node(node);
  for (const auto& [flavor, spec] : input["cq"]["tasFlavors"].members()) {
    objects.add_flavor(named(flavor, Json::object({{"topologyName", "levels"}})));
  }
  (void)objects.plant();

  // By flavor, domain and requests of one pod.
  const auto key = [](const std::string& flavor, const std::string& domain, const std::string& each) {
    return fmt::format("{} {} {}", flavor, domain, each);
  };
  std::map<std::string, std::int64_t> found, recorded;
  const auto& specs = input["wl"]["obj"]["spec"]["podSets"].items();
  for (const auto& set : sets) {
    const auto spec = std::ranges::find_if(specs, [&](const Json& s) { return s["name"].string() == set.name; });
    if (spec == specs.end()) continue;
    Json each = Json::object();
    for (const auto& [resource, amount] : pod_requests((*spec)["template"]["spec"])) each.set(resource, amount);
    for (const auto& name : set.flavors) {
      const auto flavor = objects.flavors.find(name);
      if (!flavor || !objects.topologies->has(*flavor)) continue;
      LeafUses now, before;
      objects.topologies->add_uses(now, *flavor, set.now, topology_requests(names, each));
      objects.topologies->add_uses(before, *flavor, set.before, topology_requests(names, each));
      for (const auto& use : beyond(now, before)) {
        if (use.shared) continue;
        for (const auto& domain : set.now.domains) {
          LeafUses own;
          objects.topologies->add_uses(own, *flavor, {set.now.levels, {domain}}, {});
          if (own.front().load.leaf != use.load.leaf) continue;
          found[key(name, fmt::format("{}", fmt::join(domain.values, ",")), each.dump())] += use.load.pods;
        }
      }
    }
  }
  for (const auto& [flavor, domains] : record["expected"]["want"].members()) {
    for (const auto& domain : domains.items()) {
      std::vector<std::string> values;
      for (const auto& value : domain["values"].items()) values.push_back(value.string());
      Json each = Json::object();
      for (const auto& [resource, amount] : domain["singlePodRequests"].members()) each.set(resource, amount);
      recorded[key(flavor, fmt::format("{}", fmt::join(values, ",")), each.dump())] += domain["count"].integer();
    }
  }
  if (found == recorded) return {};
  std::string text;
  for (const auto& [name, pods] : found) text += fmt::format("{}: {}; ", name, pods);
  return fmt::format("[{}] where {} was recorded", text, record["expected"]["want"].dump());
}

/// The assignment is the recorded one, in the cells of a queue that has each flavor for the resources
/// recorded with it.
std::string replay_total(const Json& record) {
  const auto& input = record["input"];
  const auto& fields = input["fields"];
  std::map<std::string, std::set<std::string>> covered;
  for (const auto& set : fields["podSets"].items()) {
    for (const auto& [resource, choice] : set["flavors"].members()) covered[choice["name"].string()].insert(resource);
  }
  Json groups = Json::array();
  Json flavors = Json::array();
  for (const auto& [flavor, resources] : covered) {
    Json names = Json::array(), quotas = Json::array();
    for (const auto& resource : resources) {
      names.push_back(resource);
      quotas.push_back(Json::object({{"name", resource}, {"nominalQuota", "1000000000"}}));
    }
    const auto offer = Json::object({{"name", flavor}, {"resources", std::move(quotas)}});
    groups.push_back(Json::object({{"coveredResources", std::move(names)}, {"flavors", Json::array({offer})}}));
    flavors.push_back(Json::object({{"metadata", Json::object({{"name", flavor}})}}));
  }
  Json made = Json::object({{"featureGates", record["featureGates"]}});
  made.set("input", Json::object({{"clusterQueue", named("cq", Json::object({{"resourceGroups", std::move(groups)}}))},
                                  {"resourceFlavors", std::move(flavors)}}));
  World world(made);
  auto& work = world.read(input["args"]["wl"]["obj"], "cq");
  Assignment assignment;
  const auto& cells = world.planted.cells.at(world.planted.queues.at("cq").first);
  for (const auto& set : fields["podSets"].items()) {
    auto& chosen = assignment.sets.emplace_back();
    chosen.count = static_cast<std::int32_t>(set["count"].integer());
    for (const auto& [resource, choice] : set["flavors"].members()) {
      const auto of =
          std::pair(world.objects.flavors.of(choice["name"].string()), world.objects.resources.of(resource));
      chosen.flavors.push_back({of.second, of.first, cells.at(of), Mode::kFit, 0, -1});
    }
  }
  if (work.pod_sets.size() != assignment.sets.size()) return "another number of pod sets";
  NoCandidates no_candidates;
  const auto& field = world.field_of("cq");
  const FlavorAssigner assigner(field.tree, field.rules.at(0), no_candidates, false,
                                world.objects.resources.find("pods"));
  world.add_before(work, fields["replaceWorkloadSlice"]);
  const auto found = assigner.total_requests(work, assignment);
  const auto recorded = world.amounts("cq", record["expected"]["want"]);
  return found == recorded ? std::string() : "another total than was recorded";
}

}  // namespace qm::admission::vectors
