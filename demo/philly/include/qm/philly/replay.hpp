#pragma once
#include "qm/base/result.hpp"
#include "qm/trace/trace.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::philly {

/// Servers of eight GPUs and of two, as Philly had.
struct Fleet {
  std::int64_t eights = 0, twos = 0;
  [[nodiscard]] std::int64_t gpus() const { return eights * 8 + twos * 2; }
};
/// A fleet of `gpus` GPUs, of which the share `in_eights` is in servers of eight.
[[nodiscard]] Fleet fleet_of(std::int64_t gpus, double in_eights);

/// The order of admission and the placement policy.
struct Discipline {
  std::string policy = "quartermaster";  ///< among nodes: one of pack::policy_names()
  bool passing = true;          ///< backfill: a job that fits may pass pending jobs; false = first come, first served
  std::int64_t patience_s = 0;  ///< no job may pass one that has been pending longer; 0 = no bound
};

/// Seconds from arrival to start.
struct Waits {
  std::int64_t jobs = 0, waited = 0;
  double mean_s = 0;
  std::int64_t p99_s = 0, longest_s = 0;
};
struct Outcome {
  Waits all;
  std::map<std::string, Waits> by_team;
  std::map<std::int32_t, Waits> by_gpus;
  std::int64_t impossible = 0;  ///< jobs that do not fit the empty fleet; they are skipped
  double busiest = 0;           ///< highest share of the GPUs in use
};

/// Replays the trace in virtual time: a job arrives, is pending until all its pods fit at once, runs for its duration
/// in the trace, and ends. Pods have eight GPUs each, the last one the rest; jobs of up to eight GPUs are one pod. No
/// job is preempted or migrated.
///
/// `jobs` sorted by arrival. The policy weights the sizes of pods by their frequency in the trace.
///
/// Order    the same input gives the same outcome.
/// Laws     no node has more GPUs allocated than it has; a job holds all its GPUs or none; asserted.
[[nodiscard]] Outcome replay(const std::vector<trace::Job>& jobs, const Fleet& fleet, const Discipline& discipline);

}  // namespace qm::philly
