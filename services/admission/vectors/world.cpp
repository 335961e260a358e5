#include "world.hpp"

#include "qm/admission/kueue/topology_objects.hpp"
#include "vectors.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission::vectors {

using namespace kueue;

namespace {

struct Default {
  std::string_view name;
  bool on;
};
/// Gates that change decisions, with Kueue's defaults.
constexpr Default kGates[] = {
    {"AdmissionFairSharing", true},
    {"AdmissionGatedBy", true},
    {"ConcurrentAdmission", false},
    {"ElasticJobsViaWorkloadSlices", true},
    {"ElasticJobsViaWorkloadSlicesWithTAS", false},
    {"FairSharingPreemptWithinNominal", true},
    {"FairSharingPrioritizeNonBorrowing", true},
    {"FlavorFungibility", true},
    {"FlavorFungibilityPreserveScanProgress", true},
    {"MultiKueueOrchestratedPreemption", false},
    {"PartialAdmission", true},
    {"PrioritizePreemptorWorkloads", false},
    {"PriorityBoost", false},
    {"PrioritySortingWithinCohort", true},
    {"QuotaCheckStrategy", true},
    {"ReclaimablePods", true},
    {"RecomputeAssignmentUponPreemptionTargetsOverlap", true},
    {"SchedulingEquivalenceHashing", true},
    {"SkipReassignmentForPodOwnedWorkloads", true},
    {"TASBalancedPlacement", false},
    {"TASFailedNodeReplacement", true},
    {"TASFailedNodeReplacementFailFast", true},
    {"TASHandleOverlappingFlavors", true},
    {"TASMultiLayerTopology", true},
    {"TASProfileMixed", true},
    {"TASRecomputeAssignmentWithinSchedulingCycle", true},
    {"TASRespectNodeAffinityPreferred", false},
    {"TopologyAwareScheduling", true},
    {"UnadmittedWorkloadsObservability", true},
};

}  // namespace

bool gate(const Json& record, std::string_view name) {
  const auto* known = std::ranges::find(kGates, name, &Default::name);
  return record["featureGates"][name].boolean(known != std::end(kGates) && known->on);
}

std::string other_defaults(const Json& gates) {
  std::string out;
  for (const auto& [name, on] : kGates) {
    if (!gates.contains(name)) {
      out += fmt::format("{} is not there; ", name);
    } else if (gates[name]["default"].boolean() != on) {
      out += fmt::format("{} is {}, taken as {}; ", name, !on, on);
    }
  }
  return out;
}

OrderGates gates_of(const Json& record) {
  return {.priority_sorting = gate(record, "PrioritySortingWithinCohort"),
          .preemptors_first = gate(record, "PrioritizePreemptorWorkloads"),
          .keeps_scan_progress = gate(record, "FlavorFungibilityPreserveScanProgress"),
          .non_borrowing_first = gate(record, "FairSharingPrioritizeNonBorrowing")};
}

topology::Gates topology_gates(const Json& record) {
  topology::Gates out;
  out.profile_mixed = gate(record, "TASProfileMixed");
  out.balanced = gate(record, "TASBalancedPlacement");
  out.preferred_affinity = gate(record, "TASRespectNodeAffinityPreferred");
  out.elastic = gate(record, "ElasticJobsViaWorkloadSlicesWithTAS");
  return out;
}

World::World(const Json& record) {
  const auto& input = record["input"];
  objects.requeued_by_reclaim = !gate(record, "PrioritySortingWithinCohort");
  objects.requeued_by_eviction = input["workloadOrdering"]["podsReadyRequeuingTimestamp"].string() != "Creation";
  objects.variants = gate(record, "ConcurrentAdmission");
  objects.preemption_gates = objects.variants || gate(record, "MultiKueueOrchestratedPreemption");
  objects.counts_ended = gate(record, "ReclaimablePods");
  objects.elastic = gate(record, "ElasticJobsViaWorkloadSlices");
  objects.shapes = gate(record, "SchedulingEquivalenceHashing");
  objects.layers = gate(record, "TASMultiLayerTopology");
  objects.transformations = Transformations(input["resourceTransformations"]);
  objects.priority_boost = gate(record, "PriorityBoost");
  if (gate(record, "TopologyAwareScheduling")) {
    objects.topologies =
        std::make_shared<Topologies>(topology_gates(record), gate(record, "TASHandleOverlappingFlavors"));
  }
  const auto& more = input["nodesAndQueues"];
  for (const auto* from : {&input, &more}) {
    for (const auto& topology : (*from)["topologies"].items()) objects.add_topology(topology);
    for (const auto& node : (*from)["nodes"].items()) objects.add_node(node);
  }
  for (const auto& check : input["admissionChecks"].items()) objects.add_check(check);
  for (const auto& flavor : input["resourceFlavors"].items()) objects.add_flavor(flavor);
  for (const auto& flavor : input["relabeledFlavors"].items()) objects.add_flavor(flavor);
  for (const auto& cohort : input["cohorts"].items()) objects.add_cohort(cohort);
  for (const char* one : {"clusterQueue", "secondaryClusterQueue"}) {
    if (input[one].is_object()) objects.add_queue(input[one]);
  }
  for (const char* some : {"clusterQueues", "siblingCQs"}) {
    for (const auto& queue : input[some].items()) objects.add_queue(queue);
    for (const auto& queue : more[some].items()) objects.add_queue(queue);
  }
  planted = objects.plant();
  for (const auto& pod : input["pods"].items()) objects.add_pod(pod);
  for (auto& field : planted.fields) {
    field.fair_sharing = input["fairSharing"].boolean();
    for (auto& rules : field.rules) {
      rules.fungible = gate(record, "FlavorFungibility");
      rules.by_usage =
          rules.by_usage && gate(record, "AdmissionFairSharing") && input["admissionFairSharing"].is_object();
      rules.ignores_undeclared =
          gate(record, "QuotaCheckStrategy") && input["quotaCheckStrategy"].string() == "IgnoreUndeclared";
    }
    field.shrinks = gate(record, "PartialAdmission");
    field.within_nominal_takes = gate(record, "FairSharingPreemptWithinNominal");
    field.order = gates_of(record);
    field.places_again = gate(record, "TASRecomputeAssignmentWithinSchedulingCycle");
    field.looks_again = gate(record, "RecomputeAssignmentUponPreemptionTargetsOverlap");
  }
}

