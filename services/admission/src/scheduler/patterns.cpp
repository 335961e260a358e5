#include "scheduler/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission {
namespace {

/// A flavor refuses pods that do not tolerate one of its taints, or whose node selector differs for one of its labels.
std::optional<kueue::Refusal> refusal(const Flavor& flavor, kueue::Flavor id, const PodShape& shape) {
  auto tolerations = shape.tolerations;
  tolerations.insert(tolerations.end(), flavor.tolerations.begin(), flavor.tolerations.end());
  if (const Taint* taint = untolerated(flavor.node_taints, tolerations)) {
    return kueue::Refusal{id, kueue::Refusal::Why::kTaint, taint->key};
  }
  for (const auto& [key, value] : flavor.node_labels) {
    const auto found = shape.node_selector.find(key);
    if (found == shape.node_selector.end() || found->second == value) continue;
    return kueue::Refusal{id, kueue::Refusal::Why::kAffinity, key};
  }
  return std::nullopt;
}

/// Quota requests of one pod, by resource; zero requests are omitted.
std::map<std::string, std::int64_t> requests_of(const PodShape& shape) {
  std::map<std::string, std::int64_t> out;
  const auto add = [&](const std::string& resource, std::int64_t amount) {
    if (amount > 0) out[resource] += amount;
  };
  add("cpu", shape.cpu_milli);
  add("memory", shape.memory_bytes);
  if (shape.gpu.mig_count > 0) {
    add("nvidia.com/mig-" + shape.gpu.mig_profile, shape.gpu.mig_count);
  } else {
    add(std::string(words::kGpuResource), shape.gpu.whole * 1000 + shape.gpu.milli);
  }
  for (const auto& [resource, amount] : shape.extended) add(resource, amount);
  return out;
}

/// The minimum number of pods to start with; 0 for all. Kinds other than Job cannot be started with fewer.
std::int32_t least_of(const Spec& spec, const PodSet& set) {
  return spec.kind == "Job" && set.min_count < set.count ? set.min_count : 0;
}

/// Workloads with equal texts have equal results.
std::string text_of(const Spec& spec, const TopologyNodes& nodes) {
  std::string text;
  for (const auto& set : spec.pod_sets) {
    text += fmt::format("{}*{}/{}", set.name, set.count, least_of(spec, set));
    for (const auto& [resource, amount] : requests_of(set.shape)) text += fmt::format(",{}={}", resource, amount);
    for (const auto& [key, value] : set.shape.node_selector) text += fmt::format(",@{}={}", key, value);
    for (const auto& t : set.shape.tolerations) {
      text += fmt::format(",~{}:{}:{}:{}", t.key, t.op, t.value, t.effect);
    }
    text += nodes.text_of(set) + ';';
  }
  return text;
}

}  // namespace

std::map<std::string, std::int64_t> requests_of(const WorkloadSpec& spec) {
  std::map<std::string, std::int64_t> out;
  for (const auto& set : spec.pod_sets) {
    for (const auto& [resource, amount] : requests_of(set.shape)) out[resource] += amount * set.count;
  }
  std::erase_if(out, [](const auto& one) { return one.second == 0; });
  return out;
}

const Pattern* Patterns::of(const Spec& spec, QuotaNames& names, const TopologyNodes& nodes) {
  const auto [known, unseen] = known_.try_emplace({spec.pod_sets, spec.kind == "Job"});
  if (!unseen) return known->second;
  const auto [it, fresh] = patterns_.try_emplace(text_of(spec, nodes));
  Pattern& pattern = it->second;
  known->second = &pattern;
  if (!fresh) return &pattern;
  pattern.shape = static_cast<int>(patterns_.size());
  for (const auto& set : spec.pod_sets) {
    kueue::PodSet made;
    made.name = set.name;
    made.count = set.count;
    if (const auto least = least_of(spec, set); least > 0) made.min_count = least;
    for (const auto& [resource, amount] : requests_of(set.shape))
      made.each.emplace_back(names.resources.of(resource), amount);
    // Kueue processes resources in descending order of name.
    std::ranges::reverse(made.each);
    nodes.add_request(set, made);
    if (made.nodes && made.nodes->group) {
      const auto same = [&](const kueue::PodSet& other) { return other.nodes->group == made.nodes->group; };
      const auto first = std::ranges::find_if(pattern.pod_sets, same) - pattern.pod_sets.begin();
      made.group = static_cast<std::int32_t>(first);  // its own number if it is the first
    }
    for (kueue::Flavor id = 0; id < names.flavors.size(); ++id) {
      const auto spec_of = flavors_.find(FlavorName(names.flavors[id]));
      if (spec_of == flavors_.end()) {
        made.refused.push_back({id, kueue::Refusal::Why::kNotFound, {}});
        continue;
      }
      if (auto no = nodes.refusal(made, spec_of->second, id)) made.refused.push_back(std::move(*no));
      if (auto no = refusal(spec_of->second, id, set.shape)) {
        made.refused.push_back(std::move(*no));
      }
    }
    pattern.pod_sets.push_back(std::move(made));
  }
  return &pattern;
}

Assignment assignment_of(const QuotaNames& names, int tree, const Pattern& pattern, const kueue::Assignment& made) {
  auto& last = pattern.last;
  const auto same = [](const kueue::Assignment::Set& a, const kueue::Assignment::Set& b) {
    return a.count == b.count && std::ranges::equal(a.flavors, b.flavors, [](const auto& one, const auto& other) {
             return one.resource == other.resource && one.flavor == other.flavor;
           });
  };
  if (last.tree == tree && last.usage == made.usage && std::ranges::equal(last.sets, made.sets, same)) {
    return last.named;
  }
  Flavors flavors;
  Counts counts;
  bool fewer = false;
  for (std::size_t i = 0; i < made.sets.size(); ++i) {
    counts.push_back(made.sets[i].count);
    fewer = fewer || made.sets[i].count != pattern.pod_sets[i].count;
    for (const auto& choice : made.sets[i].flavors) {
      flavors[pattern.pod_sets[i].name][names.resources[choice.resource]] = FlavorName(names.flavors[choice.flavor]);
    }
  }
  if (!fewer) counts.clear();
  last = {tree, made.sets, made.usage, {std::move(flavors), names.usage_of(tree, made.usage), std::move(counts)}};
  return last.named;
}

}  // namespace qm::admission
