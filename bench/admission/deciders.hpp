#pragma once
// Three implementations of the same decisions: the rules in cycles, the rules continuously, and the engine with its
// rows and events. A load shape is written once and uses only this interface.
#include "qm/admission/engine.hpp"
#include "qm/admission/kueue/continuous.hpp"
#include "qm/admission/kueue/cycle.hpp"

#include <set>
#include <string>
#include <vector>

namespace qm::bench {

/// Cohorts of queues with one flavor of one resource.
struct Quotas {
  int cohorts = 10, queues = 10;
  std::int64_t nominal = 100;
  std::optional<std::int64_t> borrowing_limit{};
  bool fair = false, strict = false;
};

/// One pod that requests CPUs. Ids are 0, 1, 2, ...
struct Job {
  int id = 0, cohort = 0, queue = 0;
  std::int64_t cpus = 1;
  std::int32_t priority = 0;
  std::int64_t created = 0;
};

/// The decisions of one round.
struct Decided {
  std::vector<int> admitted, preempted;
  std::int64_t waits = 0;  ///< workloads that were found to stay pending
  [[nodiscard]] bool any() const { return !admitted.empty() || !preempted.empty(); }
  [[nodiscard]] std::int64_t decisions() const {
    return static_cast<std::int64_t>(admitted.size() + preempted.size()) + waits;
  }
};

struct InCycles {
  static constexpr const char* kName = "cycles";
  explicit InCycles(admission::kueue::QuotaState field) : tree(std::move(field)) {}
  void freed() { tree.requeue(); }
  admission::kueue::Outcome run(std::int64_t now) { return tree.run(++cycle, now); }
  admission::kueue::Cycle tree;
  std::int64_t cycle = 0;
};

struct Continuously {
  static constexpr const char* kName = "continuous";
  explicit Continuously(admission::kueue::QuotaState field) : tree(std::move(field)) {}
  void freed() {}
  admission::kueue::Outcome run(std::int64_t now) { return tree.run(now); }
  admission::kueue::Continuous tree;
};

[[nodiscard]] std::vector<admission::kueue::QuotaState> fields_of(const Quotas& quotas);
[[nodiscard]] admission::kueue::Work work_of(const Job& job);

/// Each cohort is a separate tree; a round runs each tree in which something changed.
template <class Rules>
class Trees {
 public:
  static constexpr const char* kName = Rules::kName;
  explicit Trees(const Quotas& quotas) {
    for (auto& field : fields_of(quotas)) trees_.emplace_back(std::move(field));
    changed_.resize(trees_.size());
  }
  void submit(const Job& job) {
    const auto cohort = static_cast<std::size_t>(job.cohort);
    if (cohort_of_.size() <= static_cast<std::size_t>(job.id)) cohort_of_.resize(static_cast<std::size_t>(job.id) + 1);
    cohort_of_[static_cast<std::size_t>(job.id)] = cohort;
    trees_[cohort].tree.enqueue(work_of(job));
    changed_[cohort] = true;
  }
  void finish(int id) {
    tree_of(id).tree.finish(id);
    tree_of(id).freed();
  }
  void evicted(int id) {
    tree_of(id).tree.evicted(id);
    tree_of(id).freed();
  }
  Decided run(std::int64_t now) {
    Decided out;
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      if (!changed_[i]) continue;
      const auto made = trees_[i].run(now);
      for (const auto& one : made.admitted) out.admitted.push_back(one.id);
      for (const auto& one : made.preempted) out.preempted.push_back(one.id);
      out.waits += static_cast<std::int64_t>(made.waiting.size());
      changed_[i] = !made.admitted.empty() || !made.preempted.empty();
    }
    return out;
  }

 private:
  Rules& tree_of(int id) {
    const auto cohort = cohort_of_[static_cast<std::size_t>(id)];
    changed_[cohort] = true;
    return trees_[cohort];
  }
  std::vector<Rules> trees_;
  std::vector<bool> changed_;
  std::vector<std::size_t> cohort_of_;
};

/// All cohorts in one engine. Placement reserves at once, and reports at once that an evicted workload's pods are
/// gone; a round is a step with the new inputs, and one with these answers.
class InEngine {
 public:
  static constexpr const char* kName = "engine";
  explicit InEngine(const Quotas& quotas);
  void submit(const Job& job);
  void finish(int id);
  void evicted(int id);
  Decided run(std::int64_t now);

 private:
  void step(Decided& out);

  admission::Engine engine_;
  std::vector<admission::Command> batch_;
  std::vector<std::int32_t> attempts_;
  Instant now_{};
};

}  // namespace qm::bench
