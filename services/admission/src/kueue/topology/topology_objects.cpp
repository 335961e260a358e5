#include "qm/admission/kueue/topology_objects.hpp"

#include "qm/admission/kueue/node_affinity.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>

namespace qm::admission::kueue {
namespace {

using namespace topology;
using kube_rules::NodeConstraints, kube_rules::Requirement, kube_rules::SelectorTerm;

std::vector<std::string> strings_of(const Json& json) {
  std::vector<std::string> out;
  for (const auto& item : json.items()) out.push_back(item.string());
  return out;
}

Labels string_map_of(const Json& json) {
  Labels out;
  for (const auto& [key, value] : json.members()) out[key] = value.string();
  return out;
}

std::vector<Requirement> requirements_of(const Json& json) {
  std::vector<Requirement> out;
  for (const auto& r : json.items()) {
    const auto op = kube_rules::op_of(r["operator"].string());
    if (op) out.push_back({r["key"].string(), *op, strings_of(r["values"])});
  }
  return out;
}

SelectorTerm term_of(const Json& json) {
  return {requirements_of(json["matchExpressions"]), requirements_of(json["matchFields"])};
}

/// The values of one level in a slice: all equal, or each with its own middle between a prefix and a suffix.
std::vector<std::string> level_values(const Json& level, std::size_t domains) {
  if (level.contains("universal")) return std::vector<std::string>(domains, level["universal"].string());
  const auto& own = level["individual"];
  auto out = strings_of(own["roots"]);
  for (auto& value : out) value = own["prefix"].string() + value + own["suffix"].string();
  out.resize(domains);
  return out;
}

void read_slice(const Json& slice, std::vector<AssignedDomain>& out) {
  const auto domains = static_cast<std::size_t>(std::max<std::int64_t>(0, slice["domainCount"].integer()));
  const auto begin = out.size();
  out.resize(begin + domains);
  const auto& counts = slice["podCounts"];
  for (std::size_t i = 0; i < domains; ++i) {
    out[begin + i].count =
        counts.contains("universal") ? counts["universal"].integer() : counts["individual"].at(i).integer();
  }
  for (const auto& level : slice["valuesPerLevel"].items()) {
    auto values = level_values(level, domains);
    for (std::size_t i = 0; i < domains; ++i) out[begin + i].values.push_back(std::move(values[i]));
  }
}

bool is_one_pod(const Json& workload) {
  const auto& owners = workload.path("metadata.ownerReferences");
  const auto& annotations = workload.path("metadata.annotations");
  return owners.size() == 1 && owners.at(0)["kind"].string() == "Pod" &&
         annotations["kueue.x-k8s.io/is-group-workload"].string() != "true";
}

}  // namespace

Requests topology_requests(ResourceNames& names, const Json& quantities) {
  Requests out;
  for (const auto& [name, value] : quantities.members()) {
    std::int64_t amount = value.integer();
    if (value.is_string()) {
      const auto quantity = Quantity::parse(value.string());
      if (quantity) amount = name == "cpu" ? quantity->milli() : quantity->units();
    }
    add(out, {{names.intern(name), amount}});
  }
  return out;
}

topology::Node topology_node(ResourceNames& names, const Json& node) {
  topology::Node out;
  out.name = node.path("metadata.name").string();
  out.labels = string_map_of(node.path("metadata.labels"));
  for (const auto& t : node.path("spec.taints").items()) {
    out.taints.push_back({t["key"].string(), t["value"].string(), t["effect"].string()});
  }
  out.allocatable = topology_requests(names, node.path("status.allocatable"));
  const auto& conditions = node.path("status.conditions").items();
  const auto ready = std::ranges::find_if(conditions, [](const Json& c) { return c["type"].string() == "Ready"; });
  out.ready = ready != conditions.end() && (*ready)["status"].string() == "True";
  out.schedulable = !node.path("spec.unschedulable").boolean();
  return out;
}

NodeConstraints node_constraints(const Json& node_selector, const Json& tolerations, const Json& node_affinity) {
  NodeConstraints out;
  out.node_selector = string_map_of(node_selector);
  for (const auto& t : tolerations.items()) {
    out.tolerations.push_back(
        {t["key"].string(), t["operator"].string_or("Equal"), t["value"].string(), t["effect"].string()});
  }
  if (const auto& required = node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]; !required.is_null()) {
    out.required.emplace();
    for (const auto& term : required["nodeSelectorTerms"].items()) out.required->push_back(term_of(term));
  }
  for (const auto& p : node_affinity["preferredDuringSchedulingIgnoredDuringExecution"].items()) {
    out.preferred.push_back({p["weight"].integer(), term_of(p["preference"])});
  }
  return out;
}

NodeConstraints node_affinity_of(std::string_view pod) {
  const auto json = Json::parse(pod);
  return json ? node_constraints({}, {}, json->path("spec.affinity.nodeAffinity")) : NodeConstraints{};
}

std::optional<TopologyRequest> topology_request(const Json& request) {
  TopologyRequest out;
  if (request.contains("required")) out.required = request["required"].string();
  if (request.contains("preferred")) out.preferred = request["preferred"].string();
  out.unconstrained = request["unconstrained"].boolean();
  for (const auto& layer : request["podsetSliceRequiredTopologyConstraints"].items()) {
    out.slices.push_back({layer["topology"].string(), layer["size"].integer()});
  }
  if (out.slices.empty() && request.contains("podSetSliceRequiredTopology")) {
    out.slices.push_back({request["podSetSliceRequiredTopology"].string(), request["podSetSliceSize"].integer()});
  }
  if (!out.required && !out.preferred && !out.unconstrained && out.slices.empty()) return std::nullopt;
  return out;
}

Assignment topology_assignment(const Json& assignment) {
  Assignment out;
  out.levels = strings_of(assignment["levels"]);
  const auto& domains = assignment.contains("decodedDomains") ? assignment["decodedDomains"] : assignment["domains"];
  for (const auto& d : domains.items()) out.domains.push_back({strings_of(d["values"]), d["count"].integer()});
  if (!domains.is_array()) {
    for (const auto& slice : assignment["slices"].items()) read_slice(slice, out.domains);
  }
  return out;
}

std::optional<Replacement> replacement_of(const Json& workload, bool keeps_single) {
  const auto& failed = workload.path("status.unhealthyNodes");
  if (failed.size() == 0) return std::nullopt;
  Replacement out;
  out.failed_node = failed.at(0)["name"].string();
  out.keep = keeps_single && is_one_pod(workload);
  for (const auto& p : workload.path("status.admission.podSetAssignments").items()) {
    if (p["topologyAssignment"].is_null()) continue;
    out.existing.push_back({p["name"].string(), topology_assignment(p["topologyAssignment"])});
  }
  return out;
}

}  // namespace qm::admission::kueue
