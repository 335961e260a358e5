#pragma once
#include "lifecycle/activation.hpp"
#include "lifecycle/pod_groups.hpp"
#include "quota/scale_up.hpp"

#include <string>

namespace qm::admission {

/// Follows the objects of workloads: jobs that appear, change, finish and are deleted.
///
/// A workload that holds no quota gets the current spec of its object and keeps its queue position, as in Kueue. One
/// that holds quota keeps what it was admitted with. Changes that can apply at once do so (priority class, fewer pods
/// of a Job); the rest is kept for its next attempt. What is not supported is Rejected until its object changes.
class JobUpdates {
 public:
  JobUpdates(EngineState& state, WorkloadRows& rows, SpecUpdates& specs, Transitions& transitions,
             Activation& activation, PodGroups& groups, ScaleUp& scale_up)
      : state_(state),
        rows_(rows),
        specs_(specs),
        transitions_(transitions),
        activation_(activation),
        groups_(groups),
        scale_up_(scale_up) {}

  void on(const JobUpdated& c);
  void on(const JobDeleted& c);
  /// A complete list arrives at each start and after gaps of the watch.
  void on(const JobsSynced& c);

 private:
  void create(const JobUpdated& c);
  void reconcile(const JobUpdated& c, const Workload& known);
  void follow(const JobUpdated& c);
  void reject(const WorkloadUid& uid, std::string why);
  void note_print(const JobUpdated& c);

  EngineState& state_;
  WorkloadRows& rows_;
  SpecUpdates& specs_;
  Transitions& transitions_;
  Activation& activation_;
  PodGroups& groups_;
  ScaleUp& scale_up_;
};

}  // namespace qm::admission
