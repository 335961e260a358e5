#include "qm/topology/request.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::topology {

std::optional<std::string> level_key(const Tree& tree, const std::optional<TopologyRequest>& request) {
  if (!request) return std::nullopt;
  if (request->required) return request->required;
  if (request->preferred) return request->preferred;
  if (!request->slices.empty()) return tree.level_key(0);
  if (request->unconstrained) return tree.level_key(tree.lowest());
  return std::nullopt;
}

bool has_levels(const Tree& tree, const std::optional<TopologyRequest>& request) {
  const auto key = level_key(tree, request);
  if (!key || !tree.level_of(*key)) return false;
  return std::ranges::all_of(request->slices, [&](const SliceLayer& s) { return tree.level_of(s.level).has_value(); });
}

Pods pods_of(const Placement& placement) {
  Pods out = 0;
  for (const LeafPods& p : placement) out += p.pods;
  return out;
}

Placement truncated(const Placement& placement, Pods pods) {
  Placement out;
  for (const LeafPods& p : placement) {
    if (pods <= 0) break;
    out.push_back({p.leaf, std::min(p.pods, pods)});
    pods -= p.pods;
  }
  return out;
}

Placement merged(Placement a, const Placement& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::ranges::stable_sort(a, {}, &LeafPods::leaf);
  Placement out;
  for (const LeafPods& p : a) {
    if (!out.empty() && out.back().leaf == p.leaf) {
      out.back().pods += p.pods;
    } else {
      out.push_back(p);
    }
  }
  return out;
}

void assume(AssumedUsage& usage, const Placement& placement, const Requests& per_pod) {
  for (const LeafPods& p : placement) add(usage[p.leaf], usage_of(per_pod, p.pods));
}

Assignment to_assignment(const Tree& tree, const Placement& placement) {
  Assignment out;
  out.levels = tree.leaves_are_hosts() ? std::vector{tree.levels().back()} : tree.levels();
  for (const LeafPods& p : placement) {
    out.domains.push_back({tree.leaves_are_hosts() ? std::vector{tree.value(p.leaf)} : tree.values(p.leaf), p.pods});
  }
  return out;
}

std::optional<std::string> stale_domain(const Tree& tree, const Assignment& assignment) {
  for (const auto& domain : assignment.domains) {
    if (tree.find_leaf(domain.values) == kNoDomain) return domain.values.empty() ? "" : domain.values.front();
  }
  return std::nullopt;
}

Placement to_placement(const Tree& tree, const Assignment& assignment) {
  Placement out;
  for (const auto& domain : assignment.domains) {
    out.push_back({tree.find_leaf(domain.values), domain.count});
    QM_ASSERT(out.back().leaf != kNoDomain, "an assignment names a domain that does not exist");
  }
  return out;
}

}  // namespace qm::topology
