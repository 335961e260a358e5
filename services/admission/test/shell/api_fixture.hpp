#pragma once
// The gRPC service over a host with its threads, bus and store in memory, and a small Kubernetes server.
#include "job_server.hpp"
#include "qm/admission/api.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/executor.hpp"
#include "qm/admission/metrics.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

namespace qm::admission::testing {

namespace pb = quartermaster::v1;

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int n = 0;
    service::HostOptions options;
    options.service = "admission";
    options.consumes = {"qm.placement", "qm.capacity", "qm.cost"};
    options.produces = {kTopic};
    auto bus = bus::make_bus("memory:admission-api-" + std::to_string(++n));
    ASSERT_TRUE(bus);
    client_ = std::make_unique<kube::Client>(jobs_.client());
    executor_ = std::make_unique<JobExecutor>(*client_);
    host_ =
        std::make_unique<service::Host>(options, std::make_unique<AdmissionShell>(std::make_unique<Engine>(), Codec{}),
                                        store::open_memory(store::make_memory_disk()), *bus, clock_, executor_.get());
    ASSERT_TRUE(host_->open());
    host_->start();
    metrics_ = std::make_unique<Metrics>(registry_, *host_, clock_);
    ApiOptions api;
    api.nodes = [this](const pb::DryRunRequest& request, const std::string& authorization) {
      asked_nodes_ = request;
      asked_as_ = authorization;
      return nodes_;
    };
    api.autoscaled = true;
    api.jobs = std::make_shared<kube::Client>(jobs_.client());
    service_ = make_service(*host_, clock_, api);
    server_ = std::make_unique<rpc::Server>(rpc::ServerOptions{}, std::vector<grpc::Service*>{service_.get()});
    ASSERT_TRUE(server_->start());
    stub_ = pb::Admission::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    if (server_) server_->stop();
    metrics_.reset();
    if (host_) host_->stop();
  }

  template <class Request, class Response>
  Error call(grpc::Status (pb::Admission::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
             const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto status = (stub_.get()->*method)(&context, request, &response);
    return status.ok() ? Error{Code::kInternal, "", {}, {}} : rpc::from_grpc(status, "test");
  }
  void apply(const std::string& text) {
    pb::ApplyRequest request;
    request.set_manifest(text);
    pb::ApplyResponse response;
    const auto error = call(&pb::Admission::Stub::Apply, request, response);
    ASSERT_EQ(error.message, "") << error.to_string();
  }
  void see(const Json& job) {
    service::Input input;
    input.source = service::Source::kWatch;
    input.name = "job";
    input.bytes = job.dump();
    ASSERT_TRUE(host_->submit(std::move(input)));
  }
  void placement(const std::string& uid, int attempt, pb::AssignmentState state) {
    pb::PlacementEvent event;
    event.mutable_assignment()->set_uid(uid);
    event.mutable_assignment()->set_attempt(attempt);
    event.mutable_assignment()->set_state(state);
    event.mutable_assignment()->set_reservation_id("r-" + uid);
    service::Input input;
    input.source = service::Source::kBus;
    input.name = "qm.placement";
    input.key = fmt::format("{}/{}", uid, attempt);
    input.version = ++versions_;
    input.bytes = event.SerializeAsString();
    ASSERT_TRUE(host_->submit(std::move(input)));
  }
  pb::Workload get(const std::string& uid) {
    pb::GetWorkloadRequest request;
    request.set_uid(uid);
    pb::Workload response;
    call(&pb::Admission::Stub::Get, request, response);
    return response;
  }

  Result<pb::DryRunResponse> nodes_ = fail(Code::kUnavailable, "placement is away");
  pb::DryRunRequest asked_nodes_;
  std::string asked_as_;
  JobServer jobs_;
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  metrics::Registry registry_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<JobExecutor> executor_;
  std::unique_ptr<service::Host> host_;
  std::unique_ptr<Metrics> metrics_;
  std::shared_ptr<grpc::Service> service_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<pb::Admission::Stub> stub_;
  std::uint64_t versions_ = 0;
};

}  // namespace qm::admission::testing
