// How far a consumer group of a real broker is, read without joining the group.
#include "qm/bus/lag.hpp"

#include "kafka_place.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace qm::bus {
namespace lag_kafka_test {

TEST(ConsumerLag, OfAGroupWithoutOffsetsAndOfAnUnknownTopic) {
  const char* where = std::getenv("QM_KAFKA");
  if (where == nullptr) GTEST_SKIP() << "QM_KAFKA is not set: run ./qm peers kafka start";
  const auto bus = make_bus(fmt::format("kafka:{}", where));
  ASSERT_TRUE(bus) << bus.error().to_string();
  const auto topic = fmt::format("qm.lag-{}", ::getpid());
  const std::vector<std::string> topics{topic};
  ASSERT_TRUE((*bus)->ensure_topics(topics, 2));
  auto producer = (*bus)->producer("lag");
  ASSERT_TRUE(producer);
  const std::vector<Record> records{{topic, "a", "1"}, {topic, "a", "2"}, {topic, "a", "3"}};
  ASSERT_TRUE((*producer)->publish(records, std::chrono::seconds(20)));
  LagReader reader(std::chrono::seconds(10));
  const auto read = reader.read(where, "a-group", topic);
  ASSERT_TRUE(read) << read.error().to_string();
  ASSERT_EQ(read->size(), 2U);
  std::int64_t latest = 0;
  for (const auto& [partition, offsets] : *read) {
    latest += offsets.latest;
    EXPECT_EQ(offsets.committed, -1) << "partition " << partition;
  }
  EXPECT_EQ(latest, 3);
  const auto none = reader.read(where, "a-group", topic + "-none");
  ASSERT_FALSE(none);
}

}  // namespace lag_kafka_test
}  // namespace qm::bus
