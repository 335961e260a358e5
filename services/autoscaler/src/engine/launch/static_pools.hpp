#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "offers/offers.hpp"
#include "state.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Pools with a number of instances, independent of demand.
class StaticPools {
 public:
  StaticPools(State& state, const Facts& facts, Claims& claims, const Offers& offers)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        claims_(claims),
        offers_(offers) {}

  /// The number of instances that each static pool has or gets, without those that are being terminated.
  [[nodiscard]] std::map<std::string, std::int64_t> replicas() const;
  /// Launches up to `replicas` of each static NodePool.
  void keep_replicas();
  /// The surplus nodes of static NodePools that end now: empty ones, the newest first (claims are numbered).
  [[nodiscard]] std::set<ClaimName> surplus_replicas(const std::vector<ClaimName>& candidates) const;
  /// Why a static NodePool has fewer or more nodes than `replicas`.
  void explain_replicas(std::vector<std::string>& lines) const;

 private:
  /// Whether the claim is one of the replicas.
  [[nodiscard]] bool stays(const Claim& c) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  const Offers& offers_;
};

}  // namespace qm::autoscaler
