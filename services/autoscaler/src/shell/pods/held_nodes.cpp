#include "pods/held_nodes.hpp"

#include "instances/node_patch.hpp"
#include "pods/parallel.hpp"
#include "qm/autoscaler/disrupt/conditions.hpp"
#include "qm/autoscaler/nodes/node_watch.hpp"
#include "qm/base/log.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace qm::autoscaler {

void HeldNodes::pass(const std::set<NodeName>& held, const std::function<Nominator::Outcome()>& nominate,
                     SteadyInstant now) {
  auto outcome = nominate();
  for (int round = 1; !held.empty() && !outcome.written.empty() && round < kMostRounds; ++round) {
    std::this_thread::sleep_for(times_.settled);
    outcome = nominate();
  }
  const auto is_open = [&](const NodeName& node) {
    return outcome.open.contains(node) || outcome.written.contains(node);
  };
  std::erase_if(since_, [&](const auto& entry) { return !held.contains(entry.first); });
  std::vector<NodeName> due;
  for (const NodeName& node : held) {
    const SteadyInstant since = since_.try_emplace(node, now).first->second;
    if (!is_open(node) || now - since >= times_.longest) due.push_back(node);
  }
  in_parallel(due.size(), [&](std::size_t at) { release(due[at]); });
}

void HeldNodes::release(const NodeName& name) {
  const auto node = client_.get(kube::resources::kNodes, "", name.value());
  if (!node) {
    if (node.error().code != Code::kNotFound)
      log::warn("a node cannot be read", {{"node", name.value()}, {"error", node.error().to_string()}});
    return;
  }
  auto taints = details_of_node(*node).taints;
  const auto removed = std::erase_if(taints, [](const Taint& taint) { return taint.key == kNominatingTaint; });
  if (removed > 0) (void)patch_node(client_, *node, taints, Json::object());
}

}  // namespace qm::autoscaler
