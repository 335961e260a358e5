#include "choice.hpp"

#include "pod.hpp"
#include "qm/catalog/catalog.hpp"

#include <algorithm>

namespace qm::admission_policy {
namespace {

constexpr std::string_view kSharingLabel = "nvidia.com/gpu.sharing-strategy";
constexpr std::string_view kSharedResource = ".shared";  // nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb.shared
constexpr std::string_view kSharedProduct = "-SHARED";   // product suffix of a shared GPU

bool has(const std::vector<std::string>& values, std::string_view one) {
  return std::ranges::find(values, one) != values.end();
}

bool requests_shared_gpus(const Json& spec) {
  bool any = false;
  each_container(spec, [&](const Json& container) {
    for (const auto* side : {"requests", "limits"}) {
      for (const auto& [name, value] : container["resources"][side].members()) {
        any = any || (is_gpu(name) && name.ends_with(kSharedResource));
      }
    }
  });
  return any;
}

}  // namespace

std::vector<std::string> values_of(const Json& spec, std::string_view key) {
  if (const auto* named = spec["nodeSelector"].find(key); named != nullptr) return {named->string()};
  std::vector<std::string> out;
  const auto& terms =
      spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].items();
  for (const auto& term : terms) {
    const Json* found = nullptr;
    for (const auto& e : term["matchExpressions"].items()) {
      if (e["key"].string() == key && e["operator"].string() == "In") found = &e;
    }
    if (found == nullptr) return {};
    for (const auto& value : (*found)["values"].items()) {
      if (!has(out, value.string())) out.push_back(value.string());
    }
  }
  return out;
}

bool chooses(const Json& spec, const Labels& selector) {
  return !selector.empty() && std::ranges::all_of(selector, [&](const auto& wanted) {
    const auto values = values_of(spec, wanted.first);
    return values.size() == 1 && values[0] == wanted.second;
  });
}

bool names_taint(const Json& spec, std::string_view key) {
  const auto& all = spec["tolerations"].items();
  return std::ranges::any_of(all, [&](const Json& t) { return t["key"].string() == key; });
}

const Pool* pool_of(const Json& spec, const Facts& facts) {
  for (const auto& pool : facts.pools) {
    if (chooses(spec, pool.selector)) return &pool;
  }
  return nullptr;
}

std::vector<KnownNode> nodes_of(const Json& spec, const Facts& facts) {
  const auto* pool = pool_of(spec, facts);
  if (pool != nullptr && pool->node) return {{"a node of pool " + pool->name, *pool->node}};
  std::vector<KnownNode> out;
  for (const auto& name : values_of(spec, words::kInstanceType)) {
    const auto* type = catalog::find(name);
    // An unknown instance type may have any capacity.
    if (type == nullptr) return {};
    if (type->gpus == 0) continue;
    out.push_back(
        {"a " + name,
         {type->gpus, Quantity::of(type->vcpu), Quantity::of(type->memory_mib << 20, Quantity::Format::kBinarySi)}});
  }
  return out;
}

Sharing sharing_of(const Json& spec, const Facts& facts) {
  if (const auto* pool = pool_of(spec, facts); pool != nullptr && pool->sharing != Sharing::kNone) return pool->sharing;
  const auto strategy = values_of(spec, kSharingLabel);
  if (has(strategy, "mps")) return Sharing::kMps;
  if (has(strategy, "time-slicing") || requests_shared_gpus(spec)) return Sharing::kTimeSlicing;
  const auto products = values_of(spec, words::kGpuProduct);
  const bool shared = std::ranges::any_of(products, [](const auto& p) { return p.ends_with(kSharedProduct); });
  return shared ? Sharing::kTimeSlicing : Sharing::kNone;
}

}  // namespace qm::admission_policy
