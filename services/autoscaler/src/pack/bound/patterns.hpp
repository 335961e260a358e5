#pragma once
#include "model.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace qm::autoscaler::pack {

/// Pods that are equal to the bound.
struct BoundClass {
  Load load{};
  std::uint32_t mask = 0;           ///< offers that accept the pod, in any zone
  std::vector<std::uint32_t> caps;  ///< limits of pods on one node that the class counts against
  std::int64_t count = 0;
};

/// One kind of node to the bound: room, cost and the classes that it accepts.
struct BoundShape {
  Load room{};
  double cost = 0;
  std::vector<bool> accepts;  ///< by mask number, see BoundProblem::masks
};

struct BoundProblem {
  std::size_t resources = 3;
  std::vector<BoundClass> classes;
  std::vector<std::int64_t> caps;  ///< most pods on one node
  std::vector<BoundShape> shapes;
  std::vector<std::uint32_t> mask_index;  ///< by class: index in `accepts` of a shape
  std::vector<std::size_t> class_of;      ///< by class of the model
};

/// Forms at most `most` classes. If there are more, requests are rounded down and limits dropped: the bound then is
/// one of an easier problem, so it is still valid.
[[nodiscard]] BoundProblem bound_problem(Model& model, std::size_t most);

struct Pattern {
  std::vector<std::pair<std::size_t, std::int64_t>> pods;  ///< class and number
  double worth = 0;
  double most = 0;  ///< no pattern of the shape is worth more, or more than its cost
};

/// Searches patterns at prices of pods.
class Pricing {
 public:
  explicit Pricing(const BoundProblem& problem) : problem_(problem) {}

  void set(const std::vector<double>& price);
  /// The pattern of the shape with the highest worth, if one is worth more than the shape costs.
  ///
  /// Searches by branch and bound: multipliers from the linear relaxation bound what the rest of the room can be
  /// worth. After `nodes` steps `most` is the largest bound of what was not searched. Only some shapes are searched at
  /// one set of prices; the others have a bound and no pattern.
  [[nodiscard]] Pattern best(const BoundShape& shape, std::size_t nodes);
  /// What no pattern of the shape exceeds, by the multipliers known so far.
  [[nodiscard]] double most(const BoundShape& shape) const;
  /// Adds multipliers of the resources.
  void add(std::vector<double> unit) { known_.push_back(std::move(unit)); }

 private:
  const BoundProblem& problem_;
  std::vector<double> price_;
  std::vector<std::vector<double>> known_;  // multipliers of the resources, from earlier shapes
  std::size_t relaxations_ = 0;
};

}  // namespace qm::autoscaler::pack
