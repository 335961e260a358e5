#pragma once
#include "qm/admission/engine.hpp"
#include "qm/kube/access_review.hpp"
#include "qm/rpc/access.hpp"

namespace qm::admission {

/// Whether a caller may have our account create this Job: the caller itself may create Jobs in its namespace, and impersonate the
/// service account that its pods would run as, where that is not "default". Waits for the API server.
///
/// Fails    as AccessReviews.
[[nodiscard]] Status may_submit(const rpc::Caller& caller, const Submit& submit, kube::AccessReviews& reviews);

}  // namespace qm::admission
