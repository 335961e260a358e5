#pragma once
#include "qm/clock/clock.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/service/engine_shell.hpp"
#include "qm/service/host.hpp"
#include "qm/telemetry/engine.hpp"
#include "quartermaster/v1/telemetry_service.pb.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace qm::telemetry {

namespace pb = quartermaster::v1;

/// The codec of telemetry: agents' facts and topics to commands; outputs to events, and orders to agents as intents.
/// `node_gone` is called for deleted nodes, from the engine thread and possibly twice; for state outside the engine.
class Codec {
 public:
  using NodeGoneFn = std::function<void(const NodeName&)>;
  Codec() = default;
  explicit Codec(NodeGoneFn node_gone) : node_gone_(std::move(node_gone)) {}
  Result<std::vector<Command>> decode(const service::Input& input) const;
  void encode(const Engine& engine, const Output& output, std::span<const std::size_t> origin,
              service::Effects& effects) const;
  Status load(Engine& engine, std::span<const store::StateRow> rows) const;
  void debug_state(const Engine& engine, service::StateDump& out) const;

 private:
  NodeGoneFn node_gone_;
};
using Shell = service::EngineShell<Engine, Codec>;
[[nodiscard]] const Engine& engine_of(const service::Shell& shell);

/// The input for one agent fact; its id is that of the fact.
service::Input fact_input(const pb::AgentFact& fact);
service::Input usage_input(const pb::UsageInterval& usage);
pb::CheckpointOrder order_message(const std::string& id, const OpenOrder& order);

/// Last values of every GPU, and the mean utilization of each over closed intervals. Not durable: gaps stay visible.
///
/// Life     a reading is valid for three periods of its node's frames after its last frame. It expires once they are
///          over in domain time and in steady time (there at least kLeastLife). The period is the observed one;
///          kFirstPeriod until there are two frames.
/// Interval of one GPU and one holder. It closes at a frame with another holder, and at the first frame after the
///          maximum length. It closes at its last sample in four cases: the GPU stopped reporting, its node was
///          deleted, its clock was set back, or another GPU has its index.
/// Energy   the increase of the counter from sample to sample, for the holder of the later one. A sample without a
///          counter, a decreased counter and another GPU's counter restart at zero: a counter's total is not charged.
///          The increase while it was missing is charged to the holder if there was only one, else to none.
/// Threads  any. The sink is called under the lock: it must not call back.
/// Bound    one entry per live GPU, and a number per node that was not removed.
class Samples {
 public:
  static constexpr int kPeriods = 3;
  static constexpr SteadyDuration kLeastLife = std::chrono::seconds(6);
  static constexpr std::chrono::seconds kFirstPeriod{60};

  using Closed = std::function<void(const pb::UsageInterval&)>;
  Samples(Duration interval, const DomainClock& clock) : interval_(interval), clock_(clock) {}
  void on_closed(Closed fn);

  /// Frames of one agent of a node are ordered by `sequence`, independent of the node's clock; a jump ahead is counted
  /// as a gap. An agent that restarts counts from the beginning. Frames of the previous agent, and frames out of
  /// order, are late and dropped. An agent without a name is considered the same one while its sequence increases.
  void take(const pb::SampleFrame& frame, SteadyInstant seen = std::chrono::steady_clock::now());
  void forget(const std::string& node);

  struct OfNode {
    std::string node;
    SteadyDuration life{};                 ///< of a reading received now
    std::vector<pb::GpuReading> readings;  ///< by index
  };
  std::vector<OfNode> by_node(SteadyInstant now = std::chrono::steady_clock::now());
  std::vector<pb::GpuReading> readings(const std::string& node = {},
                                       SteadyInstant now = std::chrono::steady_clock::now());

  struct Counters {
    std::uint64_t frames = 0, samples = 0, gaps = 0, late = 0;
  };
  [[nodiscard]] Counters counters() const;

 private:
  struct Gpu {
    pb::GpuSample last;
    std::int64_t at_us = 0, from_us = 0, n = 0, energy_mj = 0;
    std::optional<std::int64_t> counter;  // of energy, the last known value
    double sum = 0;
    std::string pod;  // namespace/pod of the current interval
    SteadyInstant seen{};
  };
  struct Node {
    std::string agent, agent_before;
    std::uint64_t sequence = 0;
    std::int64_t at_us = 0;  // of the newest frame
    SteadyInstant seen{};
    std::optional<Duration> period;  // observed, in either time
    std::optional<SteadyDuration> steady_period;
    std::map<std::int32_t, Gpu> gpus;
  };
  [[nodiscard]] static SteadyDuration life(const Node& node);
  [[nodiscard]] static bool late(const Node& node, const pb::SampleFrame& frame);
  void set_back(const std::string& name, Node& node, std::int64_t at_us);
  void pace(Node& node, std::int64_t at_us, SteadyInstant seen) const;
  void add(const std::string& name, Gpu& gpu, const pb::GpuSample& sample, std::int64_t at_us, SteadyInstant seen);
  void sweep(const std::string& name, Node& node, SteadyInstant now);
  void close(const std::string& node, Gpu& gpu, std::int64_t to_us);

