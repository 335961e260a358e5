#include "kafka_client.hpp"
#include "qm/bus/lag.hpp"

#include <librdkafka/rdkafka.h>

namespace qm::bus {
namespace {

using TopicMetadata = Handle<const struct rd_kafka_metadata, rd_kafka_metadata_destroy>;
using TopicHandle = Handle<rd_kafka_topic_t, rd_kafka_topic_destroy>;
using PartitionList = Handle<rd_kafka_topic_partition_list_t, rd_kafka_topic_partition_list_destroy>;

}  // namespace

struct LagReader::Impl {
  std::chrono::milliseconds timeout;
  std::map<std::pair<std::string, std::string>, KafkaClient> clients;  // by brokers and group

  Result<rd_kafka_s*> client_of(const std::string& brokers, const std::string& group) {
    auto& client = clients[{brokers, group}];
    if (client) return client.get();
    KafkaConfig config;
    QM_TRY(config.set({{"bootstrap.servers", brokers}, {"group.id", group}, {"enable.auto.commit", "false"}}));
    QM_ASSIGN(client, config.make_consumer());
    return client.get();
  }

  Result<PartitionList> partitions_of(rd_kafka_s* client, const std::string& topic) const {
    const TopicHandle handle(rd_kafka_topic_new(client, topic.c_str(), nullptr));
    const struct rd_kafka_metadata* raw = nullptr;
    const auto code = rd_kafka_metadata(client, 0, handle.get(), &raw, ms(timeout));
    const TopicMetadata metadata(raw);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return fail(error_of(code, "reading topic " + topic));
    if (metadata->topic_cnt != 1 || metadata->topics[0].partition_cnt == 0) {
      return fail(Code::kNotFound, "topic {} does not exist", topic);
    }
    const auto& found = metadata->topics[0];
    PartitionList out(rd_kafka_topic_partition_list_new(found.partition_cnt));
    for (int i = 0; i < found.partition_cnt; ++i) {
      rd_kafka_topic_partition_list_add(out.get(), topic.c_str(), found.partitions[i].id);
    }
    return out;
  }
};

LagReader::LagReader(std::chrono::milliseconds timeout) : impl_(std::make_unique<Impl>()) { impl_->timeout = timeout; }
LagReader::~LagReader() = default;

Result<std::map<std::int32_t, PartitionLag>> LagReader::read(const std::string& brokers, const std::string& group,
                                                             const std::string& topic) {
  QM_ASSIGN(rd_kafka_s* const client, impl_->client_of(brokers, group));
  QM_ASSIGN(const auto partitions, impl_->partitions_of(client, topic));
  const auto code = rd_kafka_committed(client, partitions.get(), ms(impl_->timeout));
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return fail(error_of(code, "reading offsets of group " + group));
  std::map<std::int32_t, PartitionLag> out;
  for (int i = 0; i < partitions->cnt; ++i) {
    const auto& one = partitions->elems[i];
    std::int64_t low = 0, high = 0;
    const auto read =
        rd_kafka_query_watermark_offsets(client, topic.c_str(), one.partition, &low, &high, ms(impl_->timeout));
    if (read != RD_KAFKA_RESP_ERR_NO_ERROR) return fail(error_of(read, "reading topic " + topic));
    out[one.partition] = {high, one.offset < 0 ? -1 : one.offset};
  }
  return out;
}

}  // namespace qm::bus
