#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "qm/clock/clock.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/service/engine_shell.hpp"
#include "qm/service/host.hpp"
#include "qm/telemetry/engine.hpp"
#include "quartermaster/v1/telemetry_service.pb.h"

namespace qm::telemetry {

namespace pb = quartermaster::v1;

/// The words of telemetry: agents' facts and topics to commands; outputs to events, and orders to agents as intents.
class Codec {
 public:
  Result<std::vector<Command>> decode(const service::Input& input) const;
  void encode(const Engine& engine, const Output& output, std::span<const std::size_t> origin,
              service::Effects& effects) const;
  Status load(Engine& engine, std::span<const store::StateRow> rows) const;
  Json debug_state(const Engine& engine) const;
};
using Shell = service::EngineShell<Engine, Codec>;
[[nodiscard]] const Engine& engine_of(const service::Shell& shell);

/// The input that carries one agent fact; its id names the fact.
service::Input fact_input(const pb::AgentFact& fact);
pb::CheckpointOrder order_message(const std::string& id, const OpenOrder& order);

/// Last values of every GPU, and the mean use of each over closed intervals. Not durable: gaps stay visible.
///
/// Threads  any. Bound: one entry per GPU ever seen; forget() drops a node.
class Samples {
 public:
  using Closed = std::function<void(const pb::UsageInterval&)>;
  Samples(Duration interval, Closed closed) : interval_(interval), closed_(std::move(closed)) {}
  /// Frames of a node come in order of `sequence`; a jump is counted as a gap.
  void take(const pb::SampleFrame& frame);
  void forget(const std::string& node);
  [[nodiscard]] std::vector<pb::GpuReading> readings(const std::string& node = {}) const;   ///< by node, then index
  [[nodiscard]] std::vector<std::string> nodes() const;
  struct Counters {
    std::uint64_t frames = 0, samples = 0, gaps = 0, late = 0;
  };
  [[nodiscard]] Counters counters() const;

 private:
  struct Gpu {
    pb::GpuSample last;
    std::int64_t at_us = 0, from_us = 0, n = 0, energy_from = 0;
    double sum = 0;
    std::string pod;   // namespace/pod of the running interval
  };
  void close(const std::string& node, Gpu& gpu, std::int64_t to_us);

  Duration interval_;
  Closed closed_;
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::int32_t, Gpu>> gpus_;
  std::map<std::string, std::uint64_t> sequence_;
  Counters counters_;
};

/// Connected agents by node, for orders. One that connects is told its open orders.
class AgentHub final : public service::Executor {
 public:
  using Send = std::function<bool(const pb::AgentOrder&)>;   ///< false = the stream is over
  std::uint64_t connect(Send send);
  void serve(std::uint64_t agent, const std::vector<std::string>& nodes);
  void disconnect(std::uint64_t agent);
  bool send(const std::string& node, const pb::AgentOrder& order);
  [[nodiscard]] std::size_t agents() const;

  Result<service::Outcome> execute(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;

 private:
  mutable std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Send>> agents_;
  std::map<std::string, std::uint64_t> by_node_;
};

/// Redis as a mirror that may vanish: last values with a TTL of three periods, and the fan-out of events. Everything in
/// it is rebuilt within two seconds after a FLUSHALL or a restart, from what this process holds.
class RedisMirror {
 public:
  RedisMirror(std::string address, const Samples& samples);   ///< empty address = there is none
  ~RedisMirror();
  void start();
  void stop();
  /// Readings from Redis; kUnavailable where it is away.
  Result<std::vector<pb::GpuReading>> readings(const std::string& node);
  /// Sends a line to all followers of all replicas; false where Redis is away.
  bool publish(const pb::EventLine& line);
  /// Called for each line that comes from Redis, from its own thread.
  void on_line(std::function<void(const pb::EventLine&)> fn);
  [[nodiscard]] bool connected() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads every topic and hands each message on as a line for people. Lines go through Redis to the followers, or
/// straight to those of this process while Redis is away.
class Observer {
 public:
  Observer(std::shared_ptr<bus::Bus> bus, RedisMirror& redis, const std::string& shard);
  ~Observer();
  void start();
  void stop();
  std::uint64_t follow(std::function<void(const pb::EventLine&)> fn);
  void unfollow(std::uint64_t handle);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
/// One line of text about a message of a topic.
std::string summary_of(const std::string& topic, const std::string& payload);

service::HostOptions host_options(const std::string& shard);
void export_metrics(metrics::Registry& registry, service::Host& host, const Samples& samples, const AgentHub& hub,
                    const RedisMirror& redis);

}  // namespace qm::telemetry
