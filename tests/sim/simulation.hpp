#pragma once
#include "decisions.hpp"
#include "executors.hpp"
#include "laws.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/digest.hpp"
#include "sim.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qm::sim {

struct LawBroken {
  std::string what;
};

/// The frequency of each kind of fault, drawn per seed. A seed without one kind lets others have a larger effect.
struct Faults {
  int crash = 0, crash_point = 0, commit = 0, publish = 0, watch_break = 0, watch_repeat = 0, watch_hold = 0;
  int node_lost = 0, node_silent = 0, spot = 0, xid = 0, capacity = 0, fact_repeat = 0;
  int stop = 0, cut = 0, cut_commit = 0, restore = 0, truncate = 0, recreate = 0, snapshot = 0, jump = 0, in_call = 0;
  int unwritable = 0, forge = 0;
  int leap = 0, lost_events = 0, empty = 0;
  BusFaults bus;
  Outages outages;
  std::string names;

  void draw(Random& random);
  void draw_later(Random& random);  ///< kinds that were added later
  void end();                       ///< calm; effects on logs and planted bugs remain
};

class Sim {
 public:
  Sim(std::uint64_t seed, Bug bug);
  ~Sim() { disarm_crash_points(); }
  Report run();

 private:
  void say(std::string text, std::string topic = {}, std::string payload = {});
  void plant(Bug bug);
  void make_services(std::uint64_t seed);
  void opened(Service& service);
  void kill(Service& service);
  void tick(Duration by);
  void in_call(Service& service);
  void blocked(Process& process);
  Result<service::Snapshot> snapshot(const std::string& topic);
  void inject_replica_faults();
  void inject_time_faults();
  void inject_history_faults();
  void take_copies();
  void restore(Service& service);
  void restore(Service& service, std::size_t copy);
  void lose_events();
  void lose_messages();
  void lose_all_messages();
  void publish_of_other_cluster();
  [[nodiscard]] Service* owner_of(const std::string& topic);
  [[nodiscard]] bool lossy() const { return !faults_.bus.losses.empty() || restored_; }
  [[nodiscard]] bool all_read(const std::string& topic);
  void turn(Service& service, bool busy);
  void outside(bool busy);
  void inject_faults();
  void apply_config();
  void publish_budgets();
  void offer_layout();
  void turn_all(bool busy);

  Random random_;
  Random later_;  ///< of faults that were added later, so that a seed keeps its earlier part
  Bug bug_;
  bool sliced_;         ///< two tenants also share a node with GPUs partitioned by MIG
  bool mig_on_demand_;  ///< it is not partitioned before a workload is pending for instances
  bool elastic_;        ///< most jobs may run with fewer pods than requested, and quota is sufficient
  bool work_queue_;     ///< most jobs have more completions than parallelism
  ManualClock clock_;
  Faults faults_;
  World world_;
  Broken broken_ = [](const std::string& what) { throw LawBroken{what}; };
  std::shared_ptr<bus::Bus> bus_;
  JobExecutor jobs_;
  PodExecutor pods_;
  CloudExecutor cloud_;
  std::unique_ptr<telemetry::AgentHub> hub_;
  /// The hub of the current telemetry process.
  struct HubExecutor final : service::Executor {
    explicit HubExecutor(std::unique_ptr<telemetry::AgentHub>& h) : hub(h) {}
    Result<service::Outcome> execute(const store::IntentRow& intent) override { return hub->execute(intent); }
    service::Outcome failed(const store::IntentRow& intent, const Error& error) override {
      return hub->failed(intent, error);
    }
    std::unique_ptr<telemetry::AgentHub>& hub;
  } orders_{hub_};
  std::vector<std::unique_ptr<Service>> services_;
  Five five_{};
  std::map<Service*, std::vector<std::size_t>> copies_;  ///< of its disk, since the last restore
  struct OldCopy {
    Service* service;
    std::size_t copy;
  };
  std::optional<OldCopy> old_copy_;                   ///< a restore to it may lose events
  std::set<std::string> emptied_;                     ///< topics that lost all messages
  std::map<std::string, SteadyInstant> snapshot_at_;  ///< by topic: the newest snapshot
  bool nested_ = false;                               ///< within a call or a wait of one process
  std::vector<Watch> watches_;
  std::unique_ptr<CloudLooks> looks_;
  std::unique_ptr<Agents> agents_;
  std::unique_ptr<Users> users_;
  bool configured_ = false;
  bool restored_ = false;  ///< a database was restored
  int offers_ = 0;
  std::vector<cost::Budget> budgets_;
  Instant asked_{};
  WaitsInVain waits_;
  Digest hash_;
  Decisions decisions_;
  Report report_;
};

}  // namespace qm::sim
