// Assigns the pod sets of one workload in one flavor: groups in order, and the two reassignments of a running
// workload:
// a failed node is replaced, or an elastic workload scales up and down around its running pods.
#include "qm/topology/assign.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::topology {
namespace {

using Group = std::vector<const PodSetRequest*>;

std::vector<Group> groups_of(std::span<const PodSetRequest> pod_sets) {
  std::vector<Group> out;
  for (const PodSetRequest& p : pod_sets) {
    const auto it = std::ranges::find_if(out, [&](const Group& g) { return p.group && g.front()->group == p.group; });
    if (it != out.end()) {
      it->push_back(&p);
    } else {
      out.push_back({&p});
    }
  }
  return out;
}

struct Gang {
  const PodSetRequest* workers = nullptr;
  const PodSetRequest* leader = nullptr;
};
/// The smaller pod set leads; of equals the second.
Gang gang_of(const Group& group) {
  if (group.size() < 2) return {group[0], nullptr};
  return group[1]->count > group[0]->count ? Gang{group[1], group[0]} : Gang{group[0], group[1]};
}

/// The innermost layer of slices that `missing` pods do not fill completely, if the outermost is such a layer.
const SliceLayer* broken_layer(const std::vector<SliceLayer>& layers, Pods missing) {
  const auto whole = [&](const SliceLayer& l) { return missing % l.size == 0; };
  if (layers.empty() || whole(layers.front())) return nullptr;
  return &*std::find_if_not(layers.rbegin(), layers.rend(), whole);
}

class Assigner {
 public:
  Assigner(Search& search, AssignOptions options)
      : search_(search), tree_(search.topology().tree()), options_(std::move(options)) {}

  std::vector<PodSetResult> run(std::span<const PodSetRequest> pod_sets) {
    for (const Group& group : groups_of(pod_sets)) {
      const bool good = options_.replacement != nullptr ? replace(group) : place(group);
      if (!good) break;
    }
    return std::move(out_);
  }

 private:
  bool failed(const PodSetRequest& p, std::string reason) {
    out_.push_back({p.name, std::nullopt, std::move(reason)});
    return false;
  }
  void assigned(const PodSetRequest& p, const Placement& placement) {
    out_.push_back({p.name, to_assignment(tree_, placement), ""});
  }
  void assume(const PodSetRequest& p, const Placement& placement) {
    topology::assume(options_.assumed, placement, p.per_pod);
  }
  [[nodiscard]] SearchOptions search_options() const { return {&options_.assumed, options_.simulate_empty, kNoDomain}; }

  // ---- new assignment ----

  bool place(const Group& group) {
    const Gang gang = gang_of(group);
    if (search_.gates().elastic && keeps_running_pods(gang)) return resize(gang);
    const auto found = search_.place(*gang.workers, gang.leader, search_options());
    for (const PodSetRequest* p : group) {
      if (!found) {
        failed(*p, found.error().message);
      } else if (p == gang.workers || p == gang.leader) {
        assigned(*p, p == gang.leader ? found->leader : found->workers);
      }
    }
    if (!found) return false;
    assume(*gang.workers, found->workers);
    if (gang.leader != nullptr) assume(*gang.leader, found->leader);
    return true;
  }

  // ---- elastic: running pods stay ----

  /// False if one of their domains is gone, or slices would be incomplete.
  [[nodiscard]] bool keeps_running_pods(const Gang& gang) const {
    const auto gone = [&](const PodSetRequest* p) {
      return p != nullptr && p->previous && stale_domain(tree_, *p->previous);
    };
    if (!gang.workers->previous || gone(gang.workers) || gone(gang.leader)) return false;
    const auto& topology = gang.workers->topology;
    const Pods size = topology && !topology->slices.empty() ? std::max<Pods>(1, topology->slices.front().size) : 1;
    Pods before = 0;
    for (const auto& domain : gang.workers->previous->domains) before += domain.count;
    return before % size == 0 && gang.workers->count % size == 0;
  }

  [[nodiscard]] Placement previous(const PodSetRequest& p) const {
    return p.previous ? to_placement(tree_, *p.previous) : Placement{};
  }

  bool resize(const Gang& gang) {
    const Placement before = previous(*gang.workers);
    if (gang.workers->count > pods_of(before)) return grow(gang, before);
    const Placement after = truncated(before, gang.workers->count);
    assume(*gang.workers, after);
    assigned(*gang.workers, after);
    if (gang.leader != nullptr) {
      assume(*gang.leader, previous(*gang.leader));
      if (gang.leader->previous) assigned(*gang.leader, previous(*gang.leader));
    }
    return true;
  }

