// The pod updates of admission checks, and conflicts between them.
#include "lifecycle/pod_updates.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

/// Keys that this service and Kueue write to pods themselves.
bool reserved(const std::string& key) {
  return key.starts_with("quartermaster.dev/") || key == "kueue.x-k8s.io/podset";
}

/// The first key that has another value in `other`.
std::string differs(const std::string& field, const Labels& mine, const Labels& other, const std::string& whose) {
  for (const auto& [key, value] : mine) {
    const auto found = other.find(key);
    if (found == other.end() || found->second == value) continue;
    return fmt::format("{}: {} is {} from {}, and {} in the update", field, key, found->second, whose, value);
  }
  return {};
}

}  // namespace

std::string clash_of(const Tables& tables, const Workload& w, const std::string& check,
                     const std::map<std::string, PodSetUpdate>& updates) {
  for (const auto& [name, update] : updates) {
    const auto at = fmt::format("podSetUpdates[{}]", name);
    const auto set = std::ranges::find(w.spec.pod_sets, name, &PodSet::name);
    if (set == w.spec.pod_sets.end()) {
      std::string has;
      for (const auto& one : w.spec.pod_sets) has += (has.empty() ? "" : ", ") + one.name;
      return fmt::format("{}: unknown pod set; the pod sets are {}", at, has);
    }
    for (const auto& [field, added] : {std::pair("labels", &update.labels), {"annotations", &update.annotations}}) {
      for (const auto& [key, value] : *added) {
        if (reserved(key)) return fmt::format("{}.{}: an admission check must not set {}", at, field, key);
      }
    }
    const auto selector = at + ".nodeSelector";
    auto clash = differs(selector, update.node_selector, set->shape.node_selector, "the pods");
    if (const auto chosen = w.flavors.find(name); chosen != w.flavors.end()) {
      for (const auto& [resource, flavor] : chosen->second) {
        const auto* spec = tables.flavors.find(flavor);
        if (spec == nullptr || !clash.empty()) continue;
        clash = differs(selector, update.node_selector, spec->node_labels, fmt::format("flavor {}", flavor));
      }
    }
    for (const auto& [other, answer] : w.checks) {
      const auto theirs = answer.updates.find(name);
      if (other == check || theirs == answer.updates.end() || !clash.empty()) continue;
      const auto whose = fmt::format("admission check {}", other);
      clash = differs(selector, update.node_selector, theirs->second.node_selector, whose);
      if (clash.empty()) clash = differs(at + ".labels", update.labels, theirs->second.labels, whose);
      if (clash.empty()) clash = differs(at + ".annotations", update.annotations, theirs->second.annotations, whose);
    }
    if (!clash.empty()) return clash;
  }
  return {};
}

}  // namespace qm::admission
