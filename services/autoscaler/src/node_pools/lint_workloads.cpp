// Findings about workloads: consolidation that would disturb training, and scalers with the wrong signal.
#include "lint.hpp"
#include "qm/admission_policy/templates.hpp"
#include "qm/autoscaler/budgets/budgets.hpp"
#include "qm/config/workload_kinds.hpp"
#include "qm/model/scalers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace qm::autoscaler {
namespace {

using admission_policy::PodTemplate;

constexpr Duration kLong = std::chrono::hours(1);

/// Run times of a workload: the declared one, or an upper bound, and whether it is long without one.
struct RunTime {
  std::optional<Duration> declared;
  bool training = false;
};

std::optional<Duration> duration_in(const Json& annotations, std::string_view key) {
  const auto read = config::parse_duration(annotations[key].string());
  return read ? std::optional(*read) : std::nullopt;
}

RunTime run_time_of(const Json& object, const PodTemplate& pod) {
  RunTime out;
  const auto& kind = object["kind"].string();
  const auto& label = object["metadata"]["labels"]["workload-type"].string();
  const auto own = pod.labels.find("workload-type");
  const bool by_operator = std::ranges::any_of(
      object["spec"].members(), [](const auto& member) { return member.first.ends_with("ReplicaSpecs"); });
  out.training = by_operator || label == "training" || (own != pod.labels.end() && own->second == "training");
  out.declared = duration_in(object["metadata"]["annotations"], words::kExpectedRuntime);
  if (const auto at = pod.annotations.find(std::string(words::kExpectedRuntime));
      !out.declared && at != pod.annotations.end()) {
    if (const auto read = config::parse_duration(at->second)) out.declared = *read;
  }
  const auto deadline = object["spec"]["activeDeadlineSeconds"].integer(0);
  if (!out.declared && deadline > 0 && (kind == "Job" || kind == "Pod")) out.declared = std::chrono::seconds(deadline);
  return out;
}

/// Whether voluntary disruption may end a pod in use: the policy allows it, and the budgets sometimes do.
bool consolidates_used_nodes(const config::NodePool& pool) {
  if (pool.consolidation_policy == "WhenEmpty" || pool.consolidate_after == Duration::max()) return false;
  return std::ranges::none_of(pool.budgets, [](const config::DisruptionBudget& budget) {
    const bool applies =
        budget.reasons.empty() ||
        std::ranges::find(budget.reasons, name_of(DisruptionReason::kUnderutilized)) != budget.reasons.end();
    return applies && budget.schedule.empty() && (budget.nodes == "0" || budget.nodes == "0%");
  });
}

/// Whether pods of this shape may run on nodes of the pool.
bool fits(const PodShape& shape, const LintedPool& at) {
  if (!at.summary.problem.empty() || at.summary.gpus.empty()) return false;
  if (untolerated(at.pool->taints, shape.tolerations) != nullptr) return false;
  Requirements node(at.pool->labels);
  node.add(exactly(std::string(words::kNodePool), at.pool->name));
  for (const auto& expression : node_template_of(*at.pool).requirements) {
    if (const auto requirement = requirement_of(expression)) node.add(*requirement);
  }
  return !node.conflict(Requirements(shape.node_selector), Undefined::kWellKnownIsAny);
}

/// The part of the run time that do-not-disrupt protects: none without it, and no end for "true".
Duration protected_time(const std::string& annotation) {
  if (annotation == "true") return Duration::max();
  const auto read = config::parse_duration(annotation);
  return read ? *read : Duration::zero();
}

bool scales_by_replicas(const std::string& kind) {
  static constexpr std::array<std::string_view, 6> kServices{"Deployment", "StatefulSet",      "DaemonSet",
                                                             "ReplicaSet", "InferenceService", "SeldonDeployment"};
  return std::ranges::find(kServices, kind) != kServices.end();
}

// ---- signals of scalers ----

constexpr std::string_view kCpu = "cpu", kMemory = "memory";

/// The signals of a scaler: "cpu", "memory", "a schedule"; empty if one of them is another metric.
std::set<std::string> weak_signals(const Json& scaler) {
  std::set<std::string> out;
  for (const auto& metric : scaler["spec"]["metrics"].items()) {
    const auto& type = metric["type"].string();
    const auto& name = metric[type == "ContainerResource" ? "containerResource" : "resource"]["name"].string();
    if ((type != "Resource" && type != "ContainerResource") || (name != kCpu && name != kMemory)) return {};
    out.insert(name);
  }
  for (const auto& trigger : scaler["spec"]["triggers"].items()) {
    const auto& type = trigger["type"].string();
    if (type != kCpu && type != kMemory && type != "cron") return {};
    out.insert(type == "cron" ? "a schedule" : type);
  }
  // A HorizontalPodAutoscaler without metrics scales on CPU.
  if (scaler["kind"].string() == "HorizontalPodAutoscaler" && scaler["spec"]["metrics"].items().empty())
    out.insert(std::string(kCpu));
  return out;
}

std::int64_t gpus_of_pods(const Json& object) {
  std::int64_t out = 0;
  for (const auto& pod : admission_policy::pod_templates(object)) out = std::max(out, pod.gpus());
  return out;
}

const config::Object* target_of(const config::Object& scaler, std::span<const config::Object> objects) {
  const auto ref = scale_target_of(scaler.document.content);
  const auto found = std::ranges::find_if(objects, [&](const config::Object& object) {
    return object.document.kind == ref.kind && object.document.name == ref.name &&
           object.document.ns == scaler.document.ns;
  });
  return found == objects.end() ? nullptr : &*found;
}

constexpr const char* kSignalRemedy =
    "scale on gpu_utilization, on the length of the queue, on latency or on concurrent requests";

void add_weak(const config::Object& object, const std::string& field, const std::string& target, std::int64_t gpus,
              const std::set<std::string>& signals, PoolFindings& out) {
  out.push_back(finding_about(
      object.document, "GPU_SCALED_ON_CPU", field,
      fmt::format(
          "the replicas of {}, whose pods have {} GPU{}, follow {} alone, which does not show the load of a GPU",
          target, gpus, gpus == 1 ? "" : "s", fmt::join(signals, " and ")),
      kSignalRemedy));
}

}  // namespace

