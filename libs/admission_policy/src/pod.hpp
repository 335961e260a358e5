#pragma once
#include "qm/base/json.hpp"
#include "qm/model/quantity.hpp"
#include "qm/model/resources.hpp"

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace qm::admission_policy {

/// Pods as JSON, interpreted as the API server interprets them.

/// Whether a resource is a GPU or a part of one: nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-*, and the
/// share resource of Quartermaster.
[[nodiscard]] bool is_gpu(std::string_view resource);

/// A quantity that is text or a number; none where it is absent or invalid.
[[nodiscard]] std::optional<Quantity> quantity(const Json& value);

/// The amount of a resource that a container requests: its request, else its limit.
[[nodiscard]] std::optional<Quantity> asked(const Json& container, std::string_view resource);

/// Position of a container. Its path is only built for a finding.
struct Place {
  std::string_view list;
  std::size_t index;
  [[nodiscard]] std::string path() const;  ///< such as "initContainers[0]"
  [[nodiscard]] bool runs_first() const { return list == kContainerLists[0]; }
  static constexpr std::array<std::string_view, 2> kContainerLists{"initContainers", "containers"};
};

/// Calls fn(container, place) or fn(container) for all containers of a pod, including init containers.
template <class Fn>
void each_container(const Json& pod_spec, Fn&& fn) {
  for (const auto list : Place::kContainerLists) {
    const auto& items = pod_spec[list].items();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if constexpr (std::is_invocable_v<Fn&, const Json&, const Place&>) {
        fn(items[i], Place{list, i});
      } else {
        fn(items[i]);
      }
    }
  }
}
/// The same, for changes.
void each_container_mut(Json& pod_spec, const std::function<void(Json& container)>& fn);

/// Number of GPUs and parts of GPUs that a container requests, rounded up; 0 where it requests none.
[[nodiscard]] std::int64_t gpus_of(const Json& container);
[[nodiscard]] bool uses_gpus(const Json& pod_spec);

[[nodiscard]] Labels labels_of(const Json& object);  ///< metadata.labels
[[nodiscard]] Labels texts_of(const Json& members);  ///< the members of an object that are text

}  // namespace qm::admission_policy
