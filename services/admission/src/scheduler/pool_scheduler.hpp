#pragma once
#include "qm/admission/volcano/pool.hpp"
#include "scheduler/scheduler.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace qm::admission {

/// Schedules by Volcano's rules: the quota of the root is a pool, and its cells are the resources of the pool. quota()
/// only counts usage. A gang is counted whole, so its quota does not change while it holds it.
class PoolScheduler final : public Scheduler, Claims, Displacements {
 public:
  /// `at`: the queue in the pool, by node. `name` is the cohort's. `waiting_time`: for workloads without their own.
  PoolScheduler(std::string name, kueue::QuotaState quota, volcano::Pool pool, std::vector<volcano::QueueId> at,
                Duration waiting_time);

  /// Sets the waiting time after which capacity is kept for a workload; zero = the default. Call before it is added.
  void set_waiting_time(int id, Duration time);

  void enqueue(kueue::Work work) override;
  void hold(kueue::Work work) override;
  void withdraw(int id) override;
  void finish(int id) override;
  void leave(int id) override { pool_.leave(id); }
  void evicted(int id) override;
  kueue::Outcome run(std::int64_t now) override;
  kueue::QuotaState& quota() override { return quota_; }
  std::int64_t held(kueue::Node queue, kueue::Cell cell) const override { return quota_.tree.used(queue, cell); }
  Claims* claims() override { return this; }
  Displacements* displacements() override { return this; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const volcano::Pool& pool() const { return pool_; }
  [[nodiscard]] volcano::QueueId queue_at(kueue::Node node) const { return at_[static_cast<std::size_t>(node)]; }
  /// The only flavor of the pool for a resource; empty if it has none.
  [[nodiscard]] std::optional<std::pair<kueue::Flavor, kueue::Cell>> offer_of(kueue::Node queue,
                                                                              kueue::Resource r) const;
  /// The workload as a job of the pool; empty if it can never fit there.
  [[nodiscard]] std::optional<volcano::Pool::Job> job_of(const kueue::Work& work) const;

 private:
  struct Entry {
    kueue::Work work;
    bool in_pool = true, holds = false;
    std::optional<kueue::Assignment> claim;
  };

  void claim(const kueue::Work& work, kueue::Amounts usage, kueue::LeafUses on_nodes,
             std::vector<int> victims) override;
  const kueue::Assignment* claim_of(int id) const override;
  std::vector<int> victims_of(int id) const override { return pool_.victims_of(id); }
  void stake(int id, const kueue::Stake& stake) override { pool_.min_runtime_end(id, stake.min_runtime_until); }
  kueue::PreemptionGraph& preemptions() override { return pool_.preemptions(); }
  void relax(std::int64_t instant) override {
    if (!pool_.preemptions().all().empty()) pool_.preemptions().relax(instant);
  }

  void wait(const kueue::Work& work);
  void forget(int id);
  [[nodiscard]] kueue::Assignment assignment_of(const kueue::Work& work) const;

  std::string name_;
  kueue::QuotaState quota_;
  volcano::Pool pool_;
  std::vector<volcano::QueueId> at_;
  Duration waiting_time_;
  std::map<int, Entry> entries_;
  std::map<int, Duration> waiting_times_;  ///< of workloads with their own
};

}  // namespace qm::admission
