#include "qm/admission/exact/objects.hpp"

#include "qm/base/time.hpp"
#include "qm/model/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

namespace qm::admission::exact {
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

/// Nothing where it is no number.
std::int32_t boost_of(const std::string& text) {
  std::int32_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? out : 0;
}

std::int64_t micros_of(const Json& time) {
  const auto read = from_rfc3339(time.string());
  return read ? micros(*read) : 0;
}

/// Whether one expression of a node selector term holds for these labels.
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

void add(std::map<std::string, std::int64_t>& to, const std::map<std::string, std::int64_t>& more) {
  for (const auto& [resource, amount] : more) to[resource] = plus(to[resource], amount);
}
void raise(std::map<std::string, std::int64_t>& to, const std::map<std::string, std::int64_t>& least) {
  for (const auto& [resource, amount] : least) to[resource] = std::max(to[resource], amount);
}

std::map<std::string, std::int64_t> container_requests(const Json& container) {
  std::map<std::string, std::int64_t> out;
  const auto& resources = container["resources"];
  for (const auto& [resource, amount] : resources["limits"].members()) out[resource] = canonical(resource, amount);
  for (const auto& [resource, amount] : resources["requests"].members()) out[resource] = canonical(resource, amount);
  return out;
}

}  // namespace

int Names::of(std::string_view name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  const int id = static_cast<int>(names_.size());
  ids_.emplace(name, id);
  names_.emplace_back(name);
  return id;
}

