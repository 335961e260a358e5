// The hard conditions, one small object each. How much fits is not a filter: see room.cpp.
#include "qm/placement/policy.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

class StateFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "state"; }
  [[nodiscard]] std::string rejects(const Room& room, const PodShape&) const override {
    return room.usable ? std::string() : room.why_not;
  }
};

class SelectorFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "selector"; }
  [[nodiscard]] std::string rejects(const Room& room, const PodShape& shape) const override {
    for (const auto& [key, value] : shape.node_selector) {
      const auto label = room.facts->labels.find(key);
      if (label == room.facts->labels.end() || label->second != value) {
        return fmt::format("without label {}={}", key, value);
      }
    }
    return {};
  }
};

class TaintFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "taints"; }
  [[nodiscard]] std::string rejects(const Room& room, const PodShape& shape) const override {
    const Taint* taint = untolerated(room.facts->taints, shape.tolerations);
    if (taint == nullptr) return {};
    return taint->value.empty()
               ? fmt::format("with taint {}:{} not tolerated", taint->key, taint->effect)
               : fmt::format("with taint {}={}:{} not tolerated", taint->key, taint->value, taint->effect);
  }
};

class ModelFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "model"; }
  [[nodiscard]] std::string rejects(const Room& room, const PodShape& shape) const override {
    if (shape.gpu.none() || shape.gpu.models.empty()) return {};
    const auto& models = shape.gpu.models;
    if (std::ranges::find(models, room.facts->model) != models.end()) return {};
    return room.facts->model.empty() ? "without a known GPU model"
                                     : fmt::format("with other GPU model {}", room.facts->model);
  }
};

class ExclusiveFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "exclusive"; }
  [[nodiscard]] std::string rejects(const Room& room, const PodShape& shape) const override {
    return room.alone && !shape.gpu.none() ? "that one gang has for itself" : std::string();
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

std::string rejected_by(const Room& room, const PodShape& shape) {
  for (const Filter* filter : filters()) {
    if (auto why = filter->rejects(room, shape); !why.empty()) return why;
  }
  return {};
}

}  // namespace qm::placement
