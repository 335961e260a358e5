#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/base/wake.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace qm::kube {

/// A kind in the API: {"batch", "v1", "jobs", true}. The core group is "".
struct Resource {
  std::string group, version, plural;
  bool namespaced = true;
  [[nodiscard]] std::string path(const std::string& ns = {}, const std::string& name = {}) const;
};

namespace resources {
inline const Resource kPods{"", "v1", "pods", true};
inline const Resource kNodes{"", "v1", "nodes", false};
inline const Resource kEvents{"", "v1", "events", true};
inline const Resource kJobs{"batch", "v1", "jobs", true};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", true};
inline const Resource kNodeClaims{"karpenter.sh", "v1", "nodeclaims", false};
inline const Resource kNodePools{"karpenter.sh", "v1", "nodepools", false};
}  // namespace resources

struct ListOptions {
  std::string label_selector, field_selector, continue_token;
  int limit = 500;
};
/// Which objects of a kind a list or a watch covers.
struct Scope {
  std::string ns;              ///< empty = all namespaces, or a kind without them
  std::string field_selector;  ///< evaluated by kube-apiserver: "spec.nodeName=a"; empty = all
  Scope() = default;
  Scope(std::string of_namespace, std::string fields = {})
      : ns(std::move(of_namespace)), field_selector(std::move(fields)) {}
  Scope(const char* of_namespace) : ns(of_namespace) {}
};
struct List {
  std::vector<Json> items;
  std::string resource_version, continue_token;
};

/// The address of the API server and the credentials. connect.hpp creates them as kubectl or a pod would.
struct ClientOptions {
  std::string server;                            ///< http(s)://host:port, with a path if a proxy requires one
  std::string token, ca_file, certificate, key;  ///< the last three are files
  int timeout_ms = 10000;
  std::string token_file;                    ///< instead of token; read again whenever it changes
  std::string ca, certificate_pem, key_pem;  ///< texts, instead of the files
  bool insecure = false;                     ///< accepts any server certificate
  std::function<SteadyInstant()> now = [] { return std::chrono::steady_clock::now(); };  ///< for Retry-After
};

