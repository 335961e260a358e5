#pragma once
#include "qm/base/json.hpp"
#include "qm/model/quantity.hpp"
#include "qm/model/resources.hpp"

#include <functional>
#include <optional>
#include <string>

namespace qm::admission::webhook {

/// Pods as JSON, read as the API server reads them.

/// Whether a resource is a GPU or a part of one: nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-*, and our share.
[[nodiscard]] bool is_gpu(std::string_view resource);

/// A quantity that may stand as text or as a number; none where it is absent or unreadable.
[[nodiscard]] std::optional<Quantity> quantity(const Json& value);

/// What a container asks of a resource: its request, else its limit.
[[nodiscard]] std::optional<Quantity> asked(const Json& container, std::string_view resource);

/// All containers of a pod, those that run first too; `path` is such as "initContainers[0]".
void each_container(const Json& pod_spec,
                    const std::function<void(const Json& container, const std::string& path)>& fn);
void each_container(Json& pod_spec, const std::function<void(Json& container)>& fn);

/// GPUs and parts of them that a container asks for, rounded up; 0 where it asks for none.
[[nodiscard]] std::int64_t gpus_of(const Json& container);
[[nodiscard]] bool uses_gpus(const Json& pod_spec);

[[nodiscard]] Labels labels_of(const Json& object);  ///< metadata.labels
[[nodiscard]] Labels texts_of(const Json& members);  ///< of an object, what is text

}  // namespace qm::admission::webhook
