#pragma once
#include "lifecycle/activation.hpp"
#include "quota/proposals.hpp"

namespace qm::admission {

/// Due timers of workloads: back-offs, retries, deadlines, run limits and retention.
class Timers {
 public:
  Timers(EngineState& state, WorkloadRows& rows, Transitions& transitions, Activation& activation, Proposals& proposals)
      : state_(state), rows_(rows), transitions_(transitions), activation_(activation), proposals_(proposals) {}

  /// Handles each timer that is due, in order of time and uid, then removes the oldest ended rows beyond `most_ended`.
  void fire();

 private:
  void fire_one(const WorkloadUid& uid);
  void fire_admitted(const Workload& w);
  void give_back_quota(const Workload& w);
  [[nodiscard]] bool wait_is_over(const Workload& w) const;

  EngineState& state_;
  WorkloadRows& rows_;
  Transitions& transitions_;
  Activation& activation_;
  Proposals& proposals_;
};

}  // namespace qm::admission
