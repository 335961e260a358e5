// Hard constraints, one small object each. How many pods fit is not a filter: see node_capacity.cpp.
#include "qm/placement/policy.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

class StateFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "state"; }
  [[nodiscard]] bool admits(const NodeCapacity& capacity, const PodShape&) const override { return capacity.usable; }

 private:
  [[nodiscard]] std::string words(const NodeCapacity& capacity, const PodShape&) const override {
    return capacity.why_not;
  }
};

class SelectorFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "selector"; }
  [[nodiscard]] bool admits(const NodeCapacity& capacity, const PodShape& shape) const override {
    return missing(capacity, shape) == nullptr;
  }

 private:
  static const Labels::value_type* missing(const NodeCapacity& capacity, const PodShape& shape) {
    for (const auto& asked : shape.node_selector) {
      const auto label = capacity.facts->labels.find(asked.first);
      if (label == capacity.facts->labels.end() || label->second != asked.second) return &asked;
    }
    return nullptr;
  }
  [[nodiscard]] std::string words(const NodeCapacity& capacity, const PodShape& shape) const override {
    const auto& [key, value] = *missing(capacity, shape);
    return fmt::format("without label {}={}", key, value);
  }
};

class TaintFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "taints"; }
  [[nodiscard]] bool admits(const NodeCapacity& capacity, const PodShape& shape) const override {
    return untolerated(capacity.facts->taints, shape.tolerations) == nullptr;
  }

 private:
  [[nodiscard]] std::string words(const NodeCapacity& capacity, const PodShape& shape) const override {
    return fmt::format("with taint {} not tolerated", text_of(*untolerated(capacity.facts->taints, shape.tolerations)));
  }
};

class ModelFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "model"; }
  [[nodiscard]] bool admits(const NodeCapacity& capacity, const PodShape& shape) const override {
    const auto& models = shape.gpu.models;
    return shape.gpu.none() || models.empty() || std::ranges::find(models, capacity.facts->model) != models.end();
  }

 private:
  [[nodiscard]] std::string words(const NodeCapacity& capacity, const PodShape&) const override {
    return capacity.facts->model.empty() ? "without a known GPU model"
                                         : fmt::format("with other GPU model {}", capacity.facts->model);
  }
};

class ExclusiveFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "exclusive"; }
  [[nodiscard]] bool admits(const NodeCapacity& capacity, const PodShape& shape) const override {
    return !capacity.alone || shape.gpu.none();
  }

 private:
  [[nodiscard]] std::string words(const NodeCapacity&, const PodShape&) const override {
    return "that are exclusive to another gang";
  }
};

}  // namespace

bool in_slices(const NodeFacts& facts) {
  return shares_of(facts) > 1 || facts.model.find("-MIG-") != std::string::npos;
}

std::span<const Filter* const> filters() {
  static const StateFilter state;
  static const SelectorFilter selector;
  static const TaintFilter taints;
  static const ModelFilter model;
  static const ExclusiveFilter exclusive;
  static const std::array<const Filter*, 5> all{&state, &selector, &taints, &model, &exclusive};
  return all;
}

bool admitted(const NodeCapacity& capacity, const PodShape& shape) {
  return std::ranges::all_of(filters(), [&](const Filter* filter) { return filter->admits(capacity, shape); });
}

std::string rejected_by(const NodeCapacity& capacity, const PodShape& shape) {
  for (const Filter* filter : filters()) {
    if (auto why = filter->rejects(capacity, shape); !why.empty()) return why;
  }
  return {};
}

}  // namespace qm::placement
