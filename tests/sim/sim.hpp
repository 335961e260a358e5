#pragma once
#include "world.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::sim {

/// Counters of events, to judge whether a schedule is useful.
struct Counts {
  std::uint64_t starts = 0, batches = 0, crashes = 0, undone = 0, reloads = 0, duplicates = 0, instances = 0;
  std::uint64_t claims = 0, deposed = 0;      ///< of leases; leaders that were deposed
  std::uint64_t restores = 0, rollbacks = 0;  ///< of databases; those that a running process detected
  std::uint64_t lost_events = 0, breaks = 0,
                abandoned = 0;  ///< by restores; histories that broke for a consumer, events that it dropped
  std::uint64_t truncations = 0, recreations = 0, emptied = 0, snapshots = 0;  ///< of topics
  std::uint64_t jumps = 0;                                                     ///< of clocks
  std::uint64_t leaps = 0, rejections = 0;  ///< jumps by hours and their corrections; comparisons that rejected a jump
  std::uint64_t overlaps = 0;               ///< reloads while a call was in progress
  std::uint64_t refused = 0;                ///< calls whose effects the database rejects
  std::uint64_t layouts = 0;                ///< MIG repartitions for pending workloads
  std::uint64_t meetings = 0;               ///< MIG instances allocated on a GPU that another tenant uses too
  std::uint64_t returning = 0;              ///< gangs in recovery, at every tenth check
  std::uint64_t grown = 0;                  ///< pods that were bound to gangs already running without them
  /// Preemption proposals published and withdrawn; events of workloads: preempted, migrated, migrated for another.
  std::uint64_t proposed = 0, withdrawn = 0, preempted = 0, moved = 0, moved_for = 0;

  Counts& operator+=(const Counts& more);
};

/// The result of one seed.
struct Report : Counts {
  std::string failure;                  ///< empty = every law held and everything ended
  std::vector<std::string> last_steps;  ///< newest last
  std::uint64_t hash = 0;               ///< of all actions: equal for equal seeds
  std::string decisions;                ///< digest of the decisions, without texts, see decisions.hpp
  std::string faults;                   ///< the kinds of faults of this seed
};

/// Runs the whole suite from one seed: a period with faults, then a calm period in which everything must end.
///
/// All five services run as in production (shell, host, relay, consumer, executor loop), single-stepped in an order
/// that the seed draws, over the memory bus and memory disks, on a manual clock. Executors and watches use World.
///
/// Laws     those of World after each of its steps; the engines' own checks, versions, time and ledger periodically;
///          at the end every job has finished or was canceled, nothing is held, instances match claims, the bill is
///          exact, and each journal replays to the same digests.
Report run_seed(std::uint64_t seed, Bug bug = Bug::kNone);

/// The last steps of the current run, for a handler of failed assertions.
std::vector<std::string> steps_so_far();
std::uint64_t seed_in_progress();

}  // namespace qm::sim
