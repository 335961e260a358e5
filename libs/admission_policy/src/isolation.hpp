#pragma once
#include "qm/admission_policy/policy.hpp"
#include "rules.hpp"

namespace qm::admission_policy {

/// Whether the namespace requires quota for all GPUs: it has the label quartermaster.dev/webhook=required, and
/// Quartermaster manages its quota.
[[nodiscard]] bool counts_every_gpu(const Subject& s, const View& view);

/// The controlling owner of a pod or Job; null where there is none.
[[nodiscard]] const Json& controller_of(const Json& object);
/// Whether it is a mirror pod of the requesting kubelet: NodeRestriction lets a node create only its own.
[[nodiscard]] bool is_mirror_of_kubelet(const Subject& s, const Json& pod);
/// Whether the object belongs to a workload that is suspended as a whole and was created by the account of its
/// controller: quota counts the workload, not this object. Clients write owner references, so only that account is
/// trusted with one.
[[nodiscard]] bool is_part_of_workload(const Subject& s, const Json& object, const Settings& settings);
/// Whether the pod names a scheduler other than Quartermaster and the default of the cluster.
[[nodiscard]] bool names_other_scheduler(const Json& pod_spec);

/// Whether the pod requests GPUs, also by another resource name of the vendor, or devices by DRA, which Quartermaster
/// does not count.
[[nodiscard]] bool requests_devices(const Json& pod);

/// Refuses an object that would bypass the quota of a namespace that requires it: a pod without the scheduling gate,
/// with the reason, or a Job that is not held in a queue. Call it after mutate.
void require_quota(const Subject& s, const Settings& settings, const View& view, Findings& out);
/// The same for an update: a Job that leaves its queue, or starts without one.
void require_quota_of_change(const Subject& s, const Settings& settings, const View& view, bool was_queued,
                             bool is_queued, Findings& out);

/// Refuses metadata that only Quartermaster may write (qm/model/owned_metadata.hpp) where another account sets or
/// changes it. Checks the metadata of a pod; for a Job, that of its template too.
void check_owned_metadata(const Subject& s, const Settings& settings, Findings& out);

}  // namespace qm::admission_policy
