#pragma once
#include "qm/placement/gang/request.hpp"

#include <vector>

namespace qm::placement::gang {

inline std::size_t at(Level level) { return static_cast<std::size_t>(level); }

/// A request with its groups in one list, each before its children.
struct Shape {
  struct Set {
    PodSet asked;
    Kind kind;
    std::int32_t group = 0;
  };
  struct Team {
    std::int32_t parent = -1;
    Level required = kFleet, preferred = kFleet;
    std::int32_t first_set = 0, end_set = 0;  // its own sets and those of its descendants
    std::int32_t end_own = 0;                 // [first_set, end_own) are its own
  };
  std::vector<Set> sets;
  std::vector<Team> teams;
  bool exclusive = false;
};

/// The request must be valid.
[[nodiscard]] Shape flatten(const Request& request, const Tree& tree);

/// The measure by which sets are ordered where the larger one comes first: GPUs, then CPU.
[[nodiscard]] inline std::int64_t demand(const Shape::Set& set, std::int32_t count) {
  return count * (set.kind.pod.total_milli() * 1'000'000 + set.kind.pod.cpu_milli);
}

/// Pods of each set on one node.
struct Load {
  NodeId node = 0;
  std::vector<std::int32_t> pods;  // by set
};

/// The placement of a gang's pods, node by node.
struct Plan {
  std::vector<Load> loads;  // each node once
  std::int64_t cost = 0;
  bool exact = true;
};

/// The weights of the options, or the default ones; the weight of level 0 is 0.
[[nodiscard]] std::vector<std::int64_t> weights_of(const Options& options, Level depth);

}  // namespace qm::placement::gang
