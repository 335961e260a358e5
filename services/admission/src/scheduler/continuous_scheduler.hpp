#pragma once
#include "qm/admission/kueue/continuous.hpp"
#include "scheduler/scheduler.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace qm::admission {

/// Schedules continuously: each change is decided at once, without Kueue's cycles.
class ContinuousScheduler final : public Scheduler, Claims, Displacements, Resizing, SearchResults {
 public:
  ContinuousScheduler(kueue::QuotaState quota, kueue::UsageShares usage);

  void enqueue(kueue::Work work) override { tree_.enqueue(std::move(work)); }
  void hold(kueue::Work work) override { tree_.hold(std::move(work)); }
  void withdraw(int id) override { tree_.withdraw(id); }
  void finish(int id) override { tree_.finish(id); }
  void leave(int id) override { tree_.leave(id); }
  void evicted(int id) override { tree_.evicted(id); }
  kueue::Outcome run(std::int64_t now) override { return tree_.run(now); }
  kueue::QuotaState& quota() override { return tree_.field(); }
  std::int64_t held(kueue::Node queue, kueue::Cell cell) const override {
    return tree_.field().tree.used(queue, cell) - tree_.claimed(queue, cell);
  }
  Claims* claims() override { return this; }
  Displacements* displacements() override { return this; }
  Resizing* resizing() override { return this; }
  SearchResults* search_results() override { return this; }
  kueue::UsageShares* usage() override { return &tree_.usage(); }

 private:
  void claim(const kueue::Work& work, kueue::Amounts usage, kueue::LeafUses on_nodes,
             std::vector<int> victims) override {
    tree_.claim(work, std::move(usage), std::move(on_nodes), std::move(victims));
  }
  const kueue::Assignment* claim_of(int id) const override { return &tree_.claim_of(id); }
  std::vector<int> victims_of(int id) const override { return tree_.victims_of(id); }
  void stake(int id, const kueue::Stake& stake) override { tree_.stake(id, stake); }
  kueue::PreemptionGraph& preemptions() override { return tree_.preemptions(); }
  void relax(std::int64_t instant) override { tree_.relax(instant); }
  void resize(int id, kueue::Amounts usage) override { tree_.shrink(id, std::move(usage)); }
  void discard_results() override { tree_.look_again(); }

  kueue::Continuous tree_;
};

}  // namespace qm::admission
