#pragma once
#include "qm/base/time.hpp"
#include "qm/placement/model.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

/// Life cycles of the rows that hold capacity while work is evicted or migrated.
///
///   preemption   kProposed --accepted--> kAccepted --victims are gone--> placed, or repartitions are ordered
///                    |  ^                     |
///                    |  '--published again    '--does not fit any more--.
///                    '--refused, unanswered, would not be made again----'--> dropped
///
///   migration    kProposed --accepted, or evicted before the answer--> kAccepted --placed--> dropped
///                    '--refused, unanswered, step not valid any more--> dropped <--late--'
///
///   recovery     kRecovering --next attempt placed, too late, workload ended--> dropped
///
/// Every action follows from the row, what is observed, and the time. Lost replies, restarts and leader changes
/// therefore need no special handling.
namespace qm::placement::disruption {

/// The workload of a row.
struct WorkloadObserved {
  bool exists = false;
  std::int32_t attempt = 0;
  WorkloadPhase phase = WorkloadPhase::kPending;
};

/// The row ends and releases its capacity.
struct Drop {
  std::string why;
  Instant next{};  ///< no search for the workload before
  friend bool operator==(const Drop&, const Drop&) = default;
};
/// The row is published, for the first time or again.
struct Publish {
  friend bool operator==(const Publish&, const Publish&) = default;
};
/// Admission agreed, or the migrating workload was evicted before its answer.
struct Accept {
  friend bool operator==(const Accept&, const Accept&) = default;
};
/// The victims are gone: the MIG repartitions of the row are ordered.
struct OrderRepartitions {
  friend bool operator==(const OrderRepartitions&, const OrderRepartitions&) = default;
};
using Action = std::variant<Drop, Publish, Accept, OrderRepartitions>;

struct Step {
  Proposal row;
  std::vector<Action> actions;
};

/// Next timer of an active row; Instant::max() = none.
[[nodiscard]] Instant wake_at(const Proposal& row, const PreemptionOptions& preemption, const DefragOptions& defrag);

// ---- preemption ----

struct PreemptionObserved {
  std::size_t victims_left = 0;  ///< victims that still hold their devices
  bool changed = false;          ///< held nodes or the answer have changed
  /// Called at most once, and only if the result decides.
  std::function<bool()> still_fits;  ///< whether the workload and its migrated victims fit once the victims are gone
  std::function<bool()> made_again;  ///< whether a search would make it again at no higher cost
};

/// Whether the workload is not pending any more with the attempt of the proposal.
[[nodiscard]] bool is_over(const Proposal& row, const WorkloadObserved& workload);
/// Runs after all workloads were placed: a proposal that is still there did not fit.
///
/// Threads  any; reads only its arguments.
[[nodiscard]] Step advance_preemption(Proposal row, const PreemptionObserved& seen, Instant now,
                                      const PreemptionOptions& options);
/// Another set of victims may be possible at once without the refused ones. After several refusals the next search is
/// delayed twice as long each time.
[[nodiscard]] Step answer_preemption(Proposal row, const ProposalAnswer& answer, Instant now,
                                     const PreemptionOptions& options);

// ---- migration ----

struct MigrationObserved {
  WorkloadObserved workload;
  bool placed = false;      ///< its next attempt holds devices
  bool as_planned = false;  ///< on the nodes that are held for it
};

/// By the workload's state: in progress, placed, or ended otherwise.
[[nodiscard]] Step review_migration(Proposal row, const MigrationObserved& seen, Instant now);
/// By time. `step_is_valid` is called at most once, and only if the result decides.
[[nodiscard]] Step advance_migration(Proposal row, const std::function<bool()>& step_is_valid, Instant now,
                                     const PreemptionOptions& preemption, const DefragOptions& defrag);
[[nodiscard]] Step answer_migration(Proposal row, const ProposalAnswer& answer, Instant now);

// ---- gang recovery ----

[[nodiscard]] Step advance_recovery(Proposal row, const WorkloadObserved& workload, Instant now);

}  // namespace qm::placement::disruption
