#pragma once
#include "qm/base/log.hpp"
#include "qm/base/result.hpp"
#include "qm/clock/clock.hpp"
#include "qm/http/http.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/rpc/server.hpp"
#include "qm/service/host.hpp"
#include "qm/settings/setting.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qm::rpc {

/// The settings of every process of the suite, by flag or environment (the flag has precedence):
///   --grpc 127.0.0.1:7101  --http 127.0.0.1:7201  --postgres CONNINFO  --bus SETTING  --redis HOST:PORT
///   --kube URL  --clock system|scaled:PATH  --shard NAME  --log-level info  --log-format text|json
///   --replica standby|take  --advertise HOST:PORT  --lease-namespace NAME
///   --migrate-only  --migrations apply|check
///   --set NAME=VALUE, a setting of this program (repeatable)
///   --tls-cert FILE --tls-key FILE --tls-ca FILE  --insecure  --auth none|tokenreview|static:FILE  --roles FILE
/// Environment names are QM_GRPC, QM_HTTP, QM_POSTGRES, QM_BUS, QM_REDIS, QM_KUBE, QM_CLOCK, QM_SHARD, QM_LOG_LEVEL.
/// Peers' gRPC addresses for Snapshot: --peer admission=127.0.0.1:7101 (repeatable), QM_PEERS="a=..,b=.."; a peer may
/// have several, one for each replica: admission=127.0.0.1:7101,127.0.0.1:7102.
struct Settings {
  std::string grpc = "127.0.0.1:0", http = "127.0.0.1:0";
  std::string postgres, bus, redis, kube, clock = "system", shard = "default";
  std::map<std::string, std::string> peers;
  bool take = false;                   ///< takes the shard from the current leader at once, instead of waiting for it
  std::string advertise;               ///< address of this process's gRPC for other replicas; empty: as --grpc
  std::string lease_namespace;         ///< namespace of the Lease that shows the leader; empty: the Pod's own
  bool migrate_only = false;           ///< migrates the schema and exits
  bool check_only = false;             ///< does not migrate: a schema of another version is refused
  TlsFiles tls;                        ///< QM_TLS_CERT, QM_TLS_KEY, QM_TLS_CA
  bool insecure = false;               ///< QM_INSECURE: plain text beyond loopback
  std::string auth = "none", roles;    ///< QM_AUTH, QM_ROLES
  std::vector<std::string> manifests;  ///< --config FILE (repeatable): YAML applied at start
  settings::Values extra;              ///< of this program: --set NAME=VALUE; its table reads them
  std::string log_level = "info", log_format = "text";
};
/// The description of a program for --help.
struct Program {
  std::string name;         ///< "placement"
  std::string description;  ///< one sentence
  std::vector<settings::Setting> settings = {};
};
/// Parses argv with CLI11. Prints help or an error and exits if necessary. First it checks that the two addresses
/// are free: otherwise a service started twice would take the shard from the first process and then exit. Initializes
/// the log.
Settings parse_settings(int argc, char** argv, const Program& program);

/// kAlreadyExists if another process listens on "host:port" now.
Status check_free(const std::string& address);

/// The content of the admin pages of a process.
struct AdminPages {
  std::function<bool()> alive;                ///< /healthz
  std::function<service::Readiness()> ready;  ///< /readyz
  std::function<Json()> state;                ///< /debug/state, /debug/explain; may block
};

/// /metrics, /healthz and /readyz without authentication; GET /debug/state, GET /debug/explain?uid=, GET and PUT
/// /debug/log-level for authorized callers. If `access` authenticates users, these need a bearer token of a role in
/// the table of rules.hpp; otherwise a client on the loopback interface. Others get 401 or 403 with the remedy.
///
/// Bounds   one page of /debug at a time, and two token checks; further requests get 429. Threads are reserved for
///          the open pages.
class AdminServer {
 public:
  /// `access` is that of the gRPC server of the process; null = without authentication.
  AdminServer(std::string address, metrics::Registry& registry, std::shared_ptr<Access> access, AdminPages pages);
  ~AdminServer();
  /// Call before start. A pattern under /debug needs a row "METHOD PATTERN" in rules.hpp.
  void route(std::string method, std::string pattern, http::Router::Route route);
  Status start();
  void stop();
  [[nodiscard]] int port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Creates the authorization for --auth and --roles. Denied calls are counted in `registry` and recorded in the
/// audit trail of `host`; both may be null.
Result<std::shared_ptr<Access>> make_access(const Settings& settings, const std::string& service,
                                            metrics::Registry* registry = nullptr, service::Host* host = nullptr);
/// The options of a service's gRPC server: address, TLS, and authorization. Denied calls are counted in `registry`
/// and recorded in the audit trail of `host`; both may be null, if they are recorded elsewhere.
Result<ServerOptions> server_options(const Settings& settings, const std::string& service,
                                     metrics::Registry* registry = nullptr, service::Host* host = nullptr);
/// The credentials of this process for its peers.
[[nodiscard]] ClientSecurity client_security(const Settings& settings);

/// Exports the host's counters as qm_host_* metrics with a service label.
void export_host(metrics::Registry& registry, service::Host& host, const std::string& service);

/// Exports the validity of the process's certificates, read at each scrape, as
/// qm_tls_certificate_expiration_timestamp_seconds and
/// qm_tls_certificate_not_before_timestamp_seconds. `use`: identity, the certificate that the process presents;
/// authority, the trusted one that expires last. If a file is unreadable, or a key does not match yet, the last
/// values remain.
void export_certificates(metrics::Registry& registry, const TlsFiles& files, const std::string& service);

/// The Snapshot call of the service that owns a topic, over its gRPC address in `peers`, for HostOptions::snapshot.
service::SnapshotFetch snapshot_over_grpc(std::map<std::string, std::string> peers, ClientSecurity security = {});

/// Waits for SIGTERM or SIGINT, or until `also` is true, which is checked twice a second; a second signal ends
/// the process at once. Call block_signals() first in main.
void block_signals();
void wait_for_signal(const std::function<bool()>& also = {});
/// True once a signal is pending that wait_for_signal() would consume: a process that still waits to start then
/// gives up.
[[nodiscard]] bool signal_pending();
/// True once a termination signal has arrived, also after wait_for_signal() has consumed it.
[[nodiscard]] bool signal_received();
/// Limits the time between the first termination signal, or shutdown_started(), and the end of the process: after
/// `timeout` it exits with `code`, whatever its threads wait for. Call once, after block_signals().
void limit_shutdown(SteadyDuration timeout, int code = 1);
/// Starts the timeout of limit_shutdown() without a signal.
void shutdown_started();

}  // namespace qm::rpc
