#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::kube {

/// One verb on one resource, for the user of a request.
struct AccessRequest {
  std::string user;
  std::vector<std::string> groups;
  std::string verb, group, resource, ns;
  std::string name = {};  ///< of one object; empty = any
  /// "create jobs.batch in namespace lab"
  [[nodiscard]] std::string what() const;
};

/// Checks whether Kubernetes allows an operation to a user: a SubjectAccessReview of authorization.k8s.io/v1. So an
/// operation for a user with the service's account is limited to the permissions of the user.
///
/// Fails    kPermissionDenied: denied; has user, verb, resource, namespace, and the missing Role. kUnavailable: the
///          API server is unavailable, or reports that it cannot decide.
/// Bounds   caches up to `most` results: allowed for `keep`, denied for `keep_denied`, and no result for
///          `keep_unknown`, so that callers do not wait for an unavailable server one after the other.
/// Threads  any; waits for the API server, so not a gRPC thread.
class AccessReviews {
 public:
  /// Posts the object and returns the response: Client::create.
  using Post = std::function<Result<Json>(const Json& review)>;
  struct Options {
    std::size_t most = 4096;
    SteadyDuration keep = std::chrono::seconds(30), keep_denied = std::chrono::seconds(5),
                   keep_unknown = std::chrono::seconds(1);
    std::function<SteadyInstant()> now = [] { return std::chrono::steady_clock::now(); };
  };
  explicit AccessReviews(Post post) : AccessReviews(std::move(post), Options()) {}
  AccessReviews(Post post, Options options);
  ~AccessReviews();
  [[nodiscard]] Status check(const AccessRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::kube
