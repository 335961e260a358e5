// The verb that shows which scalers a workload has and what they decide: those of the cluster, or of files at an assumed
// load.
#include "commands.hpp"
#include "print.hpp"
#include "qm/autoscaler/replicas/assumed.hpp"
#include "qm/autoscaler/replicas/inference_service.hpp"
#include "qm/autoscaler/replicas/manifests.hpp"
#include "qm/config/manifest.hpp"
#include "qm/model/scalers.hpp"
#include "table.hpp"
#include "words.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <set>

namespace qm::cli {
namespace {

std::string result_of(const pb::ScaleMetric& metric) {
  return metric.has_replicas() ? std::to_string(metric.replicas()) : "invalid";
}

std::string scalers_text(const pb::ScaleTarget& target) {
  Table table({{"SCALER"}, {"RESULT", true}, {"RANGE"}, {"METRIC"}, {"RATIO", true}, {"PROPOSAL", true}, {"REASON"}});
  for (const auto& scaler : target.scalers()) {
    const auto name = scaler.kind() + " " + scaler.name();
    if (scaler.at_us() == 0) {
      table.row({name, "", "", "", "", "", scaler.error().empty() ? "it was not evaluated yet" : scaler.error()});
      continue;
    }
    const auto rule = scaler.reason().empty() ? scaler.rule() : fmt::format("{}: {}", scaler.rule(), scaler.reason());
    const auto reason = scaler.error().empty() ? rule : scaler.error();
    const auto range = fmt::format("{}-{}", scaler.min(), scaler.max());
    if (scaler.metrics().empty()) {
      table.row({name, std::to_string(scaler.wanted()), range, "", "", "", reason});
    }
    for (int i = 0; i < scaler.metrics_size(); ++i) {
      const auto& metric = scaler.metrics(i);
      const bool first = i == 0;
      table.row({first ? name : "", first ? std::to_string(scaler.wanted()) : "", first ? range : "", metric.name(),
                 metric.has_replicas() ? fmt::format("{:.3f}", metric.ratio()) : "", result_of(metric),
                 metric.error().empty() ? (first ? reason : metric.rule()) : metric.error()});
    }
  }
  return table.text();
}

void show_target(const Context& context, const pb::ScaleTarget& target) {
  context.out << fmt::format("{} {}/{}: {} replicas, {} wanted{}\n", target.kind(), target.namespace_(), target.name(),
                             target.replicas(), target.wanted(),
                             target.scaled_by().empty() ? "" : ", scaled by " + target.scaled_by());
  if (!target.problem().empty()) context.out << "  problem: " << printable(target.problem()) << '\n';
  if (!target.conflict().empty()) context.out << "  conflict: " << printable(target.conflict()) << '\n';
  if (!target.decided_by().empty()) {
    context.out << fmt::format("  decided by {}{}\n", target.decided_by(),
                               target.bound().empty() ? "" : ", limited by " + target.bound());
  }
  context.out << scalers_text(target) << '\n';
}

namespace replicas = autoscaler::replicas;

/// The autoscaler that a document is or means; none if it is neither.
Result<std::optional<replicas::InferenceScaling>> scaling_of(const config::Document& document) {
  if (document.kind == "InferenceService") {
    QM_ASSIGN(auto read, replicas::read_inference_service(document.content));
    return std::optional(std::move(read));
  }
  if (document.kind != "HorizontalPodAutoscaler") return std::optional<replicas::InferenceScaling>();
  QM_ASSIGN(auto read, replicas::read_hpa(document.content));
  return std::optional(replicas::InferenceScaling{std::move(read.spec), {}});
}

/// The decision at the assumed load, in the form of the service's answer.
void add_decision(const config::Document& document, const replicas::HpaSpec& spec, const ScaleFilesVerb& verb,
                  pb::EvaluateScaleResponse& out) {
  const replicas::AssumedLoad load{
      verb.replicas == 0 ? std::max(spec.min, 1) : static_cast<std::int32_t>(verb.replicas), verb.values};
  const auto decision = replicas::decide_for(spec, load);
  auto& target = *out.add_targets();
  const bool serving = document.kind == "InferenceService";
  const auto ref = serving ? ScaleTargetRef{{}, document.kind, document.name} : scale_target_of(document.content);
  target.set_kind(ref.kind);
  target.set_name(ref.name);
  target.set_namespace_(document.ns.empty() ? "default" : document.ns);
  target.set_replicas(load.replicas);
  target.set_wanted(decision.desired);
  auto& scaler = *target.add_scalers();
  scaler.set_kind(document.kind);
  scaler.set_name(document.name);
  scaler.set_current(load.replicas);
  scaler.set_wanted(decision.desired);
  scaler.set_min(spec.min);
  scaler.set_max(spec.max);
  scaler.set_rule(std::string(name_of(decision.rule)));
  scaler.set_at_us(1);  // it is evaluated; the load has no time
  for (std::size_t i = 0; i < decision.metrics.size() && i < spec.metrics.size(); ++i) {
    auto& metric = *scaler.add_metrics();
    metric.set_name(spec.metrics[i].name);
    metric.set_ratio(decision.metrics[i].ratio);
    if (decision.metrics[i].replicas) metric.set_replicas(*decision.metrics[i].replicas);
    metric.set_rule(std::string(name_of(decision.metrics[i].rule)));
    const bool assumed = verb.values.contains(spec.metrics[i].name);
    metric.set_error(assumed ? decision.metrics[i].error
                             : fmt::format("no value is assumed: --value {}=NUMBER", spec.metrics[i].name));
  }
}

}  // namespace

Status run_verb(Context& context, const ScaleFilesVerb& verb) {
  pb::EvaluateScaleResponse answer;
  std::set<std::string> known;
  for (const auto& manifest : context.manifests) {
    const auto loaded = config::load_text(manifest.text, manifest.source);
    QM_TRY(config::accept(loaded));
    for (const auto& [document, typed] : loaded.objects) {
      const auto where = fmt::format("{}:{}", document.file, document.line);
      const auto scaling = scaling_of(document);
      if (!scaling) return fail(scaling.error().with_context(where));
      if (!*scaling) continue;
      for (const auto& warning : (*scaling)->warnings)
        context.err << fmt::format("warning: {}: {}\n", where, printable(warning));
      for (const auto& metric : (*scaling)->spec.metrics) known.insert(metric.name);
      add_decision(document, (*scaling)->spec, verb, answer);
    }
  }
  if (answer.targets().empty()) {
    return fail(Error{Code::kNotFound, "the files have no HorizontalPodAutoscaler and no InferenceService", "--file",
                      "ScaledObjects are evaluated by the service: qmctl scale eval"});
  }
  for (const auto& [name, value] : verb.values) {
    if (known.contains(name)) continue;
    return fail(Error{Code::kInvalid, fmt::format("no object of the files scales on {}", name), "--value",
                      fmt::format("use one of {}", fmt::join(known, ", "))});
  }
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  for (const auto& target : answer.targets()) show_target(context, target);
  return {};
}

Status run_verb(Context& context, const ScaleVerb& verb) {
  pb::EvaluateScaleRequest request;
  request.set_namespace_(verb.ns);
  request.set_name(verb.name);
  QM_ASSIGN(const auto answer, context.client.scale(request));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  if (answer.targets().empty()) {
    context.err << "no HorizontalPodAutoscalers or ScaledObjects\n";
    return {};
  }
  for (const auto& target : answer.targets()) show_target(context, target);
  return {};
}

}  // namespace qm::cli
