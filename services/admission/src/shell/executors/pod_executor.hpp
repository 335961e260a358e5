#pragma once
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"
#include "state/admission_state.pb.h"

#include <functional>
#include <string>
#include <vector>

namespace qm::admission {

/// The checkpoint URL for the ranks of a Job or pod that does not set one itself.
using UrlOf = std::function<std::string(const Json& object)>;

/// The intents of admission for a workload that consists of pods. Each one reads the present state first, so a
/// repetition changes nothing more.

/// The present pods of the workload, oldest first: the ungated pods that belong to it and the pods that are gated.
Result<std::vector<Json>> pods_of(kube::Client& client, const quartermaster::admission::JobIntent& intent);
/// Removes the scheduling gate of Quartermaster from all pods of the workload. The same patch writes node selector
/// and tolerations of their flavor, attempt and index, which may change only while the pod is gated. Gates of other
/// controllers stay.
Result<quartermaster::admission::JobOutcome> ungate_pods(kube::Client& client,
                                                         const quartermaster::admission::JobIntent& intent,
                                                         const UrlOf& url);
/// Evicts the ungated pods: by the eviction API, which disruption budgets may delay, until the deadline; then by
/// deletion. Fails with kExhausted while a budget forbids it: retry later.
Result<quartermaster::admission::JobOutcome> evict_pods(kube::Client& client,
                                                        const quartermaster::admission::JobIntent& intent, Instant now);
/// Deletes all pods of a canceled workload.
Result<quartermaster::admission::JobOutcome> delete_pods(kube::Client& client,
                                                         const quartermaster::admission::JobIntent& intent);

}  // namespace qm::admission
