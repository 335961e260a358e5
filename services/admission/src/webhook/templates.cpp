#include "qm/admission/webhook/templates.hpp"

#include "pod.hpp"

#include <array>

namespace qm::admission::webhook {
namespace {

void add(std::vector<PodTemplate>& out, std::string part, const Json& pod) {
  if (!pod["spec"]["containers"].is_array()) return;
  out.push_back({std::move(part), labels_of(pod), pod["spec"]});
}

/// A pod spec in all but the name of its containers.
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
    out.push_back({part["name"].string(), labels_of(part), with_containers(part, Json::array({std::move(container)}))});
  }
}

void add_inference(std::vector<PodTemplate>& out, const Json& object) {
  const auto& spec = object["spec"];
  static constexpr std::array<const char*, 3> kParts{"predictor", "transformer", "explainer"};
  for (const auto* name : kParts) {
    const auto& part = spec[name];
    if (part["containers"].is_array()) {
      out.push_back({name, labels_of(object), part});
    } else if (part["model"].is_object()) {
      Json container = part["model"];
      container.set("name", "kserve-container");
      out.push_back({name, labels_of(object), with_containers(part, Json::array({std::move(container)}))});
    }
  }
}

void add_task(std::vector<PodTemplate>& out, std::string part, const Json& object, const Json& spec) {
  if (spec["steps"].is_array())
    out.push_back({std::move(part), labels_of(object), with_containers(spec, spec["steps"])});
}

}  // namespace

std::vector<PodTemplate> pod_templates(const Json& object) {
  std::vector<PodTemplate> out;
  const auto& spec = object["spec"];
  add(out, {}, object);
  add(out, {}, spec["template"]);
  add(out, {}, spec.path("jobTemplate.spec.template"));
  for (const auto& [name, roles] : spec.members()) {
    if (!name.ends_with("ReplicaSpecs")) continue;
    for (const auto& [role, replicas] : roles.members()) add(out, role, replicas["template"]);
  }
  for (const auto& job : spec["replicatedJobs"].items())
    add(out, job["name"].string(), job.path("template.spec.template"));
  const auto& kind = object["kind"].string();
  if (kind == "Workflow") add_workflow(out, spec);
  if (kind == "InferenceService") add_inference(out, object);
  if (kind == "Task") add_task(out, {}, object, spec);
  for (const auto& task : spec["tasks"].items()) add_task(out, task["name"].string(), object, task["taskSpec"]);
  return out;
}

}  // namespace qm::admission::webhook
