#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <string>

namespace qm::kube {

/// The meaning of a response of 300 and up for the caller.
struct Refusal {
  Code code = Code::kInternal;
  std::string remedy;  ///< empty if the caller only has to wait
};

/// Classifies the responses of the API server, in this function only. `status` is that of HTTP, `object` the Status
/// in the body.
///
///   code                 response                                                               a retry may succeed
///   kUnavailable         401; 5xx; a ServiceAccount that does not exist yet                     yes
///   kExhausted           429; 403 of an exhausted ResourceQuota                                 yes
///   kAborted             409 Conflict; a name whose object is still being deleted               yes, after a read
///   kDeadlineExceeded    408                                                                    yes
///   kPermissionDenied    403 of RBAC or another authorizer                                      once it is granted
///   kInvalid             400, 403, 422 of webhooks, policies, limits, PodSecurity; other 4xx    no
///   kFailedPrecondition  403 of a namespace that is being deleted                               no
///   kNotFound            404                                                                    no
///   kAlreadyExists       409 AlreadyExists                                                      no
///   kOutOfRange          410                                                                    with a new list
///   kUnimplemented       415                                                                    no
[[nodiscard]] Refusal classify(int status, const Json& object);

/// Converts the error of an intent that starts or places something: retryable unless the object itself is refused.
/// Retryable are missing permissions (403 of RBAC), a certificate, a new list, and a check whether the call arrived.
/// /readyz reports retries and their reason.
[[nodiscard]] Error for_start(Error error);
/// Converts the error of an intent that terminates or releases something, which must not be lost: like for_start,
/// and a refusal by a policy is also retried. Only kNotFound, kUnimplemented and kInternal stay final.
[[nodiscard]] Error for_release(Error error);

}  // namespace qm::kube
