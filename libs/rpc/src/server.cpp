#include "qm/rpc/server.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/log.hpp"
#include "qm/base/wake.hpp"
#include "server_credentials.hpp"
#include "sockets.hpp"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace qm::rpc {
namespace {

constexpr int kKeepAliveMs = 30'000;
constexpr int kKeepAliveTimeoutMs = 10'000;
/// Clients that ping more often are disconnected ("too many pings").
constexpr int kMinPingMs = 5'000;
/// Until disconnected clients have closed their connections.
constexpr std::chrono::seconds kLeaving{1};
/// Between two checks for running calls.
constexpr std::chrono::milliseconds kLook{20};
/// Between two checks for connections: clients are refused until another server listens.
constexpr std::chrono::milliseconds kClosing{1};

/// Provides the caller of a call to the handlers.
struct CallContext final : grpc::CallbackServerContext {
  explicit CallContext(Access* asked) : access(asked) {}
  Access* const access;
};

/// Counts the running calls: gRPC allocates a context when a call begins and releases it after its OnDone.
class RunningCalls final : public grpc::ContextAllocator {
 public:
  explicit RunningCalls(Access* access) : access_(access) {}
  grpc::CallbackServerContext* NewCallbackServerContext() override {
    const std::lock_guard lock(mutex_);
    ++running_;
    return new CallContext(access_);
  }
  void Release(grpc::CallbackServerContext* context) override {
    delete context;
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) none_.notify_all();
  }
  /// True when no call is running; false if `stop` was requested before.
  bool wait_for_none(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return none_.wait(lock, stop, [this] { return running_ == 0; });
  }
  bool none_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, time, [this] { return running_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any none_;
  int running_ = 0;
  Access* const access_;
};

/// Writes gRPC's messages to the log of the process, in the log's format.
void log_as_ours(gpr_log_func_args* line) {
  const std::string_view text = line->message;
  if (text.starts_with("Failed accept4: Invalid argument")) return;  // logged after stop_listening()
  const std::string_view file = line->file;
  const auto level = line->severity == GPR_LOG_SEVERITY_ERROR ? log::Level::kWarn : log::Level::kDebug;
  log::write(level, "gRPC",
             {{"text", text}, {"at", fmt::format("{}:{}", file.substr(file.rfind('/') + 1), line->line)}});
}

/// Refuses options that would expose the server without an explicit setting.
Status check_exposure(const ServerOptions& options) {
  if (options.insecure || is_loopback(options.address)) return {};
  if (!options.tls.any()) {
    return fail(
        Error{Code::kFailedPrecondition, fmt::format("{} would be served in plain text", options.address), "--grpc",
              "set --tls-cert, --tls-key and --tls-ca; or listen on 127.0.0.1; or set --insecure if the network "
              "is isolated"});
  }
  if (!options.access || !options.access->asks()) {
    return fail(Error{Code::kFailedPrecondition,
                      fmt::format("any client that reaches {} could change the state", options.address), "--auth",
                      "set --auth tokenreview and --roles FILE, or --insecure"});
  }
  return {};
}

}  // namespace

Caller caller_of(const grpc::CallbackServerContext& context) {
  const auto* ours = dynamic_cast<const CallContext*>(&context);
  if (ours == nullptr || ours->access == nullptr) return Caller::anyone();
  return ours->access->caller(call_of(context));
}

std::string service_of(const grpc::CallbackServerContext& context) { return service_of(call_of(context)); }

struct Server::Impl {
  ServerOptions options;
  std::vector<grpc::Service*> services;
  std::unique_ptr<grpc::Server> server;
  RunningCalls* calls = nullptr;  ///< the server's
  int port = 0;
};

Server::Server(ServerOptions options, std::vector<grpc::Service*> services)
    : impl_(new Impl{std::move(options), std::move(services), nullptr, nullptr, 0}) {}

Server::~Server() { stop(); }

Status Server::start() {
  QM_ASSERT(!impl_->server, "grpc server started twice");
  gpr_set_log_function(log_as_ours);
  const auto& options = impl_->options;
  QM_TRY(check_exposure(options));
  QM_ASSIGN(auto credentials, server_credentials(options.tls, options.access));
  grpc::EnableDefaultHealthCheckService(options.generic == nullptr);
  if (options.generic == nullptr) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.address, credentials, &impl_->port);
  for (auto* service : impl_->services) builder.RegisterService(service);
  if (options.generic != nullptr) builder.RegisterCallbackGenericService(options.generic);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, options.max_metadata_bytes);
  // Without this two processes could share one port, and each would get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // gRPC releases contexts of generic calls to the allocator, which did not allocate them.
  if (options.generic == nullptr) {
    auto calls = std::make_unique<RunningCalls>(options.access.get());
    impl_->calls = calls.get();
    builder.SetContextAllocator(std::move(calls));
  }
  impl_->server = builder.BuildAndStart();
  if (!impl_->server || impl_->port == 0) {
    impl_->server.reset();
    return fail(Error{Code::kAlreadyExists, "cannot listen on " + options.address, "grpc",
                      "stop the process that listens there, or choose another port (0 = any)"});
  }
  set_serving(true);
  return {};
}

void Server::set_serving(bool serving) {
  if (!impl_->server) return;
  auto* health = impl_->server->GetHealthCheckService();
  if (health != nullptr) health->SetServingStatus(serving);
}

void Server::stop() {
  if (!impl_->server) return;
  set_serving(false);
  // A call that reaches a server after its shutdown began gets CANCELLED, which callers do not retry. So calls
  // are served until a moment without any, or the end of the drain. Then new connections are refused and existing
  // ones are closed, unfinished calls as UNAVAILABLE; and once the last one is closed the shutdown begins.
  if (impl_->calls != nullptr) (void)impl_->calls->none_within(impl_->options.drain);
  stop_listening(impl_->port);
  const auto patience = std::chrono::steady_clock::now() + kLeaving;
  do {
    // Repeatedly: a connection may have been accepted since the last time.
    grpc_server_cancel_all_calls(impl_->server->c_server());
    std::this_thread::sleep_for(kClosing);
  } while (any_connected(impl_->port) && std::chrono::steady_clock::now() < patience);
  {
    // Shutdown waits until every client has closed its connection, and a client that never sent a byte does not.
    // Once no call is running this wait is unnecessary.
    const std::jthread hurry([this](const std::stop_token& stop) {
      if (impl_->calls == nullptr) return;
      // Not before the shutdown has begun: until then calls are accepted.
      for (sleep_unless_stopped(kLook, stop); impl_->calls->wait_for_none(stop) && !stop.stop_requested();
           sleep_unless_stopped(kLook, stop)) {
        grpc_server_cancel_all_calls(impl_->server->c_server());
      }
    });
    impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }
  impl_->server->Wait();
  impl_->server.reset();
}

int Server::port() const { return impl_->port; }

}  // namespace qm::rpc
