#pragma once
#include "qm/admission/quota.hpp"
#include "qm/base/json.hpp"
#include "qm/model/quantity.hpp"

namespace qm::admission {

/// On a ClusterQueue: `conservative`.
inline constexpr std::string_view kBackfill = "quartermaster.dev/backfill";
/// On a ClusterQueue: `bound=168h,ceiling=100`.
inline constexpr std::string_view kAging = "quartermaster.dev/aging";

/// On a ClusterQueue: a JSON list of
/// {"begins": "0 20 * * 1-5", "lasts": "12h", "offset": "+01:00", "quota": {FLAVOR: {RESOURCE: "64"}}}.
inline constexpr std::string_view kWindows = "quartermaster.dev/quota-windows";
/// On a ClusterQueue: what happens to workloads that exceed the quota when a window closes: `Keep` or `Drain`.
inline constexpr std::string_view kWindowsEnd = "quartermaster.dev/quota-windows-end";

/// Amounts in the units of the engine: CPU and GPU in thousandths, all others in units.
[[nodiscard]] std::int64_t counted(const std::string& resource, const Quantity& q);

/// Reads the annotations of a ClusterQueue for backfill, aging and quota by calendar. Call it after the resource
/// groups are read. kInvalid names the annotation.
[[nodiscard]] Status read_annotations(const Json& object, ClusterQueue& queue);

}  // namespace qm::admission
