// The conditions on a node alone, one small object each.
#include "qm/kube_rules/node_rules.hpp"

#include "print.hpp"
#include "qm/base/parse.hpp"

#include <algorithm>
#include <array>

namespace qm::kube_rules {
namespace {

constexpr std::string_view kNodeNameField = "metadata.name";
const Taint kCordoned{"node.kubernetes.io/unschedulable", "", "NoSchedule"};

const std::string* label_of(const NodeView& node, const std::string& key) {
  const auto found = node.labels.find(key);
  return found == node.labels.end() ? nullptr : &found->second;
}

std::string words_of_term(const SelectorTerm& term) {
  std::string out;
  for (const auto* list : {&term.labels, &term.fields}) {
    for (const Requirement& r : *list) out += (out.empty() ? "" : " and ") + kube_rules::words_of(r);
  }
  return out.empty() ? "nothing" : out;
}

bool tolerated(const std::vector<Toleration>& tolerations, const Taint& taint) {
  return std::ranges::any_of(tolerations, [&](const Toleration& t) { return tolerates(t, taint); });
}

class Unschedulable final : public NodeRule {
 public:
  [[nodiscard]] std::string_view name() const override { return "unschedulable"; }
  [[nodiscard]] bool admits(const PodRules& pod, const NodeView& node) const override {
    return !node.unschedulable || tolerated(pod.tolerations, kCordoned);
  }
  [[nodiscard]] std::string words(const PodRules&, const NodeView&) const override { return "cordoned"; }
  [[nodiscard]] std::string concerns(const PodRules& pod) const override {
    return tolerated(pod.tolerations, kCordoned) ? "tolerated" : "";
  }
};

class SelectorRule final : public NodeRule {
 public:
  [[nodiscard]] std::string_view name() const override { return "selector"; }
  [[nodiscard]] bool admits(const PodRules& pod, const NodeView& node) const override {
    return missing(pod, node) == pod.node_selector.end();
  }
  [[nodiscard]] std::string words(const PodRules& pod, const NodeView& node) const override {
    const auto label = missing(pod, node);
    return fmt::format("without label {}={}", label->first, label->second);
  }
  [[nodiscard]] std::string concerns(const PodRules& pod) const override {
    return Print().add(pod.node_selector).text();
  }

 private:
  static Labels::const_iterator missing(const PodRules& pod, const NodeView& node) {
    return std::ranges::find_if(pod.node_selector, [&](const auto& wanted) {
      const std::string* value = label_of(node, wanted.first);
      return value == nullptr || *value != wanted.second;
    });
  }
};

class Affinity final : public NodeRule {
 public:
  [[nodiscard]] std::string_view name() const override { return "affinity"; }
  [[nodiscard]] bool admits(const PodRules& pod, const NodeView& node) const override {
    return !pod.required || matches(*pod.required, node);
  }
  [[nodiscard]] std::string words(const PodRules& pod, const NodeView&) const override {
    return fmt::format("outside the node affinity ({})", kube_rules::words_of(*pod.required));
  }
  [[nodiscard]] std::string concerns(const PodRules& pod) const override {
    return pod.required ? Print().each(*pod.required).text() : "";
  }
};

class Taints final : public NodeRule {
 public:
  [[nodiscard]] std::string_view name() const override { return "taints"; }
  [[nodiscard]] bool admits(const PodRules& pod, const NodeView& node) const override {
    return untolerated(node.taints, pod.tolerations) == nullptr;
  }
  [[nodiscard]] std::string words(const PodRules& pod, const NodeView& node) const override {
    return fmt::format("with taint {} not tolerated", text_of(*untolerated(node.taints, pod.tolerations)));
  }
  [[nodiscard]] std::string concerns(const PodRules& pod) const override {
    return Print().each(pod.tolerations).text();
  }
};

class Volumes final : public NodeRule {
 public:
  [[nodiscard]] std::string_view name() const override { return "volumes"; }
  [[nodiscard]] bool admits(const PodRules& pod, const NodeView& node) const override {
    return out_of_reach(pod, node) == pod.volumes.end();
  }
  [[nodiscard]] std::string words(const PodRules& pod, const NodeView& node) const override {
    const VolumeReach& volume = *out_of_reach(pod, node);
    return fmt::format("out of reach of volume {} ({})", volume.name, kube_rules::words_of(volume.nodes));
  }
  [[nodiscard]] std::string concerns(const PodRules& pod) const override { return Print().each(pod.volumes).text(); }

