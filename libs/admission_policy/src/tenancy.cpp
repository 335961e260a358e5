// The rules about the owner of a pod: its namespace and its priority.
#include "rules.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission_policy {
namespace {

/// Prefix of the priority classes of Kubernetes for components that keep a cluster running.
constexpr std::string_view kSystemClasses = "system-";

bool permits(const std::set<std::string>& some, std::string_view one) {
  return some.empty() || some.contains(std::string(one));
}

}  // namespace

void gpu_namespace(const Case& one, Findings& out) {
  const auto& facts = one.facts();
  if (facts.refused_namespaces.contains(one.ns)) {
    out.push_back({"gpu-namespace", fmt::format("namespace {} does not allow GPU pods", one.ns), "metadata.namespace",
                   "create it in the namespace of its team"});
  }
  for (const auto& [key, value] : facts.namespace_labels) {
    const auto found = one.home.labels.find(key);
    const bool fits =
        found != one.home.labels.end() && !found->second.empty() && (value.empty() || found->second == value);
    if (fits) continue;
    out.push_back({"gpu-namespace",
                   fmt::format("namespace {} lacks the label {}{}{}", one.ns, key, value.empty() ? "" : "=", value),
                   "metadata.namespace", "label the namespace, or create the pod in one that has it"});
  }
}

void gpu_priority(const Case& one, Findings& out) {
  const auto check = [&](const std::string& name, const char* field) {
    if (name.empty()) return;
    if (name.starts_with(kSystemClasses)) {
      out.push_back({"gpu-priority", fmt::format("{} is for system components, and no quota counts it", name), field,
                     "name a priority class of your own"});
    }
    for (const auto& use : one.facts().priorities) {
      if (use.name != name) continue;
      const auto type = one.label(kWorkloadType);
      if (permits(use.namespaces, one.ns) && permits(use.workload_types, type)) continue;
      out.push_back(
          {"gpu-priority",
           permits(use.namespaces, one.ns)
               ? fmt::format("priority class {} is for {}, not for {}", name, fmt::join(use.workload_types, " and "),
                             type.empty() ? "pods without a workload type" : type)
               : fmt::format("priority class {} is not for namespace {}", name, one.ns),
           field, "name another class, or none"});
    }
  };
  check(one.spec()["priorityClassName"].string(), "priorityClassName");
  check(std::string(one.label(words::kPriorityClassLabel)), "metadata.labels");
}

}  // namespace qm::admission_policy