/// A Kubernetes API client in JSON. Any thread.
///
/// Fails    as classify() in errors.hpp for each response, with the text of the Status object; kUnavailable and
///          kDeadlineExceeded without a response; kUnauthenticated: the server's certificate is not accepted.
/// Retries  a 401 once immediately, with the token file read again. After a response with Retry-After the call is
///          not sent again before that time is over (60 s at most): it fails with the same error. All other retries
///          are the caller's.
class Client {
 public:
  explicit Client(ClientOptions options);
  ~Client();
  Result<Json> get(const Resource& r, const std::string& ns, const std::string& name);
  Result<List> list(const Resource& r, const std::string& ns, const ListOptions& options = {});
  Result<std::vector<Json>> list_all(const Resource& r, const Scope& scope, std::string* resource_version = nullptr);
  Result<Json> create(const Resource& r, const std::string& ns, const Json& object);
  /// Returns what create() would store, after all checks of the API server (dryRun=All); nothing is stored. The
  /// error message begins with `what`.
  Result<Json> dry_create(const Resource& r, const std::string& ns, const Json& object, const std::string& what);
  /// Replaces the object; metadata.resourceVersion makes the update optimistic.
  Result<Json> update(const Resource& r, const std::string& ns, const std::string& name, const Json& object);
  /// RFC 7386; a metadata.resourceVersion in the patch makes it optimistic. subresource: "" or "status".
  Result<Json> merge_patch(const Resource& r, const std::string& ns, const std::string& name, const Json& patch,
                           const std::string& subresource = {});
  struct ApplyOptions {
    std::string field_manager = "quartermaster";
    bool force = true;  ///< takes over fields that another manager owns; without it such a conflict is kAborted
    std::string subresource;
  };
  /// Server-side apply: `object` has exactly the fields that this manager owns; fields that it applied before and
  /// that are now absent are removed. kUnimplemented if the server does not support it (415).
  Result<Json> apply(const Resource& r, const std::string& ns, const std::string& name, const Json& object,
                     const ApplyOptions& options);
  /// The version of Kubernetes that the server has, "1.36".
  Result<std::string> server_version();
  /// The versions of an API group, the preferred one first; empty if the server does not have the group.
  Result<std::vector<std::string>> versions_of(const std::string& group);
  /// Finds the served version of the kind: the first of `versions` that the server has, else the one that it
  /// prefers. kNotFound while its definition is not installed.
  Result<Resource> find_kind(const std::string& group, const std::string& plural,
                             const std::vector<std::string>& versions);
  /// The same for an informer, which asks again and again while the kind is absent: from a list of API groups that may
  /// be 20 s old, and is read once for all kinds.
  Result<Resource> locate(const std::string& group, const std::string& plural,
                          const std::vector<std::string>& versions);
  struct DeleteOptions {
    std::string uid;         ///< precondition; empty = none
    int grace_seconds = -1;  ///< -1 = the default of the object
    std::string propagation = "Background";
  };
  Status remove(const Resource& r, const std::string& ns, const std::string& name, const DeleteOptions& options);
  /// POST pods/NAME/binding. kAborted if the pod is already bound (then check spec.nodeName).
  Status bind(const std::string& ns, const std::string& pod, const std::string& pod_uid, const std::string& node,
              const Json& annotations = {});
  /// POST pods/NAME/eviction. kExhausted if a disruption budget forbids it now; kAborted if `uid` is given and the
  /// pod with that name has another uid.
  Status evict(const std::string& ns, const std::string& pod, int grace_seconds, const std::string& uid = {});
  /// One watch call. on_event(type, object) for ADDED, MODIFIED, DELETED, BOOKMARK; returns the reason it ended:
  /// OK = plain EOF, kOutOfRange = 410 inside an ERROR event, else transport. `stop` is called often, or with `wake`
  /// when that is notified.
  Status watch(const Resource& r, const Scope& scope, const std::string& resource_version,
               const std::function<void(const std::string& type, const Json& object)>& on_event,
               const std::function<bool()>& stop, int timeout_seconds = 300, const Wake* wake = nullptr);
  [[nodiscard]] const std::string& server() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Finds where a kind is served; called again whenever the server no longer knows it.
using Locate = std::function<Result<Resource>()>;

/// Watches one kind within a scope: list, then watch from the list's version, again after expiry or EOF, with
/// jitter. Has its own thread. A kind without an installed definition is looked up again, at least every 10 s.
///
/// Calls    on_change(object, deleted): for every object of the first list, then for each change. After a relist,
///          objects that vanished in between are reported as deleted. An object that no longer matches the field
///          selector is reported as deleted. on_synced() after each complete list.
class Informer {
 public:
  struct Callbacks {
    std::function<void(const Json& object, bool deleted)> on_change;
    std::function<void()> on_synced;
    /// Objects that are not wanted are neither stored nor reported; one that was wanted before is reported as
    /// deleted. Unset:
    /// all objects are wanted.
    std::function<bool(const Json& object)> wanted = {};
  };
  /// `watch_seconds`: duration of one watch call, after which the next one continues.
  Informer(Client& client, Resource resource, Scope scope, Callbacks callbacks, int watch_seconds = 300);
  Informer(Client& client, Locate locate, Scope scope, Callbacks callbacks, int watch_seconds = 300);
  ~Informer();
  void start();
  void stop();
  [[nodiscard]] bool synced() const;
  /// True if the kind is not served: waiting for it is useless.
  [[nodiscard]] bool absent() const;
  /// Where the kind was found; an empty plural until then.
  [[nodiscard]] Resource resource() const;
  struct Counters {
    std::uint64_t lists = 0, watches = 0, events = 0, expired = 0, cut = 0, bookmarks = 0;
    std::uint64_t listed = 0;  ///< objects in all lists
  };
  [[nodiscard]] Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Helpers on objects.
[[nodiscard]] std::string name_of(const Json& object);
[[nodiscard]] std::string namespace_of(const Json& object);
[[nodiscard]] std::string uid_of(const Json& object);
[[nodiscard]] std::string resource_version_of(const Json& object);
/// The creation time as the API server writes it, in UTC; such texts are ordered by time.
[[nodiscard]] std::string created_of(const Json& object);
[[nodiscard]] std::string annotation(const Json& object, std::string_view key);
[[nodiscard]] std::string label(const Json& object, std::string_view key);

}  // namespace qm::kube
