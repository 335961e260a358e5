#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace qm::autoscaler::replicas {

struct Trigger;

/// The source of a trigger did not answer.
struct FailedReading {
  std::string message;
};
/// The attributes ApproximateNumberOfMessages, ...NotVisible and ...Delayed of a queue.
struct QueueReading {
  std::int64_t visible = 0, in_flight = 0, delayed = 0;
};
struct PartitionOffsets {
  std::int64_t latest = 0;
  std::int64_t committed = -1;  ///< by the consumer group; -1: none yet
};
using TopicReading = std::map<std::int32_t, PartitionOffsets>;
/// The vector of a Prometheus query.
struct QueryReading {
  std::size_t elements = 1;
  double value = 0;  ///< of the only element
};
using Reading = std::variant<FailedReading, QueueReading, TopicReading, QueryReading>;

/// Offsets of the last reading by partition, for excludePersistentLag.
using PreviousOffsets = std::map<std::int32_t, std::int64_t>;

/// A trigger at one instant.
struct Measured {
  std::int64_t milli = 0;
  bool active = false;  ///< above its activation threshold, which is not the target
};

/// The metric of a trigger from a reading of its source. A cron trigger takes none.
///
/// Units    thousandths; rounded to the nearest, at least 0. What does not fit is the largest number.
/// Fails    kUnavailable: the reading failed, or it does not fit the trigger.
/// Cost     O(partitions); for cron a search of at most five years.
/// Source   keda 8b4f083c, pkg/scalers.
[[nodiscard]] Result<Measured> measure(const Trigger& trigger, const Reading* reading, Instant now,
                                       PreviousOffsets& previous);

}  // namespace qm::autoscaler::replicas
