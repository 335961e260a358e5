#pragma once
#include "qm/placement/policy.hpp"

#include <string>

namespace qm::placement {

/// One more condition on nodes, before those of `others`, which may be null.
class Narrowed : public Neighbourhood {
 public:
  explicit Narrowed(Neighbourhood* others) : others_(others) {}

  [[nodiscard]] bool one_by_one(std::size_t set) const final { return others_ != nullptr && others_->one_by_one(set); }
  [[nodiscard]] bool admits(std::size_t set, const NodeName& node) const final {
    return meets(node) && (others_ == nullptr || others_->admits(set, node));
  }
  [[nodiscard]] std::int64_t most(std::size_t set, const NodeName& node) const final {
    return others_ == nullptr ? Neighbourhood::most(set, node) : others_->most(set, node);
  }
  [[nodiscard]] std::string rejects(std::size_t set, const NodeName& node) const final {
    if (!meets(node)) return why_not(node);
    return others_ == nullptr ? std::string() : others_->rejects(set, node);
  }
  [[nodiscard]] std::int64_t worth(std::size_t set, const NodeName& node) const final {
    return others_ == nullptr ? 0 : others_->worth(set, node);
  }
  [[nodiscard]] bool has_data(std::size_t set, const NodeName& node) const final {
    return others_ != nullptr && others_->has_data(set, node);
  }
  void take(std::size_t set, const NodeName& node) final {
    if (others_ != nullptr) others_->take(set, node);
  }

 private:
  [[nodiscard]] virtual bool meets(const NodeName& node) const = 0;
  /// Of one that does not, as words that follow a number of nodes.
  [[nodiscard]] virtual std::string why_not(const NodeName& node) const = 0;

  Neighbourhood* others_;
};

}  // namespace qm::placement
