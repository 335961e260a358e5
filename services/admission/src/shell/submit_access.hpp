#pragma once
#include "qm/admission/engine.hpp"
#include "qm/kube/access_review.hpp"
#include "qm/kube/client.hpp"
#include "qm/rpc/access.hpp"

namespace qm::admission {

/// Whether a caller may have our account create this Job: the caller itself may create Jobs in its namespace, and impersonate the
/// service account that its pods would run as, where that is not "default". `job` is submit.job, parsed. Waits for the API server.
///
/// Fails    as AccessReviews.
[[nodiscard]] Status may_submit(const rpc::Caller& caller, const Submit& submit, const Json& job,
                                kube::AccessReviews& reviews);

/// Whether the API server would create the Job: its schema, its admission webhooks and policies. Waits for the API server.
///
/// Fails    with the answer of the API server and the field that it names, where the Job would be refused again. What passes, such as an
///          exhausted ResourceQuota or a server that is away, is no refusal, and neither is a Job that exists: it may be of this request.
[[nodiscard]] Status would_create(const Submit& submit, const Json& job, kube::Client& client);

}  // namespace qm::admission
