#pragma once
#include "qm/admission/engine.hpp"
#include "qm/base/json.hpp"
#include "qm/config/workload_kinds.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::admission {

/// Kueue's Workload objects (kueue.x-k8s.io, v1beta1 and v1beta2), read and written.
///
/// A Workload without an owner is a workload of its own. Another controller creates its pods when it is admitted,
/// and sets the condition QuotaReserved = False when they are gone. A Workload that mirrors a row of another kind
/// (label kMirrors) has two uses: controllers answer admission checks through its status, and tools read it. The
/// value of the label is the uid of the mirrored object.
inline constexpr std::string_view kMirrors = "quartermaster.dev/mirrors";
[[nodiscard]] bool is_mirror(const Json& object);
/// Where its pod templates are. It is not one of the suspendable kinds.
[[nodiscard]] const config::WorkloadKind& workload_object_kind();

/// A Workload without an owner, as a job. kInvalid names the field.
[[nodiscard]] Result<JobUpdated> parse_workload_object(const Json& object);
/// The answers in its status to the checks of this attempt, and for a mirror `spec.active`.
[[nodiscard]] std::vector<Command> words_of(const Json& object);

/// Name of the mirror: the name that Kueue gives the Workload of such an object.
[[nodiscard]] std::string mirror_name(const WorkloadSpec& spec);
/// The spec of the mirror for the workload: all but `active`.
[[nodiscard]] Json mirror_spec(const Workload& w, const Json& object);
/// The mirror without its status, with the pod templates of the mirrored object.
[[nodiscard]] Json mirror_of(const Workload& w, const Json& object, const std::string& version);
/// The desired status of an object whose status is `now`. Conditions keep the instant at which they took their
/// value; an answer that arrived since is not changed.
[[nodiscard]] Json workload_status(const Workload& w, const Json& now, Instant instant);

}  // namespace qm::admission
