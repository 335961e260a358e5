#pragma once
#include "qm/admission/kueue/foresight.hpp"
#include "qm/admission/kueue/order.hpp"
#include "qm/admission/kueue/outcome.hpp"
#include "qm/admission/kueue/usage_shares.hpp"
#include "qm/base/lookup.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace qm::admission::kueue {

/// Schedules the queues of one tree continuously: without cycles, and without a limit of one head per queue and cycle.
/// run() decides until nothing more can be decided.
///
/// Each pending workload is in a class. Workloads of one queue, shape and priority have equal results, so the
/// result for the first of a class holds for all. A class is open or closed; closed means that its workloads
/// neither fit nor have preemption candidates. It is opened when a cell that its workloads could use gets free
/// quota. A class that might preempt is opened again after admissions.
///
/// A workload that has to wait for its victims has a claim. Its usage counts already, so that no other workload
/// gets the quota, and it is admitted when it fits.
///
/// Preemption is acyclic: the field has its own Displacements, and workloads in them are in classes of their own.
///
/// An overdue workload blocks its queue like the head of a strict queue. Behind the head of a strict queue with
/// backfill other workloads start if they delay no start that is reserved for workloads ahead of them.
///
/// Laws     After run() no pending workload has a result of look(): the first of each class, in a strict queue the
///          first of all. An admitted workload fits at that moment. It precedes each other nominee in the order of
///          cycles (goes_before, wins), and all pending workloads of its class. The decisions of run() follow from
///          the pending, claiming and holding workloads, not from the history. ADR 0021 states the consequences.
/// Threads  one.
/// Cost     enqueue: O(log n). finish: O(classes of its tree that use its cells). run: O(queues) for each opened
///          class and each admission, and a search for each class with free quota or preemption candidates.
class Continuous {
 public:
  explicit Continuous(QuotaState field, UsageShares usage = {});

  /// The reservations of backfill; without them no workload passes the head of a strict queue.
  void set_backfill(std::unique_ptr<BackfillPlan> foresight) { foresight_ = std::move(foresight); }

  /// The workload is pending in its queue from now on. `work.id` is chosen by the caller; unique here.
  void enqueue(Work work);
  /// The workload has a claim to `usage` and `on_nodes` from now on, for which `victims` are being evicted.
  /// Restores a claim of run() after a rebuild.
  void claim(const Work& work, Amounts usage, LeafUses on_nodes, std::vector<int> victims);
  /// The workload holds quota from now on, by `work.usage`; for earlier admissions.
  void hold(Work work);
  /// Removes the workload; its quota becomes free.
  void withdraw(int id);
  /// The workload has ended: removes it, and the preemptions by it and of it.
  void finish(int id);
  /// Updates the loss of a preemption of the workload, and its minimum run time.
  void stake(int id, const Stake& stake);
  /// The workload is evicted for another reason than preemption: it counts as leaving.
  void leave(int id);
  /// Sets the usage of a workload after a change in its number of pods.
  void shrink(int id, Amounts usage);
  /// The pods of an evicted workload are gone: its quota is free, and it is pending again with its old queue position.
  void evicted(int id);
  /// The preemptions of the tree, for storing and restoring rows.
  [[nodiscard]] PreemptionGraph& preemptions() { return *preemptions_; }
  /// Discards earlier results: opens each class.
  void look_again();
  /// An external change: preemptions before `instant` no longer bind.
  void relax(std::int64_t instant);

  Outcome run(std::int64_t now);

  [[nodiscard]] bool waits(int id) const { return waiters_.contains(id) || faulty_.contains(id); }
  [[nodiscard]] bool claims(int id) const { return claims_.contains(id); }
  /// The claimed amount of a cell, which the tree counts as used.
  [[nodiscard]] std::int64_t claimed(Node queue, Cell cell) const;
  [[nodiscard]] bool holds(int id) const { return holders_.contains(id); }
  [[nodiscard]] const Work& holder(int id) const { return holders_.at(id).work; }
  [[nodiscard]] const Assignment& claim_of(int id) const { return claims_.at(id).assignment; }
  [[nodiscard]] const std::vector<int>& victims_of(int id) const { return claims_.at(id).victims; }
  [[nodiscard]] const QuotaState& field() const { return field_; }
  /// For queries that do not change it.
  [[nodiscard]] QuotaState& field() { return field_; }
  /// Usage of the local queues, to be set before run().
  [[nodiscard]] UsageShares& usage() { return usage_; }
  /// The current result for a workload: the nomination of Kueue, or if that is empty, any_fit(). The field is unchanged
  /// afterwards.
  [[nodiscard]] Nomination look(const Work& work);

