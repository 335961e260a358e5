// Pods on a node: those that keep it, and those of kube-system that are evicted before it is terminated.
#include "observed.hpp"
#include "qm/kube/errors.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

Result<std::vector<Json>> pods_on(kube::Client& client, const std::string& node) {
  std::vector<Json> out;
  kube::ListOptions ask;
  ask.field_selector = "spec.nodeName=" + node;
  do {
    QM_ASSIGN(auto list, client.list(kube::resources::kPods, "", ask));
    std::ranges::move(list.items, std::back_inserter(out));
    ask.continue_token = list.continue_token;
  } while (!ask.continue_token.empty());
  return out;
}

bool has_local_storage(const Json& pod) {
  return std::ranges::any_of(pod["spec"]["volumes"].items(), [](const Json& volume) {
    return volume.contains("hostPath") ||
           (volume.contains("emptyDir") && volume["emptyDir"]["medium"].string().empty());
  });
}

bool is_controlled(const Json& pod) {
  return std::ranges::any_of(pod["metadata"]["ownerReferences"].items(),
                             [](const Json& owner) { return owner["controller"].boolean(); });
}

}  // namespace

bool is_evictable_system_pod(const Json& pod) {
  if (kube::namespace_of(pod) != "kube-system" || !works(pod)) return false;
  const std::string safe = kube::annotation(pod, kSafeToEvict);
  if (!safe.empty()) return safe == "true";
  return kube::annotation(pod, words::kDoNotDisrupt) != "true" && is_controlled(pod) && !has_local_storage(pod);
}

Result<std::int64_t> working_pods(kube::Client& client, const std::string& node, SystemPods system_pods) {
  QM_ASSIGN(const auto pods, pods_on(client, node));
  return std::ranges::count_if(pods, [&](const Json& pod) {
    return works(pod) && !(system_pods == SystemPods::kEvicted && is_evictable_system_pod(pod));
  });
}

Status evict_system_pods(kube::Client& client, const std::string& node) {
  QM_ASSIGN(auto pods, pods_on(client, node));
  std::erase_if(pods, [](const Json& pod) { return !is_evictable_system_pod(pod); });
  std::string refused;
  for (const Json& pod : pods) {
    if (!pod.path("metadata.deletionTimestamp").is_null()) continue;
    const auto grace = pod["spec"]["terminationGracePeriodSeconds"].integer(30);
    const auto done = client.evict("kube-system", kube::name_of(pod), static_cast<int>(grace), kube::uid_of(pod));
    if (!done && done.error().code != Code::kNotFound && done.error().code != Code::kAborted)
      refused = done.error().to_string();
  }
  if (pods.empty()) return {};
  return fail(Error{Code::kUnavailable,
                    fmt::format("{} pod(s) of kube-system leave {} first{}{}", pods.size(), node,
                                refused.empty() ? "" : ": ", refused),
                    {},
                    {}});
}

}  // namespace qm::autoscaler
