#pragma once
#include "facts.hpp"
#include "offers/offers.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace qm::autoscaler {

/// The headroom of NodePools with an SLO, as virtual buffers of whole nodes.
///
/// History  nodes that come into use, by demand or by pods on a free node, and nodes that become free again; 28 days.
///          Those of one step are one arrival: it is covered if all of them are ready, or will be within the wait.
/// Plan     the library `headroom`, every 6 h, from the history before; each instance type is a shape.
/// Level    of the plan, by the largest burst of the last 4 h. It changes with the burst, without a new plan.
/// Demand   has precedence: where free nodes fill a limit that one of the first 20 pending gangs needs, the pool keeps
///          none.
class HeadroomSlos {
 public:
  HeadroomSlos(State& state, const Facts& facts, const Offers& offers)
      : state_(state), tables_(state.tables), facts_(facts), offers_(offers) {}

  /// Records what changed since the last step, and plans where it is time.
  void record();
  /// Free nodes to keep now: one virtual pod for each node, by pool and type.
  [[nodiscard]] std::vector<Buffer> buffers() const;
  /// One line for each pool: the SLO, and what was attained.
  void explain(std::vector<std::string>& lines) const;
  /// When a plan is due, or a burst is not recent any more.
  [[nodiscard]] std::optional<Instant> next() const;

 private:
  using History = std::map<std::string, std::vector<headroom::Change>>;  // by type
  struct Taken {
    std::int64_t taken = 0, freed = 0;
    bool late = false;
  };
  void record(const Pool& pool, const std::set<ClaimName>& planned);
  void append(const std::string& pool, const std::string& type, std::int64_t nodes);
  void plan(const Pool& pool);
  void forget_pools_without_slo();
  [[nodiscard]] bool is_used(const ClaimName& name, const Claim& c, const std::set<ClaimName>& planned) const;
  [[nodiscard]] History history(const std::string& pool, Instant from, Instant until) const;
  [[nodiscard]] Duration boot_of(const HeadroomRow& row) const;
  [[nodiscard]] std::int64_t most_of(const Pool& pool, const InstanceType& type) const;
  /// Whether a pending gang needs the part of the pool's limits that free nodes use.
  [[nodiscard]] bool yields(const Pool& pool) const;

  State& state_;
  Tables& tables_;
  const Facts& facts_;
  const Offers& offers_;
};

}  // namespace qm::autoscaler
