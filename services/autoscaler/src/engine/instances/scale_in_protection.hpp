#pragma once
#include "facts.hpp"
#include "state.hpp"

#include <string>

namespace qm::autoscaler {

/// Protects instances with work that may not be lost from being chosen by their own Auto Scaling group, as long as the
/// work runs. Protection that others set is left alone.
///
/// Cost     claims of groups, times attempts.
class ScaleInProtection {
 public:
  ScaleInProtection(State& state, const Facts& facts)
      : state_(state), options_(state.options), tables_(state.tables), facts_(facts) {}

  void update();

 private:
  [[nodiscard]] bool holds_work(const Claim& claim) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
};

}  // namespace qm::autoscaler
