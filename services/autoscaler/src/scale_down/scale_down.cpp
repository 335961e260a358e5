// The nodes that are not needed, and which of them are removed now.
//
//   candidates (below the threshold, kept by nothing), in their order:
//     take the node and its pods out of the rule book; place each pod that moves on a node that stays
//     all placed -> the node is not needed, and the pods remain at their new places for the next candidates
//     else       -> everything is reverted
#include "qm/autoscaler/scale_down/scale_down.hpp"

#include "qm/kube_rules/rule_book.hpp"
#include "qm/kube_rules/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace qm::autoscaler {
namespace {

constexpr std::size_t kMostTried = 100;  // nodes with pods

bool moves(const NodePod& pod) { return pod.kind == NodePod::Kind::kMoves && !pod.terminating; }

bool is_empty(const ScaleDownNode& node) { return std::ranges::none_of(node.view->pods, moves); }

/// Running nodes and their pods, and the places to which pods would move.
class Simulation {
 public:
  explicit Simulation(const ScaleDownProblem& problem) : problem_(problem) {
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      const ScaleDownNode& node = problem.nodes[i];
      put_node(node);
      stays_.push_back(node.destination);
      guests_.emplace_back();
      for (const NodePod& pod : node.view->pods) put_pod(pod, node.name);
    }
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) indexes_[*book_.index_of(name_of(i))] = i;
  }

  /// Nodes that are needed in any case are preferred as destinations.
  void set_candidates(const std::set<std::size_t>& candidates) { candidates_ = candidates; }

  /// Removes the node if all of its pods have places elsewhere. Pods that moved to it move again.
  std::optional<std::vector<UnneededNode::Move>> remove(std::size_t node, std::string& why) {
    const ScaleDownNode& from = problem_.nodes[node];
    std::vector<Pod> pods = guests_[node];
    for (std::size_t i = 0; i < from.view->pods.size(); ++i) {
      if (moves(from.view->pods[i])) pods.push_back({node, i});
    }
    std::ranges::stable_sort(pods, std::greater<>(), [&](const Pod& pod) { return size_of(pod); });
    const bool stayed = stays_[node];
    stays_[node] = false;
    std::vector<std::pair<Pod, std::size_t>> placed;
    for (const NodePod& pod : from.view->pods) book_.drop_pod(pod.name);
    for (const Pod& pod : guests_[node]) book_.drop_pod(view_of(pod).name);
    for (const Pod& pod : pods) {
      const auto to = place(pod);
      if (!to) {
        why = fmt::format("pod {} fits no other node", view_of(pod).name);
        break;
      }
      put_pod(view_of(pod), problem_.nodes[*to].name);
      placed.emplace_back(pod, *to);
    }
    if (placed.size() < pods.size()) {
      for (const auto& [pod, to] : placed) book_.drop_pod(view_of(pod).name);
      for (const NodePod& pod : from.view->pods) put_pod(pod, from.name);
      for (const Pod& pod : guests_[node]) put_pod(view_of(pod), from.name);
      stays_[node] = stayed;
      return std::nullopt;
    }
    guests_[node].clear();
    book_.drop_node(name_of(node));
    std::vector<UnneededNode::Move> out;
    for (const auto& [pod, to] : placed) {
      guests_[to].push_back(pod);
      places_[{pod.node, pod.pod}] = to;
      if (pod.node == node) out.push_back({pod.pod, to});
    }
    return out;
  }

  /// Where the pod is in the end.
  [[nodiscard]] std::size_t place_of(std::size_t node, std::size_t pod) const { return places_.at({node, pod}); }

 private:
  struct Pod {
    std::size_t node = 0, pod = 0;
  };
  [[nodiscard]] NodeName name_of(std::size_t node) const { return NodeName(problem_.nodes[node].name); }
  [[nodiscard]] const NodePod& view_of(const Pod& pod) const { return problem_.nodes[pod.node].view->pods[pod.pod]; }

  void put_node(const ScaleDownNode& node) {
    book_.put_node({NodeName(node.name), node.view->labels, node.view->taints, false, node.view->allocatable});
  }

  const kube_rules::PodTemplate& template_of(const std::string& rules) {
    auto known = templates_.find(rules);
    if (known == templates_.end()) {
      // Constraints that cannot be read bound no pod: it counts with nothing.
      auto like = kube_rules::template_of(rules).value_or(kube_rules::PodTemplate{});
      known = templates_.emplace(rules, std::move(like)).first;
    }
    return known->second;
  }

  void put_pod(const NodePod& pod, const std::string& node) {
    const auto id = book_.hold(template_of(pod.rules));
    book_.put_pod({pod.name, NodeName(node), id, pod.terminating});
    book_.release(id);
  }

  std::tuple<std::int64_t, std::int64_t, std::int64_t> size_of(const Pod& pod) {
    std::int64_t gpus = 0, cpu = 0, memory = 0;
    for (const auto& [resource, amount] : template_of(view_of(pod).rules).rules.requests) {
      if (resource == "cpu") cpu = amount;
      if (resource == "memory") memory = amount;
      if (resource.find('/') != std::string::npos) gpus += amount;
    }
    return {gpus, cpu, memory};
  }

  std::optional<std::size_t> place(const Pod& pod) {
    const NodePod& view = view_of(pod);
    if (view.rules.empty()) return std::nullopt;
    const auto& like = template_of(view.rules);
    const bool zonal = !like.rules.claims.empty() || !like.rules.own_claims.empty();
    const std::string zone(words::kZone);
    const auto& own = problem_.nodes[pod.node].view->labels;
    const auto id = book_.hold(like);
    std::optional<std::size_t> best;
    const auto rank = [&](std::size_t node) {
      return std::tuple(candidates_.contains(node), -used_of(node), std::string_view(problem_.nodes[node].name));
    };
    book_.feasible(id).each([&](kube_rules::NodeIndex index) {
      const std::size_t node = indexes_.at(index);
      if (!stays_[node]) return;
      const auto& labels = problem_.nodes[node].view->labels;
      if (zonal && own.contains(zone) && (!labels.contains(zone) || labels.at(zone) != own.at(zone))) return;
      if (!best || rank(node) < rank(*best)) best = node;
    });
    book_.release(id);
    return best;
  }

  std::int64_t used_of(std::size_t node) {
    const auto [known, fresh] = used_.emplace(node, 0);
    if (fresh) known->second = utilization_of(*problem_.nodes[node].view, false).milli;
    return known->second;
  }

  const ScaleDownProblem& problem_;
  kube_rules::RuleBook book_;
  std::map<std::string, kube_rules::PodTemplate> templates_;
  std::map<kube_rules::NodeIndex, std::size_t> indexes_;
  std::vector<bool> stays_;
  std::vector<std::vector<Pod>> guests_;  ///< pods that moved to a node
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> places_;
  std::map<std::size_t, std::int64_t> used_;
  std::set<std::size_t> candidates_;
};

