#pragma once
#include "history.hpp"
#include "prices.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/clock/clock.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace qm::fleet {

/// The clock that the fleet controls: a file that other processes follow, or a manual clock in tests.
class FleetClock {
 public:
  explicit FleetClock(std::unique_ptr<ScaledClockWriter> file) : file_(std::move(file)), manual_(Instant{}) {}
  explicit FleetClock(Instant start) : manual_(start) {}
  [[nodiscard]] Instant now() const { return file_ ? file_->now() : manual_.now(); }
  [[nodiscard]] double factor() const { return file_ ? file_->factor() : factor_; }
  void set_factor(double factor);
  void advance_to(Instant t);  ///< ignored by a file clock, which moves by itself

 private:
  std::unique_ptr<ScaledClockWriter> file_;
  ManualClock manual_;
  double factor_ = 1;
};

inline std::unique_ptr<FleetClock> file_clock(std::unique_ptr<ScaledClockWriter> writer) {
  return std::make_unique<FleetClock>(std::move(writer));
}
inline std::unique_ptr<FleetClock> manual_clock(Instant start) { return std::make_unique<FleetClock>(start); }

enum class Market { kOnDemand, kSpot };
[[nodiscard]] std::string_view name_of(Market market);  ///< "on-demand", "spot"
enum class InstanceState { kPending, kRunning, kShuttingDown, kTerminated };
[[nodiscard]] std::string_view name_of(InstanceState state);  ///< as EC2 writes it

struct LaunchSpec {
  std::string type, zone;  ///< zone empty = the world chooses one
  Market market = Market::kOnDemand;
  std::string client_token, image_id, user_data;
  std::string subnet, profile;
  std::vector<std::string> security_groups;
  std::map<std::string, std::string> tags;
  bool initial = false;  ///< part of the fleet from the start; registers at once
};

/// An event that EC2 has scheduled for an instance.
struct MaintenanceEvent {
  std::string id, code, description;  ///< code: "instance-retirement", "instance-stop", "system-reboot", ...
  Instant not_before{}, not_after{};
};

struct Instance {
  std::string id;  ///< "i-" and 17 hexadecimal digits
  std::string type, zone, private_dns, private_ip, client_token, image_id, user_data;
  std::string subnet, profile;  ///< id; name of the instance profile
  std::vector<std::string> security_groups;
  Market market = Market::kOnDemand;
  InstanceState state = InstanceState::kPending;
  std::int64_t nano_usd_hour = 0;  ///< fixed at launch
  Instant launched{};              ///< whole seconds; billing starts
  std::optional<Instant> stopped;  ///< whole seconds; billing ends, from shutting-down on
  /// EC2's code: "Client.UserInitiatedShutdown", "Server.SpotInstanceTermination".
  std::string stop_reason;
  /// The instant of the interruption notice, and the instant when the instance ends.
  std::optional<Instant> spot_notice, spot_deadline;
  std::vector<MaintenanceEvent> maintenance;
  std::map<std::string, std::string> tags;
  bool initial = false;
  [[nodiscard]] bool alive() const { return state == InstanceState::kPending || state == InstanceState::kRunning; }
};

/// The network nodes above an instance, from the top: one spine a zone, 4 racks behind one switch, 8 instances a rack.
[[nodiscard]] std::vector<std::string> network_nodes(const Instance& instance);

/// An event of an instance. Listeners run under the world's lock, in order; they must not block.
enum class InstanceEvent {
  kLaunched,     ///< pending
  kRunning,      ///< EC2 reports it as running; the node may still boot
  kBooted,       ///< the kubelet registers its Node now
  kSpotNotice,   ///< spot_deadline is set
  kMaintenance,  ///< its last maintenance event is new
  kStopping,     ///< shutting-down: everything on it is gone
  kTerminated,
};
using InstanceListener = std::function<void(const Instance&, InstanceEvent)>;

/// The simulated world: domain time, timers, instances with prices and capacity, API faults, history.
///
/// The Kubernetes side (store, job controller, kubelets) and the AWS side use it and share its one lock. The AWS side
/// is `class AwsApi { explicit AwsApi(World&); http::Answer handle(const http::Request&); }` in aws.hpp.
///
/// Threads  any; every method locks the one recursive mutex. Hold `lock()` to make several calls atomic. Nothing blocks
///          under it.
/// Order    timers run in the order of their time, then of their creation, on the world's thread (start()) or inside
///          advance() in tests.
/// Time     domain time everywhere; launches and stops happen at whole seconds. The factor is at most kSlowFactor
///          while any hold is open.
class World {
 public:
  static constexpr double kSlowFactor = 10;
  struct Options {
    std::uint64_t seed = 1;
    std::uint64_t id_seed = 1;  ///< ids and uids; a program uses another one at each start
    int boot_seconds = 60;      ///< a launched instance registers after boot_seconds up to twice that
    double factor = 1;
    std::string history_path;  ///< empty = kept in memory only
    std::string region = "us-east-1";
    std::vector<std::string> zones = {"us-east-1a", "us-east-1b", "us-east-1c"};
  };
  using Lock = std::unique_lock<std::recursive_mutex>;

