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

/// Whether Kubernetes lets a user do something: a SubjectAccessReview of authorization.k8s.io/v1, so that what is done for a user by
/// our account is no more than the user may do.
///
/// Fails    kPermissionDenied: denied; names user, verb, resource, namespace, and the Role that is missing. kUnavailable: the API
///          server cannot be asked, or says that it cannot decide.
/// Bounds   `most` answers are kept: one that allows for `keep`, one that denies for `keep_denied`, and that there is none for
///          `keep_unknown`, so that callers do not wait for a server that is away one after the other.
/// Threads  any; waits for the API server, so not one of gRPC's.
class AccessReviews {
 public:
  /// Sends the object and gives the answer: Client::create.
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
