#include "qm/admission/kueue/objects.hpp"

#include "qm/admission/kueue/topology_objects.hpp"
#include "qm/base/time.hpp"
#include "qm/model/pod_resources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

namespace qm::admission::kueue {
namespace {

double weight_of(const Json& fair_sharing) {
  const auto& weight = fair_sharing["weight"];
  if (weight.is_null()) return 1;
  const auto read = Quantity::parse(weight.is_string() ? weight.string() : weight.dump());
  if (!read) return 1;
  const auto milli = read->milli();
  return static_cast<double>(milli) / 1000;
}

Labels labels_of(const Json& object) {
  Labels out;
  for (const auto& [key, value] : object.members()) out.emplace(key, value.string());
  return out;
}

std::vector<Toleration> tolerations_of(const Json& list) {
  std::vector<Toleration> out;
  for (const auto& t : list.items()) {
    out.push_back({t["key"].string(), t["operator"].string(), t["value"].string(), t["effect"].string()});
  }
  return out;
}

/// Zero if it is not a number.
std::int32_t boost_of(const std::string& text) {
  std::int32_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? out : 0;
}

std::int64_t micros_of(const Json& time) {
  const auto read = from_rfc3339(time.string());
  return read ? micros(*read) : 0;
}

/// Whether one expression of a node selector term matches these labels.
bool holds(const Json& expression, const Labels& labels) {
  const auto found = labels.find(expression["key"].string());
  const auto& op = expression["operator"].string();
  const auto& values = expression["values"].items();
  const bool there = found != labels.end();
  if (op == "Exists") return there;
  if (op == "DoesNotExist") return !there;
  const bool among = there && std::ranges::any_of(values, [&](const Json& v) { return v.string() == found->second; });
  if (op == "In") return among;
  if (op == "NotIn") return !among;
  if (!there || values.empty()) return false;
  const auto number = [](const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); };
  const auto left = number(found->second), right = number(values.front().string());
  return op == "Gt" ? left > right : left < right;
}

/// As Kueue counts it: CPUs in milli-units, everything else in units.
std::int64_t in_units_of(std::string_view resource, const Quantity& amount) {
  return resource == "cpu" ? amount.milli() : amount.units();
}

/// Checks may restrict where pods run beyond their template.
void add_updates(const Json& checks, topology::PodSetRequest& request) {
  for (const auto& check : checks.items()) {
    for (const auto& update : check["podSetUpdates"].items()) {
      if (update["name"].string() != request.name) continue;
      const auto more = node_constraints(update["nodeSelector"], update["tolerations"], {});
      for (const auto& [key, value] : more.node_selector) request.rules.node_selector[key] = value;
      auto& tolerations = request.rules.tolerations;
      tolerations.insert(tolerations.end(), more.tolerations.begin(), more.tolerations.end());
    }
  }
}

constexpr const char* kProvisioning = "kueue.x-k8s.io/provisioning-request";
constexpr const char* kMultiKueue = "kueue.x-k8s.io/multikueue";
constexpr const char* kAllowedFlavors = "kueue.x-k8s.io/workload-allowed-resource-flavors";

/// Splits a list with commas.
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> out;
  std::stringstream list(text);
  for (std::string name; std::getline(list >> std::ws, name, ',');) {
    name.erase(name.find_last_not_of(' ') + 1);
    out.push_back(name);
  }
  return out;
}

/// Whether one of these nodes has pods of the assignment.
bool on_failed_node(const Json& assignment, const Json& failed) {
  if (assignment.is_null()) return false;
  const auto read = topology_assignment(assignment);
  return std::ranges::any_of(read.domains, [&](const topology::AssignedDomain& domain) {
    return std::ranges::any_of(failed.items(), [&](const Json& node) {
      return !domain.values.empty() && node["name"].string() == domain.values.back();
    });
  });
}

/// A gate without state is closed.
bool gate_closed(const Json& workload) {
  const auto open = [&](const Json& gate) {
    return std::ranges::any_of(workload["status"]["preemptionGates"].items(), [&](const Json& state) {
      return state["name"].string() == gate["name"].string() && state["position"].string() != "Closed";
    });
  };
  const auto& gates = workload["spec"]["preemptionGates"].items();
  return !std::ranges::all_of(gates, open);
}

}  // namespace