  World(Options options, PriceTable prices, std::unique_ptr<FleetClock> clock);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] Lock lock() const { return Lock(mutex_); }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const PriceTable& prices() const { return prices_; }

  // Time ------------------------------------------------------------------------------------------
  [[nodiscard]] Instant now() const { return clock_->now(); }
  [[nodiscard]] Instant now_floor() const;  ///< the start of the current second
  /// Runs fn under the lock when domain time reaches t. The id cancels it.
  using TimerId = std::pair<Instant, std::uint64_t>;
  TimerId at(Instant t, std::function<void()> fn);
  TimerId after(Duration d, std::function<void()> fn) { return at(now() + d, std::move(fn)); }
  TimerId post(std::function<void()> fn) { return at(Instant{}, std::move(fn)); }  ///< as soon as possible
  void cancel(const TimerId& id);
  void start();  ///< the thread that runs timers
  void stop();
  /// Manual clocks: runs every timer up to now + d, each at its own time.
  void advance(Duration d);

  // Clock factor ----------------------------------------------------------------------------------
  void set_factor(double factor);       ///< the configured factor; holds still limit it
  [[nodiscard]] double factor() const;  ///< the current factor
  [[nodiscard]] double configured_factor() const;
  void hold(const std::string& name);
  void release(const std::string& name);
  [[nodiscard]] std::vector<std::string> holds() const;

  // Instances -------------------------------------------------------------------------------------
  /// Launches one instance. Client tokens are only stored here; the caller detects repeated tokens. Fails: kInvalid
  /// for an unknown type or zone; kExhausted with field "capacity" if the market has none.
  Result<Instance> launch_instance(const LaunchSpec& spec);
  /// Idempotent on a stopped instance. kNotFound for an unknown id.
  Status terminate_instance(const std::string& id, const std::string& reason);
  Status give_spot_notice(const std::string& id, Duration notice);
  /// Schedules an event after `notice`; then a retirement or a stop ends the instance.
  Status schedule_maintenance(const std::string& id, const std::string& code, Duration notice);
  Status set_tags(const std::string& id, const std::map<std::string, std::string>& tags);
  [[nodiscard]] std::optional<Instance> instance(const std::string& id) const;
  [[nodiscard]] std::optional<Instance> instance_by_dns(const std::string& private_dns) const;
  /// In launch order; terminated instances are listed for an hour of domain time, as in EC2.
  [[nodiscard]] std::vector<Instance> instances() const;
  void listen(InstanceListener listener);
  [[nodiscard]] std::string zone_id(const std::string& zone) const;  ///< "use1-az1" of the first zone
  [[nodiscard]] std::int64_t price_nano_hour(const std::string& type,
                                             Market market) const;  ///< 0 = not sold
  /// The number of instances that could launch now, in the zone or in any; INT_MAX if unlimited.
  [[nodiscard]] int capacity_left(const std::string& type, Market market, const std::string& zone = {}) const;
  /// At most `limit` live instances of the type in that market, in the zone or together; negative = no limit.
  void limit_capacity(const std::string& type, Market market, int limit, const std::string& zone = {});
  /// No launches of the type until then, in the zone or at all.
  void block_capacity(const std::string& type, Market market, Instant until, const std::string& zone = {});

  // Faults of the APIs ----------------------------------------------------------------------------
  /// api: "kube", "ec2", "autoscaling", "sqs" or "" for all of them.
  enum class ApiFault { kNone, kThrottled, kServerError };
  /// That share of calls gets the fault until then.
  void disturb(ApiFault api_fault, const std::string& api, double share, Instant until);
  /// The fault for this call; adapters call it once per request.
  [[nodiscard]] ApiFault api_fault(const std::string& api);

  // Record ----------------------------------------------------------------------------------------
  /// Appends a line; "t" and "e" are its first fields.
  void record(std::string_view event, const Json::Object& fields);
  /// The event "signal" with that kind.
  void signal(std::string_view kind, Json::Object fields);
  [[nodiscard]] const History& history() const { return history_; }

  /// Seeded; only under the lock.
  std::mt19937_64& random() { return random_; }
  [[nodiscard]] std::int64_t random_between(std::int64_t low, std::int64_t high);
  [[nodiscard]] std::string random_hex(int digits);

 private:
  struct Outage {
    ApiFault api_fault;
    std::string api;
    double share;
    Instant until;
  };
  using CapacityKey = std::tuple<std::string, Market, std::string>;  ///< type, market, zone (empty = all)

  void run(std::stop_token stop);
  bool run_one(Instant upto);
  void apply_factor();
  void emit(const Instance& instance, InstanceEvent event);
  [[nodiscard]] int left_of(const CapacityKey& key) const;
  [[nodiscard]] std::string zone_with_capacity(const LaunchSpec& spec) const;
  Instance* find(const std::string& id);
  /// kNotFound, naming the field that contained the id.
  Result<Instance*> need(const std::string& id, std::string_view field);

  Options options_;
  PriceTable prices_;
  std::unique_ptr<FleetClock> clock_;
  mutable std::recursive_mutex mutex_;
  std::condition_variable_any wake_;
  std::map<TimerId, std::function<void()>> timers_;
  std::uint64_t timer_sequence_ = 0;
  double configured_factor_;
  std::set<std::string> holds_;
  std::map<std::uint64_t, Instance> instances_;  // by launch sequence
  std::map<std::string, std::uint64_t> by_id_;
  std::uint64_t launches_ = 0;
  std::vector<InstanceListener> listeners_;
  std::map<CapacityKey, int> limits_;
  std::map<CapacityKey, Instant> blocked_;
  std::vector<Outage> outages_;
  std::mt19937_64 random_, ids_;
  History history_;
  std::jthread thread_;
};

}  // namespace qm::fleet
