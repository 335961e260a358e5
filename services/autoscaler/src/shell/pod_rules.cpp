// Scheduling rules of pods that the API server shows, for an autoscaler without placement, and of DaemonSets.
#include "pod_rules.hpp"

#include "qm/kube_rules/text.hpp"

#include <optional>
#include <vector>

namespace qm::autoscaler {
namespace {

constexpr const char* kRequired = "requiredDuringSchedulingIgnoredDuringExecution";

/// A term without expressions matches nothing.
kube_rules::SelectorTerm node_term(const Json& from) {
  kube_rules::SelectorTerm out;
  for (const Json& expression : from["matchExpressions"].items()) {
    const auto op = kube_rules::op_of(expression["operator"].string());
    if (!op) return {};
    out.labels.push_back({expression["key"].string(), *op, texts_of(expression["values"])});
  }
  for (const Json& field : from["matchFields"].items())
    out.fields.push_back({field["key"].string(), kube_rules::Requirement::Op::kExists, {}});
  return out;
}

std::optional<LabelRequirement::Op> label_op(const std::string& name) {
  using Op = LabelRequirement::Op;
  if (name == "In") return Op::kIn;
  if (name == "NotIn") return Op::kNotIn;
  if (name == "Exists") return Op::kExists;
  return name == "DoesNotExist" ? std::optional(Op::kDoesNotExist) : std::nullopt;
}

}  // namespace

std::vector<std::string> texts_of(const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list.items()) out.push_back(item.string());
  return out;
}

std::optional<LabelSelector> label_selector(const Json& from) {
  if (!from.is_object()) return std::nullopt;
  LabelSelector out;
  for (const auto& [key, value] : from["matchLabels"].members())
    out.requirements.push_back({key, LabelRequirement::Op::kIn, {value.string()}});
  for (const Json& expression : from["matchExpressions"].items()) {
    const auto op = label_op(expression["operator"].string());
    if (!op) return std::nullopt;
    out.requirements.push_back({expression["key"].string(), *op, texts_of(expression["values"])});
  }
  return out;
}

std::string rules_of_pod(const Namespace& ns, const Json& pod) {
  kube_rules::PodTemplate out;
  out.ns = ns;
  for (const auto& [key, value] : pod["metadata"]["labels"].members()) out.labels[key] = value.string();
  const Json& affinity = pod["spec"]["affinity"];
  const Json& terms = affinity["nodeAffinity"][kRequired]["nodeSelectorTerms"];
  if (terms.size() > 0) out.rules.required.emplace();
  for (const Json& term : terms.items()) out.rules.required->push_back(node_term(term));
  for (const Json& term : affinity["podAntiAffinity"][kRequired].items()) {
    const auto& key = term["topologyKey"].string();
    if (key != "kubernetes.io/hostname") continue;
    out.rules.anti_affinity.push_back({key, label_selector(term["labelSelector"]), texts_of(term["namespaces"]),
                                       label_selector(term["namespaceSelector"])});
  }
  return out.rules.required || !out.rules.anti_affinity.empty() ? kube_rules::text_of(out) : std::string();
}

}  // namespace qm::autoscaler
