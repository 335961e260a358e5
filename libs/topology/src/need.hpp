#pragma once
#include "qm/topology/search.hpp"

namespace qm::topology {

/// A request in the levels of a tree.
struct Search::Need {
  Pods pods = 0;
  Pods leaders = 0;
  SliceShape slices;
  std::vector<SliceLayer> layers;  ///< as requested, if there is more than one
  int level = 0;
  bool required = false;
  bool unconstrained = false;
  [[nodiscard]] Pods slice_count() const { return pods / slices.size; }
};

}  // namespace qm::topology
