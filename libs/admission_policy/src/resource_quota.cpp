// Which pods a ResourceQuota counts, what they are charged, and which pods it does not count.
#include "qm/admission_policy/resource_quota.hpp"

#include "pod.hpp"
#include "qm/admission_policy/policy.hpp"
#include "qm/model/pod_resources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace qm::admission_policy {
namespace {

using Amounts = std::map<std::string, Quantity>;
__extension__ typedef __int128 Wide;

Result<Amounts> amounts(const Json& from, const std::string& field) {
  Amounts out;
  for (const auto& [name, value] : from.members()) {
    const auto read = quantity(value);
    if (!read) {
      return fail(Error{Code::kInvalid, fmt::format("{} is not a quantity", value.dump()), field + "." + name,
                        "write a quantity such as 16 or 500Gi"});
    }
    out.emplace(name, *read);
  }
  return out;
}

std::vector<std::string> texts(const Json& list) {
  std::vector<std::string> out;
  for (const auto& item : list.items()) out.push_back(item.string());
  return out;
}

bool names(const std::vector<std::string>& values, const std::string& one) {
  return std::ranges::find(values, one) != values.end();
}

/// Scope PriorityClass, by a set of classes. An empty class name is in no set.
bool class_fits(const ResourceQuota::Scope& scope, const std::string& name) {
  if (scope.op == "Exists") return !name.empty();
  if (scope.op == "DoesNotExist") return name.empty();
  const bool in = !name.empty() && names(scope.values, name);
  return scope.op == "NotIn" ? !in : in;
}

bool best_effort(const Json& spec) {
  bool none = true;
  each_container(spec, [&](const Json& container) {
    for (const auto* side : {"requests", "limits"}) {
      const auto& given = container["resources"][side];
      if (given.contains("cpu") || given.contains("memory")) none = false;
    }
  });
  return none;
}

bool of_gpus(const std::string& name) {
  for (const std::string_view prefix : {"requests.", "limits."}) {
    if (name.starts_with(prefix)) return is_gpu(std::string_view(name).substr(prefix.size()));
  }
  return is_gpu(name);
}

}  // namespace

Result<ResourceQuota> ResourceQuota::read(const Json& object) {
  ResourceQuota out;
  out.ns = object["metadata"]["namespace"].string();
  out.name = object["metadata"]["name"].string();
  QM_ASSIGN(out.hard, amounts(object["spec"]["hard"], "spec.hard"));
  QM_ASSIGN(out.used, amounts(object["status"]["used"], "status.used"));
  for (const auto& scope : object["spec"]["scopes"].items()) out.scopes.push_back({scope.string(), "Exists", {}});
  for (const auto& one : object.path("spec.scopeSelector.matchExpressions").items()) {
    out.scopes.push_back({one["scopeName"].string(), one["operator"].string(), texts(one["values"])});
  }
  return out;
}

bool ResourceQuota::counts(const Json& spec) const {
  return std::ranges::all_of(scopes, [&](const Scope& scope) {
    const bool ends = spec["activeDeadlineSeconds"].integer() > 0;
    if (scope.name == "PriorityClass") return class_fits(scope, spec["priorityClassName"].string());
    if (scope.name == "Terminating") return ends;
    if (scope.name == "NotTerminating") return !ends;
    if (scope.name == "BestEffort") return best_effort(spec);
    if (scope.name == "NotBestEffort") return !best_effort(spec);
    return false;  // scopes of other objects, or of pods with affinity across namespaces
  });
}

std::map<std::string, Quantity> charge_of(const Json& spec) {
  Amounts out{{"pods", Quantity::of(1)}, {"count/pods", Quantity::of(1)}};
  auto resources = PodResources::read(spec);
  resources.set_defaults();
  for (const auto& [name, amount] : resources.total_requests()) {
    out["requests." + name] = amount;
    if (name == "cpu" || name == "memory" || name == "ephemeral-storage") out[name] = amount;
  }
  for (const auto& [name, amount] : resources.total_limits()) out["limits." + name] = amount;
  return out;
}

std::vector<Finding> beyond_quota(const std::vector<ResourceQuota>& quotas, const Json& spec, std::int64_t pods) {
  std::vector<Finding> out;
  const auto charge = charge_of(spec);
  for (const auto& quota : quotas) {
    if (!quota.counts(spec)) continue;
    for (const auto& [name, hard] : quota.hard) {
      const auto cost = charge.find(name);
      if (cost == charge.end()) {
        // GPUs that are not requested are not charged; of other resources a counted amount must be specified.
        const bool given = !name.ends_with("cpu") && !name.ends_with("memory");
        if (given) continue;
        out.push_back({"quota",
                       fmt::format("quota {}/{} counts {}, which the pod does not set", quota.ns, quota.name, name),
                       "containers", fmt::format("set {} for each container", name)});
        continue;
      }
      const auto found = quota.used.find(name);
      const Quantity used = found == quota.used.end() ? Quantity() : found->second;
      if (used.milli() + static_cast<Wide>(cost->second.milli()) * pods <= hard.milli()) continue;
      out.push_back({"quota",
                     fmt::format("quota {}/{} has {} of {}, {} are used, and each of {} pods uses {}", quota.ns,
                                 quota.name, hard.to_string(), name, used.to_string(), pods, cost->second.to_string()),
                     "containers", "request less, or wait until other pods end"});
    }
  }
  return out;
}

std::vector<Finding> past_quota(const std::vector<ResourceQuota>& quotas, const Json& spec) {
  std::vector<Finding> out;
  if (quotas.empty()) return out;
  const auto charge = charge_of(spec);
  for (const auto& [name, amount] : charge) {
    if (!of_gpus(name) || amount == Quantity()) continue;
    const ResourceQuota* missed = nullptr;
    bool counted = false;
    for (const auto& quota : quotas) {
      if (!quota.hard.contains(name)) continue;
      const bool by_class = std::ranges::any_of(quota.scopes, [](const auto& s) { return s.name == "PriorityClass"; });
      if (quota.counts(spec)) {
        counted = true;
      } else if (by_class && missed == nullptr) {
        missed = &quota;
      }
    }
    if (counted || missed == nullptr) continue;
    const auto& named = spec["priorityClassName"].string();
    const auto which = named.empty() ? std::string("names none") : fmt::format("is of {}", named);
    out.push_back({"quota-scope",
                   fmt::format("QUOTA_BYPASS: quota {}/{} counts {} of some priority classes, and the pod {}",
                               missed->ns, missed->name, name, which),
                   "priorityClassName", "name a class that the quota counts, or remove the scope from the quota"});
  }
  return out;
}

}  // namespace qm::admission_policy
