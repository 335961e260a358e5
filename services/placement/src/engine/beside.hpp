#pragma once
#include "qm/placement/engine.hpp"

namespace qm::placement {

/// A gang's neighbourhood in the book of rules. Pods that it takes are in the book until it goes.
class Engine::Beside final : public Neighbourhood {
 public:
  /// `likes`: by pod set; for a set without one there are no rules. The rooms outlive this.
  Beside(rules::RuleBook& book, const Rooms& rooms, const std::vector<std::optional<rules::PodTemplate>>& likes);
  ~Beside() override;
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  [[nodiscard]] bool one_by_one(std::size_t set) const override;
  [[nodiscard]] bool admits(std::size_t set, const NodeName& node) const override;
  [[nodiscard]] std::string rejects(std::size_t set, const NodeName& node) const override;
  [[nodiscard]] std::int64_t worth(std::size_t set, const NodeName& node) const override;
  [[nodiscard]] bool has_data(std::size_t set, const NodeName& node) const override;
  void take(std::size_t set, const NodeName& node) override;

 private:
  struct Kind {
    rules::TemplateId id = 0;
    bool one_by_one = false;
    std::string data;  // label of the nodes that have what its pods read
    // As things are since the last pod that was taken.
    mutable bool asked = false, scored = false;
    mutable rules::NodeSet feasible;
    mutable std::map<rules::NodeIndex, std::int64_t> scores;
  };
  void ask(const Kind& kind) const;

  rules::RuleBook& book_;
  const Rooms& rooms_;
  std::vector<std::optional<Kind>> kinds_;
  std::vector<std::string> taken_;
};

}  // namespace qm::placement
