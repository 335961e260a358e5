#pragma once
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/ids.hpp"

#include <map>
#include <set>

namespace qm::autoscaler {

/// Removes kNominatingTaint from nodes once the pods that they were launched for are nominated.
///
/// When     at once: an attempt for a pod whose node still has the taint removes its nomination. A node with a nomination
///          that cannot be written is released after Times::longest. All nodes of one pass are released together.
/// Errors   are logged; the next pass tries again.
/// Threads  one.
/// Cost     two calls for each node.
class HeldNodes {
 public:
  struct Times {
    SteadyDuration settled = std::chrono::milliseconds(20);  ///< until the scheduler has received nominations
    SteadyDuration longest = std::chrono::seconds(2);
  };
  explicit HeldNodes(kube::Client& client) : HeldNodes(client, Times{}) {}
  HeldNodes(kube::Client& client, Times times) : client_(client), times_(times) {}

  /// `held`: nodes that are ready for pods apart from the taint. `open`: nodes with pods that are still to be nominated.
  /// `nominated`: nominations were written a moment ago.
  void pass(const std::set<NodeName>& held, const std::set<NodeName>& open, bool nominated, SteadyInstant now);

 private:
  void release(const NodeName& node);

  kube::Client& client_;
  const Times times_;
  std::map<NodeName, SteadyInstant> since_;
};

}  // namespace qm::autoscaler
