#pragma once
#include "aws_templates.hpp"
#include "aws_wire.hpp"
#include "client_tokens.hpp"
#include "world.hpp"

#include <string>

namespace qm::fleet {

/// CreateFleet with Type=instant: launches in the order of the allocation strategy, over the overrides of all launch
/// templates, and reports each override that had too little capacity in the errorSet of a successful answer.
///
/// Atomic   the plan is complete before the first launch. With MinTargetCapacity fewer units launch nothing. With
///          SingleInstanceType or SingleAvailabilityZone the first type or zone that holds the whole target is used,
///          else the one that holds most of it.
/// Tokens   a repeated client token returns the first answer for a day of domain time; with other parameters it is an
///          IdempotentParameterMismatch.
/// Threads  under the world's lock. Cost: O(p * (log p + i)) for p pairs of override and zone and i instances.
class AwsFleets {
 public:
  AwsFleets(World& world, const AwsTemplates& templates) : world_(world), templates_(templates) {}
  [[nodiscard]] AwsReply create(const AwsCall& call);

 private:
  World& world_;
  const AwsTemplates& templates_;
  ClientTokens<std::string> tokens_;
};

}  // namespace qm::fleet
