#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <string_view>

namespace qm {

/// On a suspended HorizontalPodAutoscaler or ScaledObject: its fields as its user wrote them, as JSON.
inline constexpr std::string_view kOriginalScaling = "quartermaster.dev/replicas-original";

/// A HorizontalPodAutoscaler of autoscaling/v2 or a ScaledObject of keda.sh: the two kinds whose controllers set the
/// replicas of a workload.
///
/// Suspended, a HorizontalPodAutoscaler has the selectPolicy Disabled in both directions, and a ScaledObject the
/// annotation that pauses it: the controller then sets no replicas. What its user had is in kOriginalScaling.
///
/// Laws     restored(suspended(x)) == x, with the same bytes for each field; suspended() of a suspended object changes
///          nothing.
/// Threads  any; reads only its arguments.

[[nodiscard]] bool is_scaler(const Json& object);
[[nodiscard]] bool is_suspended(const Json& object);
/// The object as suspended. `before`: the stored object of an update, or null. Fields that the update changes are the
/// new original. A selectPolicy that is still Disabled is that of the suspension.
[[nodiscard]] Json suspended(const Json& object, const Json& before = {});
/// The object as its user wrote it. An object that is not suspended stays as it is.
[[nodiscard]] Json restored(const Json& object);

/// The reference to the target: apiVersion, kind and name, with the defaults of the kind of scaler.
struct ScaleTargetRef {
  std::string api_version, kind, name;
  [[nodiscard]] std::string group() const;  ///< of the API version; empty for the core group
};
[[nodiscard]] ScaleTargetRef scale_target_of(const Json& object);

}  // namespace qm
