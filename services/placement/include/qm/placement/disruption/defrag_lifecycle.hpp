#pragma once
#include "qm/base/time.hpp"
#include "qm/placement/model.hpp"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <variant>

/// Life cycle of the defragmentation run: its steps, and in each step one migration after the other.
///
///   no plan --search--> step 1 --all its migrations placed--> step 2 --> ... --> no plan
///                         '--a migration ended otherwise, budget spent, step not valid any more--^
namespace qm::placement::disruption {

/// Migrations requested in the current hour.
[[nodiscard]] std::int64_t recent_migrations(const DefragRun& run, Instant now);

struct RunObserved {
  bool migrating = false;       ///< a migration of the step is in progress
  std::set<AttemptId> holding;  ///< attempts of the step that still hold devices
  std::int64_t reclaimed = 0;   ///< nodes of the step that have no members and no other pods
  /// Called at most once, and only if the result decides. It may update the targets of the step.
  std::function<bool(DefragStep&)> step_is_valid;
};

/// The plan ends; the next search follows after the period.
struct EndRun {
  std::string why;
  friend bool operator==(const EndRun&, const EndRun&) = default;
};
/// The first migration of the step is requested.
struct Migrate {
  friend bool operator==(const Migrate&, const Migrate&) = default;
};
/// All migrations of the step are placed; the next step begins.
struct NextStep {
  friend bool operator==(const NextStep&, const NextStep&) = default;
};
/// Nothing to do now.
struct Wait {
  friend bool operator==(const Wait&, const Wait&) = default;
};
struct RunStep {
  DefragRun run;
  std::variant<Wait, EndRun, Migrate, NextStep> action;
};

/// `run` must be active.
///
/// Threads  any; reads only its arguments.
[[nodiscard]] RunStep advance_run(DefragRun run, const RunObserved& seen, Instant now, const DefragOptions& options);

}  // namespace qm::placement::disruption
