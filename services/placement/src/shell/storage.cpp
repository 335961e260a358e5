// Converts claims, volumes, storage classes and attach limits of nodes to facts. A reach that
// cannot be parsed is logged and does not limit placement.
#include "qm/base/log.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/placement/shell.hpp"
#include "shell/objects.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

std::string text_of_reach(Result<std::vector<rules::VolumeReach>> reach, const Json& object) {
  if (!reach) {
    log::warn("topology of storage is not valid and is ignored",
              {{"object", kube::name_of(object)}, {"error", reach.error().to_string()}});
    return {};
  }
  if (reach->empty()) return {};
  rules::PodTemplate like;
  like.rules.volumes = std::move(*reach);
  return rules::text_of(like);
}

}  // namespace

std::string storage_key(std::string_view kind, const Json& object) {
  const std::string ns = kube::namespace_of(object);
  return fmt::format("{}/{}{}{}", kind, ns, ns.empty() ? "" : "/", kube::name_of(object));
}

Claim claim_from_json(const Json& claim) {
  Claim out;
  // Until both sides are bound, the volume that a claim names is only a request.
  const bool bound = claim.path("status.phase").string() == "Bound" ||
                     !kube::annotation(claim, "pv.kubernetes.io/bind-completed").empty();
  if (bound) out.volume = claim.path("spec.volumeName").string();
  out.storage_class = claim.path("spec.storageClassName").string();
  out.selected_node = kube::annotation(claim, kSelectedNode);
  const auto& modes = claim.path("spec.accessModes").items();
  out.one_node = !modes.empty() && std::ranges::all_of(modes, [](const Json& mode) {
    return mode.string() == "ReadWriteOnce" || mode.string() == "ReadWriteOncePod";
  });
  for (const Json& owner : claim.path("metadata.ownerReferences").items()) {
    if (owner["controller"].boolean() && owner["kind"].string() == "Pod") out.made_for = owner["uid"].string();
  }
  return out;
}

Volume volume_from_json(const Json& volume) {
  const Json& claim = volume["spec"]["claimRef"];
  return {
      text_of_reach(kube_objects::reach_of_volume(volume), volume), volume.path("spec.csi.driver").string(),
      volume.path("spec.csi.volumeHandle").string(),
      claim.is_object() ? fmt::format("{}/{}", claim["namespace"].string(), claim["name"].string()) : std::string()};
}

StorageClass storage_class_from_json(const Json& storage_class) {
  const std::string& provisioner = storage_class["provisioner"].string();
  const bool makes = provisioner != "kubernetes.io/no-provisioner";
  const bool by_default = kube::annotation(storage_class, "storageclass.kubernetes.io/is-default-class") == "true";
  return {storage_class["volumeBindingMode"].string() == "WaitForFirstConsumer",
          makes,
          text_of_reach(kube_objects::reach_of_class(storage_class), storage_class),
          makes ? provisioner : std::string(),
          by_default,
          by_default ? from_rfc3339(storage_class["metadata"]["creationTimestamp"].string()).value_or(Instant{})
                     : Instant{}};
}

AttachLimits attach_limits_from_json(const Json& csi_node) {
  AttachLimits out;
  for (const Json& driver : csi_node.path("spec.drivers").items()) {
    const Json& count = driver["allocatable"]["count"];
    if (count.is_int()) out.volumes[driver["name"].string()] = count.integer();
  }
  return out;
}

}  // namespace qm::placement
