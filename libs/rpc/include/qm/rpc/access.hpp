#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/metrics/metrics.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::rpc {

/// The caller of a request, and its permissions. With --auth none a caller is unrestricted.
struct Caller {
  std::string name = "anonymous";  ///< "alice", "system:serviceaccount:research:ci", "quartermaster-placement"
  std::string service;             ///< "placement", "agent", ...: from the certificate; empty for users and their tools
  bool user = false, team_lead = false, operator_ = false, auditor = false;
  bool everything = false;                  ///< sees all tenants
  bool everywhere = false;                  ///< may change objects of any tenant
  std::set<std::string> namespaces, teams;  ///< otherwise: objects of these
  std::set<std::string> led;                ///< the teams whose costs this caller may read
  /// Groups of the identity that Kubernetes reviewed; empty without a review.
  std::vector<std::string> groups = {};

  /// Whether the caller may see an object of a namespace that a team is charged for. Either is enough; an empty one
  /// matches nothing.
  [[nodiscard]] bool sees(std::string_view ns, std::string_view team = {}) const {
    return everything || namespaces.contains(std::string(ns)) || teams.contains(std::string(team));
  }
  /// Whether a request of this caller may change a namespace, and be charged to a team (empty: the namespace's own).
  [[nodiscard]] bool changes(std::string_view ns, std::string_view team = {}) const {
    return everywhere || (namespaces.contains(std::string(ns)) && (team.empty() || teams.contains(std::string(team))));
  }
  [[nodiscard]] std::string roles() const;  ///< "user,team-lead"; "service"; "none"
  [[nodiscard]] static Caller anyone() {
    Caller out;
    out.everything = out.everywhere = true;
    return out;
  }
};

/// The identity that a bearer token proves.
struct Identity {
  std::string name;
  std::vector<std::string> groups;
};

/// Finds the identity of a token; may block. kUnauthenticated: not valid; kUnavailable: it cannot be verified now.
using Review = std::function<Result<Identity>(const std::string& token)>;

/// Verifies tokens by a TokenReview of Kubernetes; `audience` must be an audience of the token. `post` sends the
/// object and returns the response: kube::Client::create.
Review review_by_kubernetes(std::function<Result<Json>(const Json& review)> post, std::string audience);

/// Verifies tokens by a file in the format of kube-apiserver's --token-auth-file: token,user,uid,"group1,group2" a
/// line.
Result<Review> review_by_file(const std::string& path);

/// Maps an identity to a caller by the roles file, which is read again when it changes.
///
/// Fails  kInvalid for an invalid file: file, line, field and remedy. If a file becomes invalid later, the error is
///        logged, and the last valid content applies.
class RoleMap {
 public:
  static Result<std::shared_ptr<RoleMap>> open(const std::string& path);
  [[nodiscard]] Caller caller(const Identity& identity);

 private:
  struct Impl;
  explicit RoleMap(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// Metadata of a call that a replica forwards to its leader: the service of the original caller, or kForUsers.
inline constexpr const char* kForwarded = "qm-forwarded";
inline constexpr const char* kForUsers = "people";

/// The known facts about a call before its handler runs.
struct Call {
  std::string path;           ///< "/quartermaster.v1.Admission/Submit"
  std::string authorization;  ///< the metadata's value
  bool tls = false;
  std::string common_name;        ///< of a verified client certificate
  std::vector<std::string> uris;  ///< of its subject alternative names
  std::string forwarded = {};     ///< the metadata's value
};

/// The service that a certificate identifies, "admission", "agent", ..., or empty: from a URI that ends in
/// "/quartermaster/SERVICE" (as in SPIFFE ids), or without a URI from the common name "quartermaster-SERVICE".
[[nodiscard]] std::string service_of(const Call& call);

/// A denied call, for the audit trail.
struct Denial {
  std::string caller, roles, method, reason;
};

struct AccessOptions {
  std::string service;             ///< service of the server; of a forwarded call the original caller counts
  Review review;                   ///< none = users are not authenticated
  std::shared_ptr<RoleMap> roles;  ///< needed with `review`
  std::size_t most_cached = 4096;
  SteadyDuration keep = std::chrono::seconds(60);         ///< how long the result of a token review is cached
  SteadyDuration keep_refused = std::chrono::seconds(5);  ///< and a refusal
  std::function<SteadyInstant()> now = [] { return std::chrono::steady_clock::now(); };
  std::function<void(const Denial&)> on_denied;  ///< at most ten per second; the counter includes all
};

/// Authorizes each call before its handler runs, by the table in qm/rpc/rules.hpp. A method without a row in the
/// table is denied.
///
/// Tokens   are reviewed on separate threads, each once per `keep`; calls whose token is being reviewed wait for
///          it without a thread. Only digests of tokens are stored.
/// Bounds   most_cached tokens; 1024 reviews wait for each thread, further ones are kUnavailable.
/// Threads  any.
class Access {
 public:
  explicit Access(AccessOptions options);
  ~Access();

  /// Calls done(status), at once or on an internal thread.
  void check(const Call& call, std::function<void(const Status&)> done);
  /// The caller, for a handler of an authorized call. Without permissions if the token has been removed from the
  /// cache since.
  [[nodiscard]] Caller caller(const Call& call);
  [[nodiscard]] bool asks() const;  ///< users must authenticate
  /// qm_rpc_denied_total by method and code.
  void export_to(metrics::Registry& registry, const std::string& service);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace qm::rpc
