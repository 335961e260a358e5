#pragma once
#include "qm/admission/decisions.hpp"
#include "qm/admission/forecast/reservations.hpp"
#include "qm/admission/kueue/cycle.hpp"
#include "qm/admission/volcano/pool.hpp"

#include <algorithm>
#include <memory>

namespace qm::admission {

/// One quota tree, scheduled by one set of rules.
class Decisions::Tree {
 public:
  virtual ~Tree() = default;
  /// Sets the waiting time after which capacity is kept for a workload; zero = the default. Call before it is added.
  virtual void set_waiting_time(int /*id*/, Duration /*time*/) {}
  virtual void enqueue(kueue::Work work) = 0;
  virtual void hold(kueue::Work work) = 0;
  virtual void claim(const kueue::Work& work, kueue::Amounts usage, std::vector<int> victims) = 0;
  virtual void withdraw(int id) = 0;  ///< it may be added again
  virtual void finish(int id) = 0;
  virtual void leave(int id) = 0;
  virtual void stake(int id, const kueue::Stake& stake) = 0;
  virtual void evicted(int id) = 0;
  virtual void shrink(int id, kueue::Amounts usage) = 0;
  virtual kueue::Outcome run(std::int64_t now) = 0;
  [[nodiscard]] virtual kueue::QuotaState& field() = 0;
  [[nodiscard]] virtual std::int64_t claimed(kueue::Node queue, kueue::Cell cell) const = 0;
  /// The assignment of a workload that waits for its victims, as reported by run(); null if no quota is kept for it.
  [[nodiscard]] virtual const kueue::Assignment* claim_of(int id) const = 0;
  [[nodiscard]] virtual std::vector<int> victims_of(int id) const = 0;
  [[nodiscard]] virtual kueue::PreemptionGraph* preemptions() = 0;
  virtual void relax(std::int64_t instant) = 0;
  virtual void look_again() {}
  [[nodiscard]] virtual const Sharing* sharing() const { return nullptr; }
  /// Usage of local queues, if queues of the tree may order by it.
  [[nodiscard]] virtual kueue::UsageShares* usage() { return nullptr; }
};

/// Schedules continuously.
class Decisions::ContinuousScheduler final : public Decisions::Tree {
 public:
  ContinuousScheduler(kueue::QuotaState field, kueue::UsageShares usage) : tree_(std::move(field), std::move(usage)) {
    if (std::ranges::any_of(tree_.field().rules, &kueue::QueueRules::backfill)) {
      tree_.set_backfill(std::make_unique<forecast::Reservations>());
    }
  }
  void enqueue(kueue::Work work) override { tree_.enqueue(std::move(work)); }
  void hold(kueue::Work work) override { tree_.hold(std::move(work)); }
  void claim(const kueue::Work& work, kueue::Amounts usage, std::vector<int> victims) override {
    tree_.claim(work, std::move(usage), {}, std::move(victims));
  }
  void withdraw(int id) override { tree_.withdraw(id); }
  void finish(int id) override { tree_.finish(id); }
  void leave(int id) override { tree_.leave(id); }
  void stake(int id, const kueue::Stake& stake) override { tree_.stake(id, stake); }
  void evicted(int id) override { tree_.evicted(id); }
  void shrink(int id, kueue::Amounts usage) override { tree_.shrink(id, std::move(usage)); }
  kueue::Outcome run(std::int64_t now) override { return tree_.run(now); }
  kueue::QuotaState& field() override { return tree_.field(); }
  std::int64_t claimed(kueue::Node queue, kueue::Cell cell) const override { return tree_.claimed(queue, cell); }
  const kueue::Assignment* claim_of(int id) const override { return &tree_.claim_of(id); }
  std::vector<int> victims_of(int id) const override { return tree_.victims_of(id); }
  kueue::PreemptionGraph* preemptions() override { return &tree_.preemptions(); }
  void relax(std::int64_t instant) override { tree_.relax(instant); }
  void look_again() override { tree_.look_again(); }
  kueue::UsageShares* usage() override { return &tree_.usage(); }

