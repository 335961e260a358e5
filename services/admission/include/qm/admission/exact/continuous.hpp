#pragma once
#include "qm/admission/exact/foresight.hpp"
#include "qm/admission/exact/order.hpp"
#include "qm/admission/exact/outcome.hpp"
#include "qm/admission/exact/usage_shares.hpp"
#include "qm/base/lookup.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace qm::admission::exact {

/// One tree's queues, decided as things happen: no cycle, and not one head of each queue at a time. run() decides until nothing
/// more can be decided.
///
/// Whoever waits stands in a class: works of one queue, one shape and one priority fare alike, so what is found out about the first
/// of a class holds for all. A class is open, or closed: nothing for it, nobody to displace. It is opened when a cell comes free
/// that its workloads could use; and if it might displace others, once more when some were admitted.
///
/// A workload whose victims have still to go has a claim: its usage counts already, so that nobody else takes the room, and it
/// is admitted when it fits.
///
/// Preemption makes no circles: the field is given displacements of its own, and whom they concern stands in no class.
///
/// Who is overdue holds up its queue as the head of a strict one does. Behind the head of a strict queue with backfill others start
/// where they move no start that is reserved for those before them.
///
/// Laws     After run() nobody waits for whom look() has anything: the first of any class, in a strict queue the first of all.
///          Whoever is admitted fits at that moment, goes before every other nominee in the order of cycles (goes_before, wins),
///          and before all of its class that wait. What run() decides follows from who waits, claims and holds, not from how
///          that came about. ADR 0021 states what follows.
/// Threads  one.
/// Cost     enqueue: O(log n). finish: O(classes of its tree that use its cells). run: O(queues) for each class that was opened
///          and for each admission, and a search for each that has room or somebody to displace.
class Continuous {
 public:
  explicit Continuous(Field field, UsageShares usage = {});

  /// What backfill goes by; without it nobody passes the head of a strict queue.
  void foresee(std::unique_ptr<Foresight> foresight) { foresight_ = std::move(foresight); }

  /// Waits in its queue from now on. `work.id` is the caller's; unique here.
  void enqueue(Work work);
  /// Has a claim to `usage` and `on_nodes` from now on, which the workloads `victims` are leaving for; as run() made it before
  /// everything was read anew.
  void claim(const Work& work, Amounts usage, LeafUses on_nodes, std::vector<int> victims);
  /// Holds quota from now on, by `work.usage`; for what was admitted before.
  void hold(Work work);
  /// It is no longer here: what it held is free.
  void withdraw(int id);
  /// It has ended: nor does it matter whom it displaced, and who displaced it.
  void finish(int id);
  /// What is lost with it, and how long it may not be displaced, is another now.
  void stake(int id, const Stake& stake);
  /// It has to go for another reason than preemption: it counts as leaving.
  void leave(int id);
  /// Some of its pods have ended, and it holds this from now on.
  void shrink(int id, Amounts usage);
  /// Its pods are gone: the quota is free and it waits again, with its old place.
  void evicted(int id);
  /// Who displaced whom, for rows, and as it is read back from them.
  [[nodiscard]] Displacements& displacements() { return *displacements_; }
  /// Nothing that was found out before counts: every class is open.
  void look_again();
  /// Something came from outside: who displaced whom before `instant` binds nobody any more.
  void relax(std::int64_t instant);

  Outcome run(std::int64_t now);

  [[nodiscard]] bool waits(int id) const { return waiters_.contains(id) || faulty_.contains(id); }
  [[nodiscard]] bool claims(int id) const { return claims_.contains(id); }
  /// What is claimed in a cell, which the tree counts as used.
  [[nodiscard]] std::int64_t claimed(Node queue, Cell cell) const;
  [[nodiscard]] bool holds(int id) const { return holders_.contains(id); }
  [[nodiscard]] const Work& holder(int id) const { return holders_.at(id).work; }
  [[nodiscard]] const Assignment& claim_of(int id) const { return claims_.at(id).assignment; }
  [[nodiscard]] const std::vector<int>& victims_of(int id) const { return claims_.at(id).victims; }
  [[nodiscard]] const Field& field() const { return field_; }
  /// For questions that leave it as it was.
  [[nodiscard]] Field& field() { return field_; }
  /// What local queues used, as it stands when run() comes.
  [[nodiscard]] UsageShares& usage() { return usage_; }
  /// What would be found for a workload now: what Kueue would nominate, or where that is nothing, any_fit(). The field is as
  /// before afterwards.
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
    int local_queue = 0;      ///< where these take turns by what they used
    int alone = -1;           ///< the one workload that displacements concern
    std::int64_t run_us = 0;  ///< where backfill goes by it
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Earlier {
    bool operator()(const Place* a, const Place* b) const { return *a < *b; }
  };
  /// Pods of one set ask for so much of a resource, however few they are; it may come from any of these cells.
  struct Need {
    std::int64_t least = 0;
    std::vector<Cell> cells;
  };
  struct Class {
    Key key;
    Work pattern;  ///< any of its works; as_first() makes it the one that is looked at
    std::set<const Place*, Earlier> waiting;
    std::size_t members = 0;  ///< who waits, has a claim or holds quota
    bool open = true;
    std::optional<Nomination> nomination;  ///< of the first, as the field stood at `seen`
    std::uint64_t seen = 0;
    std::vector<Cell> cells;  ///< that its workloads could use
    std::vector<Need> needs;
    bool plain =
        false;  ///< the nomination takes all pods, no victims or nodes, and the first flavors that the queue offers
  };
  struct Queue {
    std::map<Key, Class> classes;
    /// The first of each class that is open; of a strict queue the first of each, as who is behind it waits.
    std::map<const Place*, Class*, Earlier> heads;
    std::map<std::int64_t, std::size_t> held;  ///< how many of each standing hold its quota
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
  [[nodiscard]] bool hopeless(const Class& of) const;
  void search(Class& of);
  void take_hold(const Work& work);
  void let_go(const Work& work);
  [[nodiscard]] static Place place_of(const Work& work) { return {work.order(), work.id, work.overdue, work.run_us}; }
  [[nodiscard]] bool holds_up(const Class& of) const;
  [[nodiscard]] bool has_something(Class& of);
  [[nodiscard]] Class* nominee_of(Node queue);
  [[nodiscard]] Class* filler_of(Node queue);
  [[nodiscard]] Class& next(std::vector<Class*>& nominees);
  void admit(Class& of, std::int64_t now, Outcome& out);
  void displace(Class& of, Outcome& out);
  void settle(std::int64_t now, Outcome& out);
  [[nodiscard]] bool decide(std::int64_t now, Outcome& out);
  void weigh_holders();
  void reopen();
  void wait_again(Class& of, const Place& place);
  void hold_now(Class& of, const Work& work, const Assignment& assignment, std::int64_t now);
  [[nodiscard]] const QueueRules& rules(Node queue) const { return field_.rules[static_cast<std::size_t>(queue)]; }

  std::unique_ptr<Displacements> displacements_;  ///< the field points to it
  std::unique_ptr<Foresight> foresight_;
  Field field_;
  UsageShares usage_;
  std::vector<Queue> queues_;  ///< by node
  Lookup<int, Waiter> waiters_;
  std::map<int, Class*> faulty_;  ///< who is passed over
  std::map<int, Holder> holders_;
  std::map<int, Claim> claims_;
  std::set<Node> awake_;       ///< queues in which something is open
  std::uint64_t version_ = 1;  ///< of the field
};

}  // namespace qm::admission::exact
