#pragma once
#include "qm/admission/quota.hpp"
#include "qm/base/json.hpp"

namespace qm::admission {

/// On a ClusterQueue: `conservative`.
inline constexpr std::string_view kBackfill = "quartermaster.dev/backfill";
/// On a ClusterQueue: `bound=168h,ceiling=100`.
inline constexpr std::string_view kAgeing = "quartermaster.dev/ageing";

/// What the annotations of a ClusterQueue say of who may pass whom. kInvalid names the annotation.
[[nodiscard]] Status read_passing(const Json& object, ClusterQueue& queue);

}  // namespace qm::admission
