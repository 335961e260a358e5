#pragma once
#include "qm/admission/exact/order.hpp"
#include "qm/admission/exact/outcome.hpp"
#include "qm/admission/exact/requeue.hpp"
#include "qm/admission/exact/usage_shares.hpp"

#include <deque>
#include <map>
#include <set>
#include <vector>

namespace qm::admission::exact {

/// One tree's queues, decided in cycles as Kueue does: of each queue the head, one flavor choice each, then commits in an
/// order over all of them. Trees do not touch each other, so each may be run alone with the same cycle numbers.
///
/// A workload is known here from enqueue() until finish() or remove(). While it waits it is either active, in the order of
/// its queue, or inadmissible: not looked at again before something in the tree changed.
///
/// Where a queue orders by the usage of its local queues, finding its head is O(active).
///
/// Cost     as Kueue's: O(queues) searches a cycle.
/// Source   Kueue, pkg/scheduler/scheduler.go, pkg/cache/queue/cluster_queue.go.
class Cycle {
 public:
  explicit Cycle(Field field, UsageShares usage = {});

  /// Waits in its queue from now on. `work.id` is the caller's; unique here. `backs_off`: it is not looked at before it is
  /// enqueued again, whatever changes.
  void enqueue(Work work, bool backs_off = false);
  /// Holds quota from now on, by `work.usage`; for what was admitted before.
  void hold(Work work);
  /// It has ended or is no longer wanted: quota it held is free. Call requeue() for others to notice.
  void finish(int id);
  /// What nothing had changed for is looked at again.
  void requeue();
  /// A queue's quota is another from now on. Call requeue() for others to notice.
  void set_quota(Node queue, Cell cell, const Quota& quota);
  /// A workload that holds quota gets nodes in the next cycle, before anybody else is looked at: they were not there yet when
  /// it was admitted, or, with `replacement`, one that it has failed.
  void place_again(int id, std::vector<Wish> wishes, std::optional<topology::Replacement> replacement);

  /// Runs one cycle. Who is preempted keeps its quota until evicted() is called, a slice that was replaced until finish().
  Outcome run(std::int64_t cycle, std::int64_t now);
  /// It has to go for another reason than preemption: it counts as leaving.
  void leave(int id) { works_.at(id).evicted = true; }
  /// An admission of the last cycle could not be written: it waits again at once, or `gone`, it is no more.
  void admission_failed(int id, bool gone);
  /// Nor could the orders to displace these for it: they stay.
  void preemption_failed(int id, const std::vector<int>& spared);
  /// Puts a workload that was looked at where it belongs; one that is among the active is looked at no more for now.
  Return put_back(int id, Fate fate, Requeue reason);
  /// Some of its pods have ended, and it holds this from now on.
  void shrink(int id, Amounts usage);
  /// Its pods are gone: the quota is free and it waits again, with its old place.
  void evicted(int id);

  [[nodiscard]] const Work& work(int id) const { return works_.at(id); }
  [[nodiscard]] bool waits(int id) const;   ///< active or inadmissible
  [[nodiscard]] bool active(int id) const;  ///< will be looked at in one of the next cycles
  [[nodiscard]] std::size_t active_works() const;
  [[nodiscard]] const Tree& tree() const { return field_.tree; }
  /// For questions that leave it as it was.
  [[nodiscard]] Field& field() { return field_; }
  /// What local queues used, as it stands when run() comes.
  [[nodiscard]] UsageShares& usage() { return usage_; }

 private:
  struct Entry {
    Work* work = nullptr;
    Assignment assignment{};
    std::vector<Target> targets{};
    Fate fate = Fate::kNotNominated;
    Requeue requeue = Requeue::kGeneric;
    std::optional<Wait> wait{};      ///< where it is not what the assignment says
    const Work* replaces = nullptr;  ///< the slice that ends with its admission
    const Work* moves = nullptr;     ///< the variant that makes way for it
  };
  struct Queue {
    using Order = std::set<std::pair<decltype(Work().order()), int>>;
    Order active;
    std::set<int> inadmissible;
    std::set<int> backing_off;  ///< of these
    std::set<int> hopeless;     ///< shapes that had nothing to hope for since the last requeue
    int preemptor = -1;         ///< waits for those whom it displaced; ahead of everybody where the queue is not strict
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
  enum class Room : std::uint8_t { kAll, kNoNodes, kNoQuota };
  [[nodiscard]] Room room_for(const Entry& entry, const std::vector<const Work*>& claimed);
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

  Field field_;
  UsageShares usage_;
  std::map<int, Work> works_;
  std::vector<Queue> queues_;  ///< by node
  struct Taken {
    Node queue;
    Amounts usage;
    LeafUses on_nodes;
  };
  std::vector<Taken> taken_;  ///< for the rest of the cycle, beside what is held
  struct Again {
    int id = -1;
    std::vector<Wish> wishes;
    std::optional<topology::Replacement> replacement;
  };
  std::vector<Again> again_, placing_;  ///< for the next cycle, and of this one
};

}  // namespace qm::admission::exact
