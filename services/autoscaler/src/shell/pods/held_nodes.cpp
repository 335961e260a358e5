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

void HeldNodes::pass(const std::set<NodeName>& held, const std::set<NodeName>& open, bool nominated,
                     SteadyInstant now) {
  std::erase_if(since_, [&](const auto& entry) { return !held.contains(entry.first); });
  std::vector<NodeName> due;
  for (const NodeName& node : held) {
    const SteadyInstant since = since_.try_emplace(node, now).first->second;
    if (!open.contains(node) || now - since >= times_.longest) due.push_back(node);
  }
  if (nominated && !due.empty()) std::this_thread::sleep_for(times_.settled);
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
