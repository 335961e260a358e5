#include "bus_contract_body.hpp"
#include "qm/bus/memory.hpp"

namespace qm::bus {
namespace memory_bus_test {

void plant(Code code, bool really_sent) { plant_publish(*make_bus("memory:contract").value(), code, really_sent); }

Place memory_place() {
  return {.setting = "memory:contract",
          .why_not = "",
          .crash = [] { plant(Code::kUnavailable, false); },
          .restore = [] {},
          .freeze = [] { plant(Code::kUnknown, true); },
          .thaw = [] {},
          .recreate = [](Bus& bus, const std::string& topic, int) { plant_recreation(bus, topic); }};
}

INSTANTIATE_TEST_SUITE_P(Memory, BusContract, ::testing::Values(Carrier{"memory", &memory_place}));

TEST(MemoryBus, HasOneLogPerName) {
  EXPECT_EQ(make_bus("memory:a").value(), make_bus("memory:a").value());
  EXPECT_NE(make_bus("memory:a").value(), make_bus("memory:b").value());
}

TEST(MemoryBus, PlantedFailuresSendAllOrNothing) {
  const auto bus = make_bus("memory:planted").value();
  const std::vector<std::string> topics{"t"};
  ASSERT_TRUE(bus->ensure_topics(topics, 1));
  const auto producer = bus->producer("test").value();
  const std::vector<Record> batch{{"t", "a", "1"}};
  plant_publish(*bus, Code::kUnavailable, false);
  plant_publish(*bus, Code::kUnknown, true);
  EXPECT_EQ(producer->publish(batch, 1s).error().code, Code::kUnavailable);
  EXPECT_EQ(producer->publish(batch, 1s).error().code, Code::kUnknown);
  EXPECT_TRUE(producer->publish(batch, 1s));
  Reader reader;
  reader.open(*bus, "g", {"t"});
  reader.turn();
  EXPECT_EQ(reader.log().size(), 2U);
}

TEST(BusSetting, IsRefusedWithTheWayOut) {
  for (const char* bad : {"", "postgres", "postgres:", "kafka", "rabbit:x"}) {
    const auto refused = make_bus(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code, Code::kInvalid) << bad;
    EXPECT_FALSE(refused.error().remedy.empty());
  }
}

TEST(BusSetting, KafkaOptionsAreChecked) {
  for (const char* bad : {"kafka:localhost:1?no.such.setting=1", "kafka:localhost:1?novalue"}) {
    const auto refused = make_bus(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code, Code::kInvalid) << refused.error().to_string();
  }
  const auto scram = make_bus("kafka:localhost:1?sasl.mechanisms=SCRAM-SHA-256");
  ASSERT_FALSE(scram.has_value());
  EXPECT_NE(scram.error().code, Code::kUnauthenticated);
}

TEST(Partition, IsTheSameOnEveryHost) {
  EXPECT_EQ(partition_of("admission/a", 1), 0);
  std::set<std::int32_t> used;
  for (int i = 0; i < 100; ++i) used.insert(partition_of("k" + std::to_string(i), 4));
  EXPECT_EQ(used.size(), 4U);
}

}  // namespace memory_bus_test
}  // namespace qm::bus
