#pragma once
#include "qm/admission/quota.hpp"
#include "qm/config/manifest.hpp"

#include <string>
#include <vector>

namespace qm::admission {

/// Annotations of a Cohort: the rule by which its quota is shared between Volcano queues (proportion, capacity or
/// drf), and how long a workload may be pending in one of these before capacity is reserved for it, as in Volcano's
/// plugin argument of that name.
inline constexpr std::string_view kQueueRules = "quartermaster.dev/queue-rules";
inline constexpr std::string_view kWaitingTime = "quartermaster.dev/sla-waiting-time";

/// Whether it is a Volcano Queue.
[[nodiscard]] bool is_volcano_queue(const config::Document& doc);
/// Reads a Volcano Queue; fields without effect are listed in `warnings`. Fails: kInvalid, with the field.
[[nodiscard]] Result<ClusterQueue> volcano_queue_of(const config::Document& doc, std::vector<std::string>& warnings);
/// Reads the pool annotations of a Cohort. Fails: kInvalid where it cannot be a pool.
[[nodiscard]] Status read_pool(const Json& object, Cohort& cohort);

}  // namespace qm::admission
