#pragma once
#include "bound/patterns.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace qm::autoscaler::pack {

/// The best patterns of all small shapes at once, by dynamic programming over CPU and memory in steps.
///
/// Requests are rounded down to steps, and limits of pods on one node are ignored but for the one that most pods count
/// against. So a pattern may not fit in truth, and the bound that follows is one of an easier problem.
/// Cost     cells times distinct requests; a cell is a step of CPU and one of memory.
class Grid {
 public:
  /// nullopt if the problem has extended resources, shapes that accept different pods, or pods without a step.
  /// It covers shapes for up to `pods` mean pods.
  static std::optional<Grid> make(const BoundProblem& problem, std::int64_t pods);

  [[nodiscard]] std::size_t cells() const { return (size_.cpu + 1) * (size_.memory + 1); }
  [[nodiscard]] bool covers(const BoundShape& shape) const;
  /// Solves all shapes at these prices of pods. Returns false if `stop` returned true before the end.
  bool solve(const std::vector<double>& price, const std::function<bool()>& stop);
  /// The best pattern of a covered shape; empty if none is worth more than the shape costs.
  [[nodiscard]] Pattern best(const BoundShape& shape) const;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  struct Steps {
    std::size_t cpu = 0, memory = 0;
  };
  struct Item {
    Steps steps;
    double price = 0;
    std::size_t number = 0;  // class
  };
  [[nodiscard]] Steps steps_of(const Load& load) const;
  void set_items(const std::vector<double>& price);
  [[nodiscard]] std::size_t cell(const Steps& at) const { return at.cpu * (size_.memory + 1) + at.memory; }

  const BoundProblem* problem_ = nullptr;
  std::int64_t cpu_step_ = 1, memory_step_ = 1;
  Steps size_;
  std::vector<Steps> steps_;                 // by class
  std::vector<std::size_t> plain_, single_;  // classes; at most one pod of `single_` is on a node
  std::vector<double> price_, worth_;        // by class, by cell
  std::vector<Item> items_;                  // classes of plain_ that no smaller class is worth more than
};

}  // namespace qm::autoscaler::pack
