// One scaler: its manifest, and what a sync or a poll of it decides.
#include "scaler_evaluation.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr std::int64_t kPollingSeconds = 30;  // KEDA's default

Result<ReadScaler> read_manifest(const ScalerId& id, const std::string& manifest) {
  QM_ASSIGN(const Json object, Json::parse(manifest));
  ReadScaler out;
  out.manifest = manifest;
  if (id.kind == ScalerKind::kHpa) {
    QM_ASSIGN(auto read, replicas::read_hpa(object));
    out.spec = std::move(read.spec);
    return out;
  }
  QM_ASSIGN(auto read, replicas::read_scaled_object(object));
  out.spec = std::move(read);
  QM_ASSIGN(out.annotations, replicas::read_annotations(object.path("metadata.annotations")));
  out.polling =
      std::chrono::seconds(std::max<std::int64_t>(1, object.path("spec.pollingInterval").integer(kPollingSeconds)));
  return out;
}

std::string name_of(const replicas::Metric& metric) {
  return metric.container.empty() ? metric.name : metric.container + "/" + metric.name;
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

/// The names of the metrics of the autoscaler that KEDA creates, in their order.
std::vector<std::string> names_of(const replicas::ScaledObject& object) {
  std::vector<std::string> out;
  for (const auto& trigger : object.triggers) {
    if (trigger.is_resource() || !object.modifiers) out.push_back(trigger.name);
  }
  if (object.modifiers) out.emplace_back(replicas::kCompositeMetric);
  return out;
}

}  // namespace

std::string refusal_of(const ScalerId& id, const std::string& manifest) {
  const auto read = read_manifest(id, manifest);
  return read ? std::string() : read.error().to_string();
}

const ReadScaler* ScalerEvaluation::read(const ScalerId& id, const ScalerRow& row) {
  if (!row.refused.empty()) return nullptr;
  const auto known = cache_.find(id);
  if (known != cache_.end() && known->second.manifest == row.manifest) return &known->second;
  auto read = read_manifest(id, row.manifest);
  if (!read) return nullptr;
  return &cache_.insert_or_assign(id, std::move(*read)).first->second;
}

Instant ScalerEvaluation::next_due(const ReadScaler& scaler, const HistoryRow& history) const {
  const Instant sync = history.synced ? *history.synced + options_.sync : Instant{};
  if (std::holds_alternative<replicas::HpaSpec>(scaler.spec)) return sync;
  return std::min(sync, history.polled ? *history.polled + scaler.polling : Instant{});
}

bool ScalerEvaluation::due(const ReadScaler& scaler, const HistoryRow& history, Instant now) const {
  return next_due(scaler, history) <= now;
}

void ScalerEvaluation::evaluate(const ReadScaler& scaler, const Sample& sample, HistoryRow& history,
                                DecisionRow& decision) const {
  decision.at = sample.now;
  decision.current = sample.target.replicas;
  decision.fault.clear();
  decision.abstains = false;
  if (const auto* spec = std::get_if<replicas::HpaSpec>(&scaler.spec)) {
    evaluate_hpa(*spec, sample, history, decision);
  } else {
    evaluate_object(scaler, sample, history, decision);
  }
}

void ScalerEvaluation::evaluate_hpa(const replicas::HpaSpec& spec, const Sample& sample, HistoryRow& history,
                                    DecisionRow& decision) const {
  history.synced = sample.now;
  const replicas::Observation seen{sample.now, sample.target.replicas, sample.target.status_replicas,
                                   sample.target.pods, sample.readings.metrics};
  const auto result = replicas::sync(spec, options_.controller, seen, history.state.hpa);
  std::vector<std::string> names;
  for (const auto& metric : spec.metrics) names.push_back(name_of(metric));
  decision.wanted = result.desired;
  decision.rule = replicas::name_of(result.rule);
  decision.abstains = result.rule == replicas::HpaRule::kDisabledAtZero;
  decision.metrics = metrics_of(names, result.metrics);
  decision.lower = spec.min;
  decision.upper = spec.max;
}

// The scale loop first: it activates and deactivates. Where it changes nothing, the sync of the autoscaler counts, or
// the result of the last one.
void ScalerEvaluation::evaluate_object(const ReadScaler& scaler, const Sample& sample, HistoryRow& history,
                                       DecisionRow& decision) const {
  const auto& object = std::get<replicas::ScaledObject>(scaler.spec);
  const std::int32_t current = sample.target.replicas;
  const replicas::TriggerObservation seen{sample.now,
                                          current,
                                          sample.target.status_replicas,
                                          sample.target.pods,
                                          sample.readings.triggers,
                                          sample.readings.metrics.resource};
  const bool polls = !history.polled || *history.polled + scaler.polling <= sample.now;
  const bool syncs = !history.synced || *history.synced + options_.sync <= sample.now;
  decision.upper = object.max;
  if (scaler.annotations.paused) {
    history.polled = history.synced = sample.now;
    decision.wanted = replicas::reconcile(scaler.annotations, current, history.state);
    decision.rule = replicas::name_of(replicas::LoopRule::kPaused);
    decision.abstains = !scaler.annotations.paused_replicas;
    decision.lower = decision.upper = decision.wanted;
    decision.metrics.clear();
    return;
  }
  bool changed = false;
  if (polls) {
    history.polled = sample.now;
    const auto loop = replicas::poll(object, scaler.annotations, seen, history.state);
    decision.active = loop.active || scaler.annotations.force_activation;
    changed = loop.replicas != current;
    if (changed || current == 0) {
      decision.wanted = loop.replicas;
      decision.rule = replicas::name_of(loop.rule);
      decision.metrics.clear();
    }
  }
  decision.lower = !decision.active && object.idle ? *object.idle : object.min;
  if (syncs) history.synced = sample.now;
  if (!syncs || changed || current == 0) return;
  auto options = options_.controller;
  options.exact_schedules = sample.exact_schedules;
  const auto result = replicas::sync(object, scaler.annotations, options, seen, history.state);
  decision.wanted = result.hpa.desired;
  decision.rule = replicas::name_of(result.hpa.rule);
  decision.metrics = metrics_of(names_of(object), result.hpa.metrics);
}

void ScalerEvaluation::record(const ReadScaler& scaler, Instant now, std::int32_t before, std::int32_t after,
                              const HistoryRow& earlier, HistoryRow& history) {
  if (const auto* spec = std::get_if<replicas::HpaSpec>(&scaler.spec)) {
    replicas::record_change(*spec, now, before, after, earlier.state.hpa, history.state.hpa);
  } else {
    replicas::record_change(std::get<replicas::ScaledObject>(scaler.spec), now, before, after, earlier.state.hpa,
                            history.state.hpa);
  }
}

}  // namespace qm::autoscaler
