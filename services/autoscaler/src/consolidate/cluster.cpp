#include "cluster.hpp"

#include "qm/autoscaler/requirements/keys.hpp"

#include <algorithm>
#include <numeric>

namespace qm::autoscaler::consolidate {
namespace {

double fullness(const Problem& problem, const Node& node) {
  kube_rules::Amounts used;
  for (const Pod& pod : node.pods) {
    for (const auto& [resource, amount] : problem.kinds[pod.kind].rules.rules.requests) used[resource] += amount;
  }
  return share_of(used, node.view.allocatable);
}

/// The node while it is drained: it takes no pods, and its zone and its name are still domains of topology spread. So
/// they are for kube-scheduler, which places the evicted pods before the node is gone.
kube_rules::NodeView drained(const kube_rules::NodeView& node) {
  kube_rules::NodeView out = node;
  out.unschedulable = true;
  out.allocatable["pods"] = 0;
  return out;
}

}  // namespace

double share_of(const kube_rules::Amounts& requests, const kube_rules::Amounts& allocatable) {
  double out = 0;
  for (const auto& [resource, amount] : requests) {
    const auto of = allocatable.find(resource);
    if (amount > 0 && of != allocatable.end() && of->second > 0)
      out = std::max(out, static_cast<double>(amount) / static_cast<double>(of->second));
  }
  return std::min(out, 1.0);
}

kube_rules::NodeView view_of(const Pool& pool, const pack::InstanceType& type, const pack::NodeTerm& labels,
                             std::string_view name) {
  kube_rules::NodeView out;
  out.name = NodeName(std::string(name));
  out.labels = pool.node.labels;
  for (const auto& label : labels) {
    if (label.values.size() == 1) out.labels[label.key] = label.values.front();
  }
  out.labels[std::string(kHostname)] = name;
  out.taints = pool.node.taints;
  out.allocatable = type.extended;
  out.allocatable["cpu"] = type.cpu_milli - type.overhead_cpu_milli;
  out.allocatable["memory"] = type.memory_bytes - type.overhead_memory_bytes;
  out.allocatable["pods"] = type.pods;
  return out;
}

Cluster::Cluster(const Problem& problem, const std::vector<bool>& without) : problem_(problem) {
  for (const PodKind& kind : problem.kinds) kinds_.push_back(book_.hold(kind.rules));
  std::vector<std::size_t> order(problem.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> full;
  for (const Node& node : problem.nodes) full.push_back(fullness(problem, node));
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return full[a] > full[b]; });
  rank_.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank_[order[i]] = i;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    if (i < without.size() && without[i]) {
      book_.put_node(drained(problem.nodes[i].view));
    } else {
      restore(i);
    }
  }
  for (const Pod& pod : problem.pending) {
    if (const auto node = place_for(pod.kind)) put(pod.name, pod.kind, problem.nodes[*node].view.name);
  }
}

void Cluster::index(std::size_t node) {
  const auto at = *book_.index_of(problem_.nodes[node].view.name);
  if (at >= node_at_.size()) node_at_.resize(at + 1);
  node_at_[at] = node;
}

void Cluster::remove(std::size_t node) {
  const Node& one = problem_.nodes[node];
  for (const Pod& pod : one.pods) book_.drop_pod(pod.name);
  node_at_[*book_.index_of(one.view.name)].reset();
  book_.put_node(drained(one.view));
}

void Cluster::restore(std::size_t node) {
  const Node& one = problem_.nodes[node];
  book_.put_node(one.view);
  index(node);
  for (const Pod& pod : one.pods) put(pod.name, pod.kind, one.view.name);
}

std::optional<std::size_t> Cluster::place_for(std::size_t kind) const {
  std::optional<std::size_t> best;
  book_.feasible(kinds_[kind]).each([&](kube_rules::NodeIndex at) {
    if (at >= node_at_.size() || !node_at_[at]) return;
    const std::size_t node = *node_at_[at];
    if (problem_.nodes[node].accepts && (!best || rank_[node] < rank_[*best])) best = node;
  });
  return best;
}

bool Cluster::fits(std::size_t kind, const NodeName& node) const {
  const auto at = book_.index_of(node);
  return at && book_.feasible(kinds_[kind]).contains(*at);
}

void Cluster::put(const std::string& pod, std::size_t kind, const NodeName& node) {
  book_.put_pod({pod, node, kinds_[kind], false});
}

}  // namespace qm::autoscaler::consolidate
