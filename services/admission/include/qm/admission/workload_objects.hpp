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
/// One that nobody owns is a workload of its own: somebody else makes its pods when it is admitted, and says by the condition
/// QuotaReserved = False that they are gone. One that mirrors a row of another kind (label kMirrors) is there for those who
/// answer admission checks through its status, and for tools that read Workloads.
inline constexpr std::string_view kMirrors =
    "quartermaster.dev/mirrors";  ///< label: uid of the object that it stands for
[[nodiscard]] bool is_mirror(const Json& object);
/// Where its pod templates are. It is none of the kinds that are suspended.
[[nodiscard]] const config::WorkloadKind& workload_object_kind();

/// One that nobody owns, as a job. kInvalid names the field.
[[nodiscard]] Result<JobSeen> workload_object_seen(const Json& object);
/// What its status says of the checks of this attempt, and for a mirror what its spec says of being active.
[[nodiscard]] std::vector<Command> words_of(const Json& object);

/// Name of the mirror: that which Kueue gives the Workload of such an object.
[[nodiscard]] std::string mirror_name(const WorkloadSpec& spec);
/// What the spec of the mirror says of the workload: all but `active`.
[[nodiscard]] Json mirror_spec(const Workload& w, const Json& object);
/// The mirror without its status, with the pod templates of the object that it stands for.
[[nodiscard]] Json mirror_of(const Workload& w, const Json& object, const std::string& version);
/// The status as it should be, where the object has `now`: conditions keep the instant at which they took their value, and an
/// answer that came in since is left alone.
[[nodiscard]] Json workload_status(const Workload& w, const Json& now, Instant instant);

}  // namespace qm::admission
