// The answer of EvaluateScale.
#include "qm/autoscaler/api.hpp"

#include <set>

namespace qm::autoscaler {
namespace pb = quartermaster::v1;

namespace {

std::string_view controller_of(ScalerKind kind) {
  return kind == ScalerKind::kHpa ? "kube-controller-manager" : "keda";
}

void fill(pb::ScalerDecision& out, const ScalerId& id, const ScalerRow& row, const DecisionRow* decision) {
  out.set_kind(std::string(name_of(id.kind)));
  out.set_name(id.name);
  out.set_suspended(row.suspended);
  out.set_error(row.refused);
  if (row.generated) out.set_error("KEDA created it for a ScaledObject, which is evaluated");
  if (decision == nullptr) return;
  out.set_current(decision->current);
  out.set_wanted(decision->wanted);
  out.set_min(decision->lower);
  out.set_max(decision->upper);
  out.set_rule(decision->rule);
  out.set_reason(std::string(meaning_of_rule(decision->rule)));
  out.set_at_us(micros(decision->at));
  if (!decision->fault.empty()) out.set_error("the evaluation failed: " + decision->fault);
  for (const auto& metric : decision->metrics) {
    auto& one = *out.add_metrics();
    one.set_name(metric.name);
    one.set_ratio(metric.ratio);
    if (metric.replicas) one.set_replicas(*metric.replicas);
    one.set_rule(metric.rule);
    one.set_error(metric.error);
  }
}

/// What prevents an evaluation or a change, the most relevant first.
std::string problem_of(const TargetRow& target, bool taken, bool alone) {
  if (!target.found && !target.problem.empty()) return target.problem;
  if (!target.found) return "the target does not exist";
  if (!target.problem.empty()) return target.problem;
  if (!target.error.empty()) return target.error;
  if (target.mode == ReplicaMode::kObserve) return {};
  if (!taken) return "a scaler cannot be evaluated, so that all are left to their controllers";
  if (!alone) return "a scaler is not suspended yet, so that its controller still acts";
  return {};
}

}  // namespace

pb::EvaluateScaleResponse scale_for(const Engine& engine, Instant now, const pb::EvaluateScaleRequest& request,
                                    const rpc::Caller& caller) {
  const ReplicaTables& tables = engine.tables().replicas;
  std::map<TargetId, std::vector<ScalerId>> groups;
  std::set<TargetId> named;
  for (const auto& [id, row] : tables.scalers) {
    if (!caller.sees(id.ns) || (!request.namespace_().empty() && id.ns != request.namespace_())) continue;
    groups[row.target].push_back(id);
    if (request.name().empty() || request.name() == id.name || request.name() == row.target.name) {
      named.insert(row.target);
    }
  }
  pb::EvaluateScaleResponse out;
  out.set_as_of_us(micros(now));
  for (const TargetId& id : named) {
    auto& target = *out.add_targets();
    target.set_namespace_(id.ns);
    target.set_kind(id.kind);
    target.set_name(id.name);
    bool taken = true, alone = true;
    std::set<std::string_view> controllers;
    for (const ScalerId& scaler : groups[id]) {
      const ScalerRow& row = *tables.scalers.find(scaler);
      fill(*target.add_scalers(), scaler, row, tables.decisions.find(scaler));
      taken = taken && row.refused.empty();
      alone = alone && row.suspended && !row.generated;
      controllers.insert(controller_of(scaler.kind));
    }
    const TargetRow* row = tables.targets.find(id);
    const bool ours = row != nullptr && row->mode != ReplicaMode::kObserve && taken && alone;
    target.set_scaled_by(ours ? "quartermaster" : fmt::format("{}", fmt::join(controllers, ", ")));
    if (row == nullptr) {
      target.set_problem("the target was not read yet");
      continue;
    }
    target.set_replicas(row->replicas);
    target.set_wanted(ours ? row->wanted : row->replicas);
    if (row->decided_by) target.set_decided_by(row->decided_by->to_string());
    target.set_bound(row->bound);
    target.set_conflict(row->conflict);
    target.set_problem(problem_of(*row, taken, alone));
  }
  return out;
}

}  // namespace qm::autoscaler