std::int64_t canonical(std::string_view resource, const Json& quantity) {
  const auto read = Quantity::parse(quantity.is_string() ? quantity.string() : quantity.dump());
  return read ? in_units_of(resource, *read) : 0;
}

std::map<std::string, std::int64_t> pod_requests(const Json& pod_spec) {
  auto resources = PodResources::read(pod_spec);
  resources.set_defaults();
  std::map<std::string, std::int64_t> out;
  for (const auto& [resource, amount] : resources.total_requests()) out[resource] = in_units_of(resource, amount);
  return out;
}

void Objects::add_flavor(const Json& object) {
  auto& spec = specs_[flavors.of(object["metadata"]["name"].string())];
  spec = {};
  spec.labels = labels_of(object["spec"]["nodeLabels"]);
  for (const auto& t : object["spec"]["nodeTaints"].items()) {
    spec.taints.push_back({t["key"].string(), t["value"].string(), t["effect"].string()});
  }
  spec.tolerations = tolerations_of(object["spec"]["tolerations"]);
  spec.topology = object["spec"]["topologyName"].string();
}

void Objects::take(const Json& groups, std::vector<Forest::Offer>& offers, std::vector<QueueRules::Group>* rules) {
  for (const auto& group : groups.items()) {
    QueueRules::Group made;
    for (const auto& resource : group["coveredResources"].items())
      made.resources.push_back(resources.of(resource.string()));
    for (const auto& flavor : group["flavors"].items()) {
      const Flavor id = flavors.of(flavor["name"].string());
      QueueRules::Option option{id, {}};
      for (const auto& resource : flavor["resources"].items()) {
        const auto& name = resource["name"].string();
        Quota quota;
        quota.nominal = canonical(name, resource["nominalQuota"]);
        if (resource.contains("borrowingLimit")) quota.borrowing_limit = canonical(name, resource["borrowingLimit"]);
        if (resource.contains("lendingLimit")) quota.lending_limit = canonical(name, resource["lendingLimit"]);
        offers.push_back({id, resources.of(name), quota});
      }
      // A covered resource without a quota of its own has zero.
      for (const Resource r : made.resources) {
        const auto same = [&](const Forest::Offer& o) { return o.flavor == id && o.resource == r; };
        if (std::ranges::none_of(offers, same)) offers.push_back({id, r, {}});
      }
      made.options.push_back(std::move(option));
    }
    if (rules != nullptr) rules->push_back(std::move(made));
  }
}

void Objects::add_cohort(const Json& object) {
  const auto& spec = object["spec"];
  Forest::Cohort out;
  out.parent = spec.contains("parentName") ? spec["parentName"].string() : spec["parent"].string();
  out.weight = weight_of(spec["fairSharing"]);
  take(spec["resourceGroups"], out.quotas, nullptr);
  forest.cohorts[object["metadata"]["name"].string()] = std::move(out);
}

void Objects::add_queue(const Json& object) {
  const auto& spec = object["spec"];
  Forest::Queue out;
  out.cohort = spec.contains("cohortName") ? spec["cohortName"].string() : spec["cohort"].string();
  out.weight = weight_of(spec["fairSharing"]);
  auto& rules = out.rules;
  rules.strict = spec["queueingStrategy"].string() == "StrictFIFO";
  rules.by_usage = spec["admissionScope"]["admissionMode"].string() == "UsageBasedAdmissionFairSharing";
  const auto& preemption = spec["preemption"];
  rules.within_cluster_queue = policy_of(preemption["withinClusterQueue"].string_or("Never"));
  rules.reclaim_within_cohort = policy_of(preemption["reclaimWithinCohort"].string_or("Never"));
  const auto& borrow = preemption["borrowWithinCohort"];
  rules.preempts_while_borrowing = borrow["policy"].string() == "LowerPriority";
  if (borrow["maxPriorityThreshold"].is_int()) {
    rules.borrow_max_threshold = static_cast<std::int32_t>(borrow["maxPriorityThreshold"].integer());
  }
  // v1beta1 has Borrow and Preempt where v1beta2 has MayStopSearch.
  const auto& fungibility = spec["flavorFungibility"];
  rules.stops_at_borrowing = fungibility["whenCanBorrow"].string() != "TryNextFlavor";
  const auto& at_preemption = fungibility["whenCanPreempt"].string();
  rules.stops_at_preemption = at_preemption == "MayStopSearch" || at_preemption == "Preempt";
  rules.prefers_borrowing = fungibility["preference"].string() != "PreemptionOverBorrowing";
  take(spec["resourceGroups"], out.quotas, &rules.groups);
  const auto& name = object["metadata"]["name"].string();
  auto& checks = checks_[name];
  checks.clear();
  for (const auto& check : spec["admissionChecksStrategy"]["admissionChecks"].items()) {
    const auto [same, is_new] = checks.try_emplace(check["name"].string());
    const bool of_all = check["onFlavors"].items().empty() || (!is_new && same->second.empty());
    if (of_all) same->second.clear();
    for (const auto& flavor : check["onFlavors"].items()) {
      if (!of_all) same->second.insert(flavor.string());
    }
  }
  rules.checked = !checks.empty();
  const auto& stop = spec["stopPolicy"].string();
  rules.inactive = !stop.empty() && stop != "None";
  concurrent_.erase(name);
  if (variants && spec["concurrentAdmissionPolicy"].is_object()) concurrent_.insert(name);
  const auto& last = spec["concurrentAdmissionPolicy"]["migration"]["constraints"]["lastAcceptableFlavorName"];
  if (variants && last.is_string()) rules.last_acceptable = flavors.of(last.string());
  forest.queues[name] = std::move(out);
}

