#pragma once
#include "facts.hpp"
#include "launch/new_nodes.hpp"
#include "launch/offer.hpp"
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
      : state_(state), options_(state.options), tables_(state.tables), facts_(facts), nodes_(nodes) {}

  /// The cheapest offer that fits the pods whole; without one `why` gets the reason.
  [[nodiscard]] std::optional<Offer> cheapest(const std::vector<PodSet>& sets,
                                              const std::map<std::string, Usage>& usage, std::string* why) const;
  /// The cheapest offer for one more instance of the pool; with `at_least` of a type that fits the pods of that type.
  [[nodiscard]] std::optional<Offer> cheapest_replica(const Pool& pool, const Usage& in_use, std::string* why,
                                                      const InstanceType* at_least = nullptr) const;

 private:
  /// An offering of a type that fits the pods.
  struct Candidate {
    const InstanceType* type = nullptr;
    std::string zone;
    Market market = Market::kOnDemand;
  };
  [[nodiscard]] std::vector<const Pool*> pools_in_order() const;
  [[nodiscard]] std::string no_pool() const;
  [[nodiscard]] std::string unready_pools() const;
  [[nodiscard]] static std::string missing_values(const Pool& pool, const std::vector<Candidate>& fitting);
  [[nodiscard]] std::int64_t nodes_for(const std::vector<PodSet>& sets, const Pool& pool, const Labels& labels,
                                       const InstanceType& type, const std::string& zone, Market market) const;
  [[nodiscard]] std::vector<Offering> offerings(const Pool& pool, const InstanceType& type,
                                                const std::vector<PodSet>& sets) const;
  void known_zones(const InstanceType& type, std::vector<std::string>& zones) const;
  [[nodiscard]] std::optional<HourlyRate> price(const InstanceType& type, const Offering& offering,
                                                const Pool& pool) const;
  [[nodiscard]] std::string no_type(const std::vector<PodSet>& sets, const std::vector<const Pool*>& pools) const;

  const State& state_;
  const Options& options_;
  const Tables& tables_;
  const Facts& facts_;
  const NewNodes& nodes_;
};

}  // namespace qm::autoscaler
