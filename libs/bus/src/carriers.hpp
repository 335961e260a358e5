#pragma once
#include "qm/bus/bus.hpp"

#include <memory>
#include <string>

namespace qm::bus {

/// Each carrier's maker; make_bus picks by the word before the first colon.
std::shared_ptr<Bus> memory_bus(const std::string& name);
Result<std::shared_ptr<Bus>> postgres_bus(const std::string& conninfo);
Result<std::shared_ptr<Bus>> kafka_bus(const std::string& setting);

/// What a carrier says of a topic that nobody created.
inline Error no_topic(const std::string& topic) {
  return {Code::kNotFound, "topic " + topic + " does not exist", "", "create it with ensure_topics"};
}

/// What a carrier says of a log that ends at the offset or before.
inline Error no_offset(const TopicPartition& at, std::int64_t offset, std::int64_t end) {
  return {Code::kOutOfRange,
          fmt::format("partition {} of topic {} ends at offset {}, {} was read", at.partition, at.topic, end, offset),
          "", ""};
}

/// Refuses records that no carrier takes, before any is sent.
inline Status check_sizes(std::span<const Record> records) {
  for (const auto& record : records) {
    if (record.value.size() <= kMaxValue) continue;
    return fail(Error{Code::kOutOfRange,
                      fmt::format("the record of key {} for topic {} has {} bytes, {} are taken at most", record.key,
                                  record.topic, record.value.size(), kMaxValue),
                      "value", "say less in one record"});
  }
  return {};
}

/// What a consumer is told whose place went to another of the same instance.
inline Error displaced(const std::string& group, const std::string& instance) {
  return {Code::kAborted, "another reader of group " + group + " has taken the place of " + instance, "",
          "make sure that this process still leads before it reads again"};
}

}  // namespace qm::bus