 private:
  kueue::Continuous tree_;
};

/// Schedules in cycles until they change nothing. Inadmissible workloads are nominated again when quota in the tree
/// becomes free.
class Decisions::CycleScheduler final : public Decisions::Tree {
 public:
  CycleScheduler(kueue::QuotaState field, kueue::UsageShares usage) : tree_(std::move(field), std::move(usage)) {}
  void enqueue(kueue::Work work) override { tree_.enqueue(std::move(work)); }
  void hold(kueue::Work work) override { tree_.hold(std::move(work)); }
  void claim(const kueue::Work& work, kueue::Amounts /*usage*/, std::vector<int> /*victims*/) override {
    tree_.enqueue(work);
  }
  void withdraw(int id) override { finish(id); }
  void finish(int id) override {
    leaving_.erase(id);
    tree_.finish(id);
    tree_.requeue();
  }
  void leave(int id) override {
    leaving_.insert(id);
    tree_.leave(id);
  }
  void stake(int /*id*/, const kueue::Stake& /*stake*/) override {}
  void evicted(int id) override {
    leaving_.erase(id);
    tree_.evicted(id);
    tree_.requeue();
  }
  void shrink(int id, kueue::Amounts usage) override {
    tree_.shrink(id, std::move(usage));
    tree_.requeue();
  }
  kueue::Outcome run(std::int64_t now) override;
  kueue::QuotaState& field() override { return tree_.field(); }
  std::int64_t claimed(kueue::Node /*queue*/, kueue::Cell /*cell*/) const override { return 0; }
  const kueue::Assignment* claim_of(int /*id*/) const override { return nullptr; }
  std::vector<int> victims_of(int /*id*/) const override { return {}; }
  kueue::PreemptionGraph* preemptions() override { return nullptr; }
  void relax(std::int64_t /*instant*/) override {}
  kueue::UsageShares* usage() override { return &tree_.usage(); }

 private:
  kueue::Cycle tree_;
  std::int64_t cycle_ = 0;
  std::set<int> leaving_;
};

/// Schedules by Volcano's rules: the quota of the root is a pool, and its cells are the resources of the pool. The
/// field only counts usage.
class Decisions::Sharing final : public Decisions::Tree {
 public:
  /// `at`: the queue in the pool, by node. `name` is the cohort's.
  Sharing(std::string name, kueue::QuotaState field, volcano::Pool pool, std::vector<volcano::QueueId> at,
          Duration waiting_time)
      : name_(std::move(name)),
        field_(std::move(field)),
        pool_(std::move(pool)),
        at_(std::move(at)),
        waiting_time_(waiting_time) {}
  void set_waiting_time(int id, Duration time) override {
    time > Duration{0} ? (void)patience_.insert_or_assign(id, time) : (void)patience_.erase(id);
  }
  void enqueue(kueue::Work work) override;
  void hold(kueue::Work work) override;
  void claim(const kueue::Work& work, kueue::Amounts usage, std::vector<int> victims) override;
  void withdraw(int id) override;
  void finish(int id) override;
  void leave(int id) override { pool_.leave(id); }
  void stake(int id, const kueue::Stake& stake) override { pool_.min_runtime_end(id, stake.min_runtime_until); }
  void evicted(int id) override;
  void shrink(int /*id*/, kueue::Amounts /*usage*/) override {}  // not called: a gang is counted whole
  kueue::Outcome run(std::int64_t now) override;
  kueue::QuotaState& field() override { return field_; }
  std::int64_t claimed(kueue::Node /*queue*/, kueue::Cell /*cell*/) const override { return 0; }  // not counted there
  const kueue::Assignment* claim_of(int id) const override;
  std::vector<int> victims_of(int id) const override { return pool_.victims_of(id); }
  kueue::PreemptionGraph* preemptions() override { return &pool_.preemptions(); }
  void relax(std::int64_t instant) override {
    if (!pool_.preemptions().all().empty()) pool_.preemptions().relax(instant);
  }
  [[nodiscard]] const Sharing* sharing() const override { return this; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const volcano::Pool& pool() const { return pool_; }
  [[nodiscard]] volcano::QueueId queue_at(kueue::Node node) const { return at_[static_cast<std::size_t>(node)]; }
  /// The only flavor of the pool for a resource; empty if it has none.
  [[nodiscard]] std::optional<std::pair<kueue::Flavor, kueue::Cell>> offer_of(kueue::Node queue,
                                                                              kueue::Resource r) const;
  /// The workload as a job of the pool; empty if it can never fit there.
  [[nodiscard]] std::optional<volcano::Pool::Job> job_of(const kueue::Work& work) const;

 private:
  void wait(const kueue::Work& work);
  void forget(int id);
  [[nodiscard]] kueue::Assignment assignment_of(const kueue::Work& work) const;

  std::string name_;
  kueue::QuotaState field_;
  volcano::Pool pool_;
  std::vector<volcano::QueueId> at_;
  Duration waiting_time_;
  struct WorkloadEntry {
    kueue::Work work;
    bool in_pool = true, holds = false;
    std::optional<kueue::Assignment> claim;
  };
  std::map<int, WorkloadEntry> entries_;
  std::map<int, Duration> patience_;  ///< of workloads with their own
};

}  // namespace qm::admission
