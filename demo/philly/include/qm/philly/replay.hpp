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
/// So many GPUs, that share of them in servers of eight.
[[nodiscard]] Fleet fleet_of(std::int64_t gpus, double in_eights);

/// Who is let in, and where.
struct Discipline {
  std::string policy = "quartermaster";  ///< among nodes: one of pack::policy_names()
  bool passing = true;          ///< who fits goes before those that wait and do not; false = first come, first served
  std::int64_t patience_s = 0;  ///< a job that has been pending longer is passed by no other; 0 = no bound
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
  std::int64_t impossible = 0;  ///< jobs that do not fit the empty fleet; they are left out
  double busiest = 0;           ///< largest share of the GPUs that was ever in use
};

/// Plays the trace in virtual time: a job comes, waits until all its pods find a place at once, runs as long as the
/// trace says, and ends. Pods have eight GPUs each, the last one what is left; jobs up to eight GPUs are one pod.
/// Nothing is preempted or moved.
///
/// `jobs` sorted by arrival. The policy weighs the sizes of pods as the trace has them.
///
/// Order    the same input gives the same outcome.
/// Laws     no node is given more GPUs than it has; a job holds all its GPUs or none; asserted.
[[nodiscard]] Outcome replay(const std::vector<trace::Job>& jobs, const Fleet& fleet, const Discipline& discipline);

}  // namespace qm::philly
