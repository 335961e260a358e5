#pragma once
#include "qm/admission/engine.hpp"
#include "qm/admission/forecast/eta.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::admission {

/// Who came in this time tells who will come.
inline constexpr Duration kArrivalsOf = std::chrono::hours(24);

/// Where the futures of a waiting workload begin: its quota tree as the rows have it, with the run times that were learned and the
/// arrivals of the last day.
///
/// Workloads are numbered in the order of their uids. Who backs off is taken to wait as the others do.
struct Outlook {
  forecast::Scene scene;
  forecast::Arrivals arrivals;
  int asked = -1;                  ///< the number of the workload that is asked about
  std::vector<WorkloadUid> names;  ///< by number
  forecast::RunTimes::Evidence evidence;
};

/// When a workload that waits will start, or why that cannot be said.
///
/// Units    instants of the domain clock; the interval from `low` to `high` is meant to hold four truths of five.
struct When {
  std::optional<Cause> unknown;              ///< then nothing else is filled in but `evidence` and `declared`
  std::optional<Instant> low, middle, high;  ///< nothing: not within the horizon in enough futures
  int futures = 0, started = 0;              ///< played; in which it starts
  struct Awaited {
    WorkloadUid uid;
    int futures = 0;  ///< in which its end gave the last room
  };
  std::vector<Awaited> waits_for;           ///< most often first, at most three
  forecast::RunTimes::Evidence evidence{};  ///< of its own run time
  forecast::Declared declared;
  std::optional<Said> said;  ///< to be remembered; nothing where an end is unknown
};

/// Plays futures from rows alone: the same rows and the same `now` give the same answer. `rows` are those of its quota tree; the
/// ended ones among them tell who came of late.
///
/// Start is what placement's answer brings on; nodes are not looked at, and what they cost is left to the correction.
///
/// Fails    kNotFound: it is not among the rows.
/// Threads  any; it reads its arguments only.
/// Cost     that of loading the rows and of playing 32 futures (forecast/eta.hpp): seconds where thousands wait.
[[nodiscard]] Result<When> when(const Engine::Tables& rows, const Options& options, const WorkloadUid& uid,
                                Instant now);

}  // namespace qm::admission
