#pragma once
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
};
[[nodiscard]] std::string_view name_of(Reason reason);

/// By which comparison of shares fair sharing takes a workload away from another queue.
enum class ShareRule : std::uint8_t {
  kLessThanOrEqualToFinalShare,  ///< the taker's share with the newcomer <= the giver's without the victim
  kLessThanInitialShare,         ///< the taker's share with the newcomer < the giver's with it
};

/// A tree, the rules of its queues, and who holds its quota.
struct Field {
  Tree tree;
  std::vector<QueueRules> rules;                  ///< by node; of cohorts empty
  std::vector<std::vector<const Work*>> holders;  ///< by node
  bool fair_sharing = false;
  std::vector<ShareRule> share_rules = {ShareRule::kLessThanOrEqualToFinalShare, ShareRule::kLessThanInitialShare};
  bool looks_again =
      true;  ///< for a workload whose victims another has claimed (RecomputeAssignmentUponPreemptionTargetsOverlap)
  OrderGates order;
  std::optional<Resource> pods;  ///< the resource "pods", where there is one
  /// The nodes, where flavors have topologies; other fields may have the same.
  std::shared_ptr<Topologies> topologies;
  bool places_again =
      true;  ///< who finds its nodes taken in the same cycle (TASRecomputeAssignmentWithinSchedulingCycle)

  /// Quota and nodes, without a word of who holds them.
  void take(Node queue, const Amounts& usage, const LeafUses& on_nodes);
  void give_back(Node queue, const Amounts& usage, const LeafUses& on_nodes);
  void hold(const Work& work);     ///< its usage counts from now on
  void release(const Work& work);  ///< and no longer
};

struct Target {
  const Work* work = nullptr;
  Reason reason = Reason::kInClusterQueue;
};

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
/// Cost     O(candidates · log), and O(candidates · depth · cells).
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
  [[nodiscard]] std::vector<Target> classic(const Contest& contest);
  [[nodiscard]] Lists collect(const Contest& contest);
  void collect_in(const Contest& contest, Node cohort, Node top, Node skip, bool advantage,
                  std::vector<Candidate>& out);
  void collect_from(const Contest& contest, Node queue, Node top, bool advantage, std::vector<Candidate>& out);
  [[nodiscard]] bool still_counts(const Contest& contest, const Candidate& candidate, bool borrowing) const;
  [[nodiscard]] bool fits(const Contest& contest, bool borrowing) const;
  void give_back(const Contest& contest, std::vector<Target>& targets, bool borrowing);
  void take(const Work& work) { field_.give_back(work.queue, work.usage, work.on_nodes); }
  void put_back(const Work& work) { field_.take(work.queue, work.usage, work.on_nodes); }

  Field& field_;
};

/// Victims where shares decide: always from the queue that takes most beyond its own, down the tree from the root.
class FairVictims {
 public:
  explicit FairVictims(Victims& victims) : victims_(victims), field_(victims.field_) {}
  [[nodiscard]] std::vector<Target> find(const Contest& contest);

 private:
  [[nodiscard]] std::vector<const Work*> candidates(const Contest& contest) const;
  [[nodiscard]] bool fits(const Contest& contest);
  bool first(const Contest& contest, std::vector<const Work*> candidates, std::vector<Target>& targets,
             std::vector<const Work*>& retry);
  bool second(const Contest& contest, std::vector<const Work*> retry, std::vector<Target>& targets);

  Victims& victims_;
  Field& field_;
};

}  // namespace qm::admission::exact
