// Requests of pods that are resized in place: what the kubelet has allocated counts until it has applied the new amounts.
#include "qm/config/manifest.hpp"
#include "qm/config/needs.hpp"
#include "qm/config/requests.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace qm::config {
namespace {

constexpr std::array<const char*, 2> kResizable{"cpu", "memory"};

/// Of the resize the kubelet says that this node can never fulfill it.
bool is_infeasible(const Json& pod) {
  return std::ranges::any_of(pod["status"]["conditions"].items(), [](const Json& condition) {
    return condition["type"].string() == "PodResizePending" && condition["reason"].string() == "Infeasible" &&
           condition["status"].string() == "True";
  });
}

std::optional<Quantity> amount_of(const Json& amounts, const char* resource) {
  const Json& value = amounts[resource];
  if (value.is_null()) return std::nullopt;
  const auto amount = Quantity::parse(value.is_string() ? value.string() : value.dump());
  return amount ? std::optional(*amount) : std::nullopt;
}

/// The larger of the actual and the allocated amount of a container.
std::optional<Quantity> held_by(const Json& status, const char* resource) {
  if (status["resources"].is_null()) return std::nullopt;
  const auto actual = amount_of(status["resources"]["requests"], resource);
  const auto allocated = amount_of(status["allocatedResources"], resource);
  if (!actual || !allocated) return actual ? actual : allocated;
  return std::max(*actual, *allocated);
}

/// The container with the requests that count; nullopt if those of the spec do.
std::optional<Json> counted(const Json& container, const Json& statuses, bool infeasible) {
  const auto& all = statuses.items();
  const auto status =
      std::ranges::find_if(all, [&](const Json& one) { return one["name"].string() == container["name"].string(); });
  if (status == all.end()) return std::nullopt;
  std::optional<Json> out;
  for (const char* resource : kResizable) {
    const auto held = held_by(*status, resource);
    const auto wanted = amount_of(container["resources"]["requests"], resource);
    if (!held || (wanted && (infeasible ? *held == *wanted : *held <= *wanted))) continue;
    if (!out) out = container;
    out->set("resources").set("requests").set(resource, held->to_string());
  }
  return out;
}

/// Replaces the containers of the list by those with the requests that count, if any differs. Init containers that
/// are no sidecars are not resized.
void count_held(const Json& pod, const char* list, const char* statuses, bool infeasible, Json& spec) {
  Json containers = Json::array();
  bool differs = false;
  for (const Json& one : pod["spec"][list].items()) {
    const bool resizable = std::string_view(list) == "containers" || one["restartPolicy"].string() == "Always";
    auto held = resizable ? counted(one, pod["status"][statuses], infeasible) : std::nullopt;
    differs |= held.has_value();
    containers.push_back(held ? std::move(*held) : one);
  }
  if (!differs) return;
  if (spec.is_null()) spec = pod["spec"];
  spec.set(list, std::move(containers));
}

/// The spec of the pod with the requests that count; null if they are those of the spec.
Json counted_spec(const Json& pod) {
  Json out;
  if (pod["status"]["containerStatuses"].size() == 0) return out;
  const bool infeasible = is_infeasible(pod);
  count_held(pod, "containers", "containerStatuses", infeasible, out);
  count_held(pod, "initContainers", "initContainerStatuses", infeasible, out);
  return out;
}

}  // namespace

Result<std::map<std::string, Quantity>> requests_from_pod(const Json& pod) {
  const Json spec = counted_spec(pod);
  return requests_from_pod_spec(spec.is_null() ? pod["spec"] : spec);
}

Result<PodShape> shape_held_by(const Json& pod) {
  Json spec = counted_spec(pod);
  Json held;
  const bool differs = !spec.is_null();
  if (differs) held = Json::object({{"metadata", pod["metadata"]}, {"spec", std::move(spec)}});
  const Json& counted_pod = differs ? held : pod;
  auto shape = shape_from_pod(counted_pod);
  return shape ? std::move(shape) : shape_from_pod_spec(counted_pod["spec"]);
}

}  // namespace qm::config
