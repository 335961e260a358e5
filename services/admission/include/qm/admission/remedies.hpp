#pragma once
#include "qm/admission/what_if.hpp"

#include <string>
#include <vector>

namespace qm::admission {

/// A change that admits a pending workload now. It was tried: what_if() of `change` on the same rows admits the workload.
struct Remedy {
  std::string
      code;  ///< "RaiseQuota", "RaiseBorrowingLimit", "RaisePriority", "End", "Tolerate", "Relabel", "FewerPods", "AddFlavor",
             ///< "CoverResource", "CreateFlavor"; of a pair "CoverResource+RaiseQuota"
  std::string message;                 ///< what to do, and what else follows; the workloads are in `workloads` only
  std::vector<WorkloadUid> workloads;  ///< that have to finish first, or are preempted
  Supposed change;
  int others = 0;                           ///< workloads that the change admits in addition
  int preempted = 0;                        ///< workloads that lose their quota by it
  std::string plain = {};                   ///< `message` without what else follows
  std::vector<WorkloadUid> waits_for = {};  ///< `workloads` without those that are preempted
};

/// The remedies of a pending workload that lacks quota or its turn in the queue, at most one of a kind. Where no single change admits it, pairs of
/// changes, neither of which is enough alone. Candidates come from the quota tree; a
/// candidate that first admits workloads ahead of this one grows until it admits this one too, a few times.
///
/// Order    quota, borrowing limit, priority, workloads to finish, flavors, fewer pods, objects that are missing.
/// Fails    never: empty where no change and no pair helps, or nothing of quota or order is in the way (Explanation::may_have_remedies).
/// Threads  any; it reads its arguments only.
/// Bounds   kMostTrials candidates; of pairs six first changes, eight second ones of each, and three results.
/// Cost     that of loading the rows and deciding, for each candidate: those of one quota tree are enough (copied_rows.hpp).
[[nodiscard]] std::vector<Remedy> remedies(const Engine::Tables& rows, const Options& options, const WorkloadUid& uid,
                                           Instant now);
inline constexpr int kMostTrials = 24;

}  // namespace qm::admission