/// A flavor refuses pods that do not tolerate one of its taints. Selectors and required affinity apply to the keys
/// of the flavor's labels; a term without any of these matches.
std::optional<Refusal> Objects::refuses(Flavor id, const Json& pod_spec) const {
  const auto known = specs_.find(id);
  if (known == specs_.end()) return Refusal{id, Refusal::Why::kNotFound, {}};
  const auto& flavor = known->second;
  auto tolerations = tolerations_of(pod_spec["tolerations"]);
  tolerations.insert(tolerations.end(), flavor.tolerations.begin(), flavor.tolerations.end());
  if (const auto* taint = untolerated(flavor.taints, tolerations)) {
    return Refusal{id, Refusal::Why::kTaint, fmt::format("{} {} {}", taint->key, taint->value, taint->effect)};
  }
  const Refusal elsewhere{id, Refusal::Why::kAffinity, {}};
  for (const auto& [key, value] : pod_spec["nodeSelector"].members()) {
    const auto found = flavor.labels.find(key);
    if (found != flavor.labels.end() && found->second != value.string()) return elsewhere;
  }
  const auto& required =
      pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
  const auto may = [&](const Json& term) {
    return std::ranges::all_of(term["matchExpressions"].items(), [&](const Json& expression) {
      return !flavor.labels.contains(expression["key"].string()) || holds(expression, flavor.labels);
    });
  };
  if (required.size() > 0 && std::ranges::none_of(required.items(), may)) return elsewhere;
  return std::nullopt;
}

/// Requested, and the flavor has none; an unknown flavor has its own refusal.
std::optional<Refusal> Objects::lacks_topology(Flavor id, const PodSet& set) const {
  const auto known = specs_.find(id);
  if (!set.has_topology() || known == specs_.end()) return std::nullopt;
  const auto& topology = known->second.topology;
  if (topology.empty()) return Refusal{id, Refusal::Why::kNoTopology, {}};
  if (!levels_.contains(topology)) return Refusal{id, Refusal::Why::kUnknownTopology, {}};
  return std::nullopt;
}

void Objects::add_topology(const Json& object) {
  auto& levels = levels_[object["metadata"]["name"].string()];
  for (const auto& level : object["spec"]["levels"].items()) levels.push_back(level["nodeLabel"].string());
}

void Objects::add_node(const Json& object) {
  if (topologies != nullptr) nodes_.push_back(topology_node(topologies->names(), object));
}

void Objects::add_check(const Json& object) {
  const auto& conditions = object["status"]["conditions"].items();
  const bool active = std::ranges::any_of(
      conditions, [](const Json& c) { return c["type"].string() == "Active" && c["status"].string() == "True"; });
  known_checks_[object["metadata"]["name"].string()] = {object["spec"]["controllerName"].string(), active};
}

/// Pods that have ended, or that were placed by topology, are not counted.
void Objects::add_pod(const Json& object) {
  const auto& phase = object["status"]["phase"].string();
  if (topologies == nullptr || phase == "Succeeded" || phase == "Failed") return;
  if (object["metadata"]["labels"].contains("kueue.x-k8s.io/tas")) return;
  topology::Requests asked;
  for (const auto& [resource, amount] : pod_requests(object["spec"])) {
    topology::add(asked, {{topologies->names().intern(resource), amount}});
  }
  topologies->take_outside(object["spec"]["nodeName"].string(), topology::usage_of(asked, 1));
}

