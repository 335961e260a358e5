#pragma once
#include "facts.hpp"
#include "launch/new_nodes.hpp"
#include "offers/offer.hpp"
#include "offers/offers.hpp"
#include "qm/autoscaler/pack/problem.hpp"
#include "state.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Instances for pods that need no common start, planned together by the packing library: pods of different workloads
/// share instances where that costs less.
///
/// Cost     about 20 us a pod for each NodePool, see pack/plan.hpp.
class JointPlanner {
 public:
  JointPlanner(const State& state, const Facts& facts, const NewNodes& nodes, const Offers& offers)
      : state_(state), options_(state.options), facts_(facts), nodes_(nodes), offers_(offers) {}

  using Items = std::vector<const DemandUpdated::Item*>;
  /// An instance to launch, and its pods.
  struct Node {
    struct Pods {
      std::size_t item = 0;  ///< index in the planned items
      std::int32_t set = 0;
      std::int32_t count = 0;
    };
    Offer offer;             ///< of one instance
    std::vector<Pods> pods;  ///< by item, then set
  };
  struct Plan {
    std::vector<Node> nodes;  ///< by their first pods
    Money per_hour;           ///< sum of the prices
    double gap = 0;           ///< instances for the same pods cost at most this part less
  };
  /// Whether its pods may be planned with those of other items: a single pod, or pods that a running gang lacks, with
  /// constraints that the packing library knows.
  [[nodiscard]] bool plans(const DemandUpdated::Item& item) const;
  /// Instances for pods of these items; pods without one fit no offering. Empty if the items have to be launched one by
  /// one: a limit is exceeded, so that the priority decides, or a NodePool has minValues.
  [[nodiscard]] Plan plan(const Items& items, const std::map<std::string, Usage>& usage) const;

  /// Types of whose instances one did not become ready recently are the last resort; after a second they are none.
  enum class Types : std::uint8_t { kWithoutFault, kWithFault };
  /// A pod without an instance yet.
  struct Pending {
    std::size_t item = 0;
    std::int32_t set = 0;
  };
  /// A problem of the packing library, and the offerings of its types.
  struct Problem {
    struct Type {
      const InstanceType* type = nullptr;
      std::vector<Offering> offerings;
    };
    pack::Problem problem;
    std::vector<Type> types;
  };
  [[nodiscard]] Problem problem_of(const Pool& pool, Types types, const Items& items,
                                   const std::vector<Pending>& pending) const;

 private:
  [[nodiscard]] bool has_any(const Pool& pool, Types types) const;
  [[nodiscard]] bool is_of(const Pool& pool, const std::string& type, Types types) const;
  void add_types(const Pool& pool, Types types, const std::vector<PodSet>& sets, Problem& out) const;
  /// Plans pods on nodes of the pool and removes them from `pending`; false if the items have to be launched one by one.
  struct Sum {
    Plan plan;
    double cost = 0, bound = 0;
  };
  [[nodiscard]] bool plan_pool(const Pool& pool, Types types, const Items& items, Usage& in_use,
                               std::vector<Pending>& pending, Sum& out) const;
  [[nodiscard]] bool fits(const Node& node, const Items& items) const;

  const State& state_;
  const Options& options_;
  const Facts& facts_;
  const NewNodes& nodes_;
  const Offers& offers_;
};

}  // namespace qm::autoscaler
