#pragma once
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"
#include "state/admission_state.pb.h"

#include <functional>
#include <string>
#include <vector>

namespace qm::admission {

/// By which URL the ranks of a Job or pod save that does not say so itself.
using UrlOf = std::function<std::string(const Json& object)>;

/// The intents of admission where the workload is pods of its own. Each looks first, so that doing it again changes
/// nothing more.

/// The pods of the workload as they are now, the oldest first: those that were let go for it, and those that wait.
Result<std::vector<Json>> pods_of(kube::Client& client, const quartermaster::admission::JobIntent& intent);
/// Lifts our gate from all pods of the workload: node selector and tolerations of their flavor, attempt and index are
/// written in the same patch, while the pod is still gated and these may be changed. Gates of others stay.
Result<quartermaster::admission::JobOutcome> let_go(kube::Client& client,
                                                    const quartermaster::admission::JobIntent& intent,
                                                    const UrlOf& url);
/// Evicts the pods that were let go: by the eviction API, which disruption budgets may put off, until the deadline; then
/// by deletion. kExhausted while a budget forbids it: to be tried again.
Result<quartermaster::admission::JobOutcome> evict_pods(kube::Client& client,
                                                        const quartermaster::admission::JobIntent& intent, Instant now);
/// Deletes all of them: the workload was cancelled.
Result<quartermaster::admission::JobOutcome> delete_pods(kube::Client& client,
                                                         const quartermaster::admission::JobIntent& intent);

}  // namespace qm::admission
