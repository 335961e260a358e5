#pragma once
#include "qm/admission/exact/displacements.hpp"
#include "qm/admission/exact/order.hpp"
#include "qm/admission/exact/topologies.hpp"
#include "qm/admission/exact/work.hpp"

#include <set>
#include <string_view>
#include <vector>

namespace qm::admission::exact {

/// Why a workload has to go; the words are Kueue's.
enum class Reason : std::uint8_t {
  kInClusterQueue,
  kInCohortReclamation,
  kInCohortReclaimWhileBorrowing,
  kInCohortFairSharing,
  kFlavorMigration,  ///< a variant of a better flavor takes its place
};
[[nodiscard]] std::string_view name_of(Reason reason);

/// By which comparison of shares fair sharing takes a workload away from another queue.
enum class ShareRule : std::uint8_t {
  kLessThanOrEqualToFinalShare,  ///< the taker's share with the newcomer <= the giver's without the victim
  kLessThanInitialShare,         ///< the taker's share with the newcomer < the giver's with it
};

struct Target;

/// A tree, the rules of its queues, and who holds its quota.
struct Field {
  Tree tree;
  std::vector<QueueRules> rules;                  ///< by node; of cohorts empty
  std::vector<std::vector<const Work*>> holders;  ///< by node, in no order
  bool fair_sharing = false;
  std::vector<ShareRule> share_rules = {ShareRule::kLessThanOrEqualToFinalShare, ShareRule::kLessThanInitialShare};
  bool looks_again =
      true;  ///< for a workload whose victims another has claimed (RecomputeAssignmentUponPreemptionTargetsOverlap)
  OrderGates order;
  bool shrinks = true;  ///< who may have fewer pods is admitted with fewer (PartialAdmission)
  bool within_nominal_takes =
      true;  ///< by shares, who stays within its own takes from any (FairSharingPreemptWithinNominal)
  std::optional<Resource> pods;  ///< the resource "pods", where there is one
  /// The nodes, where flavors have topologies; other fields may have the same.
  std::shared_ptr<Topologies> topologies;
  bool places_again =
      true;  ///< who finds its nodes taken in the same cycle (TASRecomputeAssignmentWithinSchedulingCycle)

  // Beyond Kueue. As they stand here, decisions are Kueue's.
  Displacements* displacements = nullptr;  ///< no plan closes a circle in these
  std::int64_t now = 0;                    ///< of the decision, for stakes
  int cheaper_within = 0;                  ///< searches that may be spent on each plan to find victims that lose less

  /// Quota and nodes, without a word of who holds them.
  void take(Node queue, const Amounts& usage, const LeafUses& on_nodes);
  void give_back(Node queue, const Amounts& usage, const LeafUses& on_nodes);
  void hold(const Work& work);     ///< its usage counts from now on
  void release(const Work& work);  ///< and no longer

  /// Whether a plan closes no circle, even after what others have displaced since it was made.
  [[nodiscard]] bool permits(const Work& by, const std::vector<Target>& plan) const;
  /// It is carried out: comes before its targets are marked as evicted.
  void record(const Work& by, const std::vector<Target>& plan);
};

struct Target {
  const Work* work = nullptr;
  Reason reason = Reason::kInClusterQueue;
  std::optional<ShareRule> rule{};  ///< of kInCohortFairSharing
};

/// Whom a search took, in the order in which it took them; and whether that is enough.
struct Plan {
  std::vector<Target> targets;
  bool enough = false;
};
/// Workloads that a search leaves alone.
using Spared = std::set<const Work*>;

/// Who wants what: `usage` in all, of which there is too little in the cells `contested`, and nodes as wished.
struct Contest {
  const Work& work;
  std::vector<Cell> contested;
  Amounts usage;
  std::vector<Wish> wishes{};
};

/// Finds whom a workload may displace, as few as make it fit; empty where that cannot be had. Candidates are taken in a fixed
/// order until it fits, and then given back from the last but one to the first where it fits without them. The field is as
/// before afterwards.
///
/// Never taken is who has not run for its minimum run time, and, where the field has displacements, who is barred by them; then
/// also nobody is given back without whom others may not be taken. Where the field says so, a cheaper plan is looked for
/// (cheapest.hpp).
///
/// Cost     O(candidates · log), and O(candidates · depth · cells); so much again for each search for a cheaper plan.
/// Source   Kueue, pkg/scheduler/preemption: classical, hierarchical; fair sharing: fairsharing.
class Victims final : public Oracle {
 public:
  explicit Victims(Field& field) : field_(field) {}
  [[nodiscard]] std::vector<Target> find(const Contest& contest);
  Fitting simulate(const Work& work, Cell cell, std::int64_t amount) override;

