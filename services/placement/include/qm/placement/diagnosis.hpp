#pragma once
#include "qm/placement/placement_request.hpp"
#include "qm/placement/policy.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace qm::placement {

/// A remedy: a change of the request with which the gang fits.
struct Remedy {
  std::string words;  ///< "with 40 pods instead of 64"
  std::function<void(PlacementRequest&)>
      change;  ///< applies it; none if the gang cannot change it (a node back in service)
};

/// Diagnosis of a gang without a placement: the conflict, and remedies.
struct Diagnosis {
  /// The first set without a placement after all earlier sets have theirs. Empty if all are placed, and if no
  /// nodes could help: then `conflict` is a sentence.
  std::string pod_set;
  /// Minimal set of constraints that the nodes cannot meet together.
  std::vector<std::string> conflict;
  std::vector<Remedy> remedies;  ///< of one change, or two if one is not enough: with each of them the gang fits now
};

/// A constraint of pods outside of their shape: location of a claim's volume, inter-pod rules, GPU pool.
struct Demand {
  std::string words;                               ///< "claim data with volume pv-1 (zone in (b))"
  std::string remedy;                              ///< as text of a remedy: "without claim data"
  std::function<void(PlacementRequest&)> relax{};  ///< removes it
  bool moves = false;                              ///< the gang's own pods change which nodes it excludes
  /// Label key: all nodes with the same value fit one such pod together. Empty = no such limit.
  std::string one_by{};
};
struct Demands {
  std::vector<Demand> all;  ///< up to kMaxDemands
  /// Bit i: the node fails the i-th constraint, and no pod of the gang changes that. Empty if there is none.
  std::function<std::uint32_t(const NodeName&, const NodeCapacity&)> failed;
  bool weighs = false;  ///< scores of soft rules differ, so a placement scores all nodes again for each pod
};
inline constexpr std::size_t kMaxDemands = 12;

/// The placement algorithm of the engine, for hypothetical requests.
class Trial {
 public:
  virtual ~Trial() = default;
  /// Constraints of the pods of the set at that position, in addition to their shape.
  [[nodiscard]] virtual Demands demands(const PlacementRequest& request, std::size_t position) const = 0;
  /// Places the gang on these nodes, and updates `free_capacity` if it fits.
  [[nodiscard]] virtual PlacementResult place(const PlacementRequest& request, FreeCapacity& free_capacity) const = 0;
  /// Whether the gang fits; faster, and leaves `free_capacity` unchanged.
  [[nodiscard]] virtual bool fits(const PlacementRequest& request, FreeCapacity& free_capacity) const {
    FreeCapacity tried = free_capacity;
    return place(request, tried).plan.has_value();
  }
  /// For a request with a topology: why these nodes cannot meet it, and remedies. None without a topology.
  [[nodiscard]] virtual std::optional<Diagnosis> near(const PlacementRequest& request,
                                                      const FreeCapacity& free_capacity) const = 0;
};

/// Reads every node once and counts an upper bound of the pods that fit, without the constraints among the
/// gang's own pods. What fails by this count is a conflict. If the count finds none and the placement still
/// fails, constraints are removed one by one, each time with a placement. This ends when all that are left are
/// needed. Every remedy is verified by a placement on nodes that are enough by the count.
///
/// Order    remedies: fewer pods, smaller pods, then dropped constraints: selectors, claims, inter-pod rules,
///          tolerations, models, nodes out of service; if none of these helps, fewer pods without one of the
///          constraints.
/// Threads  as the trial; otherwise reads only its arguments. `free_capacity` is unchanged afterwards.
/// Bounds   with inter-pod rules and more than kMaxTried candidate nodes, remedies are tried on an even
///          sample of them.
/// Cost     O(nodes) with a small constant, and a placement on few nodes for each remedy;
///          diagnosis_bench.cpp.
[[nodiscard]] Diagnosis diagnose_request(const PlacementRequest& request, FreeCapacity& free_capacity,
                                         const Trial& trial);
inline constexpr std::size_t kMaxTried = 500;

}  // namespace qm::placement
