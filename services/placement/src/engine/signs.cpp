// Reports of node agents: stored, and written to the Node object. Only allowed labels and annotations are: an
// agent must not be able to set its node's pool, zone or taints.
#include "qm/placement/engine.hpp"
#include "qm/placement/nearness.hpp"

#include <algorithm>
#include <array>

namespace qm::placement {
namespace {

constexpr std::array<std::string_view, 4> kLabels{
    "gpu.nvidia.com/nvlink-enabled", "gpu.nvidia.com/nvlink-gpus-per-island", kFabricSeenLabel, kRailsSeenLabel};
constexpr std::array<std::string_view, 3> kAnnotations{"quartermaster.dev/numa", "quartermaster.dev/pcie-switches",
                                                       "quartermaster.dev/findings"};

NodeSigns allowed(const NodeSigns& said) {
  NodeSigns out;
  for (const auto& [key, value] : said.labels) {
    if (key.starts_with(kCachePrefix) || std::ranges::count(kLabels, key) > 0) out.labels.emplace(key, value);
  }
  for (const auto& [key, value] : said.annotations) {
    if (std::ranges::count(kAnnotations, key) > 0) out.annotations.emplace(key, value);
  }
  if (std::ranges::count(said.owned_prefixes, kCachePrefix) > 0) out.owned_prefixes.emplace_back(kCachePrefix);
  return out;
}

}  // namespace

void Engine::apply(const SignsHeard& heard) {
  const NodeSigns* old = tables_.signs.find(heard.node);
  if (!heard.signs) {
    if (old != nullptr) tables_.signs.erase(heard.node);
    return;
  }
  NodeSigns signs = allowed(*heard.signs);
  if (old != nullptr ? *old == signs : signs == NodeSigns{}) return;
  tables_.signs.insert(heard.node, signs);
  // An unknown node has no object yet; the report is written when the node is added.
  if (tables_.nodes.contains(heard.node)) send(MarkNode{heard.node, std::move(signs)});
}

}  // namespace qm::placement
