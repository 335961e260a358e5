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

NodeReport allowed(const NodeReport& published_at) {
  NodeReport out;
  for (const auto& [key, value] : published_at.labels) {
    if (key.starts_with(kCachePrefix) || std::ranges::count(kLabels, key) > 0) out.labels.emplace(key, value);
  }
  for (const auto& [key, value] : published_at.annotations) {
    if (std::ranges::count(kAnnotations, key) > 0) out.annotations.emplace(key, value);
  }
  if (std::ranges::count(published_at.owned_prefixes, kCachePrefix) > 0) out.owned_prefixes.emplace_back(kCachePrefix);
  return out;
}

}  // namespace

void Engine::apply(const NodeReportUpdated& update) {
  const NodeReport* old = tables_.report.find(update.node);
  if (!update.report) {
    if (old != nullptr) tables_.report.erase(update.node);
    return;
  }
  NodeReport report = allowed(*update.report);
  if (old != nullptr ? *old == report : report == NodeReport{}) return;
  tables_.report.insert(update.node, report);
  // An unknown node has no object yet; the report is written when the node is added.
  if (tables_.nodes.contains(update.node)) send(MarkNode{update.node, std::move(report)});
}

}  // namespace qm::placement