 private:
  using Order = decltype(Work().order());
  struct Place {
    Order order;
    int id = -1;
    bool overdue = false;
    std::int64_t run_us = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Key {
    int shape = 0;
    std::int32_t priority = 0;
    int local_queue = 0;      ///< if the queue orders by usage
    int alone = -1;           ///< the single workload of the class, if preemptions concern it
    std::int64_t run_us = 0;  ///< if the queue has backfill
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Earlier {
    bool operator()(const Place* a, const Place* b) const { return *a < *b; }
  };
  /// The minimum request of a pod set for a resource, for its minimum number of pods; any of these cells may
  /// provide it.
  struct Need {
    std::int64_t least = 0;
    std::vector<Cell> cells;
  };
  struct Class {
    Key key;
    Work pattern;  ///< any of its workloads; as_first() turns it into the one in question
    std::set<const Place*, Earlier> waiting;
    std::size_t members = 0;  ///< workloads that are pending, have a claim or hold quota
    bool open = true;
    std::optional<Nomination> nomination;  ///< of the first workload, for the field of version `seen`
    std::uint64_t seen = 0;
    std::vector<Cell> cells;  ///< cells that its workloads could use
    std::vector<Need> needs;
    /// The nomination is for all pods, without victims or nodes, with the first flavors that the queue offers.
    bool plain = false;
  };
  struct Queue {
    std::map<Key, Class> classes;
    /// The first workload of each open class; of a strict queue the first of each class, because later ones are
    /// blocked.
    std::map<const Place*, Class*, Earlier> heads;
    std::map<std::int64_t, std::size_t> held;  ///< number of holders by `standing`
  };
  struct Waiter {
    Class* of = nullptr;
    Place place;
  };
  struct Holder {
    Work work;
    Class* of = nullptr;
  };
  struct Claim {
    Class* of = nullptr;
    Place place;
    Assignment assignment;
    std::vector<int> victims;
  };

  Class& class_of(const Work& work);
  void part_with(Class& from);
  void put_in(Class& in, const Work& work);
  void take_out(Class& from, const Place& place);
  void show(Class& shown, bool yes);
  void open(Class& opened);
  void close(Class& closed);
  void freed(const Amounts& usage);
  void open_alone();
  static const Work& as_first(Class& of, const Place& place);
  [[nodiscard]] bool stands(const Class& of) const;
  [[nodiscard]] bool may_displace(const Class& of) const;
  [[nodiscard]] bool known_unschedulable(const Class& of) const;
  void search(Class& of);
  void hold_quota(const Work& work);
  void release_quota(const Work& work);
  [[nodiscard]] static Place place_of(const Work& work) { return {work.order(), work.id, work.overdue, work.run_us}; }
  [[nodiscard]] bool holds_up(const Class& of) const;
  [[nodiscard]] bool has_something(Class& of);
  [[nodiscard]] Class* nominee_of(Node queue);
  [[nodiscard]] Class* filler_of(Node queue);
  [[nodiscard]] Class& next(std::vector<Class*>& nominees);
  void admit(Class& of, std::int64_t now, Outcome& out);
  void record_preemption(Class& of, Outcome& out);
  void settle(std::int64_t now, Outcome& out);
  [[nodiscard]] bool decide(std::int64_t now, Outcome& out);
  void weigh_holders();
  void reopen();
  void wait_again(Class& of, const Place& place);
  void hold_now(Class& of, const Work& work, const Assignment& assignment, std::int64_t now);
  [[nodiscard]] const QueueRules& rules(Node queue) const { return field_.rules[static_cast<std::size_t>(queue)]; }

  std::unique_ptr<PreemptionGraph> preemptions_;  ///< the field refers to it
  std::unique_ptr<BackfillPlan> foresight_;
  QuotaState field_;
  UsageShares usage_;
  std::vector<Queue> queues_;  ///< by node
  Lookup<int, Waiter> waiters_;
  std::map<int, Class*> faulty_;  ///< workloads that are skipped, with a fault
  std::map<int, Holder> holders_;
  std::map<int, Claim> claims_;
  std::set<Node> awake_;       ///< queues with an open class
  std::uint64_t version_ = 1;  ///< of the field
};

}  // namespace qm::admission::kueue
