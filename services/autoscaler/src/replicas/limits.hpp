#pragma once
#include "qm/autoscaler/replicas/hpa.hpp"

namespace qm::autoscaler::replicas {

struct Limited {
  std::int32_t replicas = 0;
  std::string_view reason;      ///< of the condition ScalingLimited
  std::optional<HpaRule> rule;  ///< empty: no limit applied
};

/// The recommendation after the stabilization windows of `options` or of the behavior. Stores it unstabilized.
[[nodiscard]] std::int32_t stabilize(const HpaSpec& spec, const ControllerOptions& options, Instant now,
                                     std::int32_t current, std::int32_t recommendation, HpaState& state);
/// The recommendation within rate limits and bounds.
[[nodiscard]] Limited limit(const HpaSpec& spec, Instant now, std::int32_t current, std::int32_t recommendation,
                            const HpaState& state);
/// Records a change of the size; only a behavior makes use of it.
void store_event(const HpaSpec& spec, Instant now, std::int32_t before, std::int32_t after, HpaState& state);

}  // namespace qm::autoscaler::replicas
