// Checkpoints of training pods: spot capacity needs one in storage that outlives the node, and a resumed pod gets its
// address.
#include "pod.hpp"
#include "qm/config/checkpoint_contract.hpp"
#include "rules.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission_policy {
namespace {

constexpr const char* kSpotRule = "spot-checkpoint";
constexpr const char* kContractField = "metadata.annotations[quartermaster.dev/checkpoint]";
constexpr std::string_view kResumeVariable = "CHECKPOINT_URI";

/// Whether the pod is work that ends. A replica of a service is started again elsewhere, and has nothing to save.
bool ends(const Json& spec) {
  const auto& policy = spec["restartPolicy"].string();
  return policy == "Never" || policy == "OnFailure";
}

/// The volume that holds an absolute path in a container: "emptyDir", "hostPath", ...; empty = the container itself.
std::string volume_kind(const Json& spec, std::string_view path) {
  std::string_view mounted;
  std::string name;
  for (const auto& container : spec["containers"].items()) {
    for (const auto& mount : container["volumeMounts"].items()) {
      const std::string_view at = mount["mountPath"].string();
      const bool holds =
          path.starts_with(at) && (path.size() == at.size() || at.ends_with('/') || path[at.size()] == '/');
      if (holds && at.size() >= mounted.size()) mounted = at, name = mount["name"].string();
    }
  }
  for (const auto& volume : spec["volumes"].items()) {
    if (volume["name"].string() != name) continue;
    for (const auto& [kind, source] : volume.members()) {
      if (kind != "name") return kind;
    }
  }
  return {};
}

/// Why the storage of the checkpoints ends with the node; empty = it does not.
std::string node_local(const Json& spec, const std::string& uri) {
  if (is_node_local(uri)) return uri;
  if (!uri.starts_with('/')) return {};
  const auto kind = volume_kind(spec, uri);
  if (kind.empty()) return fmt::format("{} in the container", uri);
  return kind == "emptyDir" || kind == "hostPath" ? fmt::format("{} on a volume of kind {}", uri, kind) : std::string();
}

std::optional<Finding> fault_of(const Json& pod) {
  const auto& spec = pod["spec"];
  if (!ends(spec) || !wants_spot(spec)) return std::nullopt;
  const auto& annotation = pod["metadata"]["annotations"][words::kCheckpoint].string();
  const auto remedy =
      fmt::format("name durable storage, such as s3://BUCKET/RUN, or require {}=on-demand", words::kCapacityType);
  if (annotation.empty()) {
    return Finding{kSpotRule,
                   "the pod requests spot capacity and declares no checkpoint, so an interruption loses its work",
                   kContractField, fmt::format("declare how it saves, or require {}=on-demand", words::kCapacityType)};
  }
  const auto contract = config::checkpoint_contract(annotation);
  if (!contract) return Finding{kSpotRule, contract.error().message, kContractField, contract.error().remedy};
  const auto local = node_local(spec, contract->terms.uri);
  if (local.empty()) return std::nullopt;
  return Finding{
      kSpotRule,
      fmt::format("the pod requests spot capacity, and its checkpoints are in {}, which ends with the node", local),
      kContractField, remedy};
}

}  // namespace

void spot_checkpoint(const Case& one, Findings& out) {
  if (auto fault = fault_of(one.pod)) out.push_back(std::move(*fault));
}

void supply_on_demand(Json& pod) {
  if (fault_of(pod)) require_on_demand(pod.set("spec"));
}

void offer_resume(Json& pod) {
  if (pod["metadata"]["annotations"][words::kCheckpoint].string().empty()) return;
  auto* containers = pod.set("spec").find("containers");
  if (containers == nullptr || !containers->is_array()) return;
  const Json from = Json::object(
      {{"fieldRef", Json::object({{"fieldPath", fmt::format("metadata.annotations['{}']", words::kResume)}})}});
  for (auto& container : containers->items_mut()) {
    const auto& variables = container["env"].items();
    const bool set =
        std::ranges::any_of(variables, [](const Json& v) { return v["name"].string() == kResumeVariable; });
    if (!set)
      container.set("env").push_back(Json::object({{"name", std::string(kResumeVariable)}, {"valueFrom", from}}));
  }
}

}  // namespace qm::admission_policy
