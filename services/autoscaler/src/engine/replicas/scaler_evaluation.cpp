// One scaler: its manifest, and what a sync or a poll of it decides.
#include "scaler_evaluation.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

Result<replicas::Scaler> read_manifest(const ScalerId& id, const std::string& manifest) {
  return id.kind == ScalerKind::kHpa ? replicas::Scaler::read_autoscaler(manifest)
                                     : replicas::Scaler::read_object(manifest);
}

/// The metrics of a decision with their names.
std::vector<DecisionRow::Metric> metrics_of(const std::vector<std::string>& names,
                                            const std::vector<replicas::MetricResult>& results) {
  std::vector<DecisionRow::Metric> out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& result = results[i];
    out.push_back({i < names.size() ? names[i] : std::string(), result.replicas, result.ratio,
                   std::string(replicas::name_of(result.rule)), result.error});
  }
  return out;
}

}  // namespace

std::string refusal_of(const ScalerId& id, const std::string& manifest) {
  const auto read = read_manifest(id, manifest);
  return read ? std::string() : read.error().to_string();
}

const replicas::Scaler* ScalerEvaluation::read(const ScalerId& id, const ScalerRow& row) {
  if (!row.refused.empty()) return nullptr;
  const auto known = cache_.find(id);
  if (known != cache_.end() && known->second.manifest == row.manifest) return &known->second.scaler;
  auto read = read_manifest(id, row.manifest);
  if (!read) return nullptr;
  return &cache_.insert_or_assign(id, ReadScaler{row.manifest, std::move(*read)}).first->second.scaler;
}

Instant ScalerEvaluation::next_due(const replicas::Scaler& scaler, const HistoryRow& history) const {
  const Instant sync = history.synced ? *history.synced + options_.sync : Instant{};
  if (scaler.object() == nullptr) return sync;
  return std::min(sync, history.polled ? *history.polled + scaler.polling() : Instant{});
}

bool ScalerEvaluation::due(const replicas::Scaler& scaler, const HistoryRow& history, Instant now) const {
  return next_due(scaler, history) <= now;
}

void ScalerEvaluation::evaluate(const replicas::Scaler& scaler, const Sample& sample, HistoryRow& history,
                                DecisionRow& decision) const {
  decision.at = sample.now;
  decision.current = sample.target.replicas;
  decision.fault.clear();
  decision.abstains = false;
  if (scaler.object() == nullptr) {
    evaluate_hpa(scaler, sample, history, decision);
  } else {
    evaluate_object(scaler, sample, history, decision);
  }
}

void ScalerEvaluation::evaluate_hpa(const replicas::Scaler& scaler, const Sample& sample, HistoryRow& history,
                                    DecisionRow& decision) const {
  history.synced = sample.now;
  const replicas::Observation seen{sample.now, sample.target.replicas, sample.target.status_replicas,
                                   sample.target.pods, sample.readings.metrics};
  const auto result = replicas::sync(*scaler.autoscaler(), options_.controller, seen, history.state.hpa);
  decision.wanted = result.desired;
  decision.rule = replicas::name_of(result.rule);
  decision.abstains = result.rule == replicas::HpaRule::kDisabledAtZero;
  decision.metrics = metrics_of(scaler.metrics(), result.metrics);
  decision.lower = scaler.min();
  decision.upper = scaler.max();
}

// The scale loop first: it activates and deactivates. Where it changes nothing, the sync of the autoscaler counts, or
// the result of the last one. By exact rules a trigger that is polled more often than autoscalers sync is synced as often.
void ScalerEvaluation::evaluate_object(const replicas::Scaler& scaler, const Sample& sample, HistoryRow& history,
                                       DecisionRow& decision) const {
  const auto& object = *scaler.object();
  const auto& annotations = scaler.annotations();
  const std::int32_t current = sample.target.replicas;
  const replicas::TriggerObservation seen{sample.now,
                                          current,
                                          sample.target.status_replicas,
                                          sample.target.pods,
                                          sample.readings.triggers,
                                          sample.readings.metrics.resource};
  const bool polls = !history.polled || *history.polled + scaler.polling() <= sample.now;
  const bool sooner = sample.exact_rules && polls && scaler.polling() < options_.sync;
  const bool syncs = sooner || !history.synced || *history.synced + options_.sync <= sample.now;
  decision.upper = scaler.max();
  if (annotations.paused) {
    history.polled = history.synced = sample.now;
    decision.wanted = replicas::reconcile(annotations, current, history.state);
    decision.rule = replicas::name_of(replicas::LoopRule::kPaused);
    decision.abstains = !annotations.paused_replicas;
    decision.lower = decision.upper = decision.wanted;
    decision.metrics.clear();
    return;
  }
  bool changed = false;
  if (polls) {
    history.polled = sample.now;
    const auto loop = replicas::poll(object, annotations, seen, history.state);
    decision.active = loop.active || annotations.force_activation;
    changed = loop.replicas != current;
    if (changed || current == 0) {
      decision.wanted = loop.replicas;
      decision.rule = replicas::name_of(loop.rule);
      decision.metrics.clear();
    }
  }
  decision.lower = !decision.active && scaler.idle() ? *scaler.idle() : scaler.min();
  if (syncs) history.synced = sample.now;
  if (!syncs || changed || current == 0) return;
  auto options = options_.controller;
  options.exact_schedules = sample.exact_rules;
  const auto result = replicas::sync(object, annotations, options, seen, history.state);
  decision.wanted = result.hpa.desired;
  decision.rule = replicas::name_of(result.hpa.rule);
  decision.metrics = metrics_of(scaler.metrics(), result.hpa.metrics);
}

void ScalerEvaluation::record(const replicas::Scaler& scaler, Instant now, std::int32_t before, std::int32_t after,
                              const HistoryRow& earlier, HistoryRow& history) {
  if (const auto* spec = scaler.autoscaler()) {
    replicas::record_change(*spec, now, before, after, earlier.state.hpa, history.state.hpa);
  } else {
    replicas::record_change(*scaler.object(), now, before, after, earlier.state.hpa, history.state.hpa);
  }
}

}  // namespace qm::autoscaler
