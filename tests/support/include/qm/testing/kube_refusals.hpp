#pragma once
#include <array>

namespace qm::testing {

/// An answer of a kube-apiserver with its message, and how an order handles it.
struct KubeRefusal {
  const char* what;
  int status;
  const char* reason;   ///< of the Status
  const char* message;  ///< of the Status
  bool start_waits;     ///< an order that starts something is retried
  bool release_waits;   ///< an order that ends something is retried
};

/// The classes of docs/lifecycle.md, "Answers of the API server"; each order handles 404 and 409 itself.
inline constexpr std::array kKubeRefusals{
    KubeRefusal{"credentials", 401, "Unauthorized", "Unauthorized", true, true},
    KubeRefusal{"rights", 403, "Forbidden",
                R"(jobs.batch "a" is forbidden: User "system:serviceaccount:qm:admission" cannot patch resource "jobs")"
                R"( in API group "batch" in the namespace "team")",
                true, true},
    KubeRefusal{"quota", 403, "Forbidden",
                R"(pods "a" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=10, limited: pods=10)",
                true, true},
    KubeRefusal{"webhook", 403, "Forbidden",
                R"(admission webhook "v.example.com" denied the request: exceeded quota of the team)", false, true},
    KubeRefusal{"webhook with the default code", 400, "BadRequest",
                R"(admission webhook "v.example.com" denied the request: no owner label)", false, true},
    KubeRefusal{
        "policy", 422, "Invalid",
        R"(jobs.batch "a" is forbidden: ValidatingAdmissionPolicy 'owner' with binding 'b' denied request: no owner)",
        false, true},
    KubeRefusal{"PodSecurity", 403, "Forbidden",
                R"(pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged)", false, true},
    KubeRefusal{"limit range", 403, "Forbidden",
                R"(pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2)", false, true},
    KubeRefusal{
        "namespace that is being deleted", 403, "Forbidden",
        R"(jobs.batch "a" is forbidden: unable to create new content in namespace team because it is being terminated)",
        false, true},
    KubeRefusal{"invalid", 422, "Invalid", R"(Job.batch "a" is invalid: spec.template: field is immutable)", false,
                true},
    KubeRefusal{"throttling", 429, "TooManyRequests", "the server has received too many requests", true, true},
    KubeRefusal{"a webhook that does not answer", 500, "InternalError",
                R"(Internal error occurred: failed calling webhook "v.example.com": context deadline exceeded)", true,
                true},
    KubeRefusal{"a server that is away", 503, "ServiceUnavailable", "etcdserver: leader changed", true, true},
    KubeRefusal{"timeout", 504, "Timeout", "request did not complete within the allotted timeout", true, true},
    KubeRefusal{"expired list", 410, "Expired", "The provided continue parameter is too old", true, true},
};

}  // namespace qm::testing
