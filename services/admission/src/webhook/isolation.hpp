#pragma once
#include "qm/admission/webhook/policy.hpp"
#include "rules.hpp"

namespace qm::admission::webhook {

/// Whether GPUs of the namespace come by quota alone: it has the label quartermaster.dev/webhook=required, and its quota is ours.
[[nodiscard]] bool counts_every_gpu(const Subject& s, const View& view);

/// The owner of a pod or Job that controls it; null where there is none.
[[nodiscard]] const Json& controller_of(const Json& object);
/// A mirror pod of the kubelet that asks: NodeRestriction lets a node create those of its own alone.
[[nodiscard]] bool is_mirror_of_kubelet(const Subject& s, const Json& pod);
/// Made for a workload that is suspended as a whole, by the account of its controller: the workload is counted, not this. An owner
/// reference is written by the client, so it is believed from that account only.
[[nodiscard]] bool is_part_of_workload(const Subject& s, const Json& object, const Settings& settings);
/// Whether a scheduler is named that is neither ours nor the cluster's default.
[[nodiscard]] bool names_other_scheduler(const Json& pod_spec);

/// GPUs, also by another name of their vendor's, or devices by DRA, which Quartermaster does not count.
[[nodiscard]] bool asks_for_devices(const Json& pod);

/// What lets an object with GPUs past the quota of a namespace that counts every GPU. Of a pod: not gated, with its reason; of a Job:
/// not held in a queue. Asked after mutate.
void require_quota(const Subject& s, const Settings& settings, const View& view, Findings& out);
/// The same of a change: a Job that leaves its queue, or starts without one.
void require_quota_of_change(const Subject& s, const Settings& settings, const View& view, bool was_queued,
                             bool is_queued, Findings& out);

/// Metadata that Quartermaster alone writes (qm/model/owned_metadata.hpp) and another account sets or changes. Of a pod: its own;
/// of a Job: that of its template too.
void guard_owned_metadata(const Subject& s, const Settings& settings, Findings& out);

}  // namespace qm::admission::webhook
