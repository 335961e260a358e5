#pragma once
#include "qm/admission/kueue/displacements.hpp"
#include "qm/admission/kueue/order.hpp"
#include "qm/admission/kueue/topologies.hpp"
#include "qm/admission/kueue/work.hpp"

#include <set>
#include <string_view>
#include <vector>

namespace qm::admission::kueue {

/// Why a workload is preempted; the reasons are Kueue's.
enum class Reason : std::uint8_t {
  kInClusterQueue,
  kInCohortReclamation,
  kInCohortReclaimWhileBorrowing,
  kInCohortFairSharing,
  kFlavorMigration,  ///< a variant of a better flavor replaces it
};
[[nodiscard]] std::string_view name_of(Reason reason);

/// The comparison of shares by which fair sharing takes victims of another queue.
enum class ShareRule : std::uint8_t {
  kLessThanOrEqualToFinalShare,  ///< the preemptor's share with the new workload <= the other's without the victim
  kLessThanInitialShare,         ///< the preemptor's share with the new workload < the other's with the victim
};

struct Target;

/// A tree, the rules of its queues, and the holders of its quota.
struct QuotaState {
  Tree tree;
  std::vector<QueueRules> rules;                  ///< by node; empty for cohorts
  std::vector<std::vector<const Work*>> holders;  ///< by node, unordered
  bool fair_sharing = false;
  std::vector<ShareRule> share_rules = {ShareRule::kLessThanOrEqualToFinalShare, ShareRule::kLessThanInitialShare};
  /// Nominates a workload again if another one has claimed its victims
  /// (RecomputeAssignmentUponPreemptionTargetsOverlap).
  bool looks_again = true;
  OrderGates order;
  bool shrinks = true;  ///< workloads that allow it are admitted with fewer pods (PartialAdmission)
  /// By shares: a queue that stays within its nominal quota takes victims of any queue
  /// (FairSharingPreemptWithinNominal).
  bool within_nominal_takes = true;
  std::optional<Resource> pods;  ///< the resource "pods", if there is one
  /// The nodes, if flavors have topologies; other fields may share them.
  std::shared_ptr<Topologies> topologies;
  /// Places a workload again if its nodes were used in the same cycle (TASRecomputeAssignmentWithinSchedulingCycle).
  bool places_again = true;

  // Beyond Kueue. With these defaults decisions are Kueue's.
  PreemptionGraph* preemptions = nullptr;  ///< no plan closes a cycle in these
  std::int64_t now = 0;                    ///< of the decision, for stakes
  int cheaper_plan_searches = 0;           ///< searches for a less expensive plan, per plan

  /// Change quota and nodes, without changing the holders.
  void take(Node queue, const Amounts& usage, const LeafUses& on_nodes);
  void give_back(Node queue, const Amounts& usage, const LeafUses& on_nodes);
  void hold(const Work& work);     ///< counts its usage
  void release(const Work& work);  ///< and no longer

  /// Whether a plan closes no cycle, including preemptions recorded since it was made.
  [[nodiscard]] bool permits(const Work& by, const std::vector<Target>& plan) const;
  /// Records the preemptions of a plan. Call it before its targets are marked as evicted.
  void record(const Work& by, const std::vector<Target>& plan);
};

struct Target {
  const Work* work = nullptr;
  Reason reason = Reason::kInClusterQueue;
  std::optional<ShareRule> rule{};  ///< with kInCohortFairSharing
};

/// Victims in the order in which a search took them, and whether they suffice.
struct Plan {
  std::vector<Target> targets;
  bool enough = false;
};
/// Candidates that a search must not take.
using Spared = std::set<const Work*>;

/// A request that needs preemption: `usage` in total, of which too little is free in the cells `contested`, and
/// nodes by `node_requests`.
struct Contest {
  const Work& work;
  std::vector<Cell> contested;
  Amounts usage;
  std::vector<NodeRequest> node_requests{};
};

/// Finds the victims of a workload, a minimal set that makes it fit; empty if there is none. Candidates are taken
/// in a fixed order until it fits. Then each is given back, from the last but one to the first, if the workload
/// fits without it. The field is unchanged afterwards.
///
/// Excluded are candidates within their minimum run time and, if the field has displacements, candidates that these
/// bar. With displacements, a victim without which others may not be taken is not given back. If the field allows
/// it, a less expensive plan is searched (cheapest.hpp).
///
/// Cost     O(candidates · log), and O(candidates · depth · cells); the same for each search for a less expensive plan.
/// Source   Kueue, pkg/scheduler/preemption: classical, hierarchical; fair sharing: fairsharing.
class Victims final : public Oracle {
 public:
  explicit Victims(QuotaState& field) : field_(field) {}
  [[nodiscard]] std::vector<Target> find(const Contest& contest);
  Fitting simulate(const Work& work, Cell cell, std::int64_t amount) override;

