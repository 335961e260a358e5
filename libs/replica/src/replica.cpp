#include "qm/replica/replica.hpp"

#include "kube_lease.hpp"
#include "qm/base/log.hpp"
#include "qm/kube/connect.hpp"
#include "qm/replica/forwarder.hpp"
#include "qm/replica/leadership.hpp"
#include "qm/rpc/server.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <unistd.h>

namespace qm::replica {
namespace {

constexpr auto kLookForDatabase = std::chrono::milliseconds(200);
/// The time between a signal and the exit of the process. Committed intents that are not executed by then are left
/// to the next leader.
constexpr auto kShutdownTimeout = std::chrono::seconds(9);

/// How often processes with this pid found a database that had lost commits: an alert counter must survive restarts.
constexpr const char* kRollbacks = "QM_ROLLBACKS";
std::uint64_t rollbacks() {
  const char* text = std::getenv(kRollbacks);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::string host_name() {
  char name[256] = "";
  (void)::gethostname(name, sizeof name - 1);
  return name;
}

/// Unique for each start of a process: "<host>_<pid>_<random>"; in a cluster the host is the Pod.
std::string new_holder() { return fmt::format("{}_{}_{:08x}", host_name(), ::getpid(), std::random_device{}()); }

Status migrate(const rpc::Settings& settings, const std::string& process,
               const std::vector<store::Migration>& migrations) {
  const auto service = process.starts_with("qm-") ? process.substr(3) : process;
  QM_TRY(store::open_postgres(
      {.conninfo = settings.postgres, .service = service, .shard = settings.shard, .migrations = migrations}));
  log::info("the schema is up to date", {{"service", service}, {"shard", settings.shard}});
  return {};
}

/// Waits for a database that is unavailable, or has no free sessions now: a process that lost the lead also calls
/// this, when all processes reconnect.
template <class Open>
std::invoke_result_t<Open, store::PgOptions> once_there(Open open, const store::PgOptions& options) {
  for (bool logged = false;; logged = true) {
    auto opened = open(options);
    if (opened || !opened.error().retryable()) return opened;
    if (!logged) log::warn("the database is not available, waiting for it", {{"error", opened.error().to_string()}});
    if (rpc::signal_pending()) return fail(Code::kCancelled, "{} ends without a database", options.service);
    std::this_thread::sleep_for(kLookForDatabase);
  }
}

/// The name for `kubectl get lease`.
std::string lease_name(const std::string& service, const std::string& shard) {
  return fmt::format("quartermaster-{}-{}", service, shard);
}

}  // namespace

struct Replica::Impl {
  rpc::Settings settings;
  std::string service;
  std::function<std::string()> gap;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<Leadership> leadership;
  metrics::Registry registry;  ///< used during standby
  std::unique_ptr<Forwarder> forwarder;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<rpc::AdminServer> admin;
  std::unique_ptr<KubeLease> kube_lease;
  std::atomic<bool> host_lost{false}, rolled_back{false};

  /// The lease has the address of one Pod; the certificate of that process has the name under which the other
  /// processes call the service. Replicas with individual names have one each.
  [[nodiscard]] rpc::ClientSecurity to_leader() const {
    auto out = rpc::client_security(settings);
    const auto own = settings.peers.find(service);
    if (own != settings.peers.end() && own->second.find(',') == std::string::npos)
      out.server_name = own->second.substr(0, own->second.rfind(':'));
    return out;
  }

  Status stand_by() {
    forwarder = std::make_unique<Forwarder>(
        service, [this] { return leadership->served() ? leadership->view().address : std::string(); }, to_leader());
    QM_ASSIGN(auto options, rpc::server_options(settings, service, &registry));
    options.max_receive_bytes = 64 << 20;
    options.drain = std::chrono::seconds(0);
    options.generic = forwarder.get();
    server = std::make_unique<rpc::Server>(options, std::vector<grpc::Service*>{});
    const auto access = options.access;
    QM_TRY(server->start());
    auto term =
        registry.gauge("qm_replica_term", "How often the shard has changed its leader.", {{"service", service}});
    registry.on_scrape([this, term]() mutable { term.set(static_cast<double>(leadership->view().terms)); });
    admin = std::make_unique<rpc::AdminServer>(
        settings.http, registry, access,
        rpc::AdminPages{[] { return true; },
                        [this] {
                          const auto missing = gap ? gap() : std::string();
                          return service::Readiness()
                              .unless(leadership->served(), "no leader is known to forward calls to")
                              .unless(missing.empty(), missing);
                        },
                        [this] {
                          const auto view = leadership->view();
                          return Json::object({{"role", "standby"},
                                               {"leader", view.holder},
                                               {"address", view.address},
                                               {"term", view.terms},
                                               {"served", leadership->served()}});
                        }});
    QM_TRY(admin->start());
    log::info("standby", {{"service", service}, {"grpc", server->port()}, {"http", admin->port()}});
    return {};
  }