  /// Whether `policy` lets a workload displace another.
  [[nodiscard]] static bool allowed(PreemptPolicy policy, const Work& by, const Work& candidate);
  /// Whether a is displaced rather than b, for a workload of `queue`.
  [[nodiscard]] static bool sooner(const Work& a, const Work& b, Node queue);

 private:
  friend class FairVictims;
  struct Candidate;
  struct Lists;
  [[nodiscard]] std::vector<Target> search(const Contest& contest, int cheaper_within);
  [[nodiscard]] Plan classic(const Contest& contest, int cheaper_within);
  [[nodiscard]] Plan take_in_order(const Contest& contest, const std::vector<Candidate>& candidates, bool borrowing,
                                   const Spared& spared);
  [[nodiscard]] bool may_be_displaced(const Work& candidate) const;
  [[nodiscard]] Lists collect(const Contest& contest);
  void collect_in(const Contest& contest, Node cohort, Node top, Node skip, bool advantage,
                  std::vector<Candidate>& out);
  void collect_from(const Contest& contest, Node queue, Node top, bool advantage, std::vector<Candidate>& out);
  [[nodiscard]] bool still_counts(const Contest& contest, const Candidate& candidate, bool borrowing) const;
  [[nodiscard]] bool fits(const Contest& contest, bool borrowing) const;
  /// `legal`: whether the rest may still be taken without the one given back.
  template <class Legal>
  void give_back(const Contest& contest, std::vector<Target>& targets, bool borrowing, Legal&& legal) {
    for (std::size_t i = targets.size() - 1; i-- > 0;) {
      const Target target = targets[i];
      put_back(*target.work);
      if (fits(contest, borrowing)) {
        targets.erase(targets.begin() + static_cast<std::ptrdiff_t>(i));
        if (legal(*target.work)) continue;
        targets.insert(targets.begin() + static_cast<std::ptrdiff_t>(i), target);
      }
      take(*target.work);
    }
  }
  void take(const Work& work) { field_.give_back(work.queue, work.usage, work.on_nodes); }
  void put_back(const Work& work) { field_.take(work.queue, work.usage, work.on_nodes); }

  Field& field_;
  std::set<int> barred_;  ///< for the workload that is asked for
};

/// Victims where shares decide: always from the queue that takes most beyond its own, down the tree from the root.
class FairVictims {
 public:
  explicit FairVictims(Victims& victims) : victims_(victims), field_(victims.field_) {}
  [[nodiscard]] Plan find(const Contest& contest, int cheaper_within);

 private:
  [[nodiscard]] Plan take_by_share(const Contest& contest, const std::vector<const Work*>& candidates,
                                   const Spared& spared);
  [[nodiscard]] bool may_take(const Share& taker, const Share& giver, Node giver_side, const Work& work,
                              ShareRule rule);
  [[nodiscard]] bool still_legal(const Contest& contest, const std::vector<Target>& targets, const Work& kept);
  [[nodiscard]] std::vector<const Work*> candidates(const Contest& contest) const;
  [[nodiscard]] bool fits(const Contest& contest);
  bool first(const Contest& contest, std::vector<const Work*> candidates, std::vector<Target>& targets,
             std::vector<const Work*>& retry);
  bool second(const Contest& contest, std::vector<const Work*> retry, std::vector<Target>& targets);

  Victims& victims_;
  Field& field_;
};

}  // namespace qm::admission::exact
