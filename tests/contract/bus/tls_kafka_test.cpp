// Kafka over TLS with client certificates and access control lists, on the broker that tools/peers/kafka.sh starts.
#include "qm/bus/bus.hpp"
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <unistd.h>

namespace qm::bus {
namespace tls_kafka_test {

using namespace std::chrono_literals;

class KafkaTls : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* where = std::getenv("QM_KAFKA_TLS");
    const char* folder = std::getenv("QM_KAFKA_TLS_DIR");
    if (where == nullptr || folder == nullptr)
      GTEST_SKIP() << "QM_KAFKA_TLS is not set: run ./qm peers kafka start, then eval \"$(./qm peers kafka env)\"";
    where_ = where;
    folder_ = folder;
    static std::atomic<int> n = 0;
    topic_ = fmt::format("qm.tls-{}-{}", ::getpid(), ++n);
  }
  [[nodiscard]] std::string setting(const std::string& name) const {
    return fmt::format("kafka:{}?tls_ca={}/ca.crt&tls_cert={}/{}.crt&tls_key={}/{}.key", where_, folder_, folder_, name,
                       folder_, name);
  }
  /// Runs one of Kafka's own programs, over the plain listener.
  static bool tool(const std::string& arguments) {
    const auto line = fmt::format("{}/tools/peers/kafka.sh tool {} >/dev/null 2>&1", QM_SOURCE_DIR, arguments);
    return std::system(line.c_str()) == 0;
  }
  static Status send(const std::shared_ptr<Bus>& bus, const std::string& topic) {
    QM_ASSIGN(auto producer, bus->producer("admission-default"));
    const std::vector<Record> records{{topic, "key", "value"}};
    return producer->publish(records, 20s);
  }
  std::string where_, folder_, topic_;
};

TEST_F(KafkaTls, ACertificateOpensAndAListDenies) {
  const auto ours = make_bus(setting("quartermaster-admission"));
  ASSERT_TRUE(ours) << ours.error().to_string();
  const std::vector<std::string> topics{topic_};
  const auto made = (*ours)->ensure_topics(topics, 1);
  ASSERT_TRUE(made) << made.error().to_string();
  ASSERT_TRUE(
      tool(fmt::format("org.apache.kafka.tools.AclCommand --add --allow-principal User:quartermaster-admission "
                       "--operation Write --operation Describe --topic {}",
                       topic_)));
  ASSERT_TRUE(
      tool(fmt::format("org.apache.kafka.tools.AclCommand --add --allow-principal User:quartermaster-placement "
                       "--operation Read --operation Describe --topic {}",
                       topic_)));
  ASSERT_TRUE(qm::testing::wait_until([&] { return send(*ours, topic_).has_value(); }));

  // A principal with read permission may not write, and the error names the missing permission.
  const auto reader = make_bus(setting("quartermaster-placement"));
  ASSERT_TRUE(reader);
  const auto denied = send(*reader, topic_);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kPermissionDenied) << denied.error().to_string();
  for (const auto& word : {topic_, std::string("User:quartermaster-placement")})
    EXPECT_NE(denied.error().message.find(word), std::string::npos) << denied.error().message;
  for (const auto& word : {topic_, std::string("--operation Write"), std::string("User:quartermaster-placement")})
    EXPECT_NE(denied.error().remedy.find(word), std::string::npos) << denied.error().remedy;

  ConsumerOptions options;
  options.group = fmt::format("placement/{}", topic_);
  options.topics = topics;
  auto consumer = (*reader)->consumer(options);
  ASSERT_TRUE(consumer);
  std::size_t read = 0;
  EXPECT_TRUE(qm::testing::wait_until([&] {
    const auto some = (*consumer)->poll(10, 500ms);
    if (some) read += some->size();
    return read >= 1;
  }));

  // A principal without permissions sees nothing.
  const auto none = make_bus(setting("quartermaster-none"));
  ASSERT_TRUE(none);
  const auto blind = send(*none, topic_);
  ASSERT_FALSE(blind);
  EXPECT_NE(blind.error().to_string().find("User:quartermaster-none"), std::string::npos) << blind.error().to_string();
}

TEST_F(KafkaTls, WithoutACertificateNoClientIsAccepted) {
  const auto bus = make_bus(fmt::format("kafka:{}?tls_ca={}/ca.crt", where_, folder_));
  ASSERT_TRUE(bus);
  const std::vector<std::string> topics{topic_};
  EXPECT_FALSE((*bus)->ensure_topics(topics, 1));
}

}  // namespace tls_kafka_test
}  // namespace qm::bus
