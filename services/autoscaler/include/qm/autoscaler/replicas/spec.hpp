#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler::replicas {

enum class MetricSource { kResource, kContainerResource, kPods, kObject, kExternal, kUnknown };
enum class TargetType { kUtilization, kValue, kAverageValue };

/// One entry of spec.metrics of a HorizontalPodAutoscaler. Quantities are in thousandths of their unit.
struct Metric {
  MetricSource source = MetricSource::kResource;
  std::string name;       ///< of the resource or of the metric
  std::string container;  ///< of kContainerResource
  TargetType type = TargetType::kUtilization;
  std::int32_t utilization = 0;  ///< percent of the request, for kUtilization
  std::int64_t milli = 0;        ///< for the other types
  bool exact = false;            ///< a number of replicas, not a measurement: without tolerance
  friend bool operator==(const Metric&, const Metric&) = default;
};

enum class SelectPolicy { kMax, kMin, kDisabled };

/// At most `value` pods, or percent of the pods, are added or removed in a period.
struct ScalingPolicy {
  bool percent = false;
  std::int32_t value = 0;
  Duration period{};
  friend bool operator==(const ScalingPolicy&, const ScalingPolicy&) = default;
};

/// spec.behavior.scaleUp or scaleDown, with the defaults of the API filled in.
struct ScalingRules {
  std::optional<Duration> stabilization;  ///< empty: that of the controller
  SelectPolicy select = SelectPolicy::kMax;
  std::vector<ScalingPolicy> policies;
  std::optional<double> tolerance;  ///< empty: that of the controller
  friend bool operator==(const ScalingRules&, const ScalingRules&) = default;
};

struct Behavior {
  ScalingRules up{Duration::zero(),
                  SelectPolicy::kMax,
                  {{false, 4, std::chrono::seconds(15)}, {true, 100, std::chrono::seconds(15)}},
                  {}};
  ScalingRules down{{}, SelectPolicy::kMax, {{true, 100, std::chrono::seconds(15)}}, {}};
  friend bool operator==(const Behavior&, const Behavior&) = default;
};

/// What the controller reads of a HorizontalPodAutoscaler of autoscaling/v2.
struct HpaSpec {
  std::int32_t min = 1, max = 1;
  std::vector<Metric> metrics;
  std::optional<Behavior> behavior;
  friend bool operator==(const HpaSpec&, const HpaSpec&) = default;
};

/// Annotations of a ScaledObject that act on scaling.
struct ScalingAnnotations {
  bool paused = false;
  std::optional<std::int32_t> paused_replicas;  ///< implies `paused`
  bool pause_scale_in = false, pause_scale_out = false;
  bool force_activation = false;
};

/// Flags and feature gates of kube-controller-manager, with their defaults in Kubernetes 1.36.
struct ControllerOptions {
  double tolerance = 0.1;  ///< --horizontal-pod-autoscaler-tolerance
  Duration cpu_initialization = std::chrono::seconds(300);
  Duration initial_readiness = std::chrono::seconds(30);
  Duration downscale_stabilization = std::chrono::seconds(300);
  bool scale_to_zero = false;          ///< HPAScaleToZero
  bool configurable_tolerance = true;  ///< HPAConfigurableTolerance
  /// Not of the original: the replicas of a cron trigger apply without tolerance. With it, 49 replicas from 45 are
  /// within 0.1, so that a schedule does not happen.
  bool exact_schedules = false;
};

}  // namespace qm::autoscaler::replicas
