#pragma once
#include "qm/placement/policy.hpp"

#include <string>

namespace qm::placement {

/// An additional node constraint, evaluated before those of `others`, which may be null. Pods of the gang do
/// not change it.
class Narrowed : public Neighbourhood {
 public:
  explicit Narrowed(Neighbourhood* others) : others_(others) {}

  [[nodiscard]] bool one_by_one(std::size_t set) const final { return others_ != nullptr && others_->one_by_one(set); }
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const Room& room) const final {
    return meets(node, room) && (others_ == nullptr || others_->suits(set, node, room));
  }
  [[nodiscard]] const Shifting* shifting(std::size_t set) const final {
    return others_ == nullptr ? nullptr : others_->shifting(set);
  }
  [[nodiscard]] std::int64_t most(std::size_t set, const NodeName& node) const final {
    return others_ == nullptr ? Neighbourhood::most(set, node) : others_->most(set, node);
  }
  [[nodiscard]] std::string rejects(std::size_t set, const NodeName& node, const Room& room) const final {
    if (!meets(node, room)) return why_not(node, room);
    return others_ == nullptr ? std::string() : others_->rejects(set, node, room);
  }
  [[nodiscard]] bool has_data(std::size_t set, const Room& room) const final {
    return others_ != nullptr && others_->has_data(set, room);
  }
  void take(std::size_t set, const NodeName& node) final {
    if (others_ != nullptr) others_->take(set, node);
  }

 private:
  [[nodiscard]] virtual bool meets(const NodeName& node, const Room& room) const = 0;
  /// The reason for a node that fails, as text after a number of nodes.
  [[nodiscard]] virtual std::string why_not(const NodeName& node, const Room& room) const = 0;

  Neighbourhood* others_;
};

}  // namespace qm::placement
