#pragma once
#include "engine/parts.hpp"

#include <optional>
#include <set>

namespace qm::placement {

/// The evaluation of a step: a fixed list of phases over everything that the observations have marked.
class Evaluation {
 public:
  explicit Evaluation(EngineParts& parts) : parts_(parts), scratch_(parts.state.scratch) {}

  /// Runs all phases and sets the events and the next timer of the output.
  void run();

 private:
  struct Phase;
  static const Phase kPhases[];

  void report_foreign_pods();
  void wake();
  void evaluate_nodes();
  void reconcile();
  void recheck();
  void place();
  void repartition();
  void preempt();
  void defragment();
  void offer();
  void publish();
  [[nodiscard]] std::optional<Instant> next_timer() const;

  EngineParts& parts_;
  Scratch& scratch_;
  std::set<NodeName> seen_;  // nodes evaluated in this step
};

}  // namespace qm::placement
