#pragma once
#include "qm/rpc/server.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

namespace qm::admission::testing {

/// Calls a server of admission on this host as different users: the bearer token is the name of the user.
class Caller {
 public:
  explicit Caller(int port)
      : stub_(quartermaster::v1::Admission::NewStub(
            grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()))) {}

  /// Returns the error of the call, or code 0.
  template <class Method, class Request, class Response>
  Error operator()(const std::string& user, Method method, const Request& request, Response& response) const {
    grpc::ClientContext context;
    prepare(context, user);
    const auto status = (stub_.get()->*method)(&context, request, &response);
    return status.ok() ? Error{static_cast<Code>(0), {}, {}, {}} : rpc::from_grpc(status, "test");
  }
  /// For a call by stub(): the user, and a deadline.
  static void prepare(grpc::ClientContext& context, const std::string& user) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context.AddMetadata("authorization", "Bearer " + user);
  }
  [[nodiscard]] quartermaster::v1::Admission::Stub& stub() const { return *stub_; }

 private:
  std::unique_ptr<quartermaster::v1::Admission::Stub> stub_;
};

}  // namespace qm::admission::testing
