#pragma once
#include "cluster.hpp"
#include "qm/autoscaler/consolidate/plan.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace qm::autoscaler::consolidate {

/// Finds places for the pods of removed nodes. The cluster is unchanged after each trial.
class Removal {
 public:
  explicit Removal(const Problem& problem) : problem_(problem), cluster_(problem) {}

  /// The plan that removes the nodes, ascending; an error has the reason for which they stay.
  [[nodiscard]] Result<Plan> try_remove(std::span<const std::size_t> nodes);

 private:
  using Pods = std::vector<const Pod*>;
  [[nodiscard]] Pods pods_to_move(std::span<const std::size_t> nodes) const;
  void move(const Pods& pods, Plan& plan, Pods& left);
  [[nodiscard]] Status launch(const Pods& pods, Plan& plan);
  [[nodiscard]] bool fits(const Plan& plan);

  const Problem& problem_;
  Cluster cluster_;
};

}  // namespace qm::autoscaler::consolidate
