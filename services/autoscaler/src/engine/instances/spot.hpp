#pragma once
#include "instances/claims.hpp"
#include "state.hpp"

#include <string>

namespace qm::autoscaler {

/// Spot notices: checkpoint orders, evictions, and requests of placement to save.
class Spot {
 public:
  Spot(State& state, Claims& claims) : state_(state), options_(state.options), tables_(state.tables), claims_(claims) {}

  /// Answers spot notices.
  void answer_notices();
  /// Answers requests of placement to save and evict.
  void answer_saves();
  /// Ends checkpoint orders that are answered or late.
  void close_orders();
  /// Orders the gangs on the node to save before the deadline, and then evicts them. A repetition changes nothing.
  void evict_gangs(const NodeName& node, Instant deadline, const std::string& reason);

 private:
  void order_saving(const AttemptId& id, const AttemptRow& attempt, const NodeName& node, Instant deadline,
                    const std::string& reason);

  State& state_;
  const Options& options_;
  Tables& tables_;
  Claims& claims_;
};

}  // namespace qm::autoscaler
