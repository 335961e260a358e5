#pragma once
#include "qm/placement/engine.hpp"

namespace qm::placement {

/// A gang's neighbourhood in the book of rules. Pods that it takes are in the book until it goes.
class Engine::Beside final : public Neighbourhood, public Shifting {
 public:
  /// `likes`: by pod set; for a set without one there are no rules.
  Beside(rules::RuleBook& book, const std::vector<std::optional<rules::PodTemplate>>& likes);
  ~Beside() override;
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  /// Whether a pod of these changes where the next may go.
  [[nodiscard]] static bool one_by_one(const rules::PodRules& rules);
  [[nodiscard]] bool one_by_one(std::size_t set) const override;
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const Room& room) const override;
  [[nodiscard]] const Shifting* shifting(std::size_t set) const override;
  [[nodiscard]] std::string rejects(std::size_t set, const NodeName& node, const Room& room) const override;
  [[nodiscard]] bool has_data(std::size_t set, const Room& room) const override;
  void take(std::size_t set, const NodeName& node) override;
  [[nodiscard]] rules::NodeIndex number(const NodeName& node, const Room& room) const override;
  [[nodiscard]] const rules::NodeSet& open(std::size_t set) const override;
  [[nodiscard]] const std::vector<std::int64_t>* worth(std::size_t set) const override;

 private:
  struct Kind {
    rules::TemplateId id = 0;
    bool one_by_one = false;
    std::string data;  // label of the nodes that have what its pods read
    // As things are since the last pod that was taken.
    mutable bool asked = false, scored = false, explained = false;
    mutable rules::NodeSet open;
    mutable std::vector<std::int64_t> worth;
    mutable std::vector<std::string> why_not;
  };

  rules::RuleBook& book_;
  std::vector<std::optional<Kind>> kinds_;
  bool shifts_ = false;  // some set's pods go one by one
  std::vector<std::string> taken_;
};

}  // namespace qm::placement
