#include "qm/admission_policy/templates.hpp"

#include "pod.hpp"
#include "qm/config/workload_kinds.hpp"

#include <algorithm>
#include <array>

namespace qm::admission_policy {
namespace {

void add(std::vector<PodTemplate>& out, std::string part, const Json& pod, std::int64_t count) {
  if (!pod["spec"]["containers"].is_array()) return;
  out.push_back({std::move(part), labels_of(pod), pod["spec"], count, texts_of(pod["metadata"]["annotations"])});
}

/// Adds the templates of kinds where the path does not identify the pod set, as admission reads them.
void add_parts(std::vector<PodTemplate>& out, const Json& object) {
  const auto* kind = config::workload_kind(object["apiVersion"].string(), object["kind"].string());
  if (kind == nullptr || (kind->group != "ray.io" && kind->group != "leaderworkerset.x-k8s.io")) return;
  for (const auto& place : kind->places(object)) {
    if (const auto* pod = config::find_template(object, place)) add(out, place.pod_set, *pod, place.count);
  }
}

/// Count of the pods of a Job or Deployment: as many as may run at the same time.
std::int64_t count_of(const Json& spec) {
  return std::max<std::int64_t>(spec["parallelism"].integer(1), spec["replicas"].integer(1));
}

/// A pod spec with these containers, whatever their field is called in `from`.
Json with_containers(const Json& from, Json containers) {
  auto out = Json::object({{"containers", std::move(containers)}});
  for (const auto* name : {"tolerations", "nodeSelector", "affinity"}) {
    if (from.contains(name)) out.set(name, from[name]);
  }
  return out;
}

void add_workflow(std::vector<PodTemplate>& out, const Json& spec) {
  for (const auto& part : spec["templates"].items()) {
    if (!part["container"].is_object()) continue;
    Json container = part["container"];
    if (!container.contains("name")) container.set("name", "main");
    out.push_back(
        {part["name"].string(), labels_of(part), with_containers(part, Json::array({std::move(container)})), 1});
  }
}

void add_inference(std::vector<PodTemplate>& out, const Json& object) {
  const auto& spec = object["spec"];
  static constexpr std::array<const char*, 3> kParts{"predictor", "transformer", "explainer"};
  for (const auto* name : kParts) {
    const auto& part = spec[name];
    const auto count = std::max<std::int64_t>(part["minReplicas"].integer(1), 1);
    if (part["containers"].is_array()) {
      out.push_back({name, labels_of(object), part, count});
    } else if (part["model"].is_object()) {
      Json container = part["model"];
      container.set("name", "kserve-container");
      out.push_back({name, labels_of(object), with_containers(part, Json::array({std::move(container)})), count});
    }
  }
}

void add_task(std::vector<PodTemplate>& out, std::string part, const Json& object, const Json& spec) {
  if (spec["steps"].is_array())
    out.push_back({std::move(part), labels_of(object), with_containers(spec, spec["steps"]), 1});
}

void add_seldon(std::vector<PodTemplate>& out, const Json& spec) {
  for (const auto& predictor : spec["predictors"].items()) {
    for (const auto& part : predictor["componentSpecs"].items()) {
      add(out, predictor["name"].string(), part, predictor["replicas"].integer(1));
    }
  }
}

}  // namespace

std::int64_t PodTemplate::gpus() const {
  std::int64_t out = 0;
  each_container(spec, [&](const Json& container) { out = std::max(out, gpus_of(container)); });
  return out;
}

std::vector<PodTemplate> pod_templates(const Json& object) {
  std::vector<PodTemplate> out;
  const auto& spec = object["spec"];
  add(out, {}, object, 1);
  add(out, {}, spec["template"], count_of(spec));
  add(out, {}, spec.path("jobTemplate.spec.template"), count_of(spec.path("jobTemplate.spec")));
  for (const auto& [name, roles] : spec.members()) {
    if (!name.ends_with("ReplicaSpecs")) continue;
    for (const auto& [role, replicas] : roles.members())
      add(out, role, replicas["template"], replicas["replicas"].integer(1));
  }
  for (const auto& job : spec["replicatedJobs"].items()) {
    const auto& own = job.path("template.spec");
    add(out, job["name"].string(), own["template"], count_of(own) * job["replicas"].integer(1));
  }
  add_parts(out, object);
  const auto& kind = object["kind"].string();
  if (kind == "Workflow") add_workflow(out, spec);
  if (kind == "SeldonDeployment") add_seldon(out, spec);
  if (kind == "InferenceService") add_inference(out, object);
  if (kind == "Task") add_task(out, {}, object, spec);
  for (const auto& task : spec["tasks"].items()) add_task(out, task["name"].string(), object, task["taskSpec"]);
  return out;
}

}  // namespace qm::admission_policy
