#pragma once
#include "qm/autoscaler/replicas/formula.hpp"
#include "qm/autoscaler/replicas/spec.hpp"
#include "qm/calendar/zone.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace qm::autoscaler::replicas {

/// `cpu` and `memory`: a metric of the autoscaler itself.
struct ResourceTrigger {
  Metric metric;
};

struct CronTrigger {
  calendar::Cron start, end;
  calendar::Zone zone;
  std::int64_t desired = 0;
};

struct SqsTrigger {
  std::int64_t activation = 0;  ///< messages
  bool in_flight = true;        ///< messages that a consumer has received count too
  bool delayed = false;
};

struct KafkaTrigger {
  std::int64_t lag_threshold = 10;
  std::int64_t activation = 0;  ///< messages
  bool earliest = false;        ///< offsetResetPolicy
  bool allow_idle_consumers = false;
  bool zero_on_invalid_offset = false;
  bool exclude_persistent_lag = false;
  bool limit_to_partitions_with_lag = false;
  bool even_distribution = false;
  std::set<std::int32_t> partitions;  ///< partitionLimitation; empty for all
};

struct PrometheusTrigger {
  double activation = 0;
  bool ignore_null_values = true;
};

struct Trigger {
  std::string name;
  std::variant<ResourceTrigger, CronTrigger, SqsTrigger, KafkaTrigger, PrometheusTrigger> source;
  bool value_target = false;      ///< metricType Value, else AverageValue
  std::int64_t target_milli = 0;  ///< of the metric of the autoscaler; 0 for a ResourceTrigger
  [[nodiscard]] bool is_resource() const { return std::holds_alternative<ResourceTrigger>(source); }
};

struct Fallback {
  enum class Behavior { kStatic, kCurrent, kCurrentIfHigher, kCurrentIfLower, kScalingModifiers };
  std::int32_t failure_threshold = 0, replicas = 0;
  Behavior behavior = Behavior::kStatic;
};

/// advanced.scalingModifiers: one metric of all triggers.
struct ScalingModifiers {
  Formula formula;
  double target = 0;
  bool whole_target = false;  ///< a positive integer, without which a fallback is not valid
  double activation = 0;
  bool value_target = false;
};

/// What the scale loop reads of a ScaledObject of keda.sh/v1alpha1.
struct ScaledObject {
  std::int32_t min = 0, max = 100;
  std::optional<std::int32_t> idle;
  Duration cooldown = std::chrono::seconds(300);
  Duration initial_cooldown{};
  std::optional<Fallback> fallback;
  std::optional<ScalingModifiers> modifiers;
  std::optional<Behavior> behavior;
  std::vector<Trigger> triggers;
};

}  // namespace qm::autoscaler::replicas
