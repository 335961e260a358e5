#pragma once
#include "qm/base/result.hpp"
#include "qm/rpc/access.hpp"
#include "qm/rpc/security.hpp"
#include "qm/service/host.hpp"
#include "quartermaster/v1/envelope.pb.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::rpc {

/// Converts a Result's error to a gRPC status: code, message, and google.rpc.Status details with ErrorInfo (reason,
/// remedy) and BadRequest (field), so that clients need not parse text.
grpc::Status to_grpc(const Error& error);
/// The inverse, on the client's side: field and remedy are restored from the details.
Error from_grpc(const grpc::Status& status, const std::string& call);

struct ServerOptions {
  std::string address = "127.0.0.1:0";
  int max_receive_bytes = 4 << 20;
  int max_metadata_bytes = 8 << 10;
  std::chrono::seconds drain{2};
  TlsFiles tls;                    ///< none = plain text
  bool insecure = false;           ///< plain text, or unauthenticated calls, also on addresses other than loopback
  std::shared_ptr<Access> access;  ///< checked before each call; null = every call is allowed
  /// Handles the calls of unknown services. If set, it also implements health and reflection, and must
  /// end its calls before a stop.
  grpc::CallbackGenericService* generic = nullptr;
};

/// A callback server with health, reflection, size limits, keep-alive policy and graceful drain.
/// Fails: kAlreadyExists has the address if it is in use; kFailedPrecondition: other hosts could reach it in plain
/// text; kInvalid names a TLS file that cannot be used.
class Server {
 public:
  Server(ServerOptions options, std::vector<grpc::Service*> services);
  ~Server();
  Status start();
  /// Health changes to NOT_SERVING; calls are served until a moment without any running call, for `drain` at most.
  /// Then connections are closed: callers of unfinished calls get UNAVAILABLE. Idle connections are not awaited.
  void stop();
  void set_serving(bool serving);
  [[nodiscard]] int port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The W3C traceparent of a call, or empty.
std::string trace_parent(const grpc::CallbackServerContext& context);

/// The caller of this call, on a server with authorization. Unrestricted on a server without it.
Caller caller_of(const grpc::CallbackServerContext& context);

/// The service in the certificate of the peer, or empty.
std::string service_of(const grpc::CallbackServerContext& context);

/// Converts a request to an input: Input{kRequest, method, bytes, request_id}, with the caller and the object for
/// the audit trail. With authentication a request id belongs to its caller: another caller never gets the stored
/// response for it.
template <class Request>
service::Input input_of(const grpc::CallbackServerContext& context, const Caller& caller, const std::string& method,
                        const Request& request, const std::string& request_id, const std::string& object) {
  service::Input input;
  input.source = service::Source::kRequest;
  input.name = method;
  const bool known = caller.service.empty() && caller.name != "anonymous";
  input.id = request_id.empty() || !known ? request_id : caller.name + "/" + request_id;
  input.bytes = request.SerializeAsString();
  input.trace_parent = trace_parent(context);
  input.caller = caller.name;
  input.roles = caller.roles();
  input.object = object;
  return input;
}

/// Submits an input to the host and finishes the call when its batch is committed. Never blocks.
template <class Response>
void submit(service::Host& host, grpc::ServerUnaryReactor* reactor, service::Input input, Response* response) {
  auto accepted = host.submit(std::move(input), [reactor, response](Result<std::string> reply) {
    if (!reply) {
      reactor->Finish(to_grpc(reply.error()));
    } else if (!response->ParseFromString(*reply)) {
      reactor->Finish(grpc::Status(grpc::StatusCode::INTERNAL, "the stored answer cannot be read"));
    } else {
      reactor->Finish(grpc::Status::OK);
    }
  });
  if (!accepted) reactor->Finish(to_grpc(accepted.error()));
}

/// Both, for a mutation that requires only the caller's role.
template <class Response, class Request>
grpc::ServerUnaryReactor* mutate(service::Host& host, grpc::CallbackServerContext* context, const std::string& method,
                                 const Request& request, const std::string& request_id, Response* response,
                                 const std::string& object = {}) {
  auto* reactor = context->DefaultReactor();
  submit(host, reactor, input_of(*context, caller_of(*context), method, request, request_id, object), response);
  return reactor;
}

/// Refuses a change outside the caller's permissions, and records it in the audit trail.
inline void refuse(service::Host& host, grpc::ServerUnaryReactor* reactor, service::Input input, const Error& error) {
  host.note_denied(std::move(input), error);
  reactor->Finish(to_grpc(error));
}

/// kInvalid if a text of the request exceeds its declared bound (qm/wire/parse.hpp). The codecs check changes.
qm::Status check_read(const google::protobuf::Message& request);

/// Executes a unary read on the engine thread, between batches: fn(shell) -> Status.
template <class Fn>
grpc::ServerUnaryReactor* answer(service::Host& host, grpc::CallbackServerContext* context,
                                 const google::protobuf::Message& request, Fn fn) {
  auto* reactor = context->DefaultReactor();
  if (const auto good = check_read(request); !good) {
    reactor->Finish(to_grpc(good.error()));
    return reactor;
  }
  auto accepted = host.read_async([reactor, fn = std::move(fn)](const service::Shell& shell) {
    const qm::Status status = fn(shell);
    reactor->Finish(status ? grpc::Status::OK : to_grpc(status.error()));
  });
  if (!accepted) reactor->Finish(to_grpc(accepted.error()));
  return reactor;
}

/// The number of rows of a page: the requested one, or `fallback` for 0. kInvalid has the bounds.
Result<std::size_t> page_size(std::int32_t asked, std::int32_t fallback, std::int32_t largest);

/// Fills one page of the newest envelopes of an own topic, for Worker::answer_snapshot. Uses the store's own
/// session, not the engine: callers are services that start or detected a gap.
qm::Status fill_snapshot(service::Host& host, const quartermaster::v1::SnapshotRequest& request,
                         quartermaster::v1::SnapshotResponse& response);

}  // namespace qm::rpc
