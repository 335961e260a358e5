// Pods that specify requirements for a GPU instead of a resource: the share of a GPU is looked up and
// requested for them.
#include "qm/config/needs.hpp"

#include "pod.hpp"
#include "rules.hpp"

#include <algorithm>

namespace qm::admission_policy {
namespace {

constexpr std::string_view kDefaultContainer = "kubectl.kubernetes.io/default-container";

/// The container that uses the GPU: the default container of kubectl, or the first one; null = there is none.
Json* main_container(Json& pod) {
  const std::string name = pod["metadata"]["annotations"][kDefaultContainer].string();
  auto* list = pod.set("spec").find("containers");
  if (list == nullptr || !list->is_array() || list->size() == 0) return nullptr;
  auto& all = list->items_mut();
  const auto named = std::ranges::find_if(all, [&](const Json& c) { return c["name"].string() == name; });
  auto& chosen = named == all.end() ? all.front() : *named;
  return chosen.is_object() ? &chosen : nullptr;
}

}  // namespace

bool requests_gpus(const Json& pod) {
  const auto& annotations = pod["metadata"]["annotations"].members();
  return uses_gpus(pod["spec"]) || std::ranges::any_of(annotations, [](const auto& annotation) {
           return annotation.first.starts_with(catalog::kNeedPrefix);
         });
}

void choose_shares(Json& pod) {
  if (uses_gpus(pod["spec"])) return;  // requested already; a rule checks that both agree
  const auto share = config::share_of_pod(pod);
  if (!share || !*share) return;
  Json* container = main_container(pod);
  if (container == nullptr) return;
  auto& resources = container->set("resources");
  for (const auto* side : {"requests", "limits"}) {
    resources.set(side).set((*share)->resource, std::to_string((*share)->amount));
  }
}

void gpu_need(const Case& one, Findings& out) {
  const auto share = config::share_of_pod(one.pod);
  if (share) return;
  const auto& error = share.error();
  out.push_back({"gpu-share", fmt::format("the GPU need of the pod: {}", error.message), error.field, error.remedy});
}

}  // namespace qm::admission_policy
