#pragma once
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// A consolidation of nodes in use that is being executed.
struct ConsolidationRow {
  enum class Phase {
    kValidating,  ///< planned; it is planned again before anything is done
    kLaunching,   ///< the replacements start
    kSaving,      ///< the replacements are ready; the gangs on the nodes save
  };
  Phase phase = Phase::kValidating;
  Instant since{};                              ///< of the phase
  std::vector<ClaimName> claims, replacements;  ///< to remove, and launched for their pods
  std::string reason;                           ///< what it saves
  friend auto operator<=>(const ConsolidationRow&, const ConsolidationRow&) = default;
};
/// The last search for a consolidation. An equal problem is not searched again.
struct ConsolidationCheck {
  Instant at{};
  std::uint64_t digest = 0;  ///< of the problem
  friend auto operator<=>(const ConsolidationCheck&, const ConsolidationCheck&) = default;
};

}  // namespace qm::autoscaler
