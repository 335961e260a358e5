// Converts NodePools to the engine's form.
#include "qm/autoscaler/columns/columns.hpp"
#include "qm/autoscaler/node_pools/summary.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/catalog/catalog.hpp"
#include "qm/config/typed.hpp"
#include "qm/kube/client.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

void warn_of_unknown_types(const config::NodePool& from) {
  for (const auto& r : from.requirements) {
    if (r.key != words::kInstanceType || r.op != "In") continue;
    for (const auto& value : r.values) {
      if (catalog::find(value) == nullptr) {
        log::warn("the catalog does not have this instance type; the NodePool is used without it",
                  {{"pool", from.name}, {"type", value}});
      }
    }
  }
}

/// A static pool has its number of instances: weight and other limits than that of nodes would do nothing.
std::string objection_to_static(const config::NodePool& from) {
  if (from.replicas < 0) return {};
  if (from.weight != 0) return "spec.weight: a NodePool with replicas has no weight; remove it";
  for (const auto& [resource, limit] : from.limits) {
    if (resource != "nodes")
      return fmt::format("spec.limits[{}]: a NodePool with replicas has only the limit nodes; remove it", resource);
  }
  return {};
}

void fill_columns(const config::NodePool& from, Pool& p) {
  auto columns = columns_of(node_template_of(from));
  p.not_ready = objection_to_static(from);
  if (!columns) {
    const Error& error = columns.error();
    p.not_ready = fmt::format("{}: {}; {}", error.field, error.message, error.remedy);
  } else {
    p.instance_types = std::move(columns->instance_types);
    if (columns->on_demand) p.markets.push_back(Market::kOnDemand);
    if (columns->spot) p.markets.push_back(Market::kSpot);
    p.reserved = columns->reserved && from.scaling_group.empty();
    p.zones = std::move(columns->zones);
    p.not_zones = std::move(columns->not_zones);
    p.rules = std::move(columns->open);
    p.min_values = std::move(columns->min_values);
  }
  if (!p.not_ready.empty())
    log::warn("a NodePool is not ready; nothing is launched from it", {{"pool", p.name}, {"reason", p.not_ready}});
}

/// The static fields of the template, of which Karpenter keeps a hash too: a change of one of them is drift. Requirements
/// are not among them: a node is drifted if they do not allow it any more.
std::string hash_of_template(const config::NodePool& from) {
  const auto text_of_duration = [](std::optional<Duration> d) { return d ? fmt::format("{}", d->count()) : "Never"; };
  Json taints = Json::array(), startup_taints = Json::array(), labels = Json::object(), annotations = Json::object();
  for (const Taint& taint : from.taints) taints.push_back(text_of(taint));
  for (const Taint& taint : from.startup_taints) startup_taints.push_back(text_of(taint));
  for (const auto& [key, value] : from.labels) labels.set(key, value);
  for (const auto& [key, value] : from.annotations) annotations.set(key, value);
  const auto expires = from.expire_after == Duration::max() ? std::nullopt : std::optional(from.expire_after);
  const std::string text =
      Json::array({std::move(labels), std::move(annotations), std::move(taints), std::move(startup_taints),
                   from.node_class, text_of_duration(expires), text_of_duration(from.termination_grace)})
          .dump();
  constexpr std::size_t kDigits = 16;
  return sha256_hex(text).substr(0, kDigits);
}

PoolLifecycle lifecycle_from(const config::NodePool& from) {
  PoolLifecycle out;
  out.startup_taints = from.startup_taints;
  out.annotations = from.annotations;
  if (from.expire_after != Duration::max()) out.expire_after = from.expire_after;
  out.termination_grace = from.termination_grace;
  out.template_hash = hash_of_template(from);
  return out;
}

}  // namespace

Pool pool_from(const config::NodePool& from) {
  Pool p;
  p.name = from.name;
  p.weight = from.weight;
  p.labels = from.labels;
  p.taints = from.taints;
  p.group = from.scaling_group;
  p.node_class = from.node_class;
  p.consolidate_empty = from.consolidate_after != Duration::max();
  p.consolidate_after = p.consolidate_empty ? from.consolidate_after : Duration{0};
  p.consolidate_underutilized = p.consolidate_empty && from.consolidation_policy != "WhenEmpty";
  for (const auto& b : from.budgets) p.budgets.push_back({b.nodes, b.schedule, b.duration, b.reasons});
  for (const auto& [resource, limit] : from.limits) {
    if (resource == words::kGpuResource) p.limit_gpus = limit.units();
    if (resource == "cpu") p.limit_cpu_milli = limit.milli();
    if (resource == "memory") p.limit_memory_bytes = limit.units();
    if (resource == "nodes") p.limit_nodes = limit.units();
    const bool own_field =
        resource == words::kGpuResource || resource == "cpu" || resource == "memory" || resource == "nodes";
    if (!own_field) p.other_limits[resource] = limit.units();
  }
  p.replicas = from.replicas;
  p.lifecycle = lifecycle_from(from);
  fill_columns(from, p);
  warn_of_unknown_types(from);
  return p;
}

bool is_sized_manually(const Json& pool) {
  return !kube::annotation(pool, words::kScalingGroup).empty() && kube::annotation(pool, kManuallySized) == "true";
}

Result<std::vector<Pool>> pools_from_manifests(std::span<const std::string> paths) {
  QM_ASSIGN(const auto read, config::typed_manifests<config::NodePool>(paths));
  std::vector<Pool> pools;
  for (const auto& pool : read) pools.push_back(pool_from(pool));
  for (const auto& path : paths) {
    for (const auto& object : config::load_path(path).objects) {
      const auto pool = std::ranges::find(pools, object.document.name, &Pool::name);
      if (object.document.kind == "NodePool" && pool != pools.end()) {
        pool->manual = is_sized_manually(object.document.content);
        read_headroom(object.document.content, *pool);
      }
    }
  }
  QM_TRY(one_pool_for_each_group(pools));
  return pools;
}

Status one_pool_for_each_group(std::span<const Pool> pools) {
  for (auto a = pools.begin(); a != pools.end(); ++a) {
    const auto same =
        std::find_if(a + 1, pools.end(), [&](const Pool& b) { return !a->group.empty() && a->group == b.group; });
    if (same == pools.end()) continue;
    return fail(
        Error{Code::kInvalid,
              fmt::format("NodePools {} and {} name the same Auto Scaling group {}", a->name, same->name, a->group),
              fmt::format("metadata.annotations[{}]", words::kScalingGroup),
              "use one Auto Scaling group per NodePool, or merge the NodePools"});
  }
  return {};
}

}  // namespace qm::autoscaler
