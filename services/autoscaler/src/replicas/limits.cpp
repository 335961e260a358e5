// Stabilization windows, rate limits and bounds of a HorizontalPodAutoscaler.
//
// Recommendations and events live in slots. A new one takes the place of the last slot that is too old, so the order
// of slots is that of the original, and which of two old values is still there is the same too.
#include "limits.hpp"

#include "arithmetic.hpp"

#include <algorithm>

namespace qm::autoscaler::replicas {
namespace {

void store(std::vector<Recommendation>& slots, std::optional<std::size_t> old, Recommendation value) {
  if (old) {
    slots[*old] = value;
  } else {
    slots.push_back(value);
  }
}

/// Without a behavior: the highest recommendation of the window, its edge included.
std::int32_t highest_recent(std::vector<Recommendation>& slots, Duration window, Instant now,
                            std::int32_t recommendation) {
  auto highest = recommendation;
  std::optional<std::size_t> old;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].at < now - window) {
      old = i;
    } else {
      highest = std::max(highest, slots[i].replicas);
    }
  }
  store(slots, old, {now, recommendation});
  return highest;
}

/// With a behavior: the current size, within the lowest and the highest recommendation of the two windows.
std::int32_t within_recent(const Behavior& behavior, const ControllerOptions& options,
                           std::vector<Recommendation>& slots, Instant now, std::int32_t current,
                           std::int32_t recommendation) {
  const auto up_since = now - behavior.up.stabilization.value_or(Duration::zero());
  const auto down_since = now - behavior.down.stabilization.value_or(options.downscale_stabilization);
  auto lowest = recommendation, highest = recommendation;
  std::optional<std::size_t> old;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto& [at, replicas] = slots[i];
    if (at > up_since) lowest = std::min(lowest, replicas);
    if (at > down_since) highest = std::max(highest, replicas);
    if (at < up_since && at < down_since) old = i;
  }
  store(slots, old, {now, recommendation});
  return std::min(std::max(current, lowest), highest);
}

std::int32_t changed_within(Duration period, Instant now, const std::vector<ScaleEvent>& events) {
  std::int64_t sum = 0;
  for (const auto& event : events) {
    if (event.at > now - period) sum += event.change;
  }
  return static_cast<std::int32_t>(sum);
}

/// The farthest size that the policies of one direction allow.
std::int32_t rate_limit(const ScalingRules& rules, bool up, Instant now, std::int32_t current, const HpaState& state) {
  if (rules.select == SelectPolicy::kDisabled) return current;
  std::optional<std::int32_t> out;
  for (const auto& policy : rules.policies) {
    const auto start = static_cast<std::int32_t>(std::int64_t{current} - changed_within(policy.period, now, state.ups) +
                                                 changed_within(policy.period, now, state.downs));
    std::int32_t allowed = 0;
    if (!policy.percent) {
      allowed = static_cast<std::int32_t>(std::int64_t{start} + (up ? policy.value : -policy.value));
    } else {
      const double share = static_cast<double>(policy.value) / 100;
      allowed = up ? to_int32(std::ceil(start * (1 + share))) : to_int32(start * (1 - share));
    }
    const bool farthest = rules.select == SelectPolicy::kMax;
    out = !out ? allowed : farthest == up ? std::max(*out, allowed) : std::min(*out, allowed);
  }
  return out.value_or(current);
}

Limited limit_by_rules(const Behavior& behavior, const HpaSpec& spec, Instant now, std::int32_t current,
                       std::int32_t recommendation, const HpaState& state) {
  if (recommendation > current) {
    const auto rate = std::max(current, rate_limit(behavior.up, true, now, current, state));
    if (recommendation > std::min(rate, spec.max)) {
      if (spec.max <= rate) return {spec.max, "TooManyReplicas", HpaRule::kMax};
      const bool disabled = behavior.up.select == SelectPolicy::kDisabled;
      return {rate, "ScaleUpLimit", disabled ? HpaRule::kDisabledUp : HpaRule::kRateUp};
    }
  } else if (recommendation < current) {
    const auto rate = std::min(current, rate_limit(behavior.down, false, now, current, state));
    if (recommendation < std::max(rate, spec.min)) {
      if (spec.min >= rate) return {spec.min, "TooFewReplicas", HpaRule::kMin};
      const bool disabled = behavior.down.select == SelectPolicy::kDisabled;
      return {rate, "ScaleDownLimit", disabled ? HpaRule::kDisabledDown : HpaRule::kRateDown};
    }
  }
  return {recommendation, "DesiredWithinRange", {}};
}

/// Without a behavior: at most twice the size, or four.
Limited limit_by_factor(const HpaSpec& spec, std::int32_t current, std::int32_t recommendation) {
  if (recommendation < spec.min) return {spec.min, "TooFewReplicas", HpaRule::kMin};
  const auto rate = to_int32(std::max(2.0 * current, 4.0));
  if (recommendation <= std::min(rate, spec.max)) return {recommendation, "DesiredWithinRange", {}};
  if (spec.max <= rate) return {spec.max, "TooManyReplicas", HpaRule::kMax};
  return {rate, "ScaleUpLimit", HpaRule::kRateUp};
}

}  // namespace

std::int32_t stabilize(const HpaSpec& spec, const ControllerOptions& options, Instant now, std::int32_t current,
                       std::int32_t recommendation, HpaState& state) {
  auto& slots = *state.recommendations;
  if (spec.behavior) return within_recent(*spec.behavior, options, slots, now, current, recommendation);
  return highest_recent(slots, options.downscale_stabilization, now, recommendation);
}

Limited limit(const HpaSpec& spec, Instant now, std::int32_t current, std::int32_t recommendation,
              const HpaState& state) {
  if (spec.behavior) return limit_by_rules(*spec.behavior, spec, now, current, recommendation, state);
  return limit_by_factor(spec, current, recommendation);
}

void store_event(const HpaSpec& spec, Instant now, std::int32_t before, std::int32_t after, HpaState& state) {
  if (!spec.behavior) return;
  const bool up = after > before;
  auto& slots = up ? state.ups : state.downs;
  Duration longest{};
  for (const auto& policy : (up ? spec.behavior->up : spec.behavior->down).policies) {
    longest = std::max(longest, policy.period);
  }
  std::optional<std::size_t> old;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].outdated |= slots[i].at < now - longest;
    if (slots[i].outdated) old = i;
  }
  const ScaleEvent event{now, std::abs(after - before), false};
  if (old) {
    slots[*old] = event;
  } else {
    slots.push_back(event);
  }
}

}  // namespace qm::autoscaler::replicas
