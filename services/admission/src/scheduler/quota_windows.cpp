// Quota windows in the trees: the quota that applies at an instant, and what is beyond it.
#include "scheduler/decisions.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

bool beyond(const kueue::Tree& tree, kueue::Node queue, kueue::Cell cell) {
  return tree.used(queue, cell) > tree.quota(queue, cell).nominal && tree.left(queue, cell) < 0;
}

}  // namespace

// ---- of one queue ----

std::vector<ResourceGroup> groups_at(const ClusterQueue& queue, Instant now) {
  auto out = queue.groups;
  // The first listed window takes precedence, so it is applied last.
  for (auto one = queue.windows.rbegin(); one != queue.windows.rend(); ++one) {
    if (!one->window.open(now)) continue;
    for (auto& group : out) {
      for (auto& flavor : group.flavors) {
        const auto named = one->nominal.find(flavor.flavor);
        if (named == one->nominal.end()) continue;
        for (auto& [resource, quota] : flavor.resources) {
          const auto amount = named->second.find(resource);
          if (amount != named->second.end()) quota.nominal = amount->second;
        }
      }
    }
  }
  return out;
}

std::optional<Instant> quota_changes_after(const ClusterQueue& queue, Instant now) {
  std::optional<Instant> out;
  for (const auto& one : queue.windows) {
    const auto next = one.window.changes_after(now);
    if (next && (!out || *next < *out)) out = next;
  }
  return out;
}

// ---- in the trees ----

bool Decisions::beyond(const QueueName& queue) const {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return false;
  const auto& tree = scheduler(found->second.tree).quota().tree;
  for (kueue::Cell cell = 0; cell < tree.cells(); ++cell) {
    if (admission::beyond(tree, found->second.node, cell)) return true;
  }
  return false;
}

/// Works on a copy of the tree without leaving workloads, and without claims, which are for the quota of these.
std::vector<const Workload*> Decisions::surplus(int tree, const std::vector<const Workload*>& leaving,
                                                const std::vector<const Workload*>& in_order) const {
  const auto& rules = scheduler(tree);
  auto left = scheduler(tree).quota().tree;
  for (const auto& [name, where] : queues_) {
    if (where.tree != tree) continue;
    for (kueue::Cell cell = 0; cell < left.cells(); ++cell) {
      const auto claimed = left.used(where.node, cell) - rules.held(where.node, cell);
      if (claimed != 0) left.remove(where.node, cell, claimed);
    }
  }
  for (const auto* w : leaving) left.remove(queues_.at(w->cluster_queue).node, names_.amounts_of(tree, w->usage));

  std::set<kueue::Node> queues;
  std::vector<std::pair<const Workload*, kueue::Amounts>> go;
  for (const auto* w : in_order) {
    const auto node = queues_.at(w->cluster_queue).node;
    queues.insert(node);
    auto amounts = names_.amounts_of(tree, w->usage);
    const auto helps = [&](const kueue::Amount& one) {
      return one.amount > 0 && admission::beyond(left, node, one.at);
    };
    if (!std::ranges::any_of(amounts, helps)) continue;
    left.remove(node, amounts);
    go.emplace_back(w, std::move(amounts));
  }
  // A later victim may have made an earlier one unnecessary.
  std::vector<const Workload*> out;
  for (auto one = go.rbegin(); one != go.rend(); ++one) {
    const auto node = queues_.at(one->first->cluster_queue).node;
    left.add(node, one->second);
    const bool too_much = std::ranges::any_of(one->second, [&](const kueue::Amount& amount) {
      return std::ranges::any_of(queues, [&](kueue::Node n) { return admission::beyond(left, n, amount.at); });
    });
    if (!too_much) continue;
    left.remove(node, one->second);
    out.push_back(one->first);
  }
  std::ranges::reverse(out);
  return out;
}

}  // namespace qm::admission
