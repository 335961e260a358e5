#pragma once
#include "qm/placement/policy.hpp"

#include <string>

namespace qm::placement {

/// An additional node constraint, evaluated before those of `others`, which may be null. Pods of the gang do
/// not change it.
class NodeConstraint : public InterPodConstraints {
 public:
  explicit NodeConstraint(InterPodConstraints* others) : others_(others) {}

  [[nodiscard]] bool one_by_one(std::size_t set) const final { return others_ != nullptr && others_->one_by_one(set); }
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const final {
    return meets(node, capacity) && (others_ == nullptr || others_->suits(set, node, capacity));
  }
  [[nodiscard]] const DynamicConstraints* dynamic(std::size_t set) const final {
    return others_ == nullptr ? nullptr : others_->dynamic(set);
  }
  [[nodiscard]] std::int64_t most(std::size_t set, const NodeName& node) const final {
    return others_ == nullptr ? InterPodConstraints::most(set, node) : others_->most(set, node);
  }
  [[nodiscard]] std::string rejects(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const final {
    if (!meets(node, capacity)) return why_not(node, capacity);
    return others_ == nullptr ? std::string() : others_->rejects(set, node, capacity);
  }
  [[nodiscard]] bool has_data(std::size_t set, const NodeCapacity& capacity) const final {
    return others_ != nullptr && others_->has_data(set, capacity);
  }
  void take(std::size_t set, const NodeName& node) final {
    if (others_ != nullptr) others_->take(set, node);
  }

 private:
  [[nodiscard]] virtual bool meets(const NodeName& node, const NodeCapacity& capacity) const = 0;
  /// The reason for a node that fails, as text after a number of nodes.
  [[nodiscard]] virtual std::string why_not(const NodeName& node, const NodeCapacity& capacity) const = 0;

  InterPodConstraints* others_;
};

}  // namespace qm::placement