/// Whether a check dispatches the workloads of the queue to other clusters, where their nodes are chosen.
bool Objects::uses_multikueue(const std::string& queue) const {
  const auto checks = checks_.find(queue);
  return checks != checks_.end() && std::ranges::any_of(checks->second, [&](const auto& check) {
           const auto known = known_checks_.find(check.first);
           return known != known_checks_.end() && known->second.controller == kMultiKueue;
         });
}

/// Whether a check of the queue provisions nodes of this flavor.
bool Objects::provisions(const std::string& queue, const std::string& flavor) const {
  return std::ranges::any_of(checks_.at(queue), [&](const auto& check) {
    const auto known = known_checks_.find(check.first);
    return known != known_checks_.end() && known->second.controller == kProvisioning &&
           (check.second.empty() || check.second.contains(flavor));
  });
}

/// A queue admits nothing if it is stopped, or if its flavors, topologies or checks do not exist or conflict.
bool Objects::inactive(const std::string& name, const QueueRules& rules) const {
  std::set<std::string> all;
  int dispatchers = 0;
  bool makes_nodes = false;
  for (const auto& group : rules.groups) {
    for (const auto& option : group.options) {
      if (!specs_.contains(option.flavor)) return true;
      all.insert(flavors[option.flavor]);
    }
  }
  for (const auto& [check, of] : checks_.at(name)) {
    const auto known = known_checks_.find(check);
    if (known == known_checks_.end() || !known->second.active) return true;
    makes_nodes = makes_nodes || known->second.controller == kProvisioning;
    if (known->second.controller != kMultiKueue) continue;
    const bool every_flavor = of.empty() || of == all;
    if (++dispatchers > 1 || !every_flavor) return true;
  }
  if (uses_multikueue(name)) return makes_nodes || concurrent_.contains(name);
  const auto topology_missing = [&](const QueueRules::Option& option) {
    return topologies != nullptr && !specs_.at(option.flavor).topology.empty() && !topologies->has(option.flavor);
  };
  return std::ranges::any_of(rules.groups, [&](const QueueRules::Group& group) {
    return std::ranges::any_of(group.options, topology_missing);
  });
}

Forest::Planted Objects::plant() {
  auto out = forest.plant();
  for (const auto& [flavor, spec] : specs_) {
    const auto levels = levels_.find(spec.topology);
    if (topologies == nullptr || levels == levels_.end() || levels->second.empty()) continue;
    topologies->add(flavor, {spec.topology, levels->second, spec.labels, spec.tolerations}, nodes_);
  }
  if (topologies != nullptr && !topologies->empty()) {
    for (auto& field : out.fields) field.topologies = topologies;
  }
  for (const auto& [name, place] : out.queues) {
    auto& rules = out.fields[place.first].rules[static_cast<std::size_t>(place.second)];
    rules.inactive = rules.inactive || inactive(name, rules);
    if (topologies == nullptr) continue;
    rules.topology_only = !rules.groups.empty();
    const bool elsewhere = uses_multikueue(name);
    for (const auto& group : rules.groups) {
      for (const auto& option : group.options) {
        const auto spec = specs_.find(option.flavor);
        const bool names_topology = spec != specs_.end() && !spec->second.topology.empty();
        rules.topology_only = rules.topology_only && names_topology;
        if (names_topology && !topologies->has(option.flavor)) rules.adrift.push_back(option.flavor);
        if (elsewhere || provisions(name, flavors[option.flavor])) rules.delayed.push_back(option.flavor);
      }
    }
  }
  return out;
}

topology::PodSetRequest Objects::nodes_of(const Json& pod_set, const std::map<std::string, std::int64_t>& each) {
  topology::PodSetRequest out;
  Json asked = pod_set["topologyRequest"];
  if (!layers && asked.is_object()) asked.erase("podsetSliceRequiredTopologyConstraints");
  const auto& pod = pod_set["template"]["spec"];
  out.name = pod_set["name"].string();
  out.topology = topology_request(asked);
  if (asked.contains("podSetGroupName")) out.group = asked["podSetGroupName"].string();
  out.rules = node_constraints(pod["nodeSelector"], pod["tolerations"], pod["affinity"]["nodeAffinity"]);
  for (const auto& [resource, amount] : each) {
    topology::add(out.per_pod, {{topologies->names().intern(resource), amount}});
  }
  return out;
}