std::optional<int> Names::find(std::string_view name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::int64_t canonical(std::string_view resource, const Json& quantity) {
  const auto read = Quantity::parse(quantity.is_string() ? quantity.string() : quantity.dump());
  if (!read) return 0;
  return resource == "cpu" ? read->milli() : read->units();
}

std::map<std::string, std::int64_t> pod_requests(const Json& pod_spec) {
  std::map<std::string, std::int64_t> out, sidecars, init;
  for (const auto& container : pod_spec["containers"].items()) add(out, container_requests(container));
  for (const auto& container : pod_spec["initContainers"].items()) {
    auto own = container_requests(container);
    if (container["restartPolicy"].string() == "Always") {
      add(sidecars, own);
      raise(init, sidecars);
    } else {
      add(own, sidecars);
      raise(init, own);
    }
  }
  add(out, sidecars);
  raise(out, init);
  std::map<std::string, std::int64_t> overhead;
  for (const auto& [resource, amount] : pod_spec["overhead"].members())
    overhead[resource] = canonical(resource, amount);
  add(out, overhead);
  return out;
}

void Objects::add_flavor(const Json& object) {
  auto& spec = specs_[flavors.of(object["metadata"]["name"].string())];
  spec.labels = labels_of(object["spec"]["nodeLabels"]);
  for (const auto& t : object["spec"]["nodeTaints"].items()) {
    spec.taints.push_back({t["key"].string(), t["value"].string(), t["effect"].string()});
  }
  spec.tolerations = tolerations_of(object["spec"]["tolerations"]);
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
      // A covered resource without a quota of its own has none.
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
  // v1beta1 says Borrow and Preempt where v1beta2 says MayStopSearch.
  const auto& fungibility = spec["flavorFungibility"];
  rules.stops_at_borrowing = fungibility["whenCanBorrow"].string() != "TryNextFlavor";
  const auto& at_preemption = fungibility["whenCanPreempt"].string();
  rules.stops_at_preemption = at_preemption == "MayStopSearch" || at_preemption == "Preempt";
  rules.prefers_borrowing = fungibility["preference"].string() != "PreemptionOverBorrowing";
  take(spec["resourceGroups"], out.quotas, &rules.groups);
  forest.queues[object["metadata"]["name"].string()] = std::move(out);
}

/// Taints that nothing tolerates refuse; selectors and required affinity count for the keys that the flavor speaks of, and a
/// term in which none of them is left holds.
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

std::string amount_text(std::string_view resource, std::int64_t amount) {
  if (resource == "cpu") return Quantity::of_milli(amount).to_string();
  const bool bytes = resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-");
  return Quantity::of(amount, bytes ? Quantity::Format::kBinarySi : Quantity::Format::kDecimalSi).to_string();
}

std::string Objects::to_string(const Why& why) const {
  const auto flavor = why.kind == Why::Kind::kNotCovered ? std::string() : flavors[why.flavor];
  const auto resource = why.kind == Why::Kind::kRefused ? std::string() : resources[why.resource];
  switch (why.kind) {
    case Why::Kind::kRefused:
      switch (why.refusal.why) {
        case Refusal::Why::kNotFound:
          return fmt::format("flavor {} not found", flavor);
        case Refusal::Why::kTaint:
          return fmt::format("untolerated taint {{{} <nil>}} in flavor {}", why.refusal.detail, flavor);
        case Refusal::Why::kAffinity:
          return fmt::format("flavor {} doesn't match node affinity", flavor);
        case Refusal::Why::kNotAllowed:
          return fmt::format("skipping flavor {} due to WorkloadAllowedResourceFlavorAnnotation annotation", flavor);
      }
      return {};
    case Why::Kind::kNotAsBefore:
      return fmt::format("skipping flavor {} as it is not found in the nomination mapping for resource {}", flavor,
                         resource);
    case Why::Kind::kNotCovered:
      return fmt::format("resource {} unavailable in ClusterQueue", resource);
    case Why::Kind::kExceedsMax:
      return fmt::format(
          "insufficient quota for {} in flavor {}, previously considered podsets requests ({}) + current podset request ({}) "
          "> maximum capacity ({})",
          resource, flavor, amount_text(resource, why.earlier), amount_text(resource, why.asked),
          amount_text(resource, why.most));
    case Why::Kind::kInsufficient:
      return fmt::format("insufficient unused quota for {} in flavor {}, {} more needed", resource, flavor,
                         amount_text(resource, why.asked));
  }
  return {};
}

Work Objects::work(const Json& workload) {
  Work out;
  const auto& spec = workload["spec"];
  const auto& metadata = workload["metadata"];
  out.priority = static_cast<std::int32_t>(spec["priority"].integer());
  if (priority_boost) out.priority += boost_of(metadata["annotations"]["kueue.x-k8s.io/priority-boost"].string());
  out.uid = metadata["uid"].string();
  out.created = micros_of(metadata["creationTimestamp"]);
  for (const auto& condition : workload["status"]["conditions"].items()) {
    if (condition["status"].string() != "True") continue;
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
  std::set<std::string> allowed;
  if (allowed_flavors) {
    std::stringstream list(metadata["annotations"]["kueue.x-k8s.io/workload-allowed-resource-flavors"].string());
    for (std::string name; std::getline(list, name, ',');) allowed.insert(name);
  }
  std::map<std::string, std::int64_t> ended;
  for (const auto& pods : workload["status"]["reclaimablePods"].items())
    ended[pods["name"].string()] = pods["count"].integer();
  std::string shape = std::to_string(out.priority);
  for (const auto& set : spec["podSets"].items()) {
    PodSet made;
    made.name = set["name"].string();
    made.count = static_cast<std::int32_t>(set["count"].integer(1) - ended[made.name]);
    if (set.contains("minCount")) made.min_count = static_cast<std::int32_t>(set["minCount"].integer());
    const auto& pod_spec = set["template"]["spec"];
    for (const auto& [resource, amount] : pod_requests(pod_spec)) {
      made.each.emplace_back(resources.of(resource), std::min(amount, kUnlimited - 1));
    }
    std::ranges::reverse(made.each);
    for (Flavor flavor = 0; flavor < flavors.size(); ++flavor) {
      if (!allowed.empty() && !allowed.contains(flavors[flavor])) {
        made.refused.push_back({flavor, Refusal::Why::kNotAllowed, {}});
      } else if (auto refusal = refuses(flavor, pod_spec)) {
        made.refused.push_back(std::move(*refusal));
      }
    }
    shape += set.dump() + std::to_string(made.count);
    out.pod_sets.push_back(std::move(made));
  }
  out.shape = shapes_.of(shape);
  return out;
}

Amounts Objects::usage(const Json& workload, const std::map<std::pair<Flavor, Resource>, Cell>& cells) const {
  Amounts out;
  std::map<std::string, std::int64_t> pods;
  for (const auto& set : workload["spec"]["podSets"].items()) pods[set["name"].string()] = set["count"].integer(1);
  for (const auto& ended : workload["status"]["reclaimablePods"].items()) {
    pods[ended["name"].string()] -= ended["count"].integer();
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

}  // namespace qm::admission::exact
