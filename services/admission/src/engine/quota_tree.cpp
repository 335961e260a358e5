// The quota tree. Each node keeps, per flavor and resource: S, the quota of its subtree; L, the part that it never
// shows to its parent (what exceeds the lending limit; nothing where none is set); and U, the usage. Usage climbs to
// the parent only beyond L, so a question walks up at most the depth of the tree.
#include "qm/admission/quota.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

using exact::at_least_zero;
using exact::minus;
using exact::plus;

std::string thousandths(std::int64_t amount) {
  if (amount % 1000 == 0) return std::to_string(amount / 1000);
  std::string text = fmt::format("{}{}.{:03}", amount < 0 ? "-" : "", std::abs(amount / 1000), std::abs(amount % 1000));
  while (text.back() == '0') text.pop_back();
  return text;
}

}  // namespace

std::string show_amount(std::string_view resource, std::int64_t amount) {
  if (amount == kUnlimited) return "unlimited";
  if (resource == "cpu" || resource == words::kGpuResource) return thousandths(amount);
  if (resource == "memory") {
    constexpr std::int64_t kGi = std::int64_t{1} << 30;
    constexpr std::int64_t kMi = std::int64_t{1} << 20;
    if (amount % kGi == 0) return fmt::format("{}Gi", amount / kGi);
    if (amount % kMi == 0) return fmt::format("{}Mi", amount / kMi);
  }
  return std::to_string(amount);
}

const ResourceGroup* ClusterQueue::group_of(std::string_view resource) const {
  for (const auto& group : groups) {
    if (std::find(group.covered.begin(), group.covered.end(), resource) != group.covered.end()) return &group;
  }
  return nullptr;
}

int QuotaTree::cohort_node(const std::string& name) {
  auto [it, fresh] = cohorts_.emplace(name, static_cast<int>(nodes_.size()));
  if (fresh) nodes_.emplace_back();
  return it->second;
}

void QuotaTree::take_quota(int node, const std::vector<ResourceGroup>& groups) {
  for (const auto& group : groups) {
    for (const auto& flavor : group.flavors) {
      for (const auto& [resource, quota] : flavor.resources) {
        nodes_[node].cells[{flavor.flavor, resource}].own = quota;
      }
    }
  }
}

void QuotaTree::sum_up(int node, const std::vector<std::vector<int>>& children) {
  for (auto& [at, own] : nodes_[node].cells) own.subtree = own.own.nominal;
  for (int child : children[node]) {
    sum_up(child, children);
    for (const auto& [at, theirs] : nodes_[child].cells) {
      auto& mine = nodes_[node].cells[at];
      mine.subtree = plus(mine.subtree, minus(theirs.subtree, theirs.local));
    }
  }
  for (auto& [at, own] : nodes_[node].cells) {
    own.local = own.own.lending_limit ? at_least_zero(minus(own.subtree, *own.own.lending_limit)) : 0;
  }
}

void QuotaTree::build(const std::map<QueueName, ClusterQueue>& queues, const std::map<std::string, Cohort>& cohorts) {
  nodes_.clear();
  queues_.clear();
  cohorts_.clear();
  members_.clear();
  for (const auto& [name, cohort] : cohorts) {
    const int node = cohort_node(name);
    const int parent = cohort.parent.empty() ? -1 : cohort_node(cohort.parent);
    nodes_[node].parent = parent;
    take_quota(node, cohort.groups);
  }
  for (const auto& [name, queue] : queues) {
    const int parent = queue.cohort.empty() ? -1 : cohort_node(queue.cohort);
    const int node = static_cast<int>(nodes_.size());
    nodes_.emplace_back();
    nodes_[node].parent = parent;
    take_quota(node, queue.groups);
    queues_.emplace(name, node);
  }
  // Walk up from each node; more steps than nodes means a circle, and all that hang on it are cut from it.
  std::vector<std::vector<int>> children(nodes_.size());
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
    int at = node;
    std::size_t steps = 0;
    while (nodes_[at].parent >= 0 && steps <= nodes_.size()) {
      at = nodes_[at].parent;
      ++steps;
    }
    nodes_[node].cycle = steps > nodes_.size();
    nodes_[node].root = nodes_[node].cycle ? node : at;
  }
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
    if (nodes_[node].cycle) nodes_[node].parent = -1;
    if (nodes_[node].parent >= 0) children[nodes_[node].parent].push_back(node);
  }
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
    if (nodes_[node].parent < 0) sum_up(node, children);
  }
  for (const auto& [name, node] : queues_) members_[nodes_[node].root].push_back(name);
}

const QuotaTree::Cell& QuotaTree::cell(int node, const FlavorResource& at) const {
  static const Cell kEmpty;
  auto it = nodes_[node].cells.find(at);
  return it == nodes_[node].cells.end() ? kEmpty : it->second;
}

