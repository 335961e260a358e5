// The verb that shows who scales a workload, and by which metrics.
#include "commands.hpp"
#include "print.hpp"
#include "table.hpp"
#include "words.hpp"

#include <fmt/format.h>

#include <ostream>

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
    const auto reason = scaler.error().empty() ? fmt::format("{}: {}", scaler.rule(), scaler.reason()) : scaler.error();
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

}  // namespace

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
  for (const auto& target : answer.targets()) {
    context.out << fmt::format("{} {}/{}: {} replicas, {} wanted, scaled by {}\n", target.kind(), target.namespace_(),
                               target.name(), target.replicas(), target.wanted(), target.scaled_by());
    if (!target.problem().empty()) context.out << "  problem: " << printable(target.problem()) << '\n';
    if (!target.conflict().empty()) context.out << "  conflict: " << printable(target.conflict()) << '\n';
    if (!target.decided_by().empty()) {
      context.out << fmt::format("  decided by {}{}\n", target.decided_by(),
                                 target.bound().empty() ? "" : ", limited by " + target.bound());
    }
    context.out << scalers_text(target) << '\n';
  }
  return {};
}

}  // namespace qm::cli
