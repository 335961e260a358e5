// Assignments that are given: what of them is to be placed on nodes, and what they ask for in all.
#include "qm/admission/exact/flavors.hpp"
#include "vectors.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace qm::admission::vectors {
namespace {

using namespace exact;

struct Nobody final : Oracle {
  Fitting simulate(const Work&, Cell, std::int64_t) override { return {Mode::kNoCandidates, 0}; }
};

Json named(const std::string& name, Json spec) {
  return Json::object({{"metadata", Json::object({{"name", name}})}, {"spec", std::move(spec)}});
}

std::string join(const std::set<std::string>& names) { return fmt::format("[{}]", fmt::join(names, " ")); }

}  // namespace

std::string replay_wishes(const Json& record) {
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
  Nobody nobody;
  const FlavorAssigner assigner(tree, rules, nobody, false, {}, objects.topologies.get());
  const auto wishes = assigner.wishes(work, assignment);
  const auto fault = assigner.unplaceable(work, assignment, wishes);
  const auto error = fault ? objects.to_string(fault->second) : std::string();
  const auto& expected = record["expected"];
  if (error != expected["wantErr"]["$error"].string()) {
    return fmt::format("\"{}\" where \"{}\" was recorded", error, expected["wantErr"]["$error"].string());
  }
  if (!expected.contains("wantTASPodSets")) return {};
  std::set<std::string> found, recorded;
  for (const auto& wish : wishes) found.insert(work.pod_sets[wish.set].name);
  for (const auto& name : expected["wantTASPodSets"].items()) recorded.insert(name.string());
  return found == recorded ? std::string() : fmt::format("{} where {} was recorded", join(found), join(recorded));
}

/// The assignment is made anew, by a queue that has each flavor for the resources that were recorded with it.
std::string replay_total(const Json& record) {
  const auto& input = record["input"];
  const auto& fields = input["fields"];
  std::map<std::string, std::set<std::string>> covered;
  std::vector<std::int32_t> counts;
  for (const auto& set : fields["podSets"].items()) {
    counts.push_back(static_cast<std::int32_t>(set["count"].integer()));
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
  if (work.pod_sets.size() != counts.size()) return "another number of pod sets";
  world.add_before(work, fields["replaceWorkloadSlice"]);
  Nobody nobody;
  const auto& field = world.field_of("cq");
  const FlavorAssigner assigner(field.tree, field.rules.at(0), nobody, false);
  const auto found = assigner.assign(work, counts).usage;
  const auto recorded = world.amounts("cq", record["expected"]["want"]);
  return found == recorded ? std::string() : "another total than was recorded";
}

}  // namespace qm::admission::vectors
