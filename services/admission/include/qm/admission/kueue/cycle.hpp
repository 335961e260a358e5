#pragma once
#include "qm/admission/kueue/order.hpp"
#include "qm/admission/kueue/outcome.hpp"
#include "qm/admission/kueue/requeue.hpp"
#include "qm/admission/kueue/usage_shares.hpp"

#include <deque>
#include <map>
#include <set>
#include <vector>

namespace qm::admission::kueue {

/// Schedules the queues of one tree in cycles, as Kueue does: nominates the head of each queue with one flavor
/// assignment each, then commits in an order over all of them. Trees are independent, so each may run alone with
/// the same cycle numbers.
///
/// A workload is known from enqueue() or hold() until finish(). While pending it is either active, in the order of
/// its queue, or inadmissible: not nominated again before something in the tree changes.
///
/// In a queue that orders by usage of local queues, finding the head is O(active).
///
/// Cost     as Kueue: O(queues) searches per cycle.
/// Source   Kueue, pkg/scheduler/scheduler.go, pkg/cache/queue/cluster_queue.go.
class Cycle {
 public:
  explicit Cycle(QuotaState field, UsageShares usage = {});

  /// The workload is pending in its queue from now on. `work.id` is chosen by the caller; unique here. `backs_off`:
  /// it is not nominated until it is enqueued again, whatever changes.
  void enqueue(Work work, bool backs_off = false);
  /// The workload holds quota from now on, by `work.usage`; for earlier admissions.
  void hold(Work work);
  /// The workload has ended or was removed: its quota is free. Call requeue() so that others are nominated again.
  void finish(int id);
  /// Makes inadmissible workloads active again.
  void requeue();
  /// Changes the quota of a queue. Call requeue() so that others are nominated again.
  void set_quota(Node queue, Cell cell, const Quota& quota);
  /// Assigns nodes in the next cycle, before any nomination, to a workload that holds quota: its nodes did not
  /// exist when it was admitted, or, with `replacement`, one of its nodes has failed.
  void place_again(int id, std::vector<NodeRequest> node_requests, std::optional<topology::Replacement> replacement);

  /// Runs one cycle. A victim keeps its quota until evicted() is called, a replaced slice until finish().
  Outcome run(std::int64_t cycle, std::int64_t now);
  /// The workload is evicted for another reason than preemption: it counts as leaving.
  void leave(int id) { works_.at(id).evicted = true; }
  /// An admission of the last cycle could not be written: the workload is pending again at once, or removed if `gone`.
  void admission_failed(int id, bool gone);
  /// The preemption of these victims for a workload could not be written: they are not evicted.
  void preemption_failed(int id, const std::vector<int>& spared);
  /// Requeues a nominated or active workload, as active or inadmissible according to `fate` and `reason`.
  Return revert(int id, Fate fate, Requeue reason);
  /// Sets the usage of a workload after a change in its number of pods.
  void shrink(int id, Amounts usage);
  /// The pods of an evicted workload are gone: its quota is free, and it is pending again with its old queue position.
  void evicted(int id);

  [[nodiscard]] const Work& work(int id) const { return works_.at(id); }
  [[nodiscard]] bool waits(int id) const;   ///< active or inadmissible
  [[nodiscard]] bool active(int id) const;  ///< will be nominated in one of the next cycles
  [[nodiscard]] std::size_t active_works() const;
  [[nodiscard]] const Tree& tree() const { return field_.tree; }
  /// For queries that do not change it.
  [[nodiscard]] QuotaState& field() { return field_; }
  [[nodiscard]] const QuotaState& field() const { return field_; }
  /// Usage of the local queues, to be set before run().
  [[nodiscard]] UsageShares& usage() { return usage_; }

 private:
  struct Entry {
    Work* work = nullptr;
    Assignment assignment{};
    std::vector<Target> targets{};
    Fate fate = Fate::kNotNominated;
    Requeue requeue = Requeue::kGeneric;
    std::optional<Wait> wait{};      ///< if it differs from that of the assignment
    const Work* replaces = nullptr;  ///< the slice that ends with its admission
    const Work* moves = nullptr;     ///< the variant that is preempted for it
  };
  struct Queue {
    using Order = std::set<std::pair<decltype(Work().order()), int>>;
    Order active;
    std::set<int> inadmissible;
    std::set<int> backing_off;          ///< of these
    std::set<int> known_unschedulable;  ///< shapes known to be inadmissible since the last requeue
    int preemptor = -1;  ///< has victims that are not gone yet; first of its queue if the queue is not strict
    std::int64_t generation = 0;
  };

  [[nodiscard]] std::vector<Entry> heads();
  void weigh_holders();
  [[nodiscard]] Queue::Order::iterator head_of(Queue& queue, const QueueRules& rules);
  [[nodiscard]] UsageShares::Totals requests_of(const Work& work) const;
  static void add_before(Work& work, const Assignment& assignment);
  void nominate(Entry& entry, std::int64_t cycle);
  void search(Entry& entry, const Assignment* same_as, std::int64_t cycle);
  struct Again;
  [[nodiscard]] Placing place(const Again& again);
  [[nodiscard]] std::vector<PlacedAgain> place_holders();
  void take_placed(std::vector<PlacedAgain>& placed);
  void keep_placed(const std::vector<PlacedAgain>& placed);
  enum class FitResult : std::uint8_t { kAll, kNoNodes, kNoQuota };
  [[nodiscard]] FitResult check_fit(const Entry& entry, const std::vector<const Work*>& claimed);
  [[nodiscard]] std::vector<Entry*> uppermost(const std::vector<Entry*>& entries) const;
  [[nodiscard]] std::size_t next(const std::vector<Entry*>& entries);
  void process(Entry& entry, std::int64_t cycle, std::vector<const Work*>& claimed);
  [[nodiscard]] bool passed_over(Entry& entry) const;
  void recompute_placement(Entry& entry, std::int64_t cycle, const std::vector<const Work*>& claimed);
  [[nodiscard]] bool look_again(Entry& entry, std::int64_t cycle, const std::vector<const Work*>& claimed);
  void settle(Entry& entry, Outcome& out);
  [[nodiscard]] bool overlaps(const Entry& entry, const std::vector<const Work*>& claimed) const;
  [[nodiscard]] Nominee nominee_of(const Entry& entry) const;
  [[nodiscard]] static Wait wait_of(const Entry& entry);
  void activate(const Work& work);
  Queue& queue_of(const Work& work) { return queues_[static_cast<std::size_t>(work.queue)]; }
  const QueueRules& rules_of(const Work& work) const { return field_.rules[static_cast<std::size_t>(work.queue)]; }

  QuotaState field_;
  UsageShares usage_;
  std::map<int, Work> works_;
  std::vector<Queue> queues_;  ///< by node
  struct Taken {
    Node queue;
    Amounts usage;
    LeafUses on_nodes;
  };
  std::vector<Taken> taken_;  ///< for the rest of the cycle, in addition to what is held
  struct Again {
    int id = -1;
    std::vector<NodeRequest> node_requests;
    std::optional<topology::Replacement> replacement;
  };
  std::vector<Again> again_, placing_;  ///< for the next cycle, and of this cycle
};

}  // namespace qm::admission::kueue
