// Findings about NodePools alone and compared with each other; lint_workloads.cpp has those about workloads.
#include "lint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace qm::autoscaler {
namespace {

constexpr std::size_t kLeastSpotTypes = 3, kLeastSpotZones = 2;
const std::string kConsolidateAfter = "spec.disruption.consolidateAfter";

enum class Role : std::uint8_t { kOther, kTraining, kInference };

Role role_of_text(const std::string& text) {
  const bool training = text.find("training") != std::string::npos;
  const bool inference = text.find("inference") != std::string::npos || text.find("serving") != std::string::npos;
  return training == inference ? Role::kOther : training ? Role::kTraining : Role::kInference;
}

/// By the first label of its nodes that names one, else by the name of the pool.
Role role_of(const config::NodePool& pool) {
  for (const auto& [key, value] : pool.labels) {
    if (const Role role = role_of_text(value); role != Role::kOther) return role;
  }
  return role_of_text(pool.name);
}

bool consolidates(const config::NodePool& pool) { return pool.consolidate_after != Duration::max(); }

void not_ready(const LintedPool& at, PoolFindings& out) {
  if (at.summary.problem.empty()) return;
  out.push_back(finding_about(at.object->document, "NODEPOOL_NOT_READY", "spec.template.spec.requirements",
                              at.summary.problem, "nothing is launched from it until this is corrected"));
}

void narrow_spot(const LintedPool& at, PoolFindings& out) {
  const auto& [types, gpus, on_demand, spot, zones, most, unlimited, problem] = at.summary;
  if (!spot || on_demand || !problem.empty()) return;
  const bool few_types = types.size() < kLeastSpotTypes;
  const bool few_zones = !zones.empty() && zones.size() < kLeastSpotZones;
  if (!few_types && !few_zones) return;
  const auto counted = [](const std::vector<std::string>& list, const char* what) {
    return list.empty()
               ? fmt::format("any {}", what)
               : fmt::format("{} {}{} ({})", list.size(), what, list.size() == 1 ? "" : "s", fmt::join(list, ", "));
  };
  const std::string shown_types =
      few_types ? counted(types, "instance type") : fmt::format("{} instance types", types.size());
  out.push_back(finding_about(
      at.object->document, "SPOT_NARROW", "spec.template.spec.requirements",
      fmt::format("it has spot capacity alone and allows {} in {}, so that one shortage stops its launches",
                  shown_types, counted(zones, "zone")),
      fmt::format("allow at least {} instance types, of several families and sizes, and {} zones", kLeastSpotTypes,
                  kLeastSpotZones)));
}

/// One finding for a training pool, with the inference pool that keeps its nodes longest.
void training_sooner(const LintedPool& at, const std::vector<LintedPool>& pools, PoolFindings& out) {
  if (role_of(*at.pool) != Role::kTraining || !consolidates(*at.pool)) return;
  const config::NodePool* longest = nullptr;
  for (const auto& other : pools) {
    if (role_of(*other.pool) != Role::kInference || other.pool->consolidate_after <= at.pool->consolidate_after)
      continue;
    if (longest == nullptr || other.pool->consolidate_after > longest->consolidate_after) longest = other.pool;
  }
  if (longest == nullptr) return;
  const auto theirs = consolidates(*longest) ? duration_text(longest->consolidate_after) : std::string("Never");
  out.push_back(finding_about(
      at.object->document, "TRAINING_CONSOLIDATED_SOONER", kConsolidateAfter,
      fmt::format(
          "its nodes are consolidated after {}, those of the inference NodePool {} after {}, and training loses "
          "more by a restart",
          duration_text(at.pool->consolidate_after), longest->name, theirs),
      fmt::format("set at least {} here, or a shorter delay for {}", theirs, longest->name)));
}

void unlimited_spend(const LintedPool& at, PoolFindings& out) {
  if (at.summary.most || !at.summary.problem.empty()) return;
  if (!at.pool->scaling_group.empty()) return;  // the maximum size of the group bounds it
  const auto& types = at.summary.unlimited_types;
  std::string why = "it has no limits";
  if (!at.pool->limits.empty()) {
    std::vector<std::string> resources;
    for (const auto& [resource, limit] : at.pool->limits) resources.push_back(resource);
    why = types.empty()
              ? fmt::format("no single limit of {} counts all of its {} instance types", fmt::join(resources, ", "),
                            at.summary.instance_types.size())
              : fmt::format("its limits of {} do not count {} of its {} instance types, such as {}",
                            fmt::join(resources, ", "), types.size(), at.summary.instance_types.size(), types.front());
  }
  out.push_back(
      finding_about(at.object->document, "SPEND_UNLIMITED", "spec.limits",
                    fmt::format("{}, so that nothing bounds what it can cost", why),
                    "set spec.limits of a resource that each of its instance types has, such as nodes or cpu"));
}

void reused_names(std::span<const config::Object> objects, PoolFindings& out) {
  std::map<std::string, const config::Document*> known;
  for (const auto& object : objects) {
    const auto& document = object.document;
    if (document.kind.empty() || document.name.empty()) continue;
    const auto group = document.api_version.substr(0, document.api_version.find('/'));
    const auto [at, added] = known.emplace(fmt::format("{} {}", group, title_of(document)), &document);
    if (added || at->second->content == document.content) continue;
    out.push_back(finding_about(
        document, "NAME_REUSED", "metadata.name",
        fmt::format(
            "{}:{} has another object of this name with different content, and the one applied last replaces it",
            at->second->file, at->second->line),
        "rename one of them, or remove the outdated one"));
  }
}

}  // namespace

std::string title_of(const config::Document& document) {
  return document.ns.empty() ? fmt::format("{} {}", document.kind, document.name)
                             : fmt::format("{} {}/{}", document.kind, document.ns, document.name);
}

PoolFinding finding_about(const config::Document& document, std::string code, std::string field, std::string message,
                          std::string remedy) {
  return {std::move(code),  title_of(document), fmt::format("{}:{}", document.file, document.line),
          std::move(field), std::move(message), std::move(remedy)};
}

std::string duration_text(Duration duration) {
  using namespace std::chrono;
  if (duration % hours(1) == Duration::zero() && duration >= hours(1)) return fmt::format("{}h", duration / hours(1));
  if (duration % minutes(1) == Duration::zero() && duration >= minutes(1))
    return fmt::format("{}m", duration / minutes(1));
  return fmt::format("{}s", qm::seconds(duration));
}

std::vector<PoolFinding> lint_pools(std::span<const config::Object> objects) {
  PoolFindings out;
  std::vector<LintedPool> pools;
  for (const auto& object : objects) {
    if (const auto* pool = std::get_if<config::NodePool>(&object.typed))
      pools.push_back({&object, pool, summary_of(*pool)});
  }
  std::size_t next = 0;
  for (const auto& object : objects) {
    if (next < pools.size() && pools[next].object == &object) {
      const LintedPool& at = pools[next++];
      not_ready(at, out);
      narrow_spot(at, out);
      training_sooner(at, pools, out);
      unlimited_spend(at, out);
      continue;
    }
    lint_workload(object, pools, out);
    lint_scaler(object, objects, out);
  }
  reused_names(objects, out);
  return out;
}

}  // namespace qm::autoscaler