void World::use_nodes(const Json& by_flavor) {
  if (objects.topologies == nullptr) return;
  LeafUses uses;
  for (const auto& [name, domains] : by_flavor.members()) {
    const auto flavor = objects.flavors.find(name);
    if (!flavor) continue;
    for (const auto& domain : domains.items()) {
      topology::Assignment one;
      one.domains.push_back({{}, domain["count"].integer()});
      for (const auto& value : domain["values"].items()) one.domains.back().values.push_back(value.string());
      objects.topologies->add_uses(uses, *flavor, one,
                                   topology_requests(objects.topologies->names(), domain["singlePodRequests"]));
    }
  }
  objects.topologies->take(uses);
}

/// Of a slice as the scheduler knows it, or of the workload itself.
void World::add_before(Work& work, const Json& slice) {
  for (const auto& before : slice["spec"]["podSets"].items()) {
    const auto set = std::ranges::find(work.pod_sets, before["name"].string(), &PodSet::name);
    if (set != work.pod_sets.end()) set->pods_before = static_cast<std::int32_t>(before["count"].integer(1));
  }
  for (const auto& before : slice["status"]["admission"]["podSetAssignments"].items()) {
    const auto set = std::ranges::find(work.pod_sets, before["name"].string(), &PodSet::name);
    if (set == work.pod_sets.end()) continue;
    set->pods_before = static_cast<std::int32_t>(before["count"].integer(1));
    for (const auto& [resource, flavor] : before["flavors"].members()) {
      set->before.push_back({objects.resources.of(resource), objects.flavors.of(flavor.string()),
                             canonical(resource, before["resourceUsage"][resource])});
    }
  }
  for (const auto& before : slice["totalRequests"].items()) {
    const auto set = std::ranges::find(work.pod_sets, before["name"].string(), &PodSet::name);
    if (set == work.pod_sets.end()) continue;
    set->pods_before = static_cast<std::int32_t>(before["count"].integer(1));
    for (const auto& [resource, flavor] : before["flavors"].members()) {
      set->before.push_back({objects.resources.of(resource), objects.flavors.of(flavor.string()),
                             before["requests"][resource].integer()});
    }
  }
}

std::string World::key_of(const Json& workload) {
  return workload["metadata"]["namespace"].string() + "/" + workload["metadata"]["name"].string();
}

QuotaState& World::field_of(const std::string& queue) { return planted.fields.at(planted.queues.at(queue).first); }

Node World::node_of(const std::string& name) const {
  const auto found = planted.queues.find(name);
  return found != planted.queues.end() ? found->second.second : planted.cohorts.at(name).second;
}

Work& World::read(const Json& workload, const std::string& queue) {
  auto& work = works.emplace_back(objects.work(workload));
  work.id = static_cast<int>(works.size());
  if (const auto found = planted.queues.find(queue); found != planted.queues.end()) {
    work.queue = found->second.second;
    work.on_nodes = objects.on_nodes(workload);
    work.usage = objects.usage(workload, planted.cells.at(found->second.first));
  }
  by_key[key_of(workload)] = &work;
  key_by_work[&work] = key_of(workload);
  return work;
}

Work& World::admit(const Json& workload) {
  const auto& queue = workload["status"]["admission"]["clusterQueue"].string();
  auto& work = read(workload, queue);
  if (planted.queues.contains(queue)) field_of(queue).hold(work);
  return work;
}

Amounts World::amounts(const std::string& queue, const Json& by_flavor_resource) const {
  Amounts out;
  const auto& cells = planted.cells.at(planted.queues.at(queue).first);
  for (const auto& [name, amount] : by_flavor_resource.members()) {
    const auto slash = name.find('/');
    const auto flavor = objects.flavors.find(name.substr(0, slash));
    const auto resource = objects.resources.find(name.substr(slash + 1));
    if (!flavor || !resource) continue;
    const auto cell = cells.find({*flavor, *resource});
    if (cell == cells.end()) continue;
    add_to(out, cell->second, amount.is_string() ? kUnlimited : amount.integer());
  }
  return out;
}

}  // namespace qm::admission::vectors
