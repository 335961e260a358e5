#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <string>

namespace qm::kube {

/// What an answer of 300 and up means for the caller.
struct Refusal {
  Code code = Code::kInternal;
  std::string remedy;  ///< empty where waiting is the remedy
};

/// The one place that judges the answers of the API server. `status` is that of HTTP, `object` the Status in the body.
///
///   code                 answer                                                                 a repeat may succeed
///   kUnavailable         401; 5xx; a ServiceAccount that does not exist yet                     yes
///   kExhausted           429; 403 of an exhausted ResourceQuota                                 yes
///   kAborted             409 Conflict; a name whose object is still being deleted               yes, after a new look
///   kDeadlineExceeded    408                                                                    yes
///   kPermissionDenied    403 of RBAC or another authorizer                                      once it is granted
///   kInvalid             400, 403, 422 of webhooks, policies, limits, PodSecurity; other 4xx    no
///   kFailedPrecondition  403 of a namespace that is being deleted                               no
///   kNotFound            404                                                                    no
///   kAlreadyExists       409 AlreadyExists                                                      no
///   kOutOfRange          410                                                                    with a new list
///   kUnimplemented       415                                                                    no
[[nodiscard]] Refusal classify(int status, const Json& object);

/// The error of an order that starts or places something, made retryable unless the object itself is refused: it waits for rights (403
/// of RBAC), a certificate, a new list, or a look at whether the call arrived. /readyz reports what is retried, and why.
[[nodiscard]] Error for_start(Error error);
/// The error of an order that ends or gives back something, which must not be lost: like for_start, and a policy that refuses it is
/// waited for, too. Only kNotFound, kUnimplemented and kInternal stay final.
[[nodiscard]] Error for_release(Error error);

}  // namespace qm::kube
