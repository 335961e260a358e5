// Quota windows: at each opening and closing the trees are rebuilt with the quota that applies from then on.
#include "rule_tree.hpp"
#include "update.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

constexpr int kTurnsLooked = 100;  ///< openings and closings that `why` searches ahead

std::optional<std::int64_t> nominal_of(const std::vector<ResourceGroup>& groups, const FlavorResource& at) {
  for (const auto& group : groups) {
    for (const auto& flavor : group.flavors) {
      if (flavor.flavor != at.flavor) continue;
      if (const auto quota = flavor.resources.find(at.resource); quota != flavor.resources.end()) {
        return quota->second.nominal;
      }
    }
  }
  return std::nullopt;
}

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
  const auto& tree = trees_[static_cast<std::size_t>(found->second.tree)]->field().tree;
  for (kueue::Cell cell = 0; cell < tree.cells(); ++cell) {
    if (admission::beyond(tree, found->second.node, cell)) return true;
  }
  return false;
}

/// Works on a copy of the tree without leaving workloads, and without claims, which are for the quota of these.
std::vector<const Workload*> Decisions::surplus(int tree, const std::vector<const Workload*>& leaving,
                                                const std::vector<const Workload*>& in_order) const {
  const auto& rules = *trees_[static_cast<std::size_t>(tree)];
  auto left = trees_[static_cast<std::size_t>(tree)]->field().tree;
  for (const auto& [name, where] : queues_) {
    if (where.tree != tree) continue;
    for (kueue::Cell cell = 0; cell < left.cells(); ++cell) {
      if (const auto claimed = rules.claimed(where.node, cell); claimed != 0) left.remove(where.node, cell, claimed);
    }
  }
  for (const auto* w : leaving) left.remove(queues_.at(w->cluster_queue).node, amounts_of(tree, w->usage));

  std::set<kueue::Node> queues;
  std::vector<std::pair<const Workload*, kueue::Amounts>> go;
  for (const auto* w : in_order) {
    const auto node = queues_.at(w->cluster_queue).node;
    queues.insert(node);
    auto amounts = amounts_of(tree, w->usage);
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

// ---- in the engine ----

/// Rows do not change, so a process that restores them and opens the windows in its first step decides equally.
void Engine::apply_windows() {
  if (!indexes_.quota_changes || *indexes_.quota_changes > now_) return;
  windows_changed_ = true;
  build(indexes_);
  on(Reconsider{});
}

/// Evicts the lowest priority and then the newest first, in any queue of the tree. Whether a queue is beyond its quota
/// follows from the rows and the time, so a missed closing has no effect.
void Engine::drain_windows() {
  std::set<int> trees;
  for (const auto& name : indexes_.draining) {
    if (indexes_.decisions.beyond(name)) trees.insert(indexes_.decisions.tree_of(name));
  }
  for (const int tree : trees) {
    std::vector<const Workload*> leaving, holding;
    for (const auto& [name, holders] : indexes_.holders) {
      if (indexes_.decisions.tree_of(name) != tree) continue;
      const bool drains = std::ranges::binary_search(indexes_.draining, name);
      for (const auto& uid : holders) {
        const auto* w = tables_.workloads.find(uid);
        if (w->phase == Phase::kEvicting) {
          leaving.push_back(w);
        } else if (drains) {
          holding.push_back(w);
        }
      }
    }
    std::ranges::sort(holding, {}, [](const Workload* w) {
      return std::tuple(w->spec.priority, -micros(w->quota_reserved), w->spec.uid);
    });
    for (const auto* w : indexes_.decisions.surplus(tree, leaving, holding)) {
      evict(w->spec.uid, "QuotaWindowClosed",
            fmt::format("ClusterQueue {} has less quota now and drains the excess", w->cluster_queue),
            now_ + options_.eviction_grace);
    }
  }
}

/// When the queue next has more of a missing resource.
std::optional<Cause> Engine::window_ahead(const ClusterQueue& queue, const std::vector<QuotaShortfall>& shortfalls,
                                          Instant now) const {
  const auto groups = groups_at(queue, now);
  auto turn = quota_changes_after(queue, now);
  for (int looked = 0; turn && looked < kTurnsLooked; ++looked, turn = quota_changes_after(queue, *turn)) {
    const auto then = groups_at(queue, *turn);
    for (const auto& shortfall : shortfalls) {
      using Kind = QuotaShortfall::Kind;
      if (shortfall.kind != Kind::kQuota && shortfall.kind != Kind::kNeverFits &&
          shortfall.kind != Kind::kBorrowingLimit) {
        continue;
      }
      const FlavorResource at{shortfall.flavor, shortfall.resource};
      const auto before = nominal_of(groups, at), after = nominal_of(then, at);
      if (!before || !after || *after <= *before) continue;
      Cause out;
      out.code = "QuotaWindow";
      out.resource = at.resource;
      out.requested = shortfall.requested;
      out.available = *after;
      out.message = fmt::format("ClusterQueue {} has {} of {} in flavor {} from {} on, and {} until then", queue.name,
                                show_amount(at.resource, *after), at.resource, at.flavor, to_rfc3339(*turn),
                                show_amount(at.resource, *before));
      out.remedy = "wait until then, or have the window begin earlier (quartermaster.dev/quota-windows)";
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace qm::admission
