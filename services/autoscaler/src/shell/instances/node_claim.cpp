#include "instances/node_claim.hpp"

#include "qm/autoscaler/disrupt/conditions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr std::string_view kHash = "karpenter.sh/nodepool-hash", kHashVersion = "karpenter.sh/nodepool-hash-version";

}  // namespace

Json launch_lifecycle(const LaunchIntent& l, bool nominates) {
  Json startup_taints = Json::array(), annotations = Json::object(), resources = Json::array();
  const auto add = [&](const Taint& t) {
    startup_taints.push_back(Json::object({{"key", t.key}, {"value", t.value}, {"effect", t.effect}}));
  };
  std::ranges::for_each(l.pool.lifecycle.startup_taints, add);
  if (nominates && l.pool.group.empty() && l.row.life.resources.empty())
    add({std::string(kNominatingTaint), "", "NoSchedule"});
  for (const auto& [key, value] : l.pool.lifecycle.annotations) annotations.set(key, value);
  for (const auto& name : l.row.life.resources) resources.push_back(name);
  Json out = Json::object({{"startup_taints", std::move(startup_taints)},
                           {"annotations", std::move(annotations)},
                           {"resources", std::move(resources)},
                           {"hash", l.row.life.template_hash}});
  const auto seconds_of = [](Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); };
  if (l.row.life.expire_after) out.set("expire_after_s", seconds_of(*l.row.life.expire_after));
  if (l.row.life.termination_grace) out.set("termination_grace_s", seconds_of(*l.row.life.termination_grace));
  return out;
}

Json with_lifecycle(Json node_claim, const Json& intent, Driver driver) {
  const Json& life = intent["lifecycle"];
  Json metadata = node_claim["metadata"], annotations = metadata["annotations"], spec = node_claim["spec"];
  for (const auto& [key, value] : life["annotations"].members()) annotations.set(key, value);
  const bool ours = driver == Driver::kEc2;
  if (ours && !life["hash"].string().empty()) {
    annotations.set(kHash, life["hash"].string());
    annotations.set(kHashVersion, "v3");
  }
  if (life["startup_taints"].size() > 0) spec.set("startupTaints", life["startup_taints"]);
  const Json& expires = life["expire_after_s"];
  const bool never = !ours || expires.is_null();
  spec.set("expireAfter", never ? std::string("Never") : fmt::format("{}s", expires.integer()));
  if (const Json& grace = life["termination_grace_s"]; !grace.is_null())
    spec.set("terminationGracePeriod", fmt::format("{}s", grace.integer()));
  Json requests = Json::object();
  for (const Json& name : life["resources"].items()) requests.set(name.string(), "1");
  if (requests.size() > 0) spec.set("resources", Json::object({{"requests", std::move(requests)}}));
  metadata.set("annotations", std::move(annotations));
  node_claim.set("metadata", std::move(metadata));
  node_claim.set("spec", std::move(spec));
  return node_claim;
}

std::vector<Taint> starting_taints(const Json& intent) {
  std::vector<Taint> out;
  for (const Json& taint : intent["lifecycle"]["startup_taints"].items())
    out.push_back({taint["key"].string(), taint["value"].string(), taint["effect"].string()});
  // An intent of an earlier release has no lifecycle: no part of it is assumed.
  if (!intent["lifecycle"].is_null()) out.push_back({std::string(kUnregisteredTaint), "", "NoExecute"});
  return out;
}

}  // namespace qm::autoscaler
