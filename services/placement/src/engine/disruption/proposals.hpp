#pragma once
#include "engine/rows.hpp"
#include "engine/state.hpp"
#include "qm/placement/disruption/proposal_lifecycle.hpp"

#include <string>
#include <variant>
#include <vector>

namespace qm::placement {

/// What terminates or changes so that a pending workload fits, found by a search.
struct DisruptionPlan {
  std::vector<Proposal::Victim> victims;
  std::vector<HeldCapacity> places;  ///< of the pending workload, afterwards
  NodeLayouts repartitions;          ///< ordered once the victims have left
  std::int64_t micro_usd = 0;        ///< total cost
  std::int64_t lost_micro_usd = 0;   ///< the part of it that is lost work
};
/// Why a search has no plan, and the earliest time of the next one.
struct NoPlan {
  std::string reason;
  Instant retry{};
};
using SearchResult = std::variant<DisruptionPlan, NoPlan>;

/// Life cycle of preemption proposals and of the migrations of the defragmentation run: proposed, published, answered,
/// ended. DisruptionPlanner decides which plans become proposals.
class Proposals {
 public:
  Proposals(State& state, Rows& rows)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        rows_(rows) {}

  /// Makes the plan a proposal for the pending workload and publishes it. Its capacity is held from now on; a
  /// defragmentation run that holds one of its nodes ends.
  void propose(const WorkloadUid& uid, DisruptionPlan plan);
  /// Records why there is no plan.
  void postpone(const WorkloadUid& uid, NoPlan why);
  /// Proposes a migration of the defragmentation run.
  void propose_migration(DefragStep::Move move);
  void publish(const WorkloadUid& uid);
  /// Ends the proposal. Its history stays, and so do the targets of victims that are migrating already.
  void drop(const WorkloadUid& uid, std::string why, Instant next);
  void forget_row(const WorkloadUid& uid);
  /// Handles admission's answer to a proposal.
  void on_answer(const WorkloadUpdated& update);
  /// Moves the targets of accepted migrations, and of victims that have left before the answer, to rows of
  /// their own. These rows are not published.
  void start_migrations(const WorkloadUid& to);
  /// Ends the plan: no more migrations are requested, and unanswered ones are withdrawn. Accepted ones keep
  /// their target capacity.
  void end_run(const std::string& why);
  /// Ends a migration and releases the capacity held for it. A migration that did not reach its target ends the
  /// plan.
  void end_migration(const WorkloadUid& uid, const std::string& why);
  /// Updates a migration by the workload's state: in progress, placed, or ended otherwise.
  void review_migration(const WorkloadUid& uid);
  /// Executes the actions of a life cycle's step, except OrderRepartitions.
  void apply(const WorkloadUid& uid, disruption::Step step);
  /// Ends a preemption or a recovery whose workload is not pending any more. Returns whether it has ended.
  bool end_if_over(const WorkloadUid& uid);

 private:
  void on_migration_answer(const WorkloadUid& uid, const ProposalAnswer& answer);
  void start(const WorkloadUid& uid, Proposal next, DisruptionPlan plan);

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  Rows& rows_;
};

}  // namespace qm::placement