  /// Whether `policy` allows a workload to preempt another.
  [[nodiscard]] static bool allowed(PreemptPolicy policy, const Work& by, const Work& candidate);
  /// Whether a is preempted rather than b, for a workload of `queue`.
  [[nodiscard]] static bool sooner(const Work& a, const Work& b, Node queue);

 private:
  friend class FairVictims;
  struct Candidate;
  struct Lists;
  [[nodiscard]] std::vector<Target> search(const Contest& contest, int cheaper_plan_searches);
  [[nodiscard]] Plan classic(const Contest& contest, int cheaper_plan_searches);
  [[nodiscard]] Plan admit_in_order(const Contest& contest, const std::vector<Candidate>& candidates, bool borrowing,
                                    const Spared& spared);
  [[nodiscard]] bool may_be_preempted(const Work& candidate) const;
  [[nodiscard]] Lists collect(const Contest& contest);
  void collect_in(const Contest& contest, Node cohort, Node top, Node skip, bool advantage,
                  std::vector<Candidate>& out);
  void collect_from(const Contest& contest, Node queue, Node top, bool advantage, std::vector<Candidate>& out);
  [[nodiscard]] bool still_counts(const Contest& contest, const Candidate& candidate, bool borrowing) const;
  [[nodiscard]] bool fits(const Contest& contest, bool borrowing) const;
  /// `legal`: whether the other victims may still be taken without the one that is given back.
  template <class Legal>
  void give_back(const Contest& contest, std::vector<Target>& targets, bool borrowing, Legal&& legal) {
    for (std::size_t i = targets.size() - 1; i-- > 0;) {
      const Target target = targets[i];
      revert(*target.work);
      if (fits(contest, borrowing)) {
        targets.erase(targets.begin() + static_cast<std::ptrdiff_t>(i));
        if (legal(*target.work)) continue;
        targets.insert(targets.begin() + static_cast<std::ptrdiff_t>(i), target);
      }
      take(*target.work);
    }
  }
  void take(const Work& work) { field_.give_back(work.queue, work.usage, work.on_nodes); }
  void revert(const Work& work) { field_.take(work.queue, work.usage, work.on_nodes); }

  QuotaState& field_;
  std::set<int> barred_;  ///< for the workload in question
};

/// Victims by shares: always from the queue that borrows most beyond its own quota, down the tree from the root.
class FairVictims {
 public:
  explicit FairVictims(Victims& victims) : victims_(victims), field_(victims.field_) {}
  [[nodiscard]] Plan find(const Contest& contest, int cheaper_plan_searches);

 private:
  [[nodiscard]] Plan admit_by_share(const Contest& contest, const std::vector<const Work*>& candidates,
                                    const Spared& spared);
  [[nodiscard]] bool may_take(const Share& taker, const Share& candidate_node, Node candidate_side, const Work& work,
                              ShareRule rule);
  [[nodiscard]] bool still_legal(const Contest& contest, const std::vector<Target>& targets, const Work& kept);
  [[nodiscard]] std::vector<const Work*> candidates(const Contest& contest) const;
  [[nodiscard]] bool fits(const Contest& contest);
  bool first(const Contest& contest, std::vector<const Work*> candidates, std::vector<Target>& targets,
             std::vector<const Work*>& retry);
  bool second(const Contest& contest, std::vector<const Work*> retry, std::vector<Target>& targets);

  Victims& victims_;
  QuotaState& field_;
};

}  // namespace qm::admission::kueue