void lint_workload(const config::Object& object, const std::vector<LintedPool>& pools, PoolFindings& out) {
  const Json& content = object.document.content;
  if (scales_by_replicas(object.document.kind)) return;
  for (const auto& pod : admission_policy::pod_templates(content)) {
    if (pod.gpus() == 0) continue;
    const auto run = run_time_of(content, pod);
    if (run.declared ? *run.declared <= kLong : !run.training) continue;
    const auto annotation = pod.annotations.find(std::string(words::kDoNotDisrupt));
    const auto safe = annotation == pod.annotations.end() ? Duration::zero() : protected_time(annotation->second);
    if (safe >= run.declared.value_or(Duration::max())) continue;
    const auto shape = config::shape_from_pod_spec(pod.spec);
    if (!shape) continue;
    std::vector<std::string> names;
    for (const auto& at : pools) {
      if (consolidates_used_nodes(*at.pool) && fits(*shape, at))
        names.push_back(fmt::format("{} ({} after {})", at.pool->name, at.pool->consolidation_policy,
                                    duration_text(at.pool->consolidate_after)));
    }
    if (names.empty()) continue;
    const std::string length =
        run.declared ? fmt::format("run {}", duration_text(*run.declared)) : "train for an undeclared time";
    const bool misplaced =
        content["metadata"]["annotations"].contains(words::kDoNotDisrupt) && annotation == pod.annotations.end();
    std::string why = misplaced ? "the annotation do-not-disrupt of the object does not reach its pods"
                      : safe > Duration::zero()
                          ? fmt::format("do-not-disrupt protects the first {} of it", duration_text(safe))
                          : std::string("nothing protects them");
    out.push_back(finding_about(
        object.document, "TRAINING_NOT_PROTECTED", fmt::format("metadata.annotations[{}]", words::kDoNotDisrupt),
        fmt::format("{}pods with {} GPU{} {}, {}, and consolidation of NodePool {} may evict them",
                    pod.part.empty() ? "" : pod.part + ": ", pod.gpus(), pod.gpus() == 1 ? "" : "s", length, why,
                    fmt::join(names, ", ")),
        fmt::format("set {}: \"true\" in the pod template, or consolidationPolicy: WhenEmpty in the NodePool",
                    words::kDoNotDisrupt)));
  }
}

void lint_scaler(const config::Object& scaler, std::span<const config::Object> objects, PoolFindings& out) {
  const Json& content = scaler.document.content;
  if (scaler.document.kind == "InferenceService") {
    const auto& metric = content["spec"]["predictor"]["scaleMetric"].string();
    const auto gpus = gpus_of_pods(content);
    if (gpus > 0 && (metric == kCpu || metric == kMemory))
      add_weak(scaler, "spec.predictor.scaleMetric", "its predictor", gpus, {metric}, out);
    return;
  }
  if (!is_scaler(content)) return;
  const auto signals = weak_signals(content);
  const auto* target = target_of(scaler, objects);
  if (signals.empty() || target == nullptr) return;
  const auto gpus = gpus_of_pods(target->document.content);
  if (gpus == 0) return;
  add_weak(scaler, content["spec"].contains("triggers") ? "spec.triggers" : "spec.metrics", title_of(target->document),
           gpus, signals, out);
}

}  // namespace qm::autoscaler
