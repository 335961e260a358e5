#pragma once
// The broker of QM_KAFKA, and control over its process if tools/peers/kafka.sh started it.
#include "bus_contract.hpp"
#include "qm/testing/testing.hpp"

#include <csignal>
#include <cstdlib>

namespace qm::bus {

inline const std::string kScript = std::string(QM_SOURCE_DIR) + "/tools/peers/kafka.sh";

/// Runs one verb of the script that started the broker, with its arguments; returns its output.
inline std::string broker(const std::string& verb, const std::vector<std::string>& more = {}) {
  const testing::TempDir dir;
  std::vector<std::string> argv{kScript, verb};
  argv.insert(argv.end(), more.begin(), more.end());
  auto child = testing::Process::start({.argv = std::move(argv), .env = {}, .output = dir.path() + "/out"});
  EXPECT_TRUE(child.has_value());
  EXPECT_TRUE((*child)->wait(std::chrono::seconds(120)).has_value());
  return testing::read_file(dir.path() + "/out");
}

/// A topic as an operator creates it: its message limit is 1 MiB, the default of brokers.
inline void make_standing_topic(const std::string& topic, int partitions) {
  broker("tool",
         {"org.apache.kafka.tools.TopicCommand", "--create", "--topic", topic, "--partitions",
          std::to_string(partitions), "--config", "retention.ms=7200000", "--config", "max.message.bytes=1048588"});
}

/// From now on any client may do anything with the topic, except change its settings.
inline void forbid_changes(const std::string& topic) {
  for (const auto& [rule, operation] : {std::pair("--allow-principal", "All"), {"--deny-principal", "AlterConfigs"}})
    broker("tool", {"org.apache.kafka.tools.AclCommand", "--add", "--force", rule, "User:*", "--operation", operation,
                    "--topic", topic});
}

inline void signal_broker(int number) {
  const auto status = broker("status");  // "running, pid 123, 127.0.0.1:19092"
  const auto at = status.find("pid ");
  ASSERT_NE(at, std::string::npos) << status;
  ASSERT_EQ(::kill(std::stoi(status.substr(at + 4)), number), 0);
}

inline void recreate_topic(Bus& bus, const std::string& topic, int partitions) {
  broker("tool", {"org.apache.kafka.tools.TopicCommand", "--delete", "--topic", topic});
  // The broker deletes the topic after its answer.
  ASSERT_TRUE(testing::wait_until([&] {
    const std::vector<Record> record{{topic, "a", "of the old log"}};
    const auto sent = (*bus.producer("recreate"))->publish(record, std::chrono::seconds(5));
    return !sent.has_value() && sent.error().code == Code::kNotFound;
  }));
  const std::vector<std::string> topics{topic};
  ASSERT_TRUE(bus.ensure_topics(topics, partitions));
}

inline Place kafka_place() {
  const char* where = std::getenv("QM_KAFKA");
  if (where == nullptr)
    return {.setting = "",
            .why_not = "QM_KAFKA is not set: run ./qm peers kafka start, then eval \"$(./qm peers kafka env)\""};
  Place place{.setting = std::string("kafka:") + where, .why_not = ""};
  static const bool ours = broker("status").find(where) != std::string::npos;
  if (ours) {
    place.crash = [] { broker("kill9"); };
    place.restore = [] { broker("start"); };
    place.freeze = [] { signal_broker(SIGSTOP); };
    place.thaw = [] { signal_broker(SIGCONT); };
    place.recreate = &recreate_topic;
  }
  return place;
}

}  // namespace qm::bus
