#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "state.hpp"

#include <optional>

namespace qm::autoscaler {

/// Capacity blocks end: EC2 takes their instances back. It is a notice to their nodes, so that gangs save and leave.
class ReservationEnds {
 public:
  ReservationEnds(State& state, const Facts& facts, Claims& claims)
      : state_(state), tables_(state.tables), facts_(facts), claims_(claims) {}

  /// Notes the end on the nodes of each block from kWindDown before it.
  void note_ends();
  [[nodiscard]] std::optional<Instant> next() const;

 private:
  State& state_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
};

}  // namespace qm::autoscaler