  bool grow(const Gang& gang, const Placement& before) {
    PodSetRequest more = *gang.workers;
    more.count -= pods_of(before);
    assume(*gang.workers, before);
    const bool leader_runs = gang.leader != nullptr && gang.leader->previous;
    if (leader_runs) assume(*gang.leader, previous(*gang.leader));
    const auto found = search_.place(more, leader_runs ? nullptr : gang.leader, search_options());
    if (!found) return failed(*gang.workers, found.error().message);
    assume(*gang.workers, found->workers);
    assigned(*gang.workers, merged(found->workers, before));
    if (gang.leader != nullptr) {
      if (!leader_runs) assume(*gang.leader, found->leader);
      assigned(*gang.leader, leader_runs ? previous(*gang.leader) : found->leader);
    }
    return true;
  }

  // ---- failed node ----

  bool replace(const Group& group) {
    return std::ranges::all_of(group, [this](const PodSetRequest* p) {
      const auto& existing = options_.replacement->existing;
      const auto it = std::ranges::find(existing, p->name, &Existing::pod_set);
      return it == existing.end() || replace(*p, it->assignment);
    });
  }

  bool replace(const PodSetRequest& p, Assignment kept) {
    if (options_.replacement->keep) {
      out_.push_back({p.name, std::move(kept), ""});
      return true;
    }
    PodSetRequest missing = p;
    missing.count = remove_failed(kept);
    if (const auto stale = stale_domain(tree_, kept)) {
      return failed(
          p, fmt::format("Cannot replace the node, because the existing topologyAssignment is invalid, as it contains "
                         "the stale domain {}",
                         *stale));
    }
    if (p.topology && std::ranges::any_of(p.topology->slices, [](const SliceLayer& l) { return l.size <= 0; }))
      return failed(p, "slice topology requested, but slice size not provided");
    const Placement rest = to_placement(tree_, kept);
    SearchOptions options{&options_.assumed, false, required_domain(missing, rest)};
    if (options.within != kNoDomain) reduce_slices(missing);
    const auto found = search_.place(missing, nullptr, options);
    if (!found) return failed(p, found.error().message);
    if (found->workers.empty()) {
      return failed(p, fmt::format("cannot find replacement assignment for unhealthy node: {}",
                                   options_.replacement->failed_node));
    }
    assigned(p, merged(found->workers, rest));
    assume(p, found->workers);
    return true;
  }

  /// Removes the failed node from the assignment and returns the number of its pods.
  Pods remove_failed(Assignment& assignment) const {
    Pods out = 0;
    std::erase_if(assignment.domains, [&](const AssignedDomain& d) {
      const bool failed = !d.values.empty() && d.values.back() == options_.replacement->failed_node;
      if (failed) out = d.count;
      return failed;
    });
    return out;
  }

  /// The required domain of the missing pods: that of the rest of their slice, or of a gang that must be together.
  [[nodiscard]] DomainId required_domain(const PodSetRequest& missing, const Placement& rest) const {
    auto key = level_key(tree_, missing.topology);
    if (!key && missing.implied) key = tree_.level_key(tree_.lowest());
    const auto level = key ? tree_.level_of(*key) : std::nullopt;
    if (!level || rest.empty() || !missing.topology) return kNoDomain;
    if (const SliceLayer* broken = broken_layer(missing.topology->slices, missing.count))
      return incomplete_domain(rest, missing.count, *broken);
    return missing.topology->required ? tree_.ancestor(rest.front().leaf, *level) : kNoDomain;
  }

  /// The domain of the slices' level that the missing pods complete.
  [[nodiscard]] DomainId incomplete_domain(const Placement& rest, Pods missing, const SliceLayer& layer) const {
    const auto level = tree_.level_of(layer.level);
    if (!level) return kNoDomain;
    std::map<DomainId, Pods> pods;
    for (const LeafPods& l : rest) pods[tree_.ancestor(l.leaf, *level)] += l.pods;
    const auto it = std::ranges::find_if(pods, [&](const auto& p) { return (p.second + missing) % layer.size == 0; });
    return it == pods.end() ? kNoDomain : it->first;
  }

  /// Pods that are not a whole slice of the outermost layer still form slices of the innermost layer that they fill
  /// completely.
  static void reduce_slices(PodSetRequest& missing) {
    auto& slices = missing.topology->slices;
    if (slices.empty() || missing.count % slices.front().size == 0) return;
    const auto whole =
        std::find_if(slices.rbegin(), slices.rend(), [&](const SliceLayer& l) { return missing.count % l.size == 0; });
    slices = whole == slices.rend() ? std::vector<SliceLayer>{} : std::vector{*whole};
  }

  Search& search_;
  const Tree& tree_;
  AssignOptions options_;
  std::vector<PodSetResult> out_;
};

}  // namespace

std::vector<PodSetResult> assign(Search& search, std::span<const PodSetRequest> pod_sets, AssignOptions options) {
  return Assigner(search, std::move(options)).run(pod_sets);
}

}  // namespace qm::topology
