// Pods that say what they need of a GPU, and not which part of one: the part is looked up and asked for in their name.
#include "qm/config/needs.hpp"

#include "pod.hpp"
#include "rules.hpp"

#include <algorithm>

namespace qm::admission::webhook {
namespace {

constexpr std::string_view kDefaultContainer = "kubectl.kubernetes.io/default-container";

/// The container that the GPU is for: the one that is meant where none is named, as kubectl takes it; null = there is none.
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

bool asks_for_gpus(const Json& pod) {
  const auto& annotations = pod["metadata"]["annotations"].members();
  return uses_gpus(pod["spec"]) || std::ranges::any_of(annotations, [](const auto& annotation) {
           return annotation.first.starts_with(catalog::kNeedPrefix);
         });
}

void choose_shares(Json& pod) {
  if (uses_gpus(pod["spec"])) return;  // said already; whether it is the same is a rule's to say
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
  out.push_back({"gpu-share", fmt::format("the pod's need of a GPU: {}", error.message), error.field, error.remedy});
}

}  // namespace qm::admission::webhook
