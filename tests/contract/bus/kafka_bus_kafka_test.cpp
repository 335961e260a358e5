#include "kafka_place.hpp"
#include "torture_body.hpp"

namespace qm::bus {
namespace {

INSTANTIATE_TEST_SUITE_P(Kafka, BusContract, ::testing::Values(Carrier{"kafka", &kafka_place}));
INSTANTIATE_TEST_SUITE_P(Kafka, BusTorture, ::testing::Values(Carrier{"kafka", &kafka_place}));

TEST(KafkaBus, SaysThatItIsAway) {
  const auto bus = make_bus("kafka:127.0.0.1:1");
  ASSERT_TRUE(bus) << bus.error().to_string() << ": a service starts before its broker";
  const std::vector<std::string> topics = {"qm.test"};
  const auto made = (*bus)->ensure_topics(topics, 1);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kUnavailable) << made.error().to_string();
}

}  // namespace
}  // namespace qm::bus
