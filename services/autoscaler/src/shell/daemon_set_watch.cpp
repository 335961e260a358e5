// DaemonSets of the API server.
#include "qm/autoscaler/cluster.hpp"
#include "qm/base/log.hpp"
#include "qm/config/needs.hpp"
#include "qm/kube_objects/rules.hpp"

namespace qm::autoscaler {
Result<PodSet> daemon_set_from(const Json& object) {
  PodSet out;
  out.name = kube::namespace_of(object) + "/" + kube::name_of(object);
  Json pod = object["spec"]["template"];
  pod.set("metadata").set("namespace", kube::namespace_of(object));
  QM_ASSIGN(out.shape, config::shape_held_by(pod));
  QM_ASSIGN(out.rules, kube_objects::rules_text_of_pod(pod));
  return out;
}

DaemonSetWatch::DaemonSetWatch(kube::Client& client)
    : informer_(client, [&client] { return client.locate("apps", "daemonsets", {"v1"}); }, "",
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
    log::warn("the requests or constraints of a DaemonSet cannot be read; new nodes are planned without it",
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
