#pragma once
#include "lifecycle/transitions.hpp"

namespace qm::admission {

/// Quota windows: at each opening and closing the trees are rebuilt with the quota that applies from then on.
class QuotaWindows {
 public:
  QuotaWindows(EngineState& state, Transitions& transitions) : state_(state), transitions_(transitions) {}

  /// Rebuilds the trees if a window has opened or closed by now. Rows do not change, so a process that restores them and
  /// opens the windows in its first step decides equally.
  void apply();
  /// Evicts what is beyond the quota of draining queues: the lowest priority and then the newest first, in any queue of
  /// the tree. Whether a queue is beyond its quota follows from the rows and the time, so a missed closing has no effect.
  void drain();

 private:
  EngineState& state_;
  Transitions& transitions_;
};

}  // namespace qm::admission
