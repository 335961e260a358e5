#pragma once
#include "lifecycle/starts.hpp"
#include "quota/proposals.hpp"

namespace qm::admission {

/// The handshake with placement, and the requests of the services that may ask for an eviction.
class PlacementAnswers {
 public:
  PlacementAnswers(EngineState& state, WorkloadRows& rows, Transitions& transitions, Starts& starts)
      : state_(state), rows_(rows), transitions_(transitions), starts_(starts) {}

  void on(const PlacementUpdated& c);
  void on(const PromiseUpdated& c);
  void on(const CheckpointUpdated& c);
  /// Placement repeats an item while its workload is pending in that attempt; the back-off of an attempt ends only once.
  void on(const RequeueListUpdated& c);
  void on(const EvictionRequested& c);

 private:
  void catch_up(const PlacementUpdated& c);

  EngineState& state_;
  WorkloadRows& rows_;
  Transitions& transitions_;
  Starts& starts_;
};

}  // namespace qm::admission
