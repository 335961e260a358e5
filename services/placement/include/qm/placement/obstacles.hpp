#pragma once
#include "qm/placement/asked.hpp"
#include "qm/placement/policy.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace qm::placement {

/// A change with which a gang fits.
struct Way {
  std::string words;                   ///< "with 40 pods instead of 64"
  std::function<void(Asked&)> change;  ///< makes it; none where it is not the gang's to make (a node back in service)
};

/// Why a gang has no place, and what would give it one.
struct Obstacles {
  /// The first that finds no place once those before it have theirs. Empty where all do, and where no nodes could help: then the conflict is a sentence.
  std::string pod_set;
  std::vector<std::string>
      conflict;  ///< demands that the nodes cannot meet together, whatever else is given up; none of them can be left out
  std::vector<Way> ways;  ///< of one thing, or two where one is not enough: with each the gang fits now
};

/// A demand of pods that is not in their shape: where a claim's volume is, who may be beside them, which GPUs they are for.
struct Demand {
  std::string words;                   ///< "claim data with volume pv-1 (zone in (b))"
  std::string lifted;                  ///< as words of a way: "without claim data"
  std::function<void(Asked&)> lift{};  ///< gives it up
  bool moves = false;                  ///< the gang's own pods change whom it keeps out
  std::string
      one_by{};  ///< the label of which nodes with the same value take one such pod together; empty = no such bound
};
struct Demands {
  std::vector<Demand> all;  ///< up to kMostDemands
  /// Bit i: the node does not meet the i-th, and no pod of the gang's own will change that. Empty where there is none.
  std::function<std::uint32_t(const NodeName&, const Room&)> failed;
  bool weighs = false;  ///< soft rules tell nodes apart, and a decision looks at all of them again for each pod
};
inline constexpr std::size_t kMostDemands = 12;

/// The decision as it would be, for questions.
class Trial {
 public:
  virtual ~Trial() = default;
  /// What pods of the set of that position demand beside their shape.
  [[nodiscard]] virtual Demands demands(const Asked& asked, std::size_t position) const = 0;
  /// Among these rooms, which change where it finds a place.
  [[nodiscard]] virtual Placed place(const Asked& asked, Rooms& rooms) const = 0;
  /// Whether it finds one; quicker, and the rooms stay as they are.
  [[nodiscard]] virtual bool fits(const Asked& asked, Rooms& rooms) const {
    Rooms tried = rooms;
    return place(asked, tried).plan.has_value();
  }
  /// Where a topology is asked for: why these rooms do not have the gang near together, and what would do. None where none is asked for.
  [[nodiscard]] virtual std::optional<Obstacles> near(const Asked& asked, const Rooms& rooms) const = 0;
};

/// Looks at every node once and counts how many pods it would take, whatever the gang's own pods do to one another: never fewer than fit. So
/// what the count says cannot be is a conflict. Where it finds none and the decision still says no, demands are left out one after the other,
/// each time by a decision, until each that is left is needed. Every way is tried by the decision, on nodes that the count says are enough.
///
/// Order    ways: fewer pods, smaller pods, then what a pod may do without: selectors, claims, neighbours, tolerations, models, nodes out of
///          service; where none of these helps, fewer pods that do without one.
/// Threads  as the trial has it; else reads only its arguments. The rooms are as before when it ends.
/// Bounds   where neighbours matter, and over kMostTried nodes might do, ways are tried on a part of them, evenly chosen.
/// Cost     O(nodes) with a small constant, and a decision on few nodes for each way; obstacles_bench.cpp.
[[nodiscard]] Obstacles obstacles_of(const Asked& asked, Rooms& rooms, const Trial& trial);
inline constexpr std::size_t kMostTried = 500;

}  // namespace qm::placement
