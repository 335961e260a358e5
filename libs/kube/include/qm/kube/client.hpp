#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

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
  std::string field_selector;  ///< as kube-apiserver evaluates it: "spec.nodeName=a"; empty = all
  Scope() = default;
  Scope(std::string of_namespace, std::string fields = {})
      : ns(std::move(of_namespace)), field_selector(std::move(fields)) {}
  Scope(const char* of_namespace) : ns(of_namespace) {}
};
struct List {
  std::vector<Json> items;
  std::string resource_version, continue_token;
};

/// Where the API server is and how to prove who we are. connect.hpp makes them as kubectl or a pod would.
struct ClientOptions {
  std::string server;                            ///< http(s)://host:port, with a path where a proxy wants one
  std::string token, ca_file, certificate, key;  ///< the last three are files
  int timeout_ms = 10000;
  std::string token_file;                    ///< in the place of token; read again whenever it changes
  std::string ca, certificate_pem, key_pem;  ///< in the place of the files, their text
  bool insecure = false;                     ///< takes any certificate of the server's
  std::function<SteadyInstant()> now = [] { return std::chrono::steady_clock::now(); };  ///< for Retry-After
};

/// A Kubernetes API client in JSON. Any thread.
///
/// Fails    as classify() in errors.hpp says for each answer, with the Status object's own text; kUnavailable and
///          kDeadlineExceeded where none came; kUnauthenticated: the server's certificate is not accepted.
/// Retries  a 401 once at once, with the token file read again. A call that was answered with Retry-After is not sent again before
///          that time is over (60 s at most): it fails with the same error. All else is the caller's.
class Client {
 public:
  explicit Client(ClientOptions options);
  ~Client();
  Result<Json> get(const Resource& r, const std::string& ns, const std::string& name);
  Result<List> list(const Resource& r, const std::string& ns, const ListOptions& options = {});
  Result<std::vector<Json>> list_all(const Resource& r, const Scope& scope, std::string* resource_version = nullptr);
  Result<Json> create(const Resource& r, const std::string& ns, const Json& object);
  /// What create() would store, by all that the API server checks (dryRun=All); nothing is stored. An error's message begins with `what`.
  Result<Json> dry_create(const Resource& r, const std::string& ns, const Json& object, const std::string& what);
  /// Replaces; the object's metadata.resourceVersion makes it optimistic.
  Result<Json> update(const Resource& r, const std::string& ns, const std::string& name, const Json& object);
  /// RFC 7386; a metadata.resourceVersion in the patch makes it optimistic. subresource: "" or "status".
  Result<Json> merge_patch(const Resource& r, const std::string& ns, const std::string& name, const Json& patch,
                           const std::string& subresource = {});
  struct ApplyOptions {
    std::string field_manager = "quartermaster";
    bool force = true;  ///< takes fields over that another manager owns; without it that is kAborted
    std::string subresource;
  };
  /// Server-side apply: `object` holds the fields that shall be ours and no others; what we applied before and leave
  /// out now is removed. kUnimplemented where the server does not take it (415).
  Result<Json> apply(const Resource& r, const std::string& ns, const std::string& name, const Json& object,
                     const ApplyOptions& options);
  /// The versions of an API group, the preferred one first; empty where the server does not have the group.
  Result<std::vector<std::string>> versions_of(const std::string& group);
  /// Where the kind is served: the first of `versions` that the server has, else the one that it prefers. kNotFound
  /// while its definition is not installed.
  Result<Resource> find_kind(const std::string& group, const std::string& plural,
                             const std::vector<std::string>& versions);
  Result<Json> update_status(const Resource& r, const std::string& ns, const std::string& name, const Json& object);
  struct DeleteOptions {
    std::string uid;         ///< precondition; empty = none
    int grace_seconds = -1;  ///< -1 = the object's own
    std::string propagation = "Background";
  };
  Status remove(const Resource& r, const std::string& ns, const std::string& name, const DeleteOptions& options);
  /// POST pods/NAME/binding. kAborted where the pod is bound already (look at spec.nodeName then).
  Status bind(const std::string& ns, const std::string& pod, const std::string& pod_uid, const std::string& node,
              const Json& annotations = {});
  /// POST pods/NAME/eviction. kExhausted where a disruption budget forbids it now; kAborted where `uid` is given and the
  /// pod of that name is another.
  Status evict(const std::string& ns, const std::string& pod, int grace_seconds, const std::string& uid = {});
  /// One watch call. on_event(type, object) for ADDED, MODIFIED, DELETED, BOOKMARK; returns the reason it ended:
  /// OK = plain EOF, kOutOfRange = 410 inside an ERROR event, else transport.
  Status watch(const Resource& r, const Scope& scope, const std::string& resource_version,
               const std::function<void(const std::string& type, const Json& object)>& on_event,
               const std::function<bool()>& stop, int timeout_seconds = 300);
  [[nodiscard]] const std::string& server() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Where a kind is served now; asked again whenever the server does not know it any more.
using Locate = std::function<Result<Resource>()>;

/// Keeps one kind in view, as far as the scope selects it: list, then watch from there, again after expiry or EOF, with jitter. Runs its own thread.
/// A kind whose definition is not installed is looked for again, every 10 s at the latest.
///
/// Calls    on_change(object, deleted): for every object of the first list, then for each change. After a relist,
///          objects that vanished in between come once more as deleted. An object that the field selector stops to match
///          comes as deleted. on_synced() after each complete list.
class Informer {
 public:
  struct Callbacks {
    std::function<void(const Json& object, bool deleted)> on_change;
    std::function<void()> on_synced;
    /// Objects that are not wanted are not kept and not told of; one that was wanted before comes as deleted. Unset:
    /// all are.
    std::function<bool(const Json& object)> wanted = {};
  };
  /// `watch_seconds`: how long one watch lasts before the next goes on from there.
  Informer(Client& client, Resource resource, Scope scope, Callbacks callbacks, int watch_seconds = 300);
  Informer(Client& client, Locate locate, Scope scope, Callbacks callbacks, int watch_seconds = 300);
  ~Informer();
  void start();
  void stop();
  [[nodiscard]] bool synced() const;
  /// True where the kind is not served: there is nothing to wait for.
  [[nodiscard]] bool absent() const;
  /// Where the kind was found; an empty plural while it was not.
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
[[nodiscard]] std::string annotation(const Json& object, std::string_view key);
[[nodiscard]] std::string label(const Json& object, std::string_view key);

}  // namespace qm::kube
