#pragma once
#include "qm/bus/bus.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace qm::bus {

/// The log of one partition of a memory bus: the offsets of its oldest message and of the next one.
struct LogBounds {
  std::int64_t first = 0, next = 0;
};
/// Returns the bounds by partition; empty if the topic does not exist.
[[nodiscard]] std::vector<LogBounds> log_bounds(Bus& memory, const std::string& topic);

/// Injects retention: deletes up to `count` of the oldest messages of each partition of the topic.
void plant_truncation(Bus& memory, const std::string& topic, std::size_t count);
/// Injects the deletion and re-creation of a topic: its partitions are empty, and their offsets begin at 0.
void plant_recreation(Bus& memory, const std::string& topic);

}  // namespace qm::bus
