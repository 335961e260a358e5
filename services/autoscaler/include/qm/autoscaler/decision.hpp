#pragma once
#include "qm/autoscaler/commands.hpp"
#include "qm/model/money.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// Why a candidate is not launched, in the order in which an explanation lists them.
enum class Rejection : std::uint8_t {
  kNone,         ///< it is the choice
  kCost,         ///< it fits, and the choice costs less
  kPoolOrder,    ///< it fits, and a NodePool with a higher weight has an offer
  kNoCapacity,   ///< the provider refused it lately
  kLimit,        ///< it exceeds spec.limits of the NodePool
  kPolicy,       ///< the reliability profile allows another capacity type
  kMinValues,    ///< the offerings that fit have too few values of a label
  kFaulty,       ///< its instances did not become ready lately
  kTooMany,      ///< more instances than one launch may have
  kNoPrice,      ///< spot capacity without a known price
  kNotAllowed,   ///< its pods fit, and the requirements of the NodePool exclude the type
  kDoesNotFit,   ///< its pods do not fit
  kLabels,       ///< no node of the NodePool has the labels that all pods select
  kPoolNotUsed,  ///< the NodePool is not ready, static, or sized manually
};
/// "Chosen", "MoreExpensive", "LimitExceeded", ...
[[nodiscard]] std::string_view name_of(Rejection rejection);

/// One way to launch the instances for a demand item: NodePool, instance type, zone and market.
struct CapacityCandidate {
  std::string pool, type, zone;  ///< an empty zone: the cloud selects it; an empty type: the whole NodePool
  Market market = Market::kOnDemand;
  std::int64_t nodes = 0;  ///< 0 = its pods do not fit
  Money node_per_hour;     ///< price of one instance
  Money per_hour;          ///< of all of them
  Rejection rejection = Rejection::kNone;
  std::string why;  ///< with the numbers that decide
  friend auto operator<=>(const CapacityCandidate&, const CapacityCandidate&) = default;
};

/// A lower bound of the price of instances for pods: no launch from the candidates costs less. Limits of NodePools are
/// ignored.
struct PriceBound {
  Money per_hour;
  std::string by;  ///< what decides: a resource, or the pods of a set that fit one instance; empty = nothing fits
  friend auto operator<=>(const PriceBound&, const PriceBound&) = default;
};

/// What is launched for a demand item, or why nothing is.
struct CapacityDecision {
  DemandUpdated::Item item;
  std::string title, outcome;                 ///< "namespace/name"; one sentence
  std::vector<ClaimName> claims;              ///< its instances that start
  std::int64_t pods = 0, in_room = 0;         ///< of all sets; those that fit running nodes
  PriceBound bound;                           ///< for the pods without room
  std::vector<CapacityCandidate> candidates;  ///< the choice, then by rejection and price
  std::map<Rejection, std::int64_t> counts;   ///< of all candidates, also those that are not listed
};

/// The number of candidates of one explanation if the caller does not choose another.
inline constexpr std::size_t kCandidatesListed = 20;

}  // namespace qm::autoscaler