 private:
  static std::vector<VolumeReach>::const_iterator out_of_reach(const PodRules& pod, const NodeView& node) {
    return std::ranges::find_if(pod.volumes, [&](const VolumeReach& volume) { return !matches(volume.nodes, node); });
  }
};

class PreferredAffinity final : public NodePreference {
 public:
  [[nodiscard]] std::string_view name() const override { return "node affinity"; }
  [[nodiscard]] std::int64_t of(const PodRules& pod, const NodeView& node) const override {
    std::int64_t sum = 0;
    for (const PreferredTerm& p : pod.preferred) sum += matches(p.term, node) ? p.weight : 0;
    return sum;
  }
  [[nodiscard]] std::string concerns(const PodRules& pod) const override { return Print().each(pod.preferred).text(); }
};

class SoftTaints final : public NodePreference {
 public:
  [[nodiscard]] std::string_view name() const override { return "soft taints"; }
  [[nodiscard]] std::int64_t of(const PodRules& pod, const NodeView& node) const override {
    return std::ranges::count_if(node.taints, [&](const Taint& taint) {
      return taint.effect == "PreferNoSchedule" && !tolerated(pod.tolerations, taint);
    });
  }
  [[nodiscard]] std::string concerns(const PodRules& pod) const override {
    return Print().each(pod.tolerations).text();
  }
};

}  // namespace

bool holds(const Requirement& requirement, const std::string* value) {
  const auto listed = [&] {
    return value != nullptr && std::ranges::find(requirement.values, *value) != requirement.values.end();
  };
  switch (requirement.op) {
    case Requirement::Op::kIn:
      return listed();
    case Requirement::Op::kNotIn:
      return !listed();
    case Requirement::Op::kExists:
      return value != nullptr;
    case Requirement::Op::kDoesNotExist:
      return value == nullptr;
    case Requirement::Op::kGt:
    case Requirement::Op::kLt: {
      if (value == nullptr || requirement.values.size() != 1) return false;
      const auto have = whole_number(*value), bound = whole_number(requirement.values.front());
      if (!have || !bound) return false;
      return requirement.op == Requirement::Op::kGt ? *have > *bound : *have < *bound;
    }
  }
  return false;
}

bool matches(const SelectorTerm& term, const NodeView& node) {
  if (term.labels.empty() && term.fields.empty()) return false;
  return std::ranges::all_of(term.labels, [&](const auto& r) { return holds(r, label_of(node, r.key)); }) &&
         std::ranges::all_of(term.fields,
                             [&](const auto& r) { return r.key == kNodeNameField && holds(r, &node.name.value()); });
}

bool matches(const NodeSelector& terms, const NodeView& node) {
  return std::ranges::any_of(terms, [&](const SelectorTerm& term) { return matches(term, node); });
}

std::string words_of(const NodeSelector& terms) {
  return terms.size() == 1 ? words_of_term(terms.front()) : fmt::format("any of {} terms", terms.size());
}

std::string words_of(const Requirement& r) {
  const auto values = fmt::format("{}", fmt::join(r.values, ", "));
  switch (r.op) {
    case Requirement::Op::kIn:
      return fmt::format("{} in ({})", r.key, values);
    case Requirement::Op::kNotIn:
      return fmt::format("{} not in ({})", r.key, values);
    case Requirement::Op::kExists:
      return r.key;
    case Requirement::Op::kDoesNotExist:
      return "!" + r.key;
    case Requirement::Op::kGt:
      return fmt::format("{} > {}", r.key, values);
    case Requirement::Op::kLt:
      return fmt::format("{} < {}", r.key, values);
  }
  return {};
}

std::span<const NodeRule* const> node_rules() {
  static const Unschedulable unschedulable;
  static const SelectorRule selector;
  static const Affinity affinity;
  static const Taints taints;
  static const Volumes volumes;
  static const std::array<const NodeRule*, 5> all{&unschedulable, &selector, &affinity, &taints, &volumes};
  return all;
}

const NodePreference& preferred_affinity() {
  static const PreferredAffinity preference;
  return preference;
}

const NodePreference& soft_taints() {
  static const SoftTaints preference;
  return preference;
}

}  // namespace qm::kube_rules
