#pragma once
#include "qm/autoscaler/replicas/keda.hpp"
#include "qm/base/table.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// The annotation of a workload with a scale subresource that gives its replicas to this autoscaler.
inline constexpr std::string_view kReplicasAnnotation = "quartermaster.dev/replicas";

enum class ScalerKind { kHpa, kScaledObject };
[[nodiscard]] std::string_view name_of(ScalerKind kind);  ///< the kind in the API

/// A HorizontalPodAutoscaler or a ScaledObject.
struct ScalerId {
  ScalerKind kind = ScalerKind::kHpa;
  std::string ns, name;
  [[nodiscard]] std::string to_string() const;  ///< "ScaledObject team/web"
  friend auto operator<=>(const ScalerId&, const ScalerId&) = default;
};

/// A workload with a scale subresource.
struct TargetId {
  std::string ns, group, kind, name;
  [[nodiscard]] std::string to_string() const;  ///< "Deployment team/web"
  friend auto operator<=>(const TargetId&, const TargetId&) = default;
};

/// The controller that sets the replicas of a target, by its annotation.
enum class ReplicaMode {
  kObserve,  ///< kube-controller-manager and KEDA; here the decisions are only evaluated
  kScale,    ///< this autoscaler: the largest result of all scalers within their tightest bounds
  kStrict,   ///< this autoscaler, by one scaler: the oldest
};

// ---- rows ----

struct ScalerRow {
  TargetId target;
  std::string api_version;  ///< of the target
  std::string manifest;     ///< JSON, as its user wrote it: without what suspends it, and without status
  std::string uid;
  Instant created{};
  bool suspended = false;  ///< the other controller does not act on it
  bool generated = false;  ///< KEDA created it for a ScaledObject, which is evaluated instead
  std::string refused;     ///< why it cannot be evaluated; empty if it can
  friend bool operator==(const ScalerRow&, const ScalerRow&) = default;
};

struct TargetRow {
  std::string api_version, uid;
  ReplicaMode mode = ReplicaMode::kObserve;
  bool found = false;
  std::string problem;  ///< of the annotation or the scale subresource; empty if there is none
  std::int32_t replicas = 0, status_replicas = 0;
  std::vector<replicas::Pod> pods;      ///< only if a metric needs them
  Instant observed{};                   ///< when it was read
  Instant evaluated{};                  ///< `observed` of the last evaluation
  Instant changed{};                    ///< outcome of the last change
  std::int64_t number = 0;              ///< of the last change
  std::optional<std::int32_t> pending;  ///< replicas of a change without an outcome
  // The last decision, if this autoscaler scales it.
  std::int32_t wanted = 0;
  std::optional<ScalerId> decided_by;
  std::string bound;     ///< the bound that changed the result; empty if none did
  std::string conflict;  ///< between its scalers; empty if there is none
  std::string error;     ///< why the last change failed
};

/// What the sources of a scaler's metrics answered.
struct ReadingsRow {
  replicas::Readings metrics;
  std::map<std::string, replicas::Reading> triggers;  ///< of a ScaledObject
};

/// The memory of one scaler between evaluations. That of an autoscaler is `state.hpa`.
struct HistoryRow {
  replicas::ScaledObjectState state;
  std::optional<Instant> synced, polled;
  std::optional<Instant> switched;  ///< when its suspension or its return was last requested
};

/// The last evaluation of one scaler.
struct DecisionRow {
  struct Metric {
    std::string name;
    std::optional<std::int32_t> replicas;
    double ratio = 0;
    std::string rule, error;
  };
  Instant at{};
  std::int32_t current = 0, wanted = 0;
  std::int32_t lower = 0, upper = 0;  ///< its bounds in the state that it was in
  bool abstains = false;              ///< disabled at zero, or paused by its user: it has no part in the result
  std::string rule;                   ///< as name_of(HpaRule) or name_of(LoopRule)
  bool active = true;                 ///< of a ScaledObject: a trigger is above its activation threshold
  std::vector<Metric> metrics;
  std::string fault;  ///< the evaluation ended with this error and changed nothing
};

struct ReplicaTables {
  Table<ScalerId, ScalerRow> scalers;
  Table<TargetId, TargetRow> targets;
  Table<ScalerId, ReadingsRow> readings;
  Table<ScalerId, HistoryRow> histories;
  Table<ScalerId, DecisionRow> decisions;
};

// ---- inputs ----

struct ScalerUpdated {
  ScalerId id;
  ScalerRow row;
  bool gone = false;
};
/// All scalers of a kind: others of the kind no longer exist.
struct ScalersListed {
  ScalerKind kind = ScalerKind::kHpa;
  std::vector<ScalerId> ids;
};
/// One sample of a target: its scale, its pods and the readings of its scalers.
struct ReplicasObserved {
  TargetId target;
  std::string api_version, uid;
  ReplicaMode mode = ReplicaMode::kObserve;
  bool found = false;
  std::string problem;
  std::int32_t replicas = 0, status_replicas = 0;
  std::vector<replicas::Pod> pods;
  std::map<ScalerId, ReadingsRow> readings;
  Instant at{};
  bool unchanged = false;  ///< but for `at`, it is equal to the last one
};
/// The outcome of a change.
struct ReplicasChanged {
  TargetId target;
  std::int64_t number = 0;
  std::string error;  ///< empty: the target has the replicas
};

// ---- outputs ----

/// A change of the scale subresource: executed only if the target still has `from` replicas.
struct ScaleIntent {
  TargetId target;
  std::string api_version, uid;
  std::int32_t from = 0, to = 0;
  std::int64_t number = 0;
};
/// Suspends a scaler, so that the other controller does not act on it, or gives it back.
struct SwitchIntent {
  ScalerId scaler;
  std::string uid;
  bool suspend = false;
  Instant asked{};
};

struct ReplicaOutput {
  std::vector<ScaleIntent> scales;
  std::vector<SwitchIntent> switches;
};

struct ReplicaOptions {
  Duration sync = std::chrono::seconds(15);         ///< between syncs of an autoscaler
  Duration retry_switch = std::chrono::minutes(1);  ///< a suspension that is not observed is requested again
  replicas::ControllerOptions controller;           ///< as kube-controller-manager is configured
  bool exact_rules = true;                          ///< of targets that this autoscaler scales
  std::function<void(const ScalerId&)> probe;       ///< called before each evaluation, to test faults; may throw
};

/// The words for the rule of a decision: "the ratio is within the tolerance".
[[nodiscard]] std::string_view meaning_of_rule(std::string_view rule);

}  // namespace qm::autoscaler
