#pragma once
#include "qm/autoscaler/headroom/headroom.hpp"
#include "qm/base/table.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace qm::autoscaler {

/// What the users of a NodePool were promised: this quantile of the workloads that take free nodes is pending for at
/// most `wait`.
struct HeadroomSlo {
  Duration wait{};
  std::int64_t quantile_ppm = 0;  ///< parts per million
  friend auto operator<=>(const HeadroomSlo&, const HeadroomSlo&) = default;
};

/// Nodes of a type that came into use (positive), or became free (negative), in one step.
struct HeadroomChange {
  Instant at{};
  std::string type;
  std::int64_t nodes = 0;
  friend auto operator<=>(const HeadroomChange&, const HeadroomChange&) = default;
};
/// The changes of a NodePool in one day of UTC, by time.
struct HeadroomDay {
  std::vector<HeadroomChange> changes;
  friend auto operator<=>(const HeadroomDay&, const HeadroomDay&) = default;
};
/// The headroom of a NodePool: its plan, and what was attained since.
struct HeadroomRow {
  HeadroomSlo slo;              ///< of the plan
  Instant since{}, planned{};   ///< start of the history; the last plan
  std::int64_t target_ppm = 0;  ///< planned for; see next_target_ppm
  headroom::Attained recent;    ///< since the last plan
  headroom::Attained total;
  std::vector<Duration> boots;                     ///< the last ones, from launch to ready
  std::map<std::string, headroom::Levels> levels;  ///< by instance type
  friend auto operator<=>(const HeadroomRow&, const HeadroomRow&) = default;
};

/// State of the headroom of NodePools with an SLO.
struct HeadroomTables {
  Table<std::string, HeadroomRow> pools;                         ///< by NodePool
  Table<std::pair<std::string, std::string>, HeadroomDay> days;  ///< (NodePool, day since 1970, 6 digits)
};

}  // namespace qm::autoscaler
