#pragma once
#include "qm/rpc/security.hpp"

#include <grpcpp/generic/async_generic_service.h>

#include <functional>
#include <memory>
#include <string>

namespace qm::replica {

/// Takes every gRPC call, whatever its method, and passes it on to the leader: so that any replica behind one Service
/// may be asked. Messages are not read; deadline, metadata, status and its details go through. The leader is told for which
/// service, by certificate, a call is passed on, and believes it where this process shows a certificate of the leader's own
/// service.
///
/// Bounds   one message of each direction and call is under way.
/// Fails    UNAVAILABLE where nobody leads, or where a call comes that was passed on already: the leader changes just now
///          and the caller sends it again.
/// Threads  any.
class Forwarder final : public grpc::CallbackGenericService {
 public:
  /// `leader` says where the leader serves; empty = nobody.
  Forwarder(std::string service, std::function<std::string()> leader, rpc::ClientSecurity security = {});
  ~Forwarder() override;
  /// Ends the calls under way with UNAVAILABLE, and waits for that up to a second; more are refused.
  void stop();

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;
  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace qm::replica
