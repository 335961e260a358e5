#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "state.hpp"

#include <string>

namespace qm::autoscaler {

/// How a claim differs from what its NodePool and its class would launch now.
struct DriftFinding {
  std::string reason;   ///< as in Karpenter: NodePoolDrifted, RequirementsDrifted, ...; empty = it does not differ
  std::string message;  ///< what differs, with both values
};
/// The first difference: static fields of the template, requirements, then image, subnet and security groups. A value
/// that is not known does not differ. `type_exists`: the catalog has its instance type.
///
/// Source   pkg/controllers/nodeclaim/disruption/drift.go of Karpenter 1.14, and its AWS provider.
[[nodiscard]] DriftFinding drift_of(const Claim& claim, const Pool& pool, bool type_exists);

/// Records which claims are drifted, and since when.
class Drift {
 public:
  Drift(State& state, const Facts& facts, Claims& claims)
      : state_(state), tables_(state.tables), facts_(facts), claims_(claims) {}

  void update();

 private:
  State& state_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
};

}  // namespace qm::autoscaler
