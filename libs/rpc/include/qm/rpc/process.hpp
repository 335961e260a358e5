#pragma once
#include "qm/base/log.hpp"
#include "qm/base/result.hpp"
#include "qm/clock/clock.hpp"
#include "qm/http/http.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/rpc/server.hpp"
#include "qm/service/host.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qm::rpc {

/// The settings that every process of the suite takes, by flag or environment (flag wins):
///   --grpc 127.0.0.1:7101  --http 127.0.0.1:7201  --postgres CONNINFO  --bus SETTING  --redis HOST:PORT
///   --kube URL  --clock system|scaled:PATH  --shard NAME  --log-level info  --log-format text|json
///   --replica standby|take  --advertise HOST:PORT  --lease-namespace NAME
///   --migrate-only  --set migrations=apply|check
///   --tls-cert FILE --tls-key FILE --tls-ca FILE  --insecure  --auth none|tokenreview|static:FILE  --roles FILE
/// Environment names are QM_GRPC, QM_HTTP, QM_POSTGRES, QM_BUS, QM_REDIS, QM_KUBE, QM_CLOCK, QM_SHARD, QM_LOG_LEVEL.
/// Peers' gRPC addresses for Snapshot: --peer admission=127.0.0.1:7101 (repeatable), QM_PEERS="a=..,b=.."; a peer may
/// have several, one for each replica: admission=127.0.0.1:7101,127.0.0.1:7102.
struct Settings {
  std::string grpc = "127.0.0.1:0", http = "127.0.0.1:0";
  std::string postgres, bus, redis, kube, clock = "system", shard = "default";
  std::map<std::string, std::string> peers;
  bool take = false;            ///< takes the shard from whoever leads, at once, instead of waiting for it
  std::string advertise;        ///< where other replicas reach this one's gRPC; empty: as --grpc says
  std::string lease_namespace;  ///< where the Lease of Kubernetes stands that tells who leads; empty: the Pod's own
  bool migrate_only = false;    ///< migrates the schema and ends
  bool check_only = false;      ///< does not migrate: a schema of another version is refused
  TlsFiles tls;                 ///< QM_TLS_CERT, QM_TLS_KEY, QM_TLS_CA
  bool insecure = false;        ///< QM_INSECURE: plain text beyond loopback
  std::string auth = "none", roles;          ///< QM_AUTH, QM_ROLES
  std::vector<std::string> manifests;        ///< --config FILE (repeatable): YAML applied at start
  std::map<std::string, std::string> extra;  ///< service-specific: --set name=value
  std::string log_level = "info", log_format = "text";
};
/// Parses argv with CLI11; prints help or the error and exits where it must: also where one of the two addresses is
/// taken, before anything else is done, so that a service started twice does not take the shard from the first and then
/// end. Initialises the log.
Settings parse_settings(int argc, char** argv, const std::string& process, const std::string& description);

/// kAlreadyExists where another process listens on "host:port" now.
Status check_free(const std::string& address);

/// What the pages of a process show.
struct AdminPages {
  std::function<bool()> alive;                ///< /healthz
  std::function<service::Readiness()> ready;  ///< /readyz
  std::function<Json()> state;                ///< /debug/state, /debug/explain; may block
};

/// /metrics, /healthz and /readyz for anyone; GET /debug/state, GET /debug/explain?uid=, GET and PUT /debug/log-level for those who
/// may: where `access` asks callers who they are, a bearer token of a role that the table in rules.hpp names, else a client on
/// the loopback interface. Others get 401 or 403 with the remedy.
///
/// Bounds   one page of /debug at a time, and two tokens that are being checked; more get 429. Threads are left for the open pages.
class AdminServer {
 public:
  /// `access` is that of the gRPC server of the process; null = none asks.
  AdminServer(std::string address, metrics::Registry& registry, std::shared_ptr<Access> access, AdminPages pages);
  ~AdminServer();
  /// Before start. A pattern under /debug needs a row "METHOD PATTERN" in rules.hpp.
  void route(std::string method, std::string pattern, http::Router::Route route);
  Status start();
  void stop();
  [[nodiscard]] int port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Who may call what, as --auth and --roles say. Denied calls are counted in `registry` and stand in the audit trail of `host`;
/// both may be null.
Result<std::shared_ptr<Access>> make_access(const Settings& settings, const std::string& service,
                                            metrics::Registry* registry = nullptr, service::Host* host = nullptr);
/// What a service's gRPC server is made of: address, TLS, and who may call what. Denied calls are counted in `registry` and
/// stand in the audit trail of `host`; both may be null, where somebody else keeps them.
Result<ServerOptions> server_options(const Settings& settings, const std::string& service,
                                     metrics::Registry* registry = nullptr, service::Host* host = nullptr);
/// What this process brings to its peers.
[[nodiscard]] ClientSecurity client_security(const Settings& settings);

/// Exports the host's counters as qm_host_* metrics with a service label.
void export_host(metrics::Registry& registry, service::Host& host, const std::string& service);

/// Exports the validity of the process's certificates, read at each scrape, as qm_tls_certificate_expiration_timestamp_seconds and
/// qm_tls_certificate_not_before_timestamp_seconds. `use`: identity, the certificate that the process presents; authority, the
/// trusted one that expires last. A file that cannot be read, or a key that does not fit yet, leaves the last values.
void export_certificates(metrics::Registry& registry, const TlsFiles& files, const std::string& service);

/// The Snapshot call of the service that owns a topic, over its gRPC address in `peers`, for HostOptions::snapshot.
service::SnapshotFetch snapshot_over_grpc(std::map<std::string, std::string> peers, ClientSecurity security = {});

/// Waits for SIGTERM or SIGINT, or until `also` holds, which is looked at ten times a second; a second signal ends the
/// process at once. Call block_signals() first thing in main.
void block_signals();
void wait_for_signal(const std::function<bool()>& also = {});
/// True once a signal has come that wait_for_signal() would take: who still waits to start then gives up.
[[nodiscard]] bool signal_pending();
/// True once an ending signal has arrived, also after wait_for_signal() has taken it.
[[nodiscard]] bool signal_received();
/// Limits the time between the first ending signal, or shutdown_started(), and the end of the process: after `timeout` it exits
/// with `code`, whatever its threads wait for. Call once, after block_signals().
void limit_shutdown(SteadyDuration timeout, int code = 1);
/// Starts the timeout of limit_shutdown() without a signal.
void shutdown_started();

}  // namespace qm::rpc
