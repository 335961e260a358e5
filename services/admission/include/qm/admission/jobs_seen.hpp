#pragma once
#include "qm/admission/workload.hpp"

#include <optional>
#include <set>
#include <string>

namespace qm::admission {

// ---- commands: what the cluster has of objects that are workloads ----

/// A job as the cluster has it now.
struct JobSeen {
  WorkloadSpec spec;
  bool suspended = true;
  std::int32_t attempt = 0;  ///< written on its pod template; 0 = none
  bool complete = false, failed = false;
  std::int32_t active = 0;       ///< pods that were let go and have not ended
  bool others_place = false;     ///< counts when it is first seen
  std::int32_t ended = 0;        ///< of a Job: pods of those that run at once for which nothing is left to do
  bool pods_ready = false;       ///< all that it wants, or have ended well
  Duration max_execution{0};     ///< counts when it is first seen
  std::optional<bool> wish;      ///< what the object itself says of being tried; nothing = it says nothing
  std::string refused;           ///< why pods of it would be refused; it waits while that holds
  bool pods_to_come = false;     ///< a group of which no pod exists: its pod sets are what it says that they will need
  WholeSeconds waiting_time{0};  ///< of a group in a pool: then room is kept for it; zero = as the pool says
  std::string rejected;      ///< field, value and remedy of what is not supported; the spec has the metadata alone then
  bool as_submitted = true;  ///< the pod sets are those of the author; false = what an attempt added may be in them
  std::int32_t at_once = -1;     ///< of a Job: pods that it runs at once as its object is now; -1 = not known
  bool elastic = false;          ///< of a Job: it may grow while it runs
  std::int32_t ready = -1;       ///< of a Job: pods that are ready or have succeeded; -1 = not known
  std::uint32_t spec_print = 0;  ///< of its object's spec as it was submitted (translate.hpp); 0 = not known
};
struct JobGone {
  WorkloadUid uid;
};
/// The uids of all jobs of a kind that exist; any other that the engine knows is gone.
struct JobsSynced {
  std::set<WorkloadUid> uids;
  bool pods = false;         ///< the list is of workloads that are pods; else of this kind
  std::string kind = "Job";  ///< "PyTorchJob", ...
};

}  // namespace qm::admission
