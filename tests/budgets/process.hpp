#pragma once
#include "qm/bus/bus.hpp"
#include "qm/service/host.hpp"
#include "quartermaster/v1/admission_service.pb.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace qm::testing {

/// Several services in one thread, each of which may crash.

/// Thrown at a crash point.
struct Crash {};

/// A service as if it were a process: its disk survives a crash.
struct ServiceProcess {
  service::HostOptions options;
  std::function<std::unique_ptr<service::Shell>()> shell;
  std::shared_ptr<bus::Bus> bus;
  const DomainClock& clock;
  std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk();
  std::unique_ptr<service::Host> host = {};
  int lives = 0;
  service::Executor* executor = nullptr;  ///< must outlive it; null = intents stay open

  void start() {
    ++lives;
    host = std::make_unique<service::Host>(options, shell(), store::open_memory(disk), bus, clock, executor);
    const auto opened = host->open();
    ASSERT_TRUE(opened) << opened.error().to_string();
  }
  /// True if any work was done. A crash point destroys the process, and it restarts at once.
  bool turn() {
    try {
      const bool consumed = host->consume_once(), pumped = host->pump(), relayed = host->relay_once();
      const bool executed = executor != nullptr && host->execute_once();
      return consumed || pumped || relayed || executed;
    } catch (const Crash&) {
      host.reset();
      start();
      return true;
    }
  }
};

/// An observation of a watch.
inline service::Input watch_input(std::string name, std::string bytes) {
  service::Input out;
  out.source = service::Source::kWatch;
  out.name = std::move(name);
  out.bytes = std::move(bytes);
  return out;
}
/// A message of the bus.
inline service::Input bus_input(std::string topic, std::string key, std::uint64_t version, std::string bytes) {
  service::Input out;
  out.source = service::Source::kBus;
  out.name = std::move(topic);
  out.key = std::move(key);
  out.version = version;
  out.bytes = std::move(bytes);
  return out;
}
/// A call of admission's Apply.
inline service::Input apply_input(const std::string& manifest) {
  quartermaster::v1::ApplyRequest request;
  request.set_manifest(manifest);
  service::Input out;
  out.source = service::Source::kRequest;
  out.name = "Apply";
  out.id = "apply";
  out.bytes = request.SerializeAsString();
  return out;
}

/// Never waits for a message: in a single thread no sender could run meanwhile.
class Prompt final : public bus::Bus {
 public:
  explicit Prompt(std::shared_ptr<bus::Bus> inner) : inner_(std::move(inner)) {}
  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    return inner_->ensure_topics(topics, partitions);
  }
  Result<std::unique_ptr<bus::Producer>> producer(const std::string& client_id) override {
    return inner_->producer(client_id);
  }
  Result<std::unique_ptr<bus::Consumer>> consumer(bus::ConsumerOptions options) override {
    QM_ASSIGN(auto consumer, inner_->consumer(std::move(options)));
    return std::make_unique<Reader>(std::move(consumer));
  }
  [[nodiscard]] std::string name() const override { return inner_->name(); }

 private:
  class Reader final : public bus::Consumer {
   public:
    explicit Reader(std::unique_ptr<bus::Consumer> inner) : inner_(std::move(inner)) {}
    Result<std::vector<bus::Message>> poll(std::size_t max, SteadyDuration) override {
      return inner_->poll(max, SteadyDuration{0});
    }
    void report(const bus::TopicPartition& at, std::int64_t next) override { inner_->report(at, next); }
    [[nodiscard]] std::vector<bus::TopicPartition> assignment() const override { return inner_->assignment(); }
    [[nodiscard]] std::int64_t lag() const override { return inner_->lag(); }
    [[nodiscard]] std::map<bus::TopicPartition, std::int64_t> ends() const override { return inner_->ends(); }
    Result<std::optional<std::string>> value_at(const bus::TopicPartition& at, std::int64_t offset,
                                                SteadyDuration timeout) override {
      return inner_->value_at(at, offset, timeout);
    }

   private:
    std::unique_ptr<bus::Consumer> inner_;
  };
  std::shared_ptr<bus::Bus> inner_;
};

}  // namespace qm::testing
