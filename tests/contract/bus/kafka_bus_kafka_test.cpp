#include "kafka_place.hpp"
#include "torture_body.hpp"

namespace qm::bus {
namespace kafka_bus_kafka_test {

INSTANTIATE_TEST_SUITE_P(Kafka, BusContract, ::testing::Values(Carrier{"kafka", &kafka_place}));
INSTANTIATE_TEST_SUITE_P(Kafka, BusTorture, ::testing::Values(Carrier{"kafka", &kafka_place}));

TEST(KafkaBus, ReportsThatItIsUnavailable) {
  const auto bus = make_bus("kafka:127.0.0.1:1");
  ASSERT_TRUE(bus) << bus.error().to_string() << ": a service starts before its broker";
  const std::vector<std::string> topics = {"qm.test"};
  const auto made = (*bus)->ensure_topics(topics, 1);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kUnavailable) << made.error().to_string();
}

/// Topics that an operator created in advance.
class StandingTopic : public BusContract {
 protected:
  void SetUp() override {
    BusContract::SetUp();
    if (IsSkipped()) return;
    if (!place_.crash) GTEST_SKIP() << "the broker was not started by " << kScript;
    standing_ = {fresh_name("standing"), fresh_name("standing")};
    for (const auto& topic : standing_) make_standing_topic(topic, kPartitions);
  }
  static std::string settings_of(const std::string& topic) {
    return broker("tool", {"org.apache.kafka.tools.TopicCommand", "--describe", "--topic", topic});
  }
  Status send(const std::string& topic, const std::string& key, std::size_t bytes) {
    const std::vector<Record> one{{topic, key, std::string(bytes, 'x')}};
    return producer_->publish(one, 20s);
  }
  std::vector<std::string> standing_;
};
INSTANTIATE_TEST_SUITE_P(Kafka, StandingTopic, ::testing::Values(Carrier{"kafka", &kafka_place}));

TEST_P(StandingTopic, IsSetToAcceptLargeEventsAndKeepsItsOtherSettings) {
  const auto before = send(standing_[0], "a", 2 << 20);
  ASSERT_FALSE(before.has_value());
  EXPECT_EQ(before.error().code, Code::kOutOfRange) << before.error().to_string();
  EXPECT_NE(before.error().to_string().find("max.message.bytes of topic " + standing_[0]), std::string::npos)
      << before.error().to_string();
  ASSERT_TRUE(bus_->ensure_topics(standing_, kPartitions));
  for (const auto& topic : standing_) {
    const auto sent = send(topic, "a", kMaxValue);
    EXPECT_TRUE(sent.has_value()) << sent.error().to_string();
    const auto settings = settings_of(topic);
    EXPECT_NE(settings.find("retention.ms=7200000"), std::string::npos) << settings;
    EXPECT_NE(settings.find("max.message.bytes=16842752"), std::string::npos) << settings;
  }
  EXPECT_TRUE(bus_->ensure_topics(standing_, kPartitions)) << "and nothing is to be done a second time";
}

TEST_P(StandingTopic, ThatMayNotBeChangedIsNamedWithTheWayOut) {
  forbid_changes(standing_[0]);
  ::testing::internal::CaptureStderr();
  const auto made = bus_->ensure_topics(standing_, kPartitions);
  const auto log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(made.has_value()) << made.error().to_string() << ": what is shorter still goes";
  for (const auto& word : {standing_[0], std::string("1048588"), std::string("16842752"), std::string("AlterConfigs"),
                           std::string("set max.message.bytes")})
    EXPECT_NE(log.find(word), std::string::npos) << word << " is not in: " << log;
  EXPECT_TRUE(send(standing_[1], "a", 2 << 20)) << "the other one was changed";
  EXPECT_TRUE(send(standing_[0], "a", 1 << 19));
  EXPECT_EQ(send(standing_[0], "a", 2 << 20).error().code, Code::kOutOfRange);
  EXPECT_TRUE(send(standing_[0], "b", 1)) << "and the next one goes";
}

}  // namespace kafka_bus_kafka_test
}  // namespace qm::bus
