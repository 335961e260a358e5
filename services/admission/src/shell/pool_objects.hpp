#pragma once
#include "qm/admission/quota.hpp"
#include "qm/config/manifest.hpp"

#include <string>
#include <vector>

namespace qm::admission {

/// Annotations of a Cohort: by which rule its quota is shared out to Volcano's queues (proportion, capacity or drf), and how
/// long a workload may wait in one of these before room is kept for it, as Volcano's plugin argument of that name.
inline constexpr std::string_view kQueueRules = "quartermaster.dev/queue-rules";
inline constexpr std::string_view kWaitingTime = "quartermaster.dev/sla-waiting-time";

/// Whether it is a Queue of Volcano's.
[[nodiscard]] bool is_volcano_queue(const config::Document& doc);
/// Reads it; what is kept without effect is said in `warnings`. Fails: kInvalid, with the field.
[[nodiscard]] Result<ClusterQueue> volcano_queue_of(const config::Document& doc, std::vector<std::string>& warnings);
/// What a Cohort says of being a pool. Fails: kInvalid where that cannot be.
[[nodiscard]] Status read_pool(const Json& object, Cohort& cohort);

}  // namespace qm::admission
