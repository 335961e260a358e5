#include "qm/config/runtime_class.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::config {

Status merge_scheduling(Json& pod_spec, const Json& scheduling, std::string_view runtime_class, std::string_view path) {
  for (const auto& [key, value] : scheduling["nodeSelector"].members()) {
    const Json* has = pod_spec["nodeSelector"].find(key);
    if (has == nullptr || *has == value) continue;
    const auto field = fmt::format("{}.nodeSelector[{}]", path, key);
    return fail(
        {Code::kInvalid,
         fmt::format("{} is {}, and scheduling.nodeSelector[{}] of RuntimeClass {} is {}: the API server refuses "
                     "such pods",
                     field, has->string(), key, runtime_class, value.string()),
         field, fmt::format("remove {} from nodeSelector, or name another runtimeClassName", key)});
  }
  for (const auto& [key, value] : scheduling["nodeSelector"].members()) pod_spec.set("nodeSelector").set(key, value);
  for (const auto& toleration : scheduling["tolerations"].items()) {
    const auto& all = pod_spec["tolerations"].items();
    if (std::ranges::find(all, toleration) == all.end()) pod_spec.set("tolerations").push_back(toleration);
  }
  return {};
}

}  // namespace qm::config
