#pragma once
#include "qm/admission/kueue/cycle.hpp"
#include "scheduler/scheduler.hpp"

#include <cstdint>
#include <set>
#include <utility>

namespace qm::admission {

/// Schedules in cycles, as Kueue does, until they change nothing. Inadmissible workloads are nominated again when quota
/// in the tree becomes free. A preemptor keeps no quota: it is nominated again when its victims are gone.
class CycleScheduler final : public Scheduler, Resizing, SearchResults {
 public:
  CycleScheduler(kueue::QuotaState quota, kueue::UsageShares usage) : tree_(std::move(quota), std::move(usage)) {}

  void enqueue(kueue::Work work) override { tree_.enqueue(std::move(work)); }
  void hold(kueue::Work work) override { tree_.hold(std::move(work)); }
  void withdraw(int id) override { finish(id); }
  void finish(int id) override;
  void leave(int id) override;
  void evicted(int id) override;
  kueue::Outcome run(std::int64_t now) override;
  kueue::QuotaState& quota() override { return tree_.field(); }
  std::int64_t held(kueue::Node queue, kueue::Cell cell) const override { return tree_.field().tree.used(queue, cell); }
  Resizing* resizing() override { return this; }
  SearchResults* search_results() override { return this; }
  kueue::UsageShares* usage() override { return &tree_.usage(); }

 private:
  void resize(int id, kueue::Amounts usage) override;
  void discard_results() override { tree_.requeue(); }

  kueue::Cycle tree_;
  std::int64_t cycle_ = 0;
  std::set<int> leaving_;
};

}  // namespace qm::admission