std::int64_t threshold_of(const ScaleDownGroup& group, const NodePods& node) {
  return has_gpus(node) ? group.gpu_utilization_milli : group.utilization_milli;
}

std::string percent(std::int64_t milli) { return fmt::format("{}.{}%", milli / 10, milli % 10); }

}  // namespace

UnneededNodes find_unneeded(const ScaleDownProblem& problem) {
  UnneededNodes out;
  std::vector<UnneededNode> candidates;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const ScaleDownNode& node = problem.nodes[i];
    if (!node.group) continue;
    const ScaleDownGroup& group = problem.groups[*node.group];
    std::string why = node.view->scale_down_disabled ? "it has the annotation scale-down-disabled" : node.kept_by;
    const Utilization used = utilization_of(*node.view, group.ignore_daemon_sets);
    const std::int64_t most = threshold_of(group, *node.view);
    if (why.empty() && !is_empty(node) && used.milli >= most)
      why = fmt::format("{} of its {} is requested, and the threshold is {}", percent(used.milli), used.resource,
                        percent(most));
    if (why.empty()) why = blocking_pod(*node.view, problem.rules);
    if (why.empty()) {
      candidates.push_back({i, used, {}});
    } else {
      out.needed.push_back({i, std::move(why)});
    }
  }
  const auto order = [&](const UnneededNode& one) {
    const ScaleDownNode& node = problem.nodes[one.node];
    return std::tuple(!is_empty(node), node.since.value_or(Instant::max()), one.used.milli, node.name);
  };
  std::ranges::sort(candidates, {}, order);
  const bool any_pods =
      std::ranges::any_of(candidates, [&](const auto& one) { return !is_empty(problem.nodes[one.node]); });
  std::optional<Simulation> simulation;
  if (any_pods) simulation.emplace(problem);
  std::set<std::size_t> indexes;
  for (const auto& one : candidates) indexes.insert(one.node);
  if (simulation) simulation->set_candidates(indexes);
  std::size_t tried = 0;
  for (UnneededNode& one : candidates) {
    const bool empty = is_empty(problem.nodes[one.node]);
    std::string why;
    std::optional<std::vector<UnneededNode::Move>> places;
    if (!empty && ++tried > kMostTried) {
      why = fmt::format("only {} nodes are tried at once", kMostTried);
    } else {
      // A node that had no pods may have got those of a node before it: then they move again.
      places = simulation ? simulation->remove(one.node, why) : std::vector<UnneededNode::Move>{};
    }
    if (places) {
      one.moves = std::move(*places);
      out.unneeded.push_back(std::move(one));
    } else {
      out.needed.push_back({one.node, std::move(why)});
    }
  }
  for (UnneededNode& one : out.unneeded) {
    for (auto& move : one.moves) move.to = simulation->place_of(one.node, move.pod);
  }
  std::ranges::sort(out.needed);
  return out;
}

