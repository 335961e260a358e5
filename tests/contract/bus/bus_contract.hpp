#pragma once
#include "qm/bus/bus.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace qm::bus {

/// The environment of a carrier's suite. `crash` kills its server and `restore` starts it again; `freeze` makes a
/// send time out until `thaw`. Empty = not supported by this carrier.
struct Place {
  std::string setting;  ///< empty: cannot run, `why_not` has the reason
  std::string why_not;
  std::function<void()> crash = {};
  std::function<void()> restore = {};
  std::function<void()> freeze = {};
  std::function<void()> thaw = {};
  std::function<void(Bus&, const std::string& topic, int partitions)> recreate =
      {};  ///< deletes a topic and creates it
};

struct Carrier {
  const char* name;
  Place (*place)();
  friend std::ostream& operator<<(std::ostream& out, const Carrier& carrier) { return out << carrier.name; }
};

/// A reader like that of the services: applies versions in order, and stores cursors together with the applied state.
class Reader {
 public:
  void open(Bus& bus, const std::string& group, std::vector<std::string> topics, const std::string& instance = "",
            std::chrono::seconds session_timeout = std::chrono::seconds(2)) {
    auto made = bus.consumer({.group = group,
                              .topics = std::move(topics),
                              .cursor = [this](const TopicPartition& at) { return cursor(at); },
                              .session_timeout = session_timeout,
                              .instance = instance});
    ASSERT_TRUE(made.has_value()) << made.error().to_string();
    consumer_ = std::move(*made);
  }
  void close() { consumer_.reset(); }

  /// One poll; returns the number of messages.
  std::size_t turn(std::size_t max = 100, std::chrono::milliseconds timeout = std::chrono::milliseconds(50)) {
    auto messages = consumer_->poll(max, timeout);
    if (!messages) {
      last_error_ = messages.error();
      return 0;
    }
    for (auto& message : *messages) {
      cursors()[message.at] = message.offset + 1;
      log().push_back(std::move(message));
    }
    return messages->size();
  }

  Consumer& consumer() { return *consumer_; }
  std::map<TopicPartition, std::int64_t>& cursors() { return *cursors_; }
  std::vector<Message>& log() { return *log_; }
  /// Continues from the state that another reader committed: one store, two members.
  void share(Reader& other) {
    cursors_ = other.cursors_;
    log_ = other.log_;
  }
  Error last_error_;

 private:
  std::int64_t cursor(const TopicPartition& at) {
    const auto found = cursors().find(at);
    return found == cursors().end() ? -1 : found->second;
  }
  std::shared_ptr<std::map<TopicPartition, std::int64_t>> cursors_ =
      std::make_shared<std::map<TopicPartition, std::int64_t>>();
  std::shared_ptr<std::vector<Message>> log_ = std::make_shared<std::vector<Message>>();
  std::unique_ptr<Consumer> consumer_;
};

/// The contract of every carrier of Bus; the cases are in bus_contract_body.hpp.
class BusContract : public ::testing::TestWithParam<Carrier> {
 protected:
  void SetUp() override {
    place_ = GetParam().place();
    if (place_.setting.empty()) GTEST_SKIP() << place_.why_not;
    auto bus = make_bus(place_.setting);
    ASSERT_TRUE(bus.has_value()) << bus.error().to_string();
    bus_ = std::move(*bus);
    topic_ = fresh_name("topic");
    group_ = fresh_name("group");
    const std::vector<std::string> topics{topic_};
    const auto made = bus_->ensure_topics(topics, kPartitions);
    ASSERT_TRUE(made.has_value()) << made.error().to_string();
    auto producer = bus_->producer("contract");
    ASSERT_TRUE(producer.has_value()) << producer.error().to_string();
    producer_ = std::move(*producer);
  }

  static std::string fresh_name(const std::string& kind);
  Record record(const std::string& key, std::int64_t version) const { return {topic_, key, std::to_string(version)}; }
  void publish(const std::vector<Record>& records) {
    const auto sent = producer_->publish(records, std::chrono::seconds(20));
    ASSERT_TRUE(sent.has_value()) << sent.error().to_string();
  }
  /// Polls until `count` messages were read in all.
  static bool read(Reader& reader, std::size_t count);

  static constexpr int kPartitions = 4;
  Place place_;
  std::shared_ptr<Bus> bus_;
  std::unique_ptr<Producer> producer_;
  std::string topic_;
  std::string group_;
};

}  // namespace qm::bus
