#pragma once
#include "launch/fit.hpp"
#include "launch/new_nodes.hpp"
#include "qm/autoscaler/history/history.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The cloud and the scheduler of a replayed time: instances with their nodes, and the jobs on them.
///
/// Cost     start: ready nodes of the zones, for each job that does not run.
class FleetModel {
 public:
  explicit FleetModel(const Options& options) : state_(options), nodes_(state_) {}

  void set_catalog(const std::vector<InstanceType>& catalog);
  /// NodePools, DaemonSets and overlays, as the engine gets them.
  void observe(const Command& command);

  /// The answers to launches and terminations, as inputs of the engine. Nodes whose time has come are ready.
  [[nodiscard]] std::vector<Command> inputs(Instant now);
  /// The launches, terminations, drains and evictions that the engine decided.
  void apply(const Output& output, const Tables& tables, Instant now, Duration boot);

  /// A job arrives, or comes back for the rest of its time.
  void add(History::Job job);
  /// Ends jobs whose time is over, and starts those that fit: the inputs about both, and about changed nodes.
  [[nodiscard]] std::vector<Command> schedule(Instant now);
  /// When the next job ends or the next node becomes ready.
  [[nodiscard]] std::optional<Instant> next() const;
  /// Ends the billing of all instances.
  [[nodiscard]] Bill bill(Instant end) const;

 private:
  struct Instance {
    ClaimName claim;
    Pool pool;
    Labels labels;
    InstanceFact fact;
    Money rate;
    std::int64_t gpus = 0;
    Instant ready_at{};
    bool ready = false, cordoned = false, changed = false;
    std::optional<FreeCapacity> free;  ///< once it is ready
    std::int32_t pods = 0;
    std::optional<Instant> empty_since;
    std::set<AttemptId> jobs;
  };
  struct Running {
    History::Job job;
    Instant started{}, ends{};
    std::vector<std::pair<InstanceId, std::pair<std::size_t, std::int32_t>>> places;  ///< pod set, pods
  };
  [[nodiscard]] NodeSide side_of(const Instance& instance) const;
  [[nodiscard]] bool start(const History::Job& job, Instant now, std::vector<Command>& out);
  /// Frees the nodes of a job.
  Running release(const AttemptId& id, Instant now);
  void evict(const AttemptId& id, Instant now);
  void rebuild(Instance& instance);

  State state_;
  NewNodes nodes_;
  std::map<InstanceId, Instance> instances_;
  std::map<ClaimName, InstanceId> by_claim_;
  std::map<AttemptId, Running> running_;
  std::vector<History::Job> pending_;
  std::vector<Command> answers_;
  bool listed_ = true, demand_changed_ = false;
  std::int64_t last_instance_ = 0;
  Bill bill_;
};

}  // namespace qm::autoscaler
