#pragma once
// No loss when the process that sends or reads dies at any named point. Included by carriers with a server.
#include <csignal>
#include <filesystem>
#include <optional>

#include "bus_contract_body.hpp"

namespace qm::bus {

class BusTorture : public BusContract {
 protected:
  std::optional<int> run(const std::string& verb, const std::string& crash_at) {
    std::map<std::string, std::string> env{{"QM_CRASH_AT", crash_at}};
    auto child = testing::Process::start({.argv = {std::string(QM_BIN_DIR) + "/bus_torture", verb, place_.setting, topic_,
                                                   dir_.path() + "/" + verb, "10", "30"},
                                          .env = std::move(env),
                                          .output = dir_.path() + "/" + verb + ".out"});
    EXPECT_TRUE(child.has_value());
    return (*child)->wait(60s);
  }
  std::string said(const std::string& verb) const { return testing::read_file(dir_.path() + "/" + verb + ".out"); }

  /// Dies at the third passage, then runs to its end.
  void die_and_go_on(const std::string& verb, const std::string& point) {
    ASSERT_EQ(run(verb, point + ":3"), 128 + SIGKILL) << verb << " at " << point << ": " << said(verb);
    ASSERT_EQ(run(verb, ""), 0) << verb << " after " << point << ": " << said(verb);
  }
  testing::TempDir dir_;
};

TEST_P(BusTorture, AProducerMayDieAnywhere) {
  std::vector<std::string> points{"bus.before_publish", "bus.after_publish"};
  if (bus_->name() == "kafka") points.emplace_back("kafka.in_publish");
  for (const auto& point : points) {
    topic_ = fresh_name("topic");
    std::filesystem::remove(dir_.path() + "/produce");
    std::filesystem::remove(dir_.path() + "/consume");
    const std::vector<std::string> topics{topic_};
    ASSERT_TRUE(bus_->ensure_topics(topics, kPartitions));
    die_and_go_on("produce", point);
    ASSERT_EQ(run("consume", ""), 0) << point << ": " << said("consume");
  }
}

TEST_P(BusTorture, AConsumerMayDieAnywhere) {
  ASSERT_EQ(run("produce", ""), 0) << said("produce");
  for (const std::string point : {"bus.after_poll", "torture.before_state", "torture.after_state"}) {
    std::filesystem::remove(dir_.path() + "/consume");
    die_and_go_on("consume", point);
  }
}

}  // namespace qm::bus
