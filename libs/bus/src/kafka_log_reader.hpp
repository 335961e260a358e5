#pragma once
#include "kafka_client.hpp"

#include <map>
#include <optional>
#include <string>

struct rd_kafka_topic_s;
struct rd_kafka_message_s;

namespace qm::bus {

/// Reads single messages of a log again, outside any group and over a separate connection, so that no consumer's
/// position changes.
///
/// Threads  one at a time.
class KafkaLogReader {
 public:
  using Value = Result<std::optional<std::string>>;
  explicit KafkaLogReader(KafkaSettings settings) : settings_(std::move(settings)) {}
  /// As Consumer::value_at. Connects at the first call.
  Value value_at(const TopicPartition& at, std::int64_t offset, SteadyDuration timeout);

 private:
  struct TopicDeleter {
    void operator()(rd_kafka_topic_s* topic) const;
  };
  Status connect();
  Value judge(const rd_kafka_message_s* message, const TopicPartition& at, std::int64_t offset,
              SteadyDuration left) const;

  KafkaSettings settings_;
  KafkaClient client_;
  std::map<std::string, std::unique_ptr<rd_kafka_topic_s, TopicDeleter>> topics_;  // after client_: freed before it
};

}  // namespace qm::bus
