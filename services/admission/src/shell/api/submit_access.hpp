#pragma once
#include "qm/admission/engine.hpp"
#include "qm/kube/access_review.hpp"
#include "qm/kube/client.hpp"
#include "qm/rpc/access.hpp"

namespace qm::admission {

/// Whether the service account of Quartermaster may create this Job for the caller: the caller itself may create Jobs
/// in its namespace, and may impersonate the service account that its pods would run as, where that is not "default".
/// `job` is submit.job, parsed. Waits for the API server.
///
/// Fails    as AccessReviews.
[[nodiscard]] Status may_submit(const rpc::Caller& caller, const Submit& submit, const Json& job,
                                kube::AccessReviews& reviews);

/// Whether the API server would create the Job: checks its schema, admission webhooks and policies. Waits for
/// the API server.
///
/// Fails    with the error of the API server and the field that it names, where the Job would be refused every time.
///          A temporary error, such as an exhausted ResourceQuota or an unavailable server, is not a refusal. An
///          existing Job is not one either: an earlier attempt of this request may have created it.
[[nodiscard]] Status would_create(const Submit& submit, const Json& job, kube::Client& client);

}  // namespace qm::admission