std::shared_ptr<const Ties> Objects::ties_of(const Json& workload) {
  Ties out;
  const auto& metadata = workload["metadata"];
  out.gated = preemption_gates && gate_closed(workload);
  for (const auto& owner : metadata["ownerReferences"].items()) {
    if (!variants || owner["kind"].string() != "Workload" || !out.parent.empty()) continue;
    if (owner["apiVersion"].string() == "kueue.x-k8s.io/v1beta2") out.parent = owner["uid"].string();
  }
  const auto allowed = names_in(metadata["annotations"][kAllowedFlavors].string());
  if (const auto flavor = flavors.find(allowed.empty() ? std::string() : allowed.front())) out.flavor = *flavor;
  if (out.parent.empty() && !out.gated) return nullptr;
  return std::make_shared<const Ties>(std::move(out));
}

Work Objects::work(const Json& workload) {
  Work out;
  const auto& spec = workload["spec"];
  const auto& metadata = workload["metadata"];
  out.priority = static_cast<std::int32_t>(spec["priority"].integer());
  if (priority_boost) out.priority += boost_of(metadata["annotations"]["kueue.x-k8s.io/priority-boost"].string());
  out.uid = WorkloadUid(metadata["uid"].string());
  out.elastic = elastic && metadata["annotations"]["kueue.x-k8s.io/elastic-job"].string() == "true";
  out.ties = ties_of(workload);
  out.created = micros_of(metadata["creationTimestamp"]);
  for (const auto& condition : workload["status"]["conditions"].items()) {
    if (condition["status"].string() != "True") continue;
    if (condition["type"].string() == "Admitted") out.admitted = true;
    if (condition["type"].string() == "QuotaReserved") out.reserved = micros_of(condition["lastTransitionTime"]);
    const auto since = micros_of(condition["lastTransitionTime"]);
    const auto& reason = condition["reason"].string();
    if (condition["type"].string() == "Evicted") {
      out.evicted = true;
      if (reason == "AdmissionCheck" || (reason == "PodsReadyTimeout" && requeued_by_eviction)) out.created = since;
    }
    if (condition["type"].string() == "Preempted" && reason == "InCohortReclaimWhileBorrowing" && requeued_by_reclaim) {
      out.created = since + 1000;
    }
  }
  const bool only_allowed = variants && metadata["annotations"].contains(kAllowedFlavors);
  const auto allowed = names_in(metadata["annotations"][kAllowedFlavors].string());
  std::map<std::string, std::int32_t> groups;
  std::map<std::string, std::int64_t> ended;
  for (const auto& pods : workload["status"]["reclaimablePods"].items())
    if (counts_ended) ended[pods["name"].string()] = pods["count"].integer();
  std::string shape = std::to_string(out.priority);
  for (const auto& set : spec["podSets"].items()) {
    PodSet made;
    made.name = set["name"].string();
    made.count = static_cast<std::int32_t>(set["count"].integer(1) - ended[made.name]);
    if (set.contains("minCount")) made.min_count = static_cast<std::int32_t>(set["minCount"].integer());
    const auto& pod_spec = set["template"]["spec"];
    const auto& asked = set["topologyRequest"];
    if (const auto& group = asked["podSetGroupName"]; group.is_string()) {
      made.group = groups.try_emplace(group.string(), static_cast<std::int32_t>(out.pod_sets.size())).first->second;
    }
    const auto of_pod = pod_requests(pod_spec);
    for (const auto& [resource, amount] : transformations.apply(of_pod)) {
      made.each.emplace_back(resources.of(resource), std::min(amount, kUnlimited - 1));
    }
    std::ranges::reverse(made.each);
    if (topologies != nullptr) made.nodes = std::make_shared<const topology::PodSetRequest>(nodes_of(set, of_pod));
    for (Flavor flavor = 0; flavor < flavors.size(); ++flavor) {
      if (only_allowed && std::ranges::find(allowed, flavors[flavor]) == allowed.end()) {
        made.refused.push_back({flavor, Refusal::Why::kNotAllowed, {}});
        continue;
      }
      if (auto refusal = lacks_topology(flavor, made)) made.refused.push_back(std::move(*refusal));
      if (auto refusal = refuses(flavor, pod_spec)) made.refused.push_back(std::move(*refusal));
    }
    for (const auto& [resource, amount] : of_pod) {
      if (made.has_topology()) made.node_resources.push_back(resources.of(resource));
    }
    shape += set.dump() + std::to_string(made.count);
    out.pod_sets.push_back(std::move(made));
  }
  out.shape = shapes ? shapes_.of(shape) : -1;
  return out;
}

