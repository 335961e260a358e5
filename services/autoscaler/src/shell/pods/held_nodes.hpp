#pragma once
#include "nominator.hpp"
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/ids.hpp"

#include <functional>
#include <map>
#include <set>

namespace qm::autoscaler {

/// Removes kNominatingTaint from nodes once the pods that they were launched for are nominated.
///
/// When     an attempt for a pod whose node still has the taint removes its nomination, and each node that is released is
///          an occasion for attempts. Nominations are therefore written again until none was removed for Times::settled,
///          at most kMostRounds times in one pass, and the nodes are released at once and together. A node whose
///          nominations cannot be written or do not last is released after Times::longest.
/// Errors   are logged; the next pass tries again.
/// Threads  one.
/// Cost     two calls for each node.
class HeldNodes {
 public:
  struct Times {
    SteadyDuration settled = std::chrono::milliseconds(20);  ///< until the scheduler has received a nomination, and we
                                                             ///< have received that it removed one
    SteadyDuration longest = std::chrono::seconds(2);
  };
  explicit HeldNodes(kube::Client& client) : HeldNodes(client, Times{}) {}
  HeldNodes(kube::Client& client, Times times) : client_(client), times_(times) {}

  static constexpr int kMostRounds = 5;
  /// Nominates, also without held nodes. `held`: nodes that are ready for pods apart from the taint.
  void pass(const std::set<NodeName>& held, const std::function<Nominator::Outcome()>& nominate, SteadyInstant now);

 private:
  void release(const NodeName& node);

  kube::Client& client_;
  const Times times_;
  std::map<NodeName, SteadyInstant> since_;
};

}  // namespace qm::autoscaler
