#pragma once
#include "qm/admission/decisions.hpp"
#include "qm/admission/exact/cycle.hpp"

namespace qm::admission {

/// One quota tree, decided by either set of rules.
class Decisions::Tree {
 public:
  virtual ~Tree() = default;
  virtual void enqueue(exact::Work work) = 0;
  virtual void hold(exact::Work work) = 0;
  virtual void claim(const exact::Work& work, exact::Amounts usage, std::vector<int> victims) = 0;
  virtual void withdraw(int id) = 0;  ///< it may come back
  virtual void finish(int id) = 0;
  virtual void leave(int id) = 0;
  virtual void stake(int id, const exact::Stake& stake) = 0;
  virtual void evicted(int id) = 0;
  virtual exact::Outcome run(std::int64_t now) = 0;
  [[nodiscard]] virtual exact::Field& field() = 0;
  [[nodiscard]] virtual std::int64_t claimed(exact::Node queue, exact::Cell cell) const = 0;
  /// Of one that run() has just said waits for its victims: what it will have; null where nothing is kept for it.
  [[nodiscard]] virtual const exact::Assignment* claim_of(int id) const = 0;
  [[nodiscard]] virtual std::vector<int> victims_of(int id) const = 0;
  [[nodiscard]] virtual exact::Displacements* displacements() = 0;
  virtual void relax(std::int64_t instant) = 0;
};

/// Continuously.
class Decisions::Flowing final : public Decisions::Tree {
 public:
  explicit Flowing(exact::Field field) : tree_(std::move(field)) {}
  void enqueue(exact::Work work) override { tree_.enqueue(std::move(work)); }
  void hold(exact::Work work) override { tree_.hold(std::move(work)); }
  void claim(const exact::Work& work, exact::Amounts usage, std::vector<int> victims) override {
    tree_.claim(work, std::move(usage), {}, std::move(victims));
  }
  void withdraw(int id) override { tree_.withdraw(id); }
  void finish(int id) override { tree_.finish(id); }
  void leave(int id) override { tree_.leave(id); }
  void stake(int id, const exact::Stake& stake) override { tree_.stake(id, stake); }
  void evicted(int id) override { tree_.evicted(id); }
  exact::Outcome run(std::int64_t now) override { return tree_.run(now); }
  exact::Field& field() override { return tree_.field(); }
  std::int64_t claimed(exact::Node queue, exact::Cell cell) const override { return tree_.claimed(queue, cell); }
  const exact::Assignment* claim_of(int id) const override { return &tree_.claim_of(id); }
  std::vector<int> victims_of(int id) const override { return tree_.victims_of(id); }
  exact::Displacements* displacements() override { return &tree_.displacements(); }
  void relax(std::int64_t instant) override { tree_.relax(instant); }

 private:
  exact::Continuous tree_;
};

/// In cycles, one after the other until they change nothing. Whoever was found inadmissible is looked at again when something in
/// the tree came free.
class Decisions::Cycling final : public Decisions::Tree {
 public:
  explicit Cycling(exact::Field field) : tree_(std::move(field)) {}
  void enqueue(exact::Work work) override { tree_.enqueue(std::move(work)); }
  void hold(exact::Work work) override { tree_.hold(std::move(work)); }
  void claim(const exact::Work& work, exact::Amounts /*usage*/, std::vector<int> /*victims*/) override {
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
  void stake(int /*id*/, const exact::Stake& /*stake*/) override {}
  void evicted(int id) override {
    leaving_.erase(id);
    tree_.evicted(id);
    tree_.requeue();
  }
  exact::Outcome run(std::int64_t now) override;
  exact::Field& field() override { return tree_.field(); }
  std::int64_t claimed(exact::Node /*queue*/, exact::Cell /*cell*/) const override { return 0; }
  const exact::Assignment* claim_of(int /*id*/) const override { return nullptr; }
  std::vector<int> victims_of(int /*id*/) const override { return {}; }
  exact::Displacements* displacements() override { return nullptr; }
  void relax(std::int64_t /*instant*/) override {}

 private:
  exact::Cycle tree_;
  std::int64_t cycle_ = 0;
  std::set<int> leaving_;
};

}  // namespace qm::admission
