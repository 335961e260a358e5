#include "qm/autoscaler/node_pools/diagram.hpp"

#include "lint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace qm::autoscaler {
namespace {

/// Text within quotes of Mermaid, which reads HTML entities.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"') {
      out += "&quot;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string capacity_of(const PoolSummary& summary) {
  if (summary.on_demand && summary.spot) return "spot and on-demand";
  return summary.spot ? "spot" : "on-demand";
}

std::string limits_of(const config::NodePool& pool) {
  std::vector<std::string> out;
  for (const auto& [resource, limit] : pool.limits) out.push_back(fmt::format("{} {}", resource, limit.to_string()));
  return out.empty() ? "no limit" : fmt::format("limit {}", fmt::join(out, ", "));
}

std::string consolidation_of(const config::NodePool& pool) {
  if (pool.consolidate_after == Duration::max()) return "not consolidated";
  return fmt::format("{} after {}", pool.consolidation_policy, duration_text(pool.consolidate_after));
}

std::string label_of(const config::NodePool& pool) {
  const auto summary = summary_of(pool);
  std::vector<std::string> lines{pool.name, pool.weight == 0 ? "no weight" : fmt::format("weight {}", pool.weight)};
  if (!summary.problem.empty()) {
    lines.push_back("not ready: " + summary.problem);
  } else {
    lines.push_back(fmt::format("{}, {}", capacity_of(summary),
                                summary.gpus.empty() ? "no GPUs" : fmt::format("{}", fmt::join(summary.gpus, " "))));
    lines.push_back(limits_of(pool));
    lines.push_back(summary.most ? fmt::format("at most {} USD/h", summary.most->usd.to_usd(2)) : "cost not bounded");
  }
  lines.push_back(consolidation_of(pool));
  for (auto& line : lines) line = quoted(line);
  return fmt::format("{}", fmt::join(lines, "<br/>"));
}

std::string label_of_class(const std::string& name, const config::NodeClass* found) {
  if (found == nullptr) return fmt::format("{}<br/>not among the objects", quoted(name));
  const auto& volumes = found->volumes;
  const auto root = std::ranges::find_if(volumes, &config::NodeClassVolume::root);
  const auto* volume = root != volumes.end() ? &*root : volumes.empty() ? nullptr : &volumes.front();
  const std::string size = volume == nullptr || volume->size_gib == 0
                               ? std::string("volume of its image")
                               : fmt::format("{} GiB {}", volume->size_gib, volume->type);
  return fmt::format("{}<br/>{}", quoted(name), quoted(size));
}

}  // namespace

std::string diagram_of(std::span<const config::Object> objects) {
  std::vector<const config::NodePool*> pools;
  std::map<std::string, const config::NodeClass*> classes;
  for (const auto& object : objects) {
    if (const auto* pool = std::get_if<config::NodePool>(&object.typed)) {
      pools.push_back(pool);
      classes.try_emplace(pool->node_class, nullptr);
    }
  }
  for (const auto& object : objects) {
    const auto* found = std::get_if<config::NodeClass>(&object.typed);
    if (found == nullptr) continue;
    if (const auto at = classes.find(found->name); at != classes.end()) at->second = found;
  }
  std::ranges::sort(pools, {}, [](const config::NodePool* pool) { return std::pair(-pool->weight, pool->name); });
  std::string out = "flowchart TB\n  pods([pending pods])\n";
  std::map<std::string, std::size_t> numbers;
  for (const auto& [name, found] : classes) {
    const auto number = numbers.emplace(name, numbers.size()).first->second;
    out += fmt::format("  class{}[(\"{}\")]\n", number, label_of_class(name, found));
  }
  for (std::size_t i = 0; i < pools.size(); ++i) {
    out += fmt::format("  pool{}[\"{}\"]\n  pods --> pool{}\n  pool{} --> class{}\n", i, label_of(*pools[i]), i, i,
                       numbers.at(pools[i]->node_class));
  }
  return out;
}

}  // namespace qm::autoscaler
