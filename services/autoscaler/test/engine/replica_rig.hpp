#pragma once
// A target with its scalers around an engine, sampled every 15 seconds.
#include "qm/base/json.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler::testing {

/// The spec of a HorizontalPodAutoscaler of the external metric `queue` with an average of 1 a replica.
inline std::string queue_spec(int min, int max, const std::string& more = {}) {
  return fmt::format(
      R"("minReplicas": {}, "maxReplicas": {}, "metrics": [{{"type": "External", "external":
         {{"metric": {{"name": "queue"}}, "target": {{"type": "AverageValue", "averageValue": "1"}}}}}}]{})",
      min, max, more);
}

struct ReplicaRig {
  explicit ReplicaRig(Options options = {}) : script(std::move(options)) {}

  Script script;
  TargetId target{"team", "apps", "Deployment", "web"};
  ReplicasObserved sample{target, "apps/v1", "uid-1", ReplicaMode::kObserve, true, "", 4, 4, {}, {}, {}, false};
  std::map<ScalerId, ScalerRow> rows;
  bool obedient = true;  ///< changes are executed, and suspensions observed, between two samples
  std::vector<SwitchIntent> switches;
  std::vector<ScaleIntent> scales;
  std::vector<LaunchIntent> launches;

  ScalerId hpa(const std::string& name, const std::string& spec, int age = 0) {
    return add({ScalerKind::kHpa, "team", name},
               R"({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {}, "spec": {)" +
                   spec + "}}",
               age);
  }
  ScalerId scaled_object(const std::string& name, const std::string& spec, int age = 0,
                         const std::string& annotations = "{}") {
    return add({ScalerKind::kScaledObject, "team", name},
               R"({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"annotations": )" +
                   annotations + R"(}, "spec": {)" + spec + "}}",
               age);
  }
  ScalerId add(ScalerId id, std::string manifest, int age) {
    ScalerRow row{
        target, "apps/v1", std::move(manifest), "uid-of-" + id.name, script.now() - std::chrono::seconds(age), false,
        false,  {}};
    rows[id] = row;
    step({ScalerUpdated{id, row}});
    return id;
  }
  void generated(const std::string& name) {
    const ScalerId id = hpa(name, queue_spec(1, 5));
    rows[id].generated = true;
    step({ScalerUpdated{id, rows[id]}});
  }
  void metric(const ScalerId& id, const std::string& name, std::int64_t milli) {
    sample.readings[id].metrics.external[name] = {milli};
  }
  void reading(const ScalerId& id, const std::string& trigger, replicas::Reading reading) {
    sample.readings[id].triggers[trigger] = std::move(reading);
  }
  /// One sample, and what follows from it.
  Output observe(Duration after = std::chrono::seconds(15)) {
    script.advance(after);
    sample.at = script.now();
    Output out = step({sample});
    if (obedient) settle(out);
    return out;
  }
  /// Executes the intents of a step.
  void settle(const Output& out) {
    std::vector<Command> batch;
    for (const auto& intent : out.replicas.switches) {
      rows[intent.scaler].suspended = intent.suspend;
      batch.emplace_back(ScalerUpdated{intent.scaler, rows[intent.scaler]});
    }
    for (const auto& intent : out.replicas.scales) {
      sample.replicas = sample.status_replicas = intent.to;
      batch.emplace_back(ReplicasChanged{intent.target, intent.number, {}});
    }
    if (!batch.empty()) step(batch);
  }
  /// Until every suspension is observed.
  void take_over(ReplicaMode mode = ReplicaMode::kScale) {
    sample.mode = mode;
    observe();
  }
  Output step(const std::vector<Command>& batch) {
    Output out = script.step(batch);
    EXPECT_EQ(script.complaint(), "");
    for (const auto& s : out.replicas.switches) switches.push_back(s);
    for (const auto& s : out.replicas.scales) scales.push_back(s);
    for (const auto& l : out.launches) launches.push_back(l);
    return out;
  }
  [[nodiscard]] const DecisionRow& decision(const ScalerId& id) {
    const DecisionRow* row = script.engine().tables().replicas.decisions.find(id);
    static const DecisionRow none;
    EXPECT_NE(row, nullptr) << id.to_string();
    return row == nullptr ? none : *row;
  }
  [[nodiscard]] const TargetRow& row() { return *script.engine().tables().replicas.targets.find(target); }
};

}  // namespace qm::autoscaler::testing
