// First-fit flavor choice, and what a workload asks of quota.
#include "qm/admission/policy.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

void add_request(Demand::Set& set, const std::string& resource, std::int64_t per_pod) {
  if (per_pod > 0) set.requests[resource] += per_pod * set.pods;
}

std::string shape_text(const Demand& demand) {
  std::string text;
  for (const auto& set : demand.sets) {
    text += fmt::format("{}*{}", set.name, set.pods);
    for (const auto& [resource, amount] : set.requests) text += fmt::format(",{}={}", resource, amount);
    for (const auto& [key, value] : set.node_selector) text += fmt::format(",@{}={}", key, value);
    for (const auto& t : set.tolerations) text += fmt::format(",~{}:{}:{}:{}", t.key, t.op, t.value, t.effect);
    text += ';';
  }
  return text;
}

// The selector counts only for the keys that the flavor speaks of.
const std::string* clash(const Labels& selector, const Labels& flavor) {
  for (const auto& [key, value] : flavor) {
    auto it = selector.find(key);
    if (it != selector.end() && it->second != value) return &key;
  }
  return nullptr;
}

}  // namespace

Demand Demand::of(const WorkloadSpec& spec) {
  Demand demand;
  for (const auto& pods : spec.pod_sets) {
    Set set;
    set.name = pods.name;
    set.pods = pods.count;
    set.node_selector = pods.shape.node_selector;
    set.tolerations = pods.shape.tolerations;
    add_request(set, "cpu", pods.shape.cpu_milli);
    add_request(set, "memory", pods.shape.memory_bytes);
    const auto& gpu = pods.shape.gpu;
    if (gpu.mig_count > 0) {
      add_request(set, "nvidia.com/mig-" + gpu.mig_profile, gpu.mig_count);
    } else {
      add_request(set, std::string(words::kGpuResource), gpu.whole * 1000 + gpu.milli);
    }
    for (const auto& [resource, amount] : pods.shape.extended) add_request(set, resource, amount);
    demand.sets.push_back(std::move(set));
  }
  demand.shape = shape_text(demand);
  return demand;
}

FirstFitFlavors::Choice FirstFitFlavors::choose(const ClusterQueue& queue, const Demand& demand, Mode mode,
                                                std::size_t first) const {
  Choice choice;
  for (const auto& set : demand.sets) {
    auto requests = set.requests;
    if (queue.group_of("pods") != nullptr && set.pods > 0) requests["pods"] = set.pods;
    std::vector<const ResourceGroup*> decided;
    for (const auto& [resource, amount] : requests) {
      const ResourceGroup* group = queue.group_of(resource);
      if (group == nullptr) {
        choice.shortfalls = {{Shortfall::Kind::kNotCovered, set.name, {}, resource, amount, 0, {}}};
        return choice;
      }
      if (std::find(decided.begin(), decided.end(), group) != decided.end()) continue;
      decided.push_back(group);
      std::vector<Shortfall> refused;
      bool found = false;
      for (std::size_t i = first; i < group->flavors.size() && !found; ++i) {
        const FlavorName& name = group->flavors[i].flavor;
        auto flavor = flavors.find(name);
        if (flavor == flavors.end()) {
          refused.push_back({Shortfall::Kind::kFlavorMissing, set.name, name, resource, amount, 0, {}});
          continue;
        }
        auto tolerations = set.tolerations;
        tolerations.insert(tolerations.end(), flavor->second.tolerations.begin(), flavor->second.tolerations.end());
        if (const Taint* taint = untolerated(flavor->second.node_taints, tolerations)) {
          refused.push_back({Shortfall::Kind::kTaint, set.name, name, resource, amount, 0, taint->key});
          continue;
        }
        if (const auto* key = clash(set.node_selector, flavor->second.node_labels)) {
          refused.push_back({Shortfall::Kind::kSelector, set.name, name, resource, amount, 0, *key});
          continue;
        }
        found = true;
        for (const auto& [covered, wanted] : requests) {
          if (queue.group_of(covered) != group) continue;
          const FlavorResource at{name, covered};
          const auto earlier = choice.assignment.usage.find(at);
          const auto total = wanted + (earlier == choice.assignment.usage.end() ? 0 : earlier->second);
          const auto most = tree.potential(queue.name, at);
          const auto free = mode == Mode::kFit ? tree.available(queue.name, at) : most;
          if (total <= free) continue;
          found = false;
          const bool never = total > most;
          refused.push_back({never ? Shortfall::Kind::kNeverFits : Shortfall::Kind::kQuota,
                             set.name,
                             name,
                             covered,
                             total,
                             never ? most : free,
                             {}});
        }
        if (!found) continue;
        for (const auto& [covered, wanted] : requests) {
          if (queue.group_of(covered) != group) continue;
          choice.assignment.usage[{name, covered}] += wanted;
          choice.assignment.flavors[set.name][covered] = name;
        }
      }
      if (!found) {
        choice.shortfalls = std::move(refused);
        return choice;
      }
    }
  }
  choice.complete = true;
  return choice;
}

}  // namespace qm::admission
