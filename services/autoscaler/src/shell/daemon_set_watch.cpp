// DaemonSets of the API server.
#include "qm/autoscaler/cluster.hpp"
#include "qm/base/log.hpp"
#include "qm/config/needs.hpp"
#include "qm/kube_rules/text.hpp"

namespace qm::autoscaler {
namespace {

/// An operator that Kubernetes does not have makes the term match nothing, like a term without expressions.
kube_rules::SelectorTerm term_of(const Json& from) {
  kube_rules::SelectorTerm out;
  for (const Json& expression : from["matchExpressions"].items()) {
    const auto op = kube_rules::op_of(expression["operator"].string());
    if (!op) return {};
    kube_rules::Requirement requirement{expression["key"].string(), *op, {}};
    for (const Json& value : expression["values"].items()) requirement.values.push_back(value.string());
    out.labels.push_back(std::move(requirement));
  }
  return out;
}

/// The template's labels and required node affinity as text of rules.
std::string rules_of(const Json& object) {
  kube_rules::PodTemplate out;
  out.ns = Namespace(kube::namespace_of(object));
  const Json& pod = object["spec"]["template"];
  for (const auto& [key, value] : pod["metadata"]["labels"].members()) out.labels[key] = value.string();
  const Json& terms =
      pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
  if (terms.size() > 0) out.rules.required.emplace();
  for (const Json& term : terms.items()) out.rules.required->push_back(term_of(term));
  return kube_rules::text_of(out);
}

}  // namespace

Result<PodSet> daemon_set_from(const Json& object) {
  PodSet out;
  out.name = kube::namespace_of(object) + "/" + kube::name_of(object);
  QM_ASSIGN(out.shape, config::shape_held_by(object["spec"]["template"]));
  out.rules = rules_of(object);
  return out;
}

DaemonSetWatch::DaemonSetWatch(kube::Client& client)
    : informer_(client, [&client] { return client.find_kind("apps", "daemonsets", {"v1"}); }, "",
                {[this](const Json& object, bool deleted) { changed(object, deleted); }, [] {}, {}}) {}

void DaemonSetWatch::changed(const Json& object, bool deleted) {
  auto set = daemon_set_from(object);
  const std::scoped_lock lock(mutex_);
  const std::string name = kube::namespace_of(object) + "/" + kube::name_of(object);
  sets_.erase(name);
  if (deleted) return;
  if (set) {
    sets_.emplace(name, std::move(*set));
  } else {
    log::warn("the requests of a DaemonSet cannot be read; new nodes are planned without it",
              {{"daemonset", name}, {"error", set.error().to_string()}});
  }
}

std::optional<std::vector<PodSet>> DaemonSetWatch::sets() const {
  if (!informer_.synced()) return std::nullopt;
  std::vector<PodSet> out;
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, set] : sets_) out.push_back(set);
  return out;
}

}  // namespace qm::autoscaler