Amounts Objects::usage(const Json& workload, const std::map<std::pair<Flavor, Resource>, Cell>& cells) const {
  Amounts out;
  std::map<std::string, std::int64_t> pods;
  for (const auto& set : workload["spec"]["podSets"].items()) pods[set["name"].string()] = set["count"].integer(1);
  for (const auto& ended : workload["status"]["reclaimablePods"].items()) {
    if (counts_ended) pods[ended["name"].string()] -= ended["count"].integer();
  }
  for (const auto& set : workload["status"]["admission"]["podSetAssignments"].items()) {
    const auto count = set["count"].integer(1);
    const auto counts = std::min(count, pods[set["name"].string()]);
    for (const auto& [resource, flavor] : set["flavors"].members()) {
      const auto f = flavors.find(flavor.string());
      const auto r = resources.find(resource);
      if (!f || !r) continue;
      const auto cell = cells.find({*f, *r});
      if (cell == cells.end()) continue;
      const auto whole = canonical(resource, set["resourceUsage"][resource]);
      add_to(out, cell->second, count == 0 ? 0 : whole / count * counts);
    }
  }
  return out;
}

LeafUses Objects::on_nodes(const Json& workload) const {
  LeafUses out;
  if (topologies == nullptr) return out;
  for (const auto& set : workload["status"]["admission"]["podSetAssignments"].items()) {
    const auto pods = set["count"].integer(1);
    if (set["topologyAssignment"].is_null() || pods == 0) continue;
    topology::Requests each;
    std::set<Flavor> used;
    const auto& specs = workload["spec"]["podSets"].items();
    const auto spec = std::ranges::find_if(specs, [&](const Json& s) { return s["name"] == set["name"]; });
    // What quota counts may differ from what a node has to provide.
    if (!transformations.empty() && spec != specs.end()) {
      for (const auto& [resource, amount] : pod_requests((*spec)["template"]["spec"])) {
        topology::add(each, {{topologies->names().intern(resource), amount}});
      }
    } else {
      for (const auto& [resource, amount] : set["resourceUsage"].members()) {
        topology::add(each, {{topologies->names().intern(resource), canonical(resource, amount) / pods}});
      }
    }
    for (const auto& [resource, flavor] : set["flavors"].members()) {
      if (const auto id = flavors.find(flavor.string())) used.insert(*id);
    }
    const auto assignment = topology_assignment(set["topologyAssignment"]);
    for (const Flavor flavor : used) topologies->add_uses(out, flavor, assignment, each);
  }
  return out;
}

std::vector<NodeRequest> Objects::node_requests(const Json& workload, bool failed) {
  std::vector<NodeRequest> out;
  if (topologies == nullptr || uses_multikueue(workload["status"]["admission"]["clusterQueue"].string())) return out;
  const Work read = work(workload);
  const auto& assigned = workload["status"]["admission"]["podSetAssignments"].items();
  for (std::size_t i = 0; i < read.pod_sets.size(); ++i) {
    const auto& set = read.pod_sets[i];
    const auto own = std::ranges::find_if(assigned, [&](const Json& a) { return a["name"].string() == set.name; });
    if (own == assigned.end() || (*own)["count"].integer(1) == 0) continue;
    const bool due = failed ? on_failed_node((*own)["topologyAssignment"], workload["status"]["unhealthyNodes"])
                            : (*own)["delayedTopologyRequest"].string() == "Pending";
    if (!due) continue;
    for (const auto& [resource, name] : (*own)["flavors"].members()) {
      const auto flavor = flavors.find(name.string());
      if (!flavor || !topologies->has(*flavor)) continue;
      out.push_back({i, *flavor, *set.nodes});
      out.back().request.count = (*own)["count"].integer(1);
      out.back().request.implied = !set.has_topology();
      add_updates(workload["status"]["admissionChecks"], out.back().request);
      break;
    }
  }
  return out;
}

}  // namespace qm::admission::kueue
