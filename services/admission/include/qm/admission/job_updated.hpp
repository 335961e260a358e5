#pragma once
#include "qm/admission/workload.hpp"

#include <optional>
#include <set>
#include <string>

namespace qm::admission {

// ---- commands: observed objects that are workloads ----

/// A job as observed in the cluster.
struct JobUpdated {
  WorkloadSpec spec;
  bool suspended = true;
  std::int32_t attempt = 0;  ///< from its pod template; 0 = none
  bool complete = false, failed = false;
  std::int32_t active = 0;          ///< ungated pods that have not ended
  bool external_scheduler = false;  ///< used when it is first observed
  std::int32_t ended = 0;           ///< of a Job: of the pods that run at once, those with no work left
  bool pods_ready = false;          ///< all required pods are ready, or have succeeded
  Duration max_execution{0};        ///< used when it is first observed
  std::optional<bool> spec_active;  ///< `spec.active` of the object itself; empty = not set
  std::string refused;              ///< why its pods would be refused; it is not scheduled while this is set
  bool pods_expected = false;       ///< a group without pods: its pod sets are what it declares that they will need
  WholeSeconds waiting_time{0};     ///< of a group in a pool: then capacity is kept for it; zero = as the pool
  std::string rejected;      ///< field, value and remedy of an unsupported request; the spec then has the metadata only
  bool as_submitted = true;  ///< pod sets are as the author wrote them; false = they may include what an attempt added
  std::int32_t at_once = -1;     ///< of a Job: pods that run at once by its current object; -1 = unknown
  bool elastic = false;          ///< of a Job: it may scale up while it runs
  std::int32_t ready = -1;       ///< of a Job: pods that are ready or have succeeded; -1 = unknown
  std::uint32_t spec_print = 0;  ///< hash of the spec as submitted (translate.hpp); 0 = unknown
};
struct JobDeleted {
  WorkloadUid uid;
};
/// The uids of all existing jobs of a kind; any other job that the engine knows was deleted.
struct JobsSynced {
  std::set<WorkloadUid> uids;
  bool pods = false;         ///< the list is of workloads of pods; otherwise of this kind
  std::string kind = "Job";  ///< "PyTorchJob", ...
};

}  // namespace qm::admission