  const Duration interval_;
  const DomainClock& clock_;
  Closed closed_;
  mutable std::mutex mutex_;
  std::map<std::string, Node> nodes_;
  Counters counters_;
};

/// Connected agents by node, for orders. The newest agent of a node receives its orders; when it disconnects, the
/// previous one does.
///
/// Threads  any. An order without an agent is complete: an agent that connects gets the open orders at once.
class AgentHub final : public service::Executor {
 public:
  using Send = std::function<bool(const pb::AgentOrder&)>;  ///< false = the stream has ended
  std::uint64_t connect(Send send);
  /// Sets the nodes of an agent, replacing its previous ones.
  void serve(std::uint64_t agent, const std::vector<std::string>& nodes);
  void disconnect(std::uint64_t agent);
  bool send(const std::string& node, const pb::AgentOrder& order);
  [[nodiscard]] std::size_t agents() const;

  Result<service::Outcome> execute(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;

 private:
  void leave(std::uint64_t agent);

  mutable std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Send>> agents_;
  std::map<std::string, std::set<std::uint64_t>> by_node_;
};

/// Redis as a mirror that may be unavailable: last values, and the fan-out of event lines. All of its content is
/// rebuilt within two seconds after a FLUSHALL or a restart, from the state of this process.
///
/// Keys     qm:gpu:nodes (set) and qm:gpu:<node> (a QueryResponse), written in one transaction every two seconds; each
///          expires as its readings would without a next frame. Channel qm:events (an EventLine).
/// Scope    one suite per Redis database.
/// Threads  any. Calls wait at most 500 ms for Redis, and not at all for half a second after a failure.
class RedisMirror {
 public:
  RedisMirror(std::string address, Samples& samples);  ///< empty address = no Redis
  ~RedisMirror();
  void start();
  void stop();
  /// Readings from Redis, all of them or kUnavailable: unavailable, flushed, or not written yet.
  Result<std::vector<pb::GpuReading>> readings(const std::string& node);
  /// Publishes a line to the followers of every process, including this one; false if it does not reach this one.
  bool publish(const pb::EventLine& line);
  /// Called for each line from Redis, from a separate thread. Once it returns, the previous one is no longer called.
  void on_line(std::function<void(const pb::EventLine&)> fn);
  [[nodiscard]] bool connected() const;
  [[nodiscard]] bool subscribed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads every topic and publishes each message as a line for users. Lines are sent through Redis to the followers of
/// all processes, or directly to those of this one while Redis is unavailable.
///
/// Start    earlier messages on the bus are not published; after a failure of the bus it continues at its position.
/// Threads  any. Followers are called under a lock: they must not block, nor follow or unfollow.
class Observer {
 public:
  Observer(std::shared_ptr<bus::Bus> bus, RedisMirror& redis, const std::string& shard);
  ~Observer();
  void start();
  void stop();
  std::uint64_t follow(std::function<void(const pb::EventLine&)> fn);
  /// Once it returns, the follower is no longer called.
  void unfollow(std::uint64_t handle);
  [[nodiscard]] bool caught_up() const;          ///< lines are being published
  [[nodiscard]] std::uint64_t observed() const;  ///< lines sent to Redis or to the followers

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
/// Names of workloads by uid, from the messages of qm.workload: events about a workload have only its uid.
///
/// Bound    1,000,000 workloads; a further workload is shown by its uid. Threads: one.
class WorkloadNames {
 public:
  void learn(const std::string& topic, const std::string& key, const std::string& payload);
  [[nodiscard]] std::string name_of(const std::string& uid) const;  ///< "namespace/name", else the uid

 private:
  static constexpr std::size_t kMost = 1'000'000;
  std::map<std::string, std::string> names_;
};
/// One line of text about a message of a topic.
std::string summary_of(const std::string& topic, const std::string& payload, const WorkloadNames& names = {});

service::HostOptions host_options(const std::string& shard);
void export_metrics(metrics::Registry& registry, service::Host& host, Samples& samples, const AgentHub& hub,
                    const RedisMirror& redis);

}  // namespace qm::telemetry
