#include "kafka_log_reader.hpp"

#include "carriers.hpp"

#include <librdkafka/rdkafka.h>

namespace qm::bus {

using std::chrono::steady_clock;

void KafkaLogReader::TopicDeleter::operator()(rd_kafka_topic_s* topic) const { rd_kafka_topic_destroy(topic); }

KafkaLogReader::Value KafkaLogReader::value_at(const TopicPartition& at, std::int64_t offset, SteadyDuration timeout) {
  const auto until = steady_clock::now() + timeout;
  if (!client_) QM_TRY(connect());
  auto& topic = topics_[at.topic];
  if (!topic) topic.reset(rd_kafka_topic_new(client_.get(), at.topic.c_str(), nullptr));
  if (rd_kafka_consume_start(topic.get(), at.partition, offset) != 0)
    return fail(error_of(rd_kafka_last_error(), "reading topic " + at.topic));
  const Handle<rd_kafka_message_t, &rd_kafka_message_destroy> message(
      rd_kafka_consume(topic.get(), at.partition, ms(timeout)));
  auto out = judge(message.get(), at, offset, until - steady_clock::now());
  rd_kafka_consume_stop(topic.get(), at.partition);
  return out;
}

Status KafkaLogReader::connect() {
  auto settings = settings_;
  settings["enable.auto.commit"] = "false";
  settings["auto.offset.reset"] = "error";
  settings["enable.partition.eof"] = "true";
  settings["allow.auto.create.topics"] = "false";
  // One batch of records at a time, whatever its size.
  settings["fetch.message.max.bytes"] = "1";
  settings["queued.min.messages"] = "1";
  KafkaConfig config;
  QM_TRY(config.set(settings));
  QM_ASSIGN(client_, config.make_consumer());
  return {};
}

KafkaLogReader::Value KafkaLogReader::judge(const rd_kafka_message_t* message, const TopicPartition& at,
                                            std::int64_t offset, SteadyDuration left) const {
  if (message == nullptr) return fail(Code::kUnavailable, "topic {} is not read in time", at.topic);
  switch (message->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      if (message->offset != offset) return std::optional<std::string>();
      return std::optional(std::string(static_cast<const char*>(message->payload), message->len));
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
      return fail(no_offset(at, offset, message->offset));
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
      break;
    default:
      return fail(error_of(message->err, "reading topic " + at.topic));
  }
  std::int64_t low = -1, high = -1;
  const auto code =
      rd_kafka_query_watermark_offsets(client_.get(), at.topic.c_str(), at.partition, &low, &high, ms(left));
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return fail(error_of(code, "reading topic " + at.topic));
  if (high <= offset) return fail(no_offset(at, offset, high));
  if (low > offset) return std::optional<std::string>();
  return fail(Code::kUnavailable, "topic {} has offset {} only since a moment ago", at.topic, offset);
}

}  // namespace qm::bus
