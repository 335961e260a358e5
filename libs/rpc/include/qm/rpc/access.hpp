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

/// Who calls, and what they may see. A call that nobody checks (--auth none) has an unrestricted caller.
struct Caller {
  std::string name = "anonymous";  ///< "alice", "system:serviceaccount:research:ci", "quartermaster-placement"
  std::string service;             ///< "placement", "agent", ...: by certificate; empty for people and their tools
  bool user = false, team_lead = false, operator_ = false, auditor = false;
  bool everything = false;                  ///< sees all tenants
  bool everywhere = false;                  ///< may change what is of any tenant
  std::set<std::string> namespaces, teams;  ///< else: what belongs to these
  std::set<std::string> led;                ///< the teams whose books this caller may read
  /// Of the identity that Kubernetes reviewed; empty where none was.
  std::vector<std::string> groups = {};

  /// An object of a namespace that a team pays for. Either is enough; an empty one matches nothing.
  [[nodiscard]] bool sees(std::string_view ns, std::string_view team = {}) const {
    return everything || namespaces.contains(std::string(ns)) || teams.contains(std::string(team));
  }
  /// Whether what this caller sends may touch a namespace, and be paid for by a team (empty: the namespace's own).
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

/// What a bearer token proves.
struct Identity {
  std::string name;
  std::vector<std::string> groups;
};

/// Finds out whom a token belongs to; may block. kUnauthenticated: nobody; kUnavailable: it cannot be known now.
using Review = std::function<Result<Identity>(const std::string& token)>;

/// Asks Kubernetes by a TokenReview; `audience` must be one that the token was made for. `post` sends the object and gives
/// the answer: kube::Client::create.
Review review_by_kubernetes(std::function<Result<Json>(const Json& review)> post, std::string audience);

/// Tokens of a file in the form of kube-apiserver's --token-auth-file: token,user,uid,"group1,group2" a line.
Result<Review> review_by_file(const std::string& path);

/// Turns an identity into a caller by the roles file, which is read again when it has changed.
///
/// Fails  kInvalid where the file is none: file, line, field and the way out. A file that turns bad later is logged, and
///        what it said before holds.
class RoleMap {
 public:
  static Result<std::shared_ptr<RoleMap>> open(const std::string& path);
  [[nodiscard]] Caller caller(const Identity& identity);

 private:
  struct Impl;
  explicit RoleMap(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// Metadata of a call that a replica passes on to its leader: the service that it passes it on for, or kForPeople.
inline constexpr const char* kForwarded = "qm-forwarded";
inline constexpr const char* kForPeople = "people";

/// What is known of a call before its handler runs.
struct Call {
  std::string path;           ///< "/quartermaster.v1.Admission/Submit"
  std::string authorization;  ///< the metadata's value
  bool tls = false;
  std::string common_name;        ///< of a verified client certificate
  std::vector<std::string> uris;  ///< of its subject alternative names
  std::string forwarded = {};     ///< the metadata's value
};

/// "admission", "agent", ...: the service that a certificate speaks for, or empty. A URI that ends in
/// "/quartermaster/SERVICE" (as SPIFFE ids are written), or where there is no URI the common name "quartermaster-SERVICE".
[[nodiscard]] std::string service_of(const Call& call);

/// A denied call, for the audit trail.
struct Denial {
  std::string caller, roles, method, reason;
};

struct AccessOptions {
  std::string service;             ///< whose server it is; what another replica of it passes on is from whom that says
  Review review;                   ///< none = people are not asked who they are
  std::shared_ptr<RoleMap> roles;  ///< needed with `review`
  std::size_t most_cached = 4096;
  SteadyDuration keep = std::chrono::seconds(60);         ///< how long an answer about a token holds
  SteadyDuration keep_refused = std::chrono::seconds(5);  ///< and a refusal
  std::function<SteadyInstant()> now = [] { return std::chrono::steady_clock::now(); };
  std::function<void(const Denial&)> on_denied;  ///< at most ten a second; the counter has them all
};

/// Decides for each call whether it may go on, before its handler runs, from the table in qm/rpc/rules.hpp. What the
/// table does not name is denied.
///
/// Tokens   are looked up on threads of its own, each once per `keep`; calls with one that is being looked up wait for
///          it without a thread. Only digests of tokens are kept.
/// Bounds   most_cached tokens; 1024 look-ups wait for each thread, then kUnavailable.
/// Threads  any.
class Access {
 public:
  explicit Access(AccessOptions options);
  ~Access();

  /// Answers by done(status), at once or from a thread of its own.
  void check(const Call& call, std::function<void(const Status&)> done);
  /// Who calls, for a handler whose call was let through. Where the token has been forgotten since: nobody.
  [[nodiscard]] Caller caller(const Call& call);
  [[nodiscard]] bool asks() const;  ///< people must show who they are
  /// qm_rpc_denied_total by method and code.
  void export_to(metrics::Registry& registry, const std::string& service);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace qm::rpc
