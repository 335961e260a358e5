#pragma once
#include "qm/admission/queries/what_if.hpp"

#include <string>
#include <vector>

namespace qm::admission {

/// A change that admits a pending workload now. It is verified: what_if() of `change` on the same rows admits the
/// workload.
struct Remedy {
  /// "RaiseQuota", "RaiseBorrowingLimit", "RaisePriority", "End", "Tolerate", "Relabel", "FewerPods", "AddFlavor",
  /// "CoverResource", "CreateFlavor"; of a pair "CoverResource+RaiseQuota".
  std::string code;
  std::string message;                 ///< what to do, and its side effects; the workloads are in `workloads` only
  std::vector<WorkloadUid> workloads;  ///< those that have to finish first, or are preempted
  HypotheticalChange change;
  int others = 0;                           ///< workloads that the change admits in addition
  int preempted = 0;                        ///< workloads that lose their quota by the change
  std::string plain = {};                   ///< `message` without the side effects
  std::vector<WorkloadUid> waits_for = {};  ///< `workloads` without the preempted ones
};

/// The remedies of a pending workload that is blocked by quota or by queue order, at most one of a kind. If no single
/// change admits it, pairs of changes, neither of which suffices alone. Candidates come from the quota tree. A
/// candidate that first admits workloads ahead of this one is increased until it admits this one too, a few times.
///
/// Order    quota, borrowing limit, priority, workloads to finish, flavors, fewer pods, missing objects.
/// Fails    never: empty if no change and no pair helps, or if neither quota nor order blocks it
///          (Explanation::may_have_remedies).
/// Threads  any; it reads only its arguments.
/// Bounds   kMostTrials candidates; for pairs six first changes, eight second changes of each, and three results.
/// Cost     loading the rows and deciding, for each candidate. The rows of one quota tree are sufficient
///          (copied_rows.hpp).
[[nodiscard]] std::vector<Remedy> remedies(const Tables& rows, const Options& options, const WorkloadUid& uid,
                                           Instant now);
inline constexpr int kMostTrials = 24;

}  // namespace qm::admission
