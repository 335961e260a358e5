// Hard constraints, one small object each. How many pods fit is not a filter: see room.cpp.
#include "qm/placement/policy.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

class StateFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "state"; }
  [[nodiscard]] bool admits(const Room& room, const PodShape&) const override { return room.usable; }

 private:
  [[nodiscard]] std::string words(const Room& room, const PodShape&) const override { return room.why_not; }
};

class SelectorFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "selector"; }
  [[nodiscard]] bool admits(const Room& room, const PodShape& shape) const override {
    return missing(room, shape) == nullptr;
  }

 private:
  static const Labels::value_type* missing(const Room& room, const PodShape& shape) {
    for (const auto& asked : shape.node_selector) {
      const auto label = room.facts->labels.find(asked.first);
      if (label == room.facts->labels.end() || label->second != asked.second) return &asked;
    }
    return nullptr;
  }
  [[nodiscard]] std::string words(const Room& room, const PodShape& shape) const override {
    const auto& [key, value] = *missing(room, shape);
    return fmt::format("without label {}={}", key, value);
  }
};

class TaintFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "taints"; }
  [[nodiscard]] bool admits(const Room& room, const PodShape& shape) const override {
    return untolerated(room.facts->taints, shape.tolerations) == nullptr;
  }

 private:
  [[nodiscard]] std::string words(const Room& room, const PodShape& shape) const override {
    const Taint* taint = untolerated(room.facts->taints, shape.tolerations);
    return taint->value.empty()
               ? fmt::format("with taint {}:{} not tolerated", taint->key, taint->effect)
               : fmt::format("with taint {}={}:{} not tolerated", taint->key, taint->value, taint->effect);
  }
};

class ModelFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "model"; }
  [[nodiscard]] bool admits(const Room& room, const PodShape& shape) const override {
    const auto& models = shape.gpu.models;
    return shape.gpu.none() || models.empty() || std::ranges::find(models, room.facts->model) != models.end();
  }

 private:
  [[nodiscard]] std::string words(const Room& room, const PodShape&) const override {
    return room.facts->model.empty() ? "without a known GPU model"
                                     : fmt::format("with other GPU model {}", room.facts->model);
  }
};

class ExclusiveFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "exclusive"; }
  [[nodiscard]] bool admits(const Room& room, const PodShape& shape) const override {
    return !room.alone || shape.gpu.none();
  }

 private:
  [[nodiscard]] std::string words(const Room&, const PodShape&) const override {
    return "that one gang has for itself";
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

bool admitted(const Room& room, const PodShape& shape) {
  return std::ranges::all_of(filters(), [&](const Filter* filter) { return filter->admits(room, shape); });
}

std::string rejected_by(const Room& room, const PodShape& shape) {
  for (const Filter* filter : filters()) {
    if (auto why = filter->rejects(room, shape); !why.empty()) return why;
  }
  return {};
}

}  // namespace qm::placement
