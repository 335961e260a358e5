#pragma once
#include "qm/placement/engine.hpp"

namespace qm::placement {

/// Inter-pod constraints of a gang by the rule book. Pods that it places are in the book during its lifetime.
class RuleBookConstraints final : public InterPodConstraints, public DynamicConstraints {
 public:
  /// `likes`: by pod set; a set without one has no rules.
  RuleBookConstraints(rules::RuleBook& book, const std::vector<std::optional<rules::PodTemplate>>& likes);
  ~RuleBookConstraints() override;
  RuleBookConstraints(const RuleBookConstraints&) = delete;
  RuleBookConstraints& operator=(const RuleBookConstraints&) = delete;

  /// Whether a pod with these rules changes where the next one may go.
  [[nodiscard]] static bool one_by_one(const rules::PodRules& rules);
  [[nodiscard]] bool one_by_one(std::size_t set) const override;
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const override;
  [[nodiscard]] const DynamicConstraints* dynamic(std::size_t set) const override;
  [[nodiscard]] std::string rejects(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const override;
  [[nodiscard]] bool has_data(std::size_t set, const NodeCapacity& capacity) const override;
  void take(std::size_t set, const NodeName& node) override;
  [[nodiscard]] rules::NodeIndex number(const NodeName& node, const NodeCapacity& capacity) const override;
  [[nodiscard]] const rules::NodeSet& open(std::size_t set) const override;
  [[nodiscard]] const std::vector<std::int64_t>* worth(std::size_t set) const override;

 private:
  struct Kind {
    rules::TemplateId id = 0;
    bool one_by_one = false;
    std::string data;  // label of nodes that have the data of its pods
    // Caches, valid until the next pod is placed.
    mutable bool asked = false, scored = false, explained = false;
    mutable rules::NodeSet open;
    mutable std::vector<std::int64_t> worth;
    mutable std::vector<std::string> why_not;
  };

  rules::RuleBook& book_;
  std::vector<std::optional<Kind>> kinds_;
  bool shifts_ = false;  // the pods of some set are placed one by one
  std::vector<std::string> taken_;
};

}  // namespace qm::placement
