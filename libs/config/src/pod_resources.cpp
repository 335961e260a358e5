// Checks the resources of containers as an API server does: each error has the container's field, and both numbers.
#include "pod.hpp"

#include <array>

namespace qm::config {
namespace {

/// Resources that may be overcommitted and requested in fractions; all others are devices, which are counted.
bool is_native(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "storage" || name == "ephemeral-storage" ||
         name.starts_with("hugepages-");
}

bool is_gpu(std::string_view name) { return name == words::kGpuResource || name.starts_with(words::kMigPrefix); }

/// More GPUs than any node has.
constexpr std::int64_t kMostDevices = 1'000'000;

bool is_amount(const Json& value) { return value.is_string() || value.is_number(); }

std::optional<Quantity> amount_at(const Json& resources, std::string_view name) {
  const Json& value = resources[name];
  if (!is_amount(value)) return std::nullopt;
  auto parsed = Quantity::parse(value.is_string() ? value.string() : value.dump());
  return parsed ? std::optional(*parsed) : std::nullopt;
}

/// `known` has the fields that were reported before: a limit that repeats its request is not reported again.
void check_side(const Cursor& side, const Json& known) {
  if (!side.value->is_object()) return;
  for (const auto& [name, value] : side.value->members()) {
    if (known[name] == value) continue;
    const auto amount = amount_at(*side.value, name);
    if (!amount || amount->negative()) continue;  // reported where the quantity is parsed
    const Cursor at = side.member(name);
    if (is_native(name)) {
      if (at.scope->origin() == Origin::kAuthor) check_amount(at, name, *amount);
      continue;
    }
    if (!is_gpu(name) && at.scope->origin() == Origin::kAuthor) check_amount(at, name, *amount);
    if (is_gpu(name) && *amount > Quantity::of(kMostDevices)) {
      at.error(fmt::format("{} of {} is out of range for one container", amount->to_string(), name),
               fmt::format("request at most {}", kMostDevices));
    } else if (*amount != Quantity::of(amount->units())) {
      at.error(
          fmt::format("{} of {} has a fraction, and devices are counted in whole numbers", amount->to_string(), name),
          name == words::kGpuResource
              ? fmt::format("request 1, or a share of a GPU: {}: 1 to 999", words::kGpuMilliResource)
              : "request a whole number");
    }
  }
}

void check_pair(const Cursor& resources) {
  const Json &requests = (*resources.value)["requests"], &limits = (*resources.value)["limits"];
  for (const auto& [name, value] : requests.members()) {
    const auto request = amount_at(requests, name), limit = amount_at(limits, name);
    if (!request) continue;
    const Cursor at = resources.member("requests").member(name);
    if (limit && is_native(name) && *request > *limit) {
      at.error(fmt::format("the request {} is more than the limit {}", request->to_string(), limit->to_string()),
               fmt::format("lower the request, or raise the limit to {}", request->to_string()));
    } else if (!is_native(name) && !limit) {
      at.error(fmt::format("{} of {} are requested without a limit", request->to_string(), name),
               fmt::format("add limits: {{{}: {}}}", name, request->to_string()));
    } else if (!is_native(name) && *request != *limit) {
      at.error(
          fmt::format("{} of {} are requested and the limit is {}", request->to_string(), name, limit->to_string()),
          "set both to the same number, or remove the request");
    }
  }
}

/// "nvidia.com/gpus" is a valid resource name, but no node has such a resource.
void check_resource_names(const Cursor& side, const Json& reported) {
  static const std::vector<std::string_view> known{
      words::kGpuResource, words::kGpuMilliResource, "amd.com/gpu", "cpu", "memory", "ephemeral-storage"};
  for (const auto& [name, value] : side.value->members()) {
    if (reported.contains(name) || std::ranges::find(known, std::string_view(name)) != known.end()) continue;
    const auto meant = nearest(name, known);
    if (meant.empty()) continue;
    side.scope->unknown(side.member(name).path, "unknown resource, no node has it",
                        fmt::format("did you mean {}?", meant));
  }
}

}  // namespace

void check_ranges(const Cursor& pod_spec) {
  static constexpr std::array<const char*, 2> kLists{"containers", "initContainers"};
  for (const auto* list : kLists) {
    const Cursor all = pod_spec.member(list);
    for (std::size_t i = 0; all.value->is_array() && i < all.value->size(); ++i) {
      const Cursor resources = all.item(i).member("resources");
      check_side(resources.member("requests"), {});
      check_side(resources.member("limits"), (*resources.value)["requests"]);
    }
  }
}

void check_resources(const Cursor& pod_spec) {
  static constexpr std::array<const char*, 2> kLists{"containers", "initContainers"};
  for (const auto* list : kLists) {
    const Cursor all = pod_spec.member(list);
    for (std::size_t i = 0; all.value->is_array() && i < all.value->size(); ++i) {
      const Cursor resources = all.item(i).member("resources");
      check_pair(resources);
      check_resource_names(resources.member("requests"), {});
      check_resource_names(resources.member("limits"), (*resources.value)["requests"]);
    }
  }
}

}  // namespace qm::config