std::int64_t QuotaTree::available_at(int node, const FlavorResource& at) const {
  const Cell& c = cell(node, at);
  if (nodes_[node].parent < 0) return minus(c.subtree, c.used);
  std::int64_t from_parent = available_at(nodes_[node].parent, at);
  if (c.own.borrowing_limit) {
    const auto lent = minus(minus(c.subtree, c.local), at_least_zero(minus(c.used, c.local)));
    from_parent = std::min(from_parent, plus(lent, *c.own.borrowing_limit));
  }
  return plus(at_least_zero(minus(c.local, c.used)), from_parent);
}

std::int64_t QuotaTree::potential_at(int node, const FlavorResource& at) const {
  const Cell& c = cell(node, at);
  if (nodes_[node].parent < 0) return c.subtree;
  std::int64_t most = plus(c.local, potential_at(nodes_[node].parent, at));
  if (c.own.borrowing_limit) most = std::min(most, plus(c.subtree, *c.own.borrowing_limit));
  return most;
}

bool QuotaTree::in_cycle(const QueueName& queue) const {
  auto it = queues_.find(queue);
  return it != queues_.end() && nodes_[it->second].cycle;
}
std::int64_t QuotaTree::available(const QueueName& queue, const FlavorResource& at) const {
  auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : at_least_zero(available_at(it->second, at));
}
std::int64_t QuotaTree::potential(const QueueName& queue, const FlavorResource& at) const {
  auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : potential_at(it->second, at);
}
std::int64_t QuotaTree::nominal(const QueueName& queue, const FlavorResource& at) const {
  auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : cell(it->second, at).own.nominal;
}
std::int64_t QuotaTree::used(const QueueName& queue, const FlavorResource& at) const {
  auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : cell(it->second, at).used;
}

bool QuotaTree::fits(const QueueName& queue, const Usage& usage) const {
  return std::all_of(usage.begin(), usage.end(),
                     [&](const auto& entry) { return entry.second <= available(queue, entry.first); });
}
bool QuotaTree::borrows_with(const QueueName& queue, const Usage& usage) const {
  return std::any_of(usage.begin(), usage.end(), [&](const auto& entry) {
    return nominal(queue, entry.first) < plus(used(queue, entry.first), entry.second);
  });
}
bool QuotaTree::borrows(const QueueName& queue, const Usage& any_of) const {
  return std::any_of(any_of.begin(), any_of.end(),
                     [&](const auto& entry) { return nominal(queue, entry.first) < used(queue, entry.first); });
}

void QuotaTree::add_at(int node, const FlavorResource& at, std::int64_t amount) {
  Cell& c = nodes_[node].cells[at];
  const auto kept = at_least_zero(minus(c.local, c.used));
  c.used += amount;
  if (nodes_[node].parent >= 0 && amount > kept) add_at(nodes_[node].parent, at, amount - kept);
}
void QuotaTree::remove_at(int node, const FlavorResource& at, std::int64_t amount) {
  Cell& c = nodes_[node].cells[at];
  QM_ASSERT(c.used >= amount, "flavor {} resource {}: {} given back of {} used", at.flavor, at.resource, amount,
            c.used);
  const auto stored = minus(c.used, c.local);
  c.used -= amount;
  if (nodes_[node].parent >= 0 && stored > 0) remove_at(nodes_[node].parent, at, std::min(amount, stored));
}
void QuotaTree::add(const QueueName& queue, const Usage& usage) {
  auto it = queues_.find(queue);
  if (it == queues_.end()) return;
  for (const auto& [at, amount] : usage) add_at(it->second, at, amount);
}
void QuotaTree::remove(const QueueName& queue, const Usage& usage) {
  auto it = queues_.find(queue);
  if (it == queues_.end()) return;
  for (const auto& [at, amount] : usage) remove_at(it->second, at, amount);
}

int QuotaTree::root_of(const QueueName& queue) const {
  auto it = queues_.find(queue);
  return it == queues_.end() ? -1 : nodes_[it->second].root;
}
const std::vector<QueueName>& QuotaTree::queues_of(int root) const {
  static const std::vector<QueueName> kNone;
  auto it = members_.find(root);
  return it == members_.end() ? kNone : it->second;
}

bool operator==(const QuotaTree& a, const QuotaTree& b) {
  if (a.nodes_.size() != b.nodes_.size()) return false;
  for (std::size_t i = 0; i < a.nodes_.size(); ++i) {
    const auto& x = a.nodes_[i];
    const auto& y = b.nodes_[i];
    if (x.parent != y.parent || x.root != y.root) return false;
    // A cell that was only asked for in passing equals one that is not there.
    for (const auto* side : {&x, &y}) {
      const auto node = static_cast<int>(i);
      for (const auto& [at, unused] : side->cells) {
        if (!(a.cell(node, at) == b.cell(node, at))) return false;
      }
    }
  }
  return true;
}

}  // namespace qm::admission
