#include "pod.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission_policy {
bool is_gpu(std::string_view resource) {
  return resource == words::kGpuResource || resource == "nvidia.com/gpu.shared" ||
         resource == words::kGpuMilliResource || resource.starts_with(words::kMigPrefix);
}

std::optional<Quantity> quantity(const Json& value) {
  if (value.is_int()) return Quantity::of(value.integer());
  const auto text = value.is_number() ? value.dump() : value.string();
  if (text.empty()) return std::nullopt;
  const auto read = Quantity::parse(text);
  if (!read) return std::nullopt;
  return *read;
}

std::optional<Quantity> asked(const Json& container, std::string_view resource) {
  const auto& resources = container["resources"];
  if (resources["requests"].contains(resource)) return quantity(resources["requests"][resource]);
  return quantity(resources["limits"][resource]);
}

std::string Place::path() const { return fmt::format("{}[{}]", list, index); }

void each_container_mut(Json& pod_spec, const std::function<void(Json& container)>& fn) {
  for (const auto list : Place::kContainerLists) {
    auto* items = pod_spec.find(list);
    if (items == nullptr || !items->is_array()) continue;
    for (auto& container : items->items_mut()) fn(container);
  }
}

std::int64_t gpus_of(const Json& container) {
  std::int64_t most = 0;
  for (const auto* side : {"requests", "limits"}) {
    for (const auto& [name, value] : container["resources"][side].members()) {
      if (!is_gpu(name)) continue;
      const auto amount = quantity(value);
      if (!amount) continue;
      most = std::max(most, name == words::kGpuMilliResource ? (amount->units() + 999) / 1000 : amount->units());
    }
  }
  return most;
}

bool uses_gpus(const Json& pod_spec) {
  bool any = false;
  each_container(pod_spec, [&](const Json& container) { any = any || gpus_of(container) > 0; });
  return any;
}

Labels texts_of(const Json& members) {
  Labels out;
  for (const auto& [key, value] : members.members()) {
    if (value.is_string()) out.emplace(key, value.string());
  }
  return out;
}

Labels labels_of(const Json& object) { return texts_of(object["metadata"]["labels"]); }

}  // namespace qm::admission_policy
