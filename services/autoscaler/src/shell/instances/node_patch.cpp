#include "instances/node_patch.hpp"

#include "qm/base/log.hpp"

#include <algorithm>

namespace qm::autoscaler {

bool patch_node(kube::Client& client, const Json& node, const std::vector<Taint>& taints, Json labels,
                Json annotations) {
  Json list = Json::array();
  for (const Taint& taint : taints) {
    const auto known = std::ranges::find_if(node["spec"]["taints"].items(), [&](const Json& one) {
      return one["key"].string() == taint.key && one["effect"].string() == taint.effect;
    });
    list.push_back(known != node["spec"]["taints"].items().end()
                       ? *known  // with its time
                       : Json::object({{"key", taint.key}, {"effect", taint.effect}}));
  }
  const Json metadata = Json::object({{"resourceVersion", kube::resource_version_of(node)},
                                      {"labels", std::move(labels)},
                                      {"annotations", std::move(annotations)}});
  const auto name = kube::name_of(node);
  const auto done =
      client.merge_patch(kube::resources::kNodes, "", name,
                         Json::object({{"metadata", metadata}, {"spec", Json::object({{"taints", std::move(list)}})}}));
  const bool passing = !done && (done.error().code == Code::kAborted || done.error().code == Code::kNotFound);
  if (!done && !passing) log::warn("a node is not updated", {{"node", name}, {"error", done.error().to_string()}});
  return done.has_value();
}

}  // namespace qm::autoscaler
