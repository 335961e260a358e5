#pragma once
#include "qm/placement/mig_repartition.hpp"
#include "qm/placement/relayout.hpp"

#include <map>
#include <optional>
#include <string>

namespace qm::placement {

/// MIG partitioning of a node's GPUs: the newest order and its progress.
struct Repartition {
  std::optional<relayout::Row> order;    ///< the newest order; it stays here after it has ended
  bool by_default = false;               ///< the order comes from the default layout
  std::string written_label;             ///< last layout written to the label in this phase
  std::map<std::string, Instant> asked;  ///< by occupant: when it was asked to save and leave
  Instant wake{};                        ///< next time to evaluate the order; zero = none
  Instant differs_since{};               ///< since then the node advertises other devices than its labeled layout has
  bool mismatch = false;                 ///< the difference has lasted past the limit and needs a person
  std::optional<RepartitionHold> reserved_for;  ///< pending workload that it is for; none = by a user or by default
  friend auto operator<=>(const Repartition&, const Repartition&) = default;
};
/// Layout of nodes that have no order of their own.
struct DefaultLayout {
  std::string layout;           ///< empty = none
  bool override_label = false;  ///< also where the node's label names another layout
  friend auto operator<=>(const DefaultLayout&, const DefaultLayout&) = default;
};

}  // namespace qm::placement
