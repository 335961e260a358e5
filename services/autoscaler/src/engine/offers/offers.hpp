#pragma once
#include "facts.hpp"
#include "launch/new_nodes.hpp"
#include "offers/offer.hpp"
#include "offers/pool_choice.hpp"
#include "offers/reserved.hpp"
#include "qm/autoscaler/gang_launch/alternatives.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Offerings (type, zone, market) of pools: prices, how many nodes pods need, and the cheapest one.
///
/// Cost     offerings of the pools, for each request.
class Offers {
 public:
  Offers(const State& state, const Facts& facts, const NewNodes& nodes)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        nodes_(nodes),
        choice_(state, nodes),
        reserved_(state) {}

  /// The cheapest offer that fits the pods whole; without one `why` gets the reason. `zone`: only in this zone.
  /// `expected`: the declared run time of the pods, in which a reservation must not end; 0 = unknown.
  [[nodiscard]] std::optional<Offer> cheapest(const std::vector<PodSet>& sets,
                                              const std::map<std::string, Usage>& usage, std::string* why,
                                              const std::string& zone = {}, Duration expected = {}) const;
  /// Whether paid instances of a reservation are free: pods use these first, one workload after the other.
  [[nodiscard]] bool reservation_is_free() const { return reserved_.any_free(); }
  /// The pools that launch for demand: the heaviest first, then the last by name, as in Karpenter.
  [[nodiscard]] std::vector<const Pool*> pools_in_order() const;
  /// The weight of the heaviest NodePool with a type that the item's pods fit, by workload. Empty if all pools that launch
  /// for demand have the same weight.
  [[nodiscard]] std::map<WorkloadUid, std::int32_t> heaviest(
      const std::vector<const DemandUpdated::Item*>& items) const;
  /// The offerings of the type in the pool that have a price and are not known to lack capacity. `sets`: pods whose zones
  /// are offered too, if the pool has any zone.
  struct Priced {
    Offering offering;
    HourlyRate rate;
  };
  [[nodiscard]] std::vector<Priced> available(const Pool& pool, const InstanceType& type,
                                              const std::vector<PodSet>& sets) const;
  /// The price of the claim's instance now, 0 of a reserved one; none without its NodePool, its type or a price.
  [[nodiscard]] std::optional<HourlyRate> price_of(const Claim& claim) const;
  /// The cheapest offer for one more instance of the pool; with `at_least` of a type that fits the pods of that type.
  [[nodiscard]] std::optional<Offer> cheapest_replica(const Pool& pool, const Usage& in_use, std::string* why,
                                                      const InstanceType* at_least = nullptr) const;

 private:
  friend class Candidates;  ///< explains the same offerings
  /// An offering of a type that fits the pods.
  struct Candidate {
    const InstanceType* type = nullptr;
    std::string zone;
    std::string capacity_type;
  };
  /// The offerings, by rank, that the cloud may choose instead of `best` in the same request: as many nodes of the same
  /// market, in known zones, that use no more of the limits, and as spot cost at most the cheapest on demand.
  [[nodiscard]] std::vector<LaunchOption> others_of(const Offer& best, const std::vector<Offer>& offers,
                                                    const std::vector<std::size_t>& order) const;
  [[nodiscard]] Alternative alternative(const Offering& offering, std::int64_t nano_usd_hour) const;
  [[nodiscard]] std::string no_pool() const;
  [[nodiscard]] std::string unready_pools() const;
  [[nodiscard]] static std::string missing_values(const Pool& pool, const std::vector<Candidate>& fitting);
  [[nodiscard]] std::int64_t nodes_for(const std::vector<PodSet>& sets, const Pool& pool, const Labels& labels,
                                       const InstanceType& type, const Offering& offering) const;
  /// The offerings of the type with prices, those of reservations first.
  [[nodiscard]] std::vector<Priced> candidates(const Pool& pool, const InstanceType& type, const Labels& labels,
                                               const std::vector<PodSet>& sets, const std::string& zone,
                                               Duration expected, bool& zoneless) const;
  [[nodiscard]] std::vector<Offering> offerings(const Pool& pool, const InstanceType& type,
                                                const std::vector<PodSet>& sets) const;
  static void keep_zone(const Pool& pool, const std::string& zone, std::vector<Offering>& offerings);
  void known_zones(const InstanceType& type, std::vector<std::string>& zones) const;
  [[nodiscard]] bool lacks_capacity(const Offering& offering) const;
  [[nodiscard]] std::optional<HourlyRate> price(const InstanceType& type, const Offering& offering,
                                                const Pool& pool) const;
  [[nodiscard]] std::string no_type(const std::vector<PodSet>& sets, const std::vector<const Pool*>& pools) const;

  const State& state_;
  const Options& options_;
  const Tables& tables_;
  const Facts& facts_;
  const NewNodes& nodes_;
  const PoolChoice choice_;
  const ReservedOfferings reserved_;
};

}  // namespace qm::autoscaler
