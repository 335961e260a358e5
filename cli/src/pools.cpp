// Verbs about NodePools and what may be launched: pool, lint, instances. Objects are those of files, or of a cluster.
#include "commands.hpp"
#include "print.hpp"
#include "qm/autoscaler/node_pools/diagram.hpp"
#include "qm/autoscaler/node_pools/lint.hpp"
#include "qm/autoscaler/node_pools/summary.hpp"
#include "qm/catalog/hardware.hpp"
#include "qm/kube/connect.hpp"
#include "table.hpp"
#include "words.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>

namespace qm::cli {
namespace {

struct ReadKind {
  const char *group, *plural;
  std::vector<std::string> versions;
};

/// What is read of a cluster: NodePools with their classes, and for lint the workloads and scalers.
const std::vector<ReadKind>& pool_kinds() {
  static const std::vector<ReadKind> all{{"karpenter.sh", "nodepools", {"v1", "v1beta1"}},
                                         {"karpenter.k8s.aws", "ec2nodeclasses", {"v1", "v1beta1"}}};
  return all;
}
const std::vector<ReadKind>& workload_kinds() {
  static const std::vector<ReadKind> all{{"apps", "deployments", {"v1"}},
                                         {"apps", "statefulsets", {"v1"}},
                                         {"batch", "jobs", {"v1"}},
                                         {"", "pods", {"v1"}},
                                         {"kubeflow.org", "pytorchjobs", {"v1"}},
                                         {"kubeflow.org", "mpijobs", {"v2beta1", "v1"}},
                                         {"serving.kserve.io", "inferenceservices", {"v1beta1"}},
                                         {"autoscaling", "horizontalpodautoscalers", {"v2"}},
                                         {"keda.sh", "scaledobjects", {"v1alpha1"}}};
  return all;
}

/// Adds the objects of a kind; none if the cluster does not have it. Those with an owner are of another object.
Status read_kind(kube::Client& client, const ReadKind& kind, std::vector<config::Object>& out) {
  const auto resource = client.find_kind(kind.group, kind.plural, kind.versions);
  if (!resource && resource.error().code == Code::kNotFound) return {};
  if (!resource) return fail(resource.error().with_context(kind.plural));
  const auto found = client.list_all(*resource, {});
  if (!found) return fail(found.error().with_context(kind.plural));
  for (const auto& object : *found) {
    if (!object["metadata"]["ownerReferences"].items().empty()) continue;
    auto loaded = config::load_text(object.dump(), "cluster");
    std::ranges::move(loaded.objects, std::back_inserter(out));
  }
  return {};
}

Result<std::vector<config::Object>> objects_of(const Context& context, const std::string& kube, bool workloads) {
  std::vector<config::Object> out;
  for (const auto& manifest : context.manifests) {
    auto loaded = config::load_text(manifest.text, manifest.source);
    QM_TRY(config::accept(loaded));
    std::ranges::move(loaded.objects, std::back_inserter(out));
  }
  if (!context.manifests.empty()) return out;
  auto server = kube::find_server(kube);
  if (!server) {
    if (server.error().remedy.empty()) server.error().remedy = "name the cluster with --kube, or give files with -f";
    return fail(server.error());
  }
  kube::Client client(std::move(*server));
  for (const auto& kind : pool_kinds()) QM_TRY(read_kind(client, kind, out));
  if (!workloads) return out;
  for (const auto& kind : workload_kinds()) QM_TRY(read_kind(client, kind, out));
  return out;
}

std::string limits_text(const config::NodePool& pool) {
  std::vector<std::string> out;
  if (pool.replicas >= 0) out.push_back(fmt::format("replicas={}", pool.replicas));
  for (const auto& [resource, limit] : pool.limits) out.push_back(fmt::format("{}={}", resource, limit.to_string()));
  return fmt::format("{}", fmt::join(out, ","));
}

std::string budget_text(const config::DisruptionBudget& budget) {
  std::string out = budget.nodes;
  if (!budget.schedule.empty()) out += fmt::format(" @{} for {}", budget.schedule, age(budget.duration));
  if (!budget.reasons.empty()) out += fmt::format(" {}", fmt::join(budget.reasons, "/"));
  return out;
}

std::string consolidation_text(const config::NodePool& pool) {
  const bool never = pool.consolidate_after == Duration::max();
  return fmt::format("{} after {}", pool.consolidation_policy, never ? "Never" : age(pool.consolidate_after));
}

std::string capacity_text(const autoscaler::PoolSummary& summary) {
  std::vector<std::string> out;
  if (summary.spot) out.emplace_back("spot");
  if (summary.on_demand) out.emplace_back("on-demand");
  return fmt::format("{}", fmt::join(out, ","));
}

struct ShownPool {
  const config::NodePool* pool = nullptr;
  autoscaler::PoolSummary summary;
};

Json to_json(const ShownPool& shown) {
  const auto& [pool, summary] = shown;
  const auto texts = [](const std::vector<std::string>& list) {
    Json out = Json::array();
    for (const auto& text : list) out.push_back(text);
    return out;
  };
  Json budgets = Json::array(), limits = Json::object();
  for (const auto& budget : pool->budgets) budgets.push_back(budget_text(budget));
  for (const auto& [resource, limit] : pool->limits) limits.set(resource, limit.to_string());
  Json out = Json::object({{"name", pool->name},
                           {"weight", std::int64_t{pool->weight}},
                           {"capacityTypes", capacity_text(summary)},
                           {"instanceTypes", texts(summary.instance_types)},
                           {"gpus", texts(summary.gpus)},
                           {"zones", texts(summary.zones)},
                           {"limits", std::move(limits)},
                           {"consolidation", consolidation_text(*pool)},
                           {"budgets", std::move(budgets)},
                           {"problem", summary.problem}});
  if (summary.most) {
    out.set("mostUsdPerHour", summary.most->usd.to_usd(4));
    out.set("boundBy", summary.most->limit);
  }
  return out;
}

void show_pools(const Context& context, const std::vector<ShownPool>& pools) {
  Table table({{"NODEPOOL"},
               {"WEIGHT", true},
               {"CAPACITY"},
               {"TYPES", true},
               {"GPUS"},
               {"LIMITS"},
               {"MOST-USD/HOUR", true},
               {"BOUND-BY"},
               {"CONSOLIDATION"},
               {"BUDGETS"}});
  Money all;
  std::size_t bounded = 0;
  for (const auto& [pool, summary] : pools) {
    std::vector<std::string> budgets;
    for (const auto& budget : pool->budgets) budgets.push_back(budget_text(budget));
    const auto& most = summary.most;
    if (most) all += most->usd;
    bounded += most ? 1 : 0;
    const bool group = !pool->scaling_group.empty();
    const std::string by = most                       ? fmt::format("{} x {}", most->limit, most->instance_type)
                           : !summary.problem.empty() ? "not ready: " + summary.problem
                           : group                    ? "size of " + pool->scaling_group
                                                      : "nothing: set spec.limits";
    table.row({pool->name, std::to_string(pool->weight), capacity_text(summary),
               std::to_string(summary.instance_types.size()), fmt::format("{}", fmt::join(summary.gpus, ",")),
               limits_text(*pool), most ? most->usd.to_usd(2) : "", by, consolidation_text(*pool),
               fmt::format("{}", fmt::join(budgets, "; "))});
  }
  context.out << table.text()
              << fmt::format("{} of {} NodePools are bounded: together at most {} USD/hour at on-demand prices\n",
                             bounded, pools.size(), all.to_usd(2));
}

Status show(Context& context, const std::vector<config::Object>& objects, const std::string& name) {
  std::vector<ShownPool> pools;
  for (const auto& object : objects) {
    const auto* pool = std::get_if<config::NodePool>(&object.typed);
    if (pool != nullptr && (name.empty() || pool->name == name)) pools.push_back({pool, autoscaler::summary_of(*pool)});
  }
  if (pools.empty()) {
    return fail({Code::kNotFound,
                 name.empty() ? "there are no NodePools" : fmt::format("NodePool {} is not known", name), "name",
                 "see qmctl pool show, or give its file with -f"});
  }
  std::ranges::sort(pools, {}, [](const ShownPool& shown) { return std::pair(-shown.pool->weight, shown.pool->name); });
  if (!context.structured()) {
    show_pools(context, pools);
    return {};
  }
  Json out = Json::array();
  for (const auto& pool : pools) out.push_back(to_json(pool));
  print(context, Json::object({{"pools", std::move(out)}}));
  return {};
}

}  // namespace

Status run_verb(Context& context, const PoolVerb& verb) {
  if (verb.action == PoolVerb::Action::kPreset) {
    print_manifests(context, tiered_pools(verb.node_class));
    return {};
  }
  QM_ASSIGN(const auto objects, objects_of(context, verb.kube, false));
  if (verb.action == PoolVerb::Action::kShow) return show(context, objects, verb.name);
  context.out << autoscaler::diagram_of(objects);
  return {};
}

Status run_verb(Context& context, const LintVerb& verb) {
  QM_ASSIGN(const auto objects, objects_of(context, verb.kube, true));
  const auto findings = autoscaler::lint_pools(objects);
  if (!findings.empty()) context.code = kUnfit;
  if (context.structured()) {
    Json list = Json::array();
    for (const auto& f : findings) {
      list.push_back(Json::object({{"code", f.code},
                                   {"object", f.object},
                                   {"source", f.source},
                                   {"field", f.field},
                                   {"message", f.message},
                                   {"remedy", f.remedy}}));
    }
    print(context, list);
    return {};
  }
  for (const auto& f : findings) {
    context.out << fmt::format("{}: {} {}: {}\n  field:  {}\n  remedy: {}\n", f.source, f.code, printable(f.object),
                               printable(f.message), f.field, f.remedy);
  }
  context.out << fmt::format("{} finding{} in {} objects\n", findings.size(), findings.size() == 1 ? "" : "s",
                             objects.size());
  return {};
}

Status run_verb(Context& context, const InstancesVerb& verb) {
  Table table({{"INSTANCE-TYPE"},
               {"GPU"},
               {"GPU-COUNT", true},
               {"GPU-MEMORY-GB", true},
               {"GPU-MEMORY-EACH-GB", true},
               {"VCPU", true},
               {"MEMORY", true},
               {"USD/HOUR", true}});
  Json list = Json::array();
  for (const auto& type : catalog::types()) {
    const auto& hardware = *catalog::hardware_of(type.name);
    const auto& device = hardware.gpu.count > 0 ? hardware.gpu : hardware.accelerator;
    if (!verb.instance_type.empty() && type.name != verb.instance_type) continue;
    if (!verb.gpu.empty() && device.name != verb.gpu) continue;
    const auto each = catalog::nominal_memory_gb(device);
    const std::string name(type.name), gpu(device.name), price(type.usd_hour);
    constexpr std::int64_t kMebi = std::int64_t{1} << 20;
    table.row({name, gpu, device.count == 0 ? "" : std::to_string(device.count),
               each == 0 ? "" : std::to_string(each * device.count), each == 0 ? "" : std::to_string(each),
               std::to_string(type.vcpu), bytes(type.memory_mib * kMebi), price});
    list.push_back(Json::object({{"instanceType", name},
                                 {"gpu", gpu},
                                 {"gpuCount", std::int64_t{device.count}},
                                 {"gpuMemoryGb", each * device.count},
                                 {"gpuMemoryEachGb", each},
                                 {"vcpu", std::int64_t{type.vcpu}},
                                 {"memoryMib", type.memory_mib},
                                 {"usdPerHour", price}}));
  }
  if (table.empty()) {
    return fail({Code::kNotFound, "the catalog has no such instance type", verb.gpu.empty() ? "--type" : "--gpu",
                 "see qmctl instances"});
  }
  if (context.structured()) {
    print(context, Json::object({{"instanceTypes", std::move(list)}}));
    return {};
  }
  context.out << table.text();
  return {};
}

}  // namespace qm::cli
