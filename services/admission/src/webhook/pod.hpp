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

namespace qm::admission::webhook {

/// Pods as JSON, read as the API server reads them.

/// Whether a resource is a GPU or a part of one: nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-*, and our share.
[[nodiscard]] bool is_gpu(std::string_view resource);

/// A quantity that may stand as text or as a number; none where it is absent or unreadable.
[[nodiscard]] std::optional<Quantity> quantity(const Json& value);

/// What a container asks of a resource: its request, else its limit.
[[nodiscard]] std::optional<Quantity> asked(const Json& container, std::string_view resource);

/// Where a container stands; its path is written out only where something is said of it.
struct Place {
  std::string_view list;
  std::size_t index;
  [[nodiscard]] std::string path() const;  ///< such as "initContainers[0]"
  [[nodiscard]] bool runs_first() const { return list == kContainerLists[0]; }
  static constexpr std::array<std::string_view, 2> kContainerLists{"initContainers", "containers"};
};

/// All containers of a pod, those that run first too: fn(container, place) or fn(container).
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
/// The same, to change them.
void each_container_mut(Json& pod_spec, const std::function<void(Json& container)>& fn);

/// GPUs and parts of them that a container asks for, rounded up; 0 where it asks for none.
[[nodiscard]] std::int64_t gpus_of(const Json& container);
[[nodiscard]] bool uses_gpus(const Json& pod_spec);

[[nodiscard]] Labels labels_of(const Json& object);  ///< metadata.labels
[[nodiscard]] Labels texts_of(const Json& members);  ///< of an object, what is text

}  // namespace qm::admission::webhook