  void publish() {
    if (settings.kube.empty()) return;
    auto api = kube::find_server(settings.kube);
    if (!api) {
      log::warn("no Lease shows the leader", {{"error", api.error().to_string()}});
      return;
    }
    kube_lease = std::make_unique<KubeLease>(
        std::move(*api), settings.lease_namespace.empty() ? own_namespace() : settings.lease_namespace,
        lease_name(service, settings.shard),
        KubeLease::Term{leadership->holder(), static_cast<std::int64_t>(leadership->view().terms)},
        [this] { return leadership->holds(); });
  }
};

Replica::Replica(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Replica::~Replica() { end_standby(); }

Result<std::unique_ptr<Replica>> Replica::begin(const rpc::Settings& settings, const std::string& service,
                                                std::vector<store::Migration> migrations,
                                                std::function<std::string()> gap) {
  if (settings.postgres.empty())
    return fail({Code::kInvalid, "no database is named", "--postgres", "set a conninfo, or QM_POSTGRES"});
  store::PgOptions pg{
      .conninfo = settings.postgres, .service = service, .shard = settings.shard, .migrations = std::move(migrations)};
  pg.fenced = true;
  if (settings.check_only) pg.migrate = store::PgOptions::Migrate::kCheck;
  std::unique_ptr<Replica> out(new Replica(std::make_unique<Impl>()));
  auto& m = *out->impl_;
  m.settings = settings;
  m.service = service;
  m.gap = std::move(gap);
  QM_ASSIGN(m.store, once_there(store::open_postgres, pg));
  QM_ASSIGN(auto lease, once_there(store::open_lease, pg));
  m.leadership = std::make_unique<Leadership>(std::move(lease), store::LeaseTiming{}, new_holder());
  QM_TRY(m.leadership->wait(
      rpc::signal_pending, [&] { return m.stand_by(); }, settings.take));
  m.publish();
  return out;
}

std::unique_ptr<store::Store> Replica::take_store() { return std::move(impl_->store); }

void Replica::guard(service::HostOptions& options) const {
  options.may_act = [&l = *impl_->leadership] { return l.leads(); };
  options.may_answer = [&l = *impl_->leadership] { return l.may_answer(); };
  options.would_answer = [&l = *impl_->leadership] { return l.would_answer(); };
  options.holder = impl_->leadership->holder();
  options.on_lost = [&lost = impl_->host_lost] { lost = true; };
  options.on_rollback = [&rolled_back = impl_->rolled_back] { rolled_back = true; };
  options.rollbacks = rollbacks();
}

void Replica::end_standby() {
  if (impl_->forwarder) impl_->forwarder->stop();
  if (impl_->server) impl_->server->stop();
  if (impl_->admin) impl_->admin->stop();
  impl_->server.reset();
  impl_->admin.reset();
  impl_->forwarder.reset();
}

void Replica::serving_at(int grpc_port) {
  const auto& s = impl_->settings;
  std::string host = s.grpc.substr(0, s.grpc.rfind(':'));
  if (host == "0.0.0.0" || host == "[::]" || host == "::" || host == "*") host = host_name();
  impl_->leadership->serves_at(s.advertise.empty() ? fmt::format("{}:{}", host, grpc_port) : s.advertise);
}

void Replica::wait_for_end() {
  rpc::wait_for_signal([this] { return impl_->leadership->lost() || impl_->host_lost; });
  rpc::shutdown_started();
}

Status Replica::end() {
  if (impl_->rolled_back) ::setenv(kRollbacks, std::to_string(rollbacks() + 1).c_str(), 1);
  if (impl_->leadership->lost()) return fail(Code::kAborted, "another replica is the leader now");
  impl_->kube_lease.reset();
  impl_->leadership->release();
  if (impl_->rolled_back) return fail(Code::kAborted, "the database lost commits, and the lease is released");
  if (impl_->host_lost) return fail(Code::kAborted, "another process acquired the shard, and the lease is released");
  log::info("the leader lease is released", {{"service", impl_->service}});
  return {};
}

int main(int argc, char** argv, const rpc::Program& program, const std::function<Status(const rpc::Settings&)>& run,
         const std::vector<store::Migration>& migrations) {
  rpc::block_signals();
  rpc::limit_shutdown(kShutdownTimeout);
  const auto settings = rpc::parse_settings(argc, argv, program);
  const auto done = settings.migrate_only ? migrate(settings, program.name, migrations) : run(settings);
  if (done || done.error().code == Code::kCancelled) return 0;
  log::error("ends with an error", {{"error", done.error().to_string()}});
  if (done.error().code != Code::kAborted) return 1;
  if (rpc::signal_received()) return 0;  // shutting down, so it does not return to standby
  // Like a new process, except for its pid: all state of its lead is gone. Sockets would remain open.
  log::info("restarting as standby");
  (void)::close_range(3, ~0U, 0);
  (void)::execv("/proc/self/exe", argv);
  log::error("cannot restart", {{"errno", errno}});
  return 1;
}

}  // namespace qm::replica
