#pragma once
#include "qm/admission/quota.hpp"
#include "qm/base/json.hpp"
#include "qm/model/quantity.hpp"

namespace qm::admission {

/// On a ClusterQueue: `conservative`.
inline constexpr std::string_view kBackfill = "quartermaster.dev/backfill";
/// On a ClusterQueue: `bound=168h,ceiling=100`.
inline constexpr std::string_view kAgeing = "quartermaster.dev/ageing";

/// On a ClusterQueue: a JSON list of {"begins": "0 20 * * 1-5", "lasts": "12h", "offset": "+01:00", "quota": {FLAVOR: {RESOURCE: "64"}}}.
inline constexpr std::string_view kWindows = "quartermaster.dev/quota-windows";
/// On a ClusterQueue: what becomes of those that run beyond the quota when a window closes: `Keep` or `Drain`.
inline constexpr std::string_view kWindowsEnd = "quartermaster.dev/quota-windows-end";

/// Amounts as the engine counts them: CPU and GPU in thousandths, all else in units.
[[nodiscard]] std::int64_t counted(const std::string& resource, const Quantity& q);

/// What the annotations of a ClusterQueue say of who may pass whom, and of quota by the calendar. Comes after its groups. kInvalid
/// names the annotation.
[[nodiscard]] Status read_annotations(const Json& object, ClusterQueue& queue);

}  // namespace qm::admission
