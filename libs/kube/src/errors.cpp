#include "qm/kube/errors.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace qm::kube {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool caused_by(const Json& object, std::string_view reason) {
  return std::ranges::any_of(object["details"]["causes"].items(),
                             [&](const Json& cause) { return cause["reason"].string() == reason; });
}

constexpr const char* kChangeIt = "change the object as the message requires, or have the policy changed";

/// 403 has two sources: the authorizer (permissions) and the admission plugins (accepted objects). Only the text
/// distinguishes them.
Refusal forbidden(const Json& object) {
  const std::string_view text = object["message"].string();
  // Checked first: the rest of such a message is the webhook's own text.
  if (has(text, "admission webhook") || has(text, "denied request") || has(text, "violates PodSecurity"))
    return {Code::kInvalid, kChangeIt};
  if (caused_by(object, "NamespaceTerminating") || has(text, "because it is being terminated"))
    return {Code::kFailedPrecondition, "use another namespace, or create this one again once it is deleted"};
  if (has(text, "exceeded quota") || has(text, "status unknown for quota"))
    return {Code::kExhausted, "raise the ResourceQuota, or delete what uses it (kubectl describe resourcequota)"};
  if (has(text, "error looking up service account")) return {Code::kUnavailable, "create the ServiceAccount"};
  const bool authorizer =
      has(text, "is forbidden: User ") || has(text, "forbidden: User ") || !has(text, "is forbidden: ");
  if (!authorizer) return {Code::kInvalid, kChangeIt};
  return {Code::kPermissionDenied,
          "grant the ServiceAccount this right; the ClusterRoles of the Helm chart have all that are needed"};
}

}  // namespace

Refusal classify(int status, const Json& object) {
  switch (status) {
    case 401:
      return {Code::kUnavailable,
              "check that the ServiceAccount's token is renewed and that the API server trusts its issuer"};
    case 403:
      return forbidden(object);
    case 404:
      return {Code::kNotFound, {}};
    case 408:
      return {Code::kDeadlineExceeded, {}};
    case 409:
      if (object["reason"].string() != "AlreadyExists") return {Code::kAborted, {}};
      // The name becomes free once the previous object is gone.
      if (has(object["message"].string(), "object is being deleted")) return {Code::kAborted, {}};
      return {Code::kAlreadyExists, {}};
    case 410:
      return {Code::kOutOfRange, {}};
    case 415:
      return {Code::kUnimplemented, {}};
    case 429:
      return {Code::kExhausted, {}};
    default:
      if (status >= 500) return {Code::kUnavailable, {}};
      return {Code::kInvalid, kChangeIt};
  }
}

Error for_start(Error error) {
  const bool waits = error.code == Code::kPermissionDenied || error.code == Code::kUnauthenticated ||
                     error.code == Code::kOutOfRange || error.code == Code::kUnknown;
  if (waits) error.code = Code::kUnavailable;
  return error;
}

Error for_release(Error error) {
  if (error.code == Code::kInvalid || error.code == Code::kFailedPrecondition) error.code = Code::kUnavailable;
  return for_start(std::move(error));
}

}  // namespace qm::kube
