#pragma once
#include "qm/admission/kueue/displacements.hpp"
#include "qm/admission/kueue/outcome.hpp"
#include "qm/admission/kueue/usage_shares.hpp"
#include "qm/admission/kueue/victims.hpp"

#include <cstdint>
#include <vector>

namespace qm::admission {

/// Quota that is kept for workloads whose victims still terminate.
class Claims {
 public:
  /// Adds a pending workload with the claim that its row has.
  virtual void claim(const kueue::Work& work, kueue::Amounts usage, kueue::LeafUses on_nodes,
                     std::vector<int> victims) = 0;
  /// The assignment of a workload that waits for its victims, as reported by run(); null if no quota is kept for it.
  [[nodiscard]] virtual const kueue::Assignment* claim_of(int id) const = 0;
  [[nodiscard]] virtual std::vector<int> victims_of(int id) const = 0;

 protected:
  ~Claims() = default;
};

/// Preemptions that bind later decisions: which workload preempted which, and what an eviction costs.
class Displacements {
 public:
  /// Sets what a workload that holds quota would lose by an eviction.
  virtual void stake(int id, const kueue::Stake& stake) = 0;
  [[nodiscard]] virtual kueue::PreemptionGraph& preemptions() = 0;
  /// Preemptions before `instant` no longer bind.
  virtual void relax(std::int64_t instant) = 0;

 protected:
  ~Displacements() = default;
};

/// Workloads whose quota changes while they hold it.
class Resizing {
 public:
  virtual void resize(int id, kueue::Amounts usage) = 0;

 protected:
  ~Resizing() = default;
};

/// Results of earlier searches that are kept until a change concerns them.
class SearchResults {
 public:
  virtual void discard_results() = 0;

 protected:
  ~SearchResults() = default;
};

/// Schedules one quota tree by one set of rules. Workloads and queues are numbers.
///
/// A workload is added by enqueue() or hold(), and leaves by withdraw() or finish(). What only some rules have is an
/// interface of its own, and null where the rules do not have it.
///
/// Units    instants in microseconds.
/// Threads  one.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// Adds a pending workload.
  virtual void enqueue(kueue::Work work) = 0;
  /// Adds a workload that holds quota.
  virtual void hold(kueue::Work work) = 0;
  /// Removes a workload that may be added again.
  virtual void withdraw(int id) = 0;
  /// Removes a workload that has ended.
  virtual void finish(int id) = 0;
  /// The workload is being evicted.
  virtual void leave(int id) = 0;
  /// The pods of an evicted workload are gone: its quota is free, and it is pending again.
  virtual void evicted(int id) = 0;
  virtual kueue::Outcome run(std::int64_t now) = 0;

  /// Quota and its holders. Queries may change it, and restore it before they return.
  [[nodiscard]] virtual kueue::QuotaState& quota() = 0;
  /// What quota() counts as used by a queue, without claims.
  [[nodiscard]] virtual std::int64_t held(kueue::Node queue, kueue::Cell cell) const = 0;

  [[nodiscard]] virtual Claims* claims() { return nullptr; }
  [[nodiscard]] virtual Displacements* displacements() { return nullptr; }
  [[nodiscard]] virtual Resizing* resizing() { return nullptr; }
  [[nodiscard]] virtual SearchResults* search_results() { return nullptr; }
  /// Usage of local queues, if queues of the tree may order by it. Set it before run().
  [[nodiscard]] virtual kueue::UsageShares* usage() { return nullptr; }
};

}  // namespace qm::admission
