#pragma once
#include "qm/base/time.hpp"

#include <chrono>
#include <map>
#include <string>

namespace qm::admission {

/// How past usage of local queues is weighed (Kueue's admissionFairSharing).
struct UsageMemory {
  Duration half_life = std::chrono::hours(168);  ///< zero: queues that order by usage order by priority and age
  Duration sampling = std::chrono::minutes(5);
  std::map<std::string, double> weights;  ///< of one unit of a resource; default 1
};

/// The rules by which admission is decided.
struct Rules {
  bool kueue_cycles = false;  ///< in cycles, as Kueue decides; otherwise continuously
  bool fair_sharing = false;  ///< admission order and choice of victims go by shares
  /// A victim may preempt its preemptor again once this time has passed and then a workload has arrived or ended.
  Duration preemption_cooldown = std::chrono::minutes(10);
  int cheaper_plan_searches = 20;  ///< searches for less expensive victims, for each preemption; not used in cycles
  UsageMemory usage;
  Duration restart = std::chrono::minutes(2);  ///< assumed time for a preempted workload to reach its saved state again
};

}  // namespace qm::admission
