#pragma once
#include "qm/rpc/security.hpp"

#include <grpcpp/generic/async_generic_service.h>

#include <functional>
#include <memory>
#include <string>

namespace qm::replica {

/// Accepts every gRPC call, whatever its method, and forwards it to the leader: so any replica behind one Service
/// can be called. Messages are not parsed; deadline, metadata, status and its details are passed through. The leader
/// receives the name of the calling service, from the certificate of the call. It trusts the name if this process
/// shows a certificate of the leader's own service.
///
/// Bounds   one message of each direction and call is in progress.
/// Fails    UNAVAILABLE if there is no leader, or if the call was already forwarded: the leader is changing now
///          and the caller retries.
/// Threads  any.
class Forwarder final : public grpc::CallbackGenericService {
 public:
  /// `leader` returns the address of the leader; empty = there is none.
  Forwarder(std::string service, std::function<std::string()> leader, rpc::ClientSecurity security = {});
  ~Forwarder() override;
  /// Ends the calls in progress with UNAVAILABLE, and waits for that up to a second; further calls are refused.
  void stop();

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;
  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace qm::replica
