#pragma once
#include "qm/autoscaler/history/history.hpp"
#include "qm/service/shell.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Collects the recorded time of a journal: jobs, NodePools and prices from the inputs of its batches. The bill of the
/// recorded instances comes from the events that the batches published.
///
/// Threads  one.
/// Bounds   one row for each attempt that had a place, and each instance.
class Recorder {
 public:
  /// `catalog`: the prices on demand, for the recorded bill.
  explicit Recorder(const std::vector<InstanceType>& catalog);

  /// The inputs of a batch, in order; those that say nothing about a History are ignored.
  void observe(const service::Input& input, Instant now);
  /// An event of the autoscaler.
  void observe(const service::Publish& event);

  /// The time from the first batch to the last one. A job that has not ended runs until then.
  [[nodiscard]] History history() const;
  /// What the recorded instances cost. Its jobs are those of the history.
  [[nodiscard]] Bill bill() const;

 private:
  struct Job {
    DemandUpdated::Item item;
    std::optional<Instant> arrives, starts, ends;
  };
  struct Instance {
    Money rate;
    std::int64_t gpus = 0;
    std::optional<Instant> launched, stopped;
  };
  void observe_placement(const service::Input& input, Instant now);
  void observe_workload(const service::Input& input);
  Job& job_of(const AttemptId& id, Instant now);

  std::map<std::string, Money> on_demand_;  ///< by type
  std::map<std::pair<std::string, std::string>, Money> spot_;
  std::map<WorkloadUid, std::pair<WorkloadUpdated, std::vector<PodSet>>> workloads_;
  std::map<WorkloadUid, std::int32_t> priorities_;
  std::map<AttemptId, Job> jobs_;
  std::vector<History::Change> changes_;
  std::map<std::string, Instance> instances_;
  std::optional<Instant> from_;
  Instant to_{};
};

/// A change of a recorded time from a SimulateCapacityRequest in protobuf's JSON, and the percentage of the demand.
///
/// Fails    kInvalid: it is not such a JSON, has demand of its own, or a NodePool in it has an error.
[[nodiscard]] Result<HistoryChange> history_change_from(const std::string& json, std::int64_t demand_percent);

/// Three bills and their differences as a JSON object: recorded, replayed, and replayed with the change.
[[nodiscard]] Json report_of(const Bill& recorded, const Bill& replayed, const Bill& changed);
/// The same as text for a terminal.
[[nodiscard]] std::string text_of(const Bill& recorded, const Bill& replayed, const Bill& changed);

/// The decision that launched the claim, from the rows after the step of its launch, as an ExplainCapacityResponse in
/// JSON.
///
/// Fails    kNotFound: the engine does not have the claim.
[[nodiscard]] Result<Json> decision_of_launch(const Engine& engine, Instant now, const std::string& claim);

}  // namespace qm::autoscaler