ScaleDownDecision decide_scale_down(const ScaleDownProblem& problem, const UnneededNodes& found, Instant now,
                                    std::optional<Instant> delayed_until) {
  ScaleDownDecision out;
  const auto wake = [&](Instant at) {
    if (at > now && (!out.wake_at || at < *out.wake_at)) out.wake_at = at;
  };
  auto groups = problem.groups;
  std::int64_t emptying = problem.emptying, draining = problem.draining;
  for (std::size_t i = 0; i < found.unneeded.size(); ++i) {
    const ScaleDownNode& node = problem.nodes[found.unneeded[i].node];
    const bool empty = found.unneeded[i].moves.empty();
    Instant due = node.since.value_or(now) + node.unneeded;
    if (delayed_until) due = std::max(due, *delayed_until);
    if (due > now) {
      wake(due);
      continue;
    }
    ScaleDownGroup& group = groups[*node.group];
    std::int64_t& allowed = empty ? group.may_empty : group.may_drain;
    std::string why;
    if (group.size <= group.min) {
      why = fmt::format("group {} has its minimum of {} instances", group.name, group.min);
    } else if (allowed <= 0) {
      why = "the disruption budgets of its NodePool allow no other node now";
    } else if (empty ? emptying >= problem.rules.max_empty : draining >= problem.rules.max_drains) {
      why = fmt::format("{} nodes are removed already", empty ? emptying : draining);
    }
    if (!why.empty()) {
      out.held.push_back(fmt::format("node {} is not needed and stays: {}", node.name, why));
      continue;
    }
    --group.size, --allowed;
    ++(empty ? emptying : draining);
    out.start.push_back(i);
  }
  return out;
}

std::string broken_rule(const ScaleDownProblem& problem, const UnneededNodes& found,
                        const ScaleDownDecision& decision) {
  std::set<std::size_t> goes;
  for (const auto& one : found.unneeded) {
    const ScaleDownNode& node = problem.nodes[one.node];
    if (!node.group || !node.kept_by.empty()) return fmt::format("node {} may not be removed", node.name);
    if (const auto why = blocking_pod(*node.view, problem.rules); !why.empty())
      return fmt::format("node {} is not needed, but {}", node.name, why);
    if (!goes.insert(one.node).second) return fmt::format("node {} is removed twice", node.name);
  }
  // The requests of pods at their new places, without the other constraints.
  std::map<std::size_t, std::map<std::string, std::int64_t>> used;
  const auto add = [&](std::size_t node, const NodePod& pod) {
    const auto like = kube_rules::template_of(pod.rules);
    if (!like) return;
    for (const auto& [resource, amount] : like->rules.requests) used[node][resource] += amount;
  };
  std::set<std::size_t> destinations;
  for (const auto& one : found.unneeded) {
    const ScaleDownNode& node = problem.nodes[one.node];
    if (one.moves.size() != static_cast<std::size_t>(std::ranges::count_if(node.view->pods, moves)))
      return fmt::format("not every pod of node {} moves", node.name);
    for (const auto& move : one.moves) {
      if (goes.contains(move.to) || !problem.nodes[move.to].destination)
        return fmt::format("pod {} moves to node {}, which is no destination", node.view->pods[move.pod].name,
                           problem.nodes[move.to].name);
      add(move.to, node.view->pods[move.pod]);
      destinations.insert(move.to);
    }
  }
  for (const std::size_t to : destinations) {
    const ScaleDownNode& node = problem.nodes[to];
    for (const NodePod& pod : node.view->pods) add(to, pod);
    for (const auto& [resource, amount] : used[to]) {
      const auto at = node.view->allocatable.find(resource);
      if (amount > (at == node.view->allocatable.end() ? 0 : at->second))
        return fmt::format("node {} has not enough {}", node.name, resource);
    }
  }
  std::map<std::size_t, std::int64_t> removed;
  for (const std::size_t one : decision.start) {
    const std::size_t group = *problem.nodes[found.unneeded[one].node].group;
    if (problem.groups[group].size - ++removed[group] < problem.groups[group].min)
      return fmt::format("group {} would have less than its minimum", problem.groups[group].name);
  }
  return {};
}

}  // namespace qm::autoscaler
