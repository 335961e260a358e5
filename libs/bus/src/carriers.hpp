#pragma once
#include "qm/bus/bus.hpp"

#include <memory>
#include <string>

namespace qm::bus {

/// The factory of each carrier; make_bus selects by the word before the first colon.
std::shared_ptr<Bus> memory_bus(const std::string& name);
Result<std::shared_ptr<Bus>> postgres_bus(const std::string& conninfo);
Result<std::shared_ptr<Bus>> kafka_bus(const std::string& setting);

/// The error of a carrier for a topic that does not exist.
inline Error no_topic(const std::string& topic) {
  return {Code::kNotFound, "topic " + topic + " does not exist", "", "create it with ensure_topics"};
}

/// The error of a carrier for a log that ends at or before the offset.
inline Error no_offset(const TopicPartition& at, std::int64_t offset, std::int64_t end) {
  return {Code::kOutOfRange,
          fmt::format("partition {} of topic {} ends at offset {}, {} was read", at.partition, at.topic, end, offset),
          "", ""};
}

/// Refuses oversized records before any is sent.
inline Status check_sizes(std::span<const Record> records) {
  for (const auto& record : records) {
    if (record.value.size() <= kMaxValue) continue;
    return fail(Error{Code::kOutOfRange,
                      fmt::format("the record of key {} for topic {} has {} bytes, at most {} are allowed", record.key,
                                  record.topic, record.value.size(), kMaxValue),
                      "value", "make the record smaller"});
  }
  return {};
}

/// The error of a consumer that lost its instance name to another consumer.
inline Error displaced(const std::string& group, const std::string& instance) {
  return {Code::kAborted, "another reader of group " + group + " has taken the place of " + instance, "",
          "check that this process still leads before it reads again"};
}

}  // namespace qm::bus
