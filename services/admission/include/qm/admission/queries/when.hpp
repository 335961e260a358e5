#pragma once
#include "qm/admission/forecast/eta.hpp"
#include "qm/admission/options.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/tables.hpp"
#include "qm/base/result.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::admission {

/// Workloads that arrived in this time are the model of future arrivals.
inline constexpr Duration kArrivalsOf = std::chrono::hours(24);

/// The start state for forecasts of a pending workload: its quota tree as in the rows, with the learned run times
/// and the arrivals of the last day.
///
/// Workloads are numbered in the order of their uids. Workloads in back-off count as pending like others.
struct Outlook {
  forecast::Scene scene;
  forecast::Arrivals arrivals;
  int asked = -1;                  ///< the number of the workload in question
  std::vector<WorkloadUid> names;  ///< by number
  forecast::RunTimes::Evidence evidence;
};

/// The start state for forecasts of this workload, or why there are none.
[[nodiscard]] tl::expected<Outlook, Cause> outlook_of(const EngineState& state, const Workload& w, Instant now);

/// When a pending workload will start, or why that is unknown.
///
/// Units    instants of the domain clock; the interval from `low` to `high` is meant to contain the start in four
///          of five cases.
struct When {
  std::optional<Cause> unknown;              ///< then only `evidence` and `declared` are set as well
  std::optional<Instant> low, middle, high;  ///< empty: beyond the horizon in too many futures
  int futures = 0, started = 0;              ///< simulated; those in which it starts
  struct Awaited {
    WorkloadUid uid;
    int futures = 0;  ///< those in which its end freed the last capacity
  };
  std::vector<Awaited> waits_for;           ///< most frequent first, at most three
  forecast::RunTimes::Evidence evidence{};  ///< for its own run time
  forecast::Declared declared;
  std::optional<StartEstimate> record;  ///< the estimate to record; empty if a bound is unknown
};

/// Simulates futures from rows alone: the same rows and `now` give the same answer. `rows` are those of its quota tree;
/// the ended ones show recent arrivals.
///
/// The start is the admission after placement's answer. Nodes are not modeled; the correction covers the delay that
/// they cause.
///
/// Fails    kNotFound: the rows do not have it.
/// Threads  any; it reads only its arguments.
/// Cost     loading the rows and simulating 32 futures (forecast/eta.hpp): seconds with thousands of pending workloads.
[[nodiscard]] Result<When> when(const Tables& rows, const Options& options, const WorkloadUid& uid, Instant now);

}  // namespace qm::admission
