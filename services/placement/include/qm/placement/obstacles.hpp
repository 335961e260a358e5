#pragma once
#include "qm/placement/preference.hpp"

#include <functional>
#include <string>
#include <vector>

namespace qm::placement {

/// A change with which a gang fits.
struct Way {
  std::string words;                    ///< "with 40 pods instead of 64"
  std::function<void(PodSet&)> change;  ///< makes it; none where it is not the gang's to make (a node back in service)
};

/// Why a gang has no place, and what would give it one.
struct Obstacles {
  std::string pod_set;  ///< the first that finds no place beside those before it; empty where all do
  std::vector<std::string>
      conflict;           ///< the fewest demands that the nodes cannot meet together, whatever else is given up
  std::vector<Way> ways;  ///< of one thing, or two where one is not enough: with each the gang fits now
};

/// Looks at every node once and counts; each way is tried by the search itself where there are several pod sets, and follows
/// from the count of pods that fit where there is one.
///
/// Order    ways: fewer pods, smaller pods, then what a pod may do without: selectors, tolerations, models, nodes out of service;
///          where none of these helps, fewer pods that do without one.
/// The preference must be prepared where there are several pod sets.
///
/// Threads  any; reads only its arguments.
/// Cost     O(nodes) with a small constant: one to three milliseconds at 5,000 nodes for one pod set; obstacles_bench.cpp.
[[nodiscard]] Obstacles obstacles_of(const std::vector<PodSet>& pod_sets, const Rooms& rooms,
                                     const Preference& preference);

}  // namespace qm::placement
