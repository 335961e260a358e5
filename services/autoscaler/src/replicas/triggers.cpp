#include "qm/autoscaler/replicas/triggers.hpp"

#include "arithmetic.hpp"
#include "qm/autoscaler/replicas/scaled_object.hpp"
#include "qm/base/parse.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::int64_t kInvalidOffset = -1;

std::int64_t milli_of(double value) {
  if (!std::isfinite(value) || value < 0) return 0;
  auto text = fmt::format("{:.3f}", value);
  std::erase(text, '.');
  return whole_number(text).value_or(std::numeric_limits<std::int64_t>::max());
}

tl::unexpected<Error> misfit(std::string_view type) {
  return fail(Code::kUnavailable, "the reading is not one of a trigger of type {}", type);
}

Result<Measured> measure(const CronTrigger& cron, const Reading*, Instant now, PreviousOffsets&) {
  // An instant that never comes is the zero time in the original: before every other one.
  const auto start = next(cron.start, now, cron.zone), end = next(cron.end, now, cron.zone);
  const bool start_first = start ? end && *start < *end : end.has_value();
  const bool active = start_first ? !start : !start || end.has_value();
  return Measured{active ? milli_of(static_cast<double>(cron.desired)) : 0, active};
}

Result<Measured> measure(const SqsTrigger& trigger, const Reading* reading, Instant, PreviousOffsets&) {
  const auto* queue = std::get_if<QueueReading>(reading);
  if (queue == nullptr) return misfit("aws-sqs-queue");
  auto messages = queue->visible;
  if (trigger.in_flight) messages = wrapped_sum(messages, queue->in_flight);
  if (trigger.delayed) messages = wrapped_sum(messages, queue->delayed);
  return Measured{milli_of(static_cast<double>(messages)), messages > trigger.activation};
}

/// The smallest divisor of `partitions` whose consumers serve the lag, so that each has as many partitions.
std::int64_t even_consumers(std::int64_t lag, std::int64_t partitions, std::int64_t threshold) {
  for (std::int64_t n = 1; n <= partitions; ++n) {
    if (partitions % n == 0 && wrapped_product(n, threshold) >= lag) return n;
  }
  return partitions;
}

/// Lag for scaling, and for activation.
struct Lag {
  std::int64_t scaling = 0, activation = 0;
};

Lag lag_of(const KafkaTrigger& trigger, std::int32_t id, const PartitionOffsets& offsets, PreviousOffsets& previous) {
  if (offsets.committed == kInvalidOffset) {
    if (trigger.zero_on_invalid_offset) return {};
    if (trigger.earliest) return {offsets.latest, offsets.latest};
    return {1, 1};
  }
  const auto lag = wrapped_sum(offsets.latest, wrapped_product(offsets.committed, -1));
  if (trigger.exclude_persistent_lag) {
    const auto [at, first] = previous.try_emplace(id, offsets.committed);
    if (!first && at->second == offsets.committed) return {0, lag};
    at->second = offsets.committed;
  }
  return {lag, lag};
}

Result<Measured> measure(const KafkaTrigger& trigger, const Reading* reading, Instant, PreviousOffsets& previous) {
  const auto* topic = std::get_if<TopicReading>(reading);
  if (topic == nullptr) return misfit("kafka");
  Lag total;
  std::int64_t partitions = 0, with_lag = 0;
  for (const auto& [id, offsets] : *topic) {
    if (!trigger.partitions.empty() && !trigger.partitions.contains(id)) continue;
    const auto one = lag_of(trigger, id, offsets, previous);
    total.scaling = wrapped_sum(total.scaling, one.scaling);
    total.activation = wrapped_sum(total.activation, one.activation);
    with_lag += one.scaling > 0 ? 1 : 0;
    ++partitions;
  }
  if (partitions == 0) return fail(Code::kUnavailable, "the topic has no partition that partitionLimitation names");
  auto lag = total.scaling;
  if (!trigger.allow_idle_consumers || trigger.limit_to_partitions_with_lag || trigger.even_distribution) {
    const auto threshold = trigger.lag_threshold;
    if (trigger.even_distribution) lag = wrapped_product(even_consumers(lag, partitions, threshold), threshold);
    const auto most = trigger.limit_to_partitions_with_lag ? with_lag : partitions;
    if (lag / threshold > most) lag = wrapped_product(most, threshold);
  }
  return Measured{milli_of(static_cast<double>(lag)), total.activation > trigger.activation};
}

Result<Measured> measure(const PrometheusTrigger& trigger, const Reading* reading, Instant, PreviousOffsets&) {
  const auto* query = std::get_if<QueryReading>(reading);
  if (query == nullptr) return misfit("prometheus");
  if (query->elements > 1) return fail(Code::kUnavailable, "the query returned {} elements", query->elements);
  double value = query->value;
  if (query->elements == 0 || !std::isfinite(value)) {
    if (!trigger.ignore_null_values) return fail(Code::kUnavailable, "the query returned no number");
    value = 0;
  }
  return Measured{milli_of(value), value > trigger.activation};
}

Result<Measured> measure(const ResourceTrigger&, const Reading*, Instant, PreviousOffsets&) { return Measured{}; }

}  // namespace

Result<Measured> measure(const Trigger& trigger, const Reading* reading, Instant now, PreviousOffsets& previous) {
  static const Reading kNone = FailedReading{"the trigger has no reading"};
  const bool needs_none = trigger.is_resource() || std::holds_alternative<CronTrigger>(trigger.source);
  if (reading == nullptr && !needs_none) reading = &kNone;
  if (reading != nullptr) {
    if (const auto* failed = std::get_if<FailedReading>(reading)) {
      return fail(Code::kUnavailable, "trigger {}: {}", trigger.name, failed->message);
    }
  }
  return std::visit([&](const auto& source) { return measure(source, reading, now, previous); }, trigger.source);
}

}  // namespace qm::autoscaler::replicas
