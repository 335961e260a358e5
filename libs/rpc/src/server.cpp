#include "qm/rpc/server.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/log.hpp"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <utility>

namespace qm::rpc {
namespace {

constexpr int kKeepAliveMs = 30'000;
constexpr int kKeepAliveTimeoutMs = 10'000;
/// Clients that ping more often are sent away ("too many pings").
constexpr int kMinPingMs = 5'000;

}  // namespace

struct Server::Impl {
  ServerOptions options;
  std::vector<grpc::Service*> services;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

Server::Server(ServerOptions options, std::vector<grpc::Service*> services)
    : impl_(new Impl{std::move(options), std::move(services), nullptr, 0}) {}

Server::~Server() { stop(); }

Status Server::start() {
  QM_ASSERT(!impl_->server, "grpc server started twice");
  const auto& options = impl_->options;
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &impl_->port);
  for (auto* service : impl_->services)
    builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, options.max_metadata_bytes);
  // Without this two processes could share one port, and each would get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
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
  impl_->server->GetHealthCheckService()->SetServingStatus(serving);
}

void Server::stop() {
  if (!impl_->server) return;
  set_serving(false);
  impl_->server->Shutdown(std::chrono::system_clock::now() + impl_->options.drain);
  impl_->server->Wait();
  impl_->server.reset();
}

int Server::port() const { return impl_->port; }

}  // namespace qm::rpc
