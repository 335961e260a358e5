// The same over mutual TLS, with certificates as the chart creates them: they have the name of the Service, not the
// address of the Pod in the lease; and an agent's stream that a process other than the agent forwards.
#include "qm/http/certificate.hpp"
#include "qm/replica/forwarder.hpp"
#include "qm/rpc/channel.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>

namespace qm::replica {
namespace forwarder_tls_test {

using namespace std::chrono_literals;
namespace v1 = quartermaster::v1;

constexpr const char* kServiceName = "qm-quartermaster-telemetry";

/// Sends one order to each Push, and ends it.
class Api final : public v1::Telemetry::CallbackService {
 public:
  grpc::ServerBidiReactor<v1::AgentMessage, v1::AgentOrder>* Push(grpc::CallbackServerContext* context) override {
    struct Once final : grpc::ServerBidiReactor<v1::AgentMessage, v1::AgentOrder> {
      explicit Once(const std::string& from) {
        out.set_fact_committed(from);
        StartWriteAndFinish(&out, {}, grpc::Status::OK);
      }
      void OnDone() override { delete this; }
      v1::AgentOrder out;
    };
    return new Once(rpc::caller_of(*context).service);
  }
};

class ForwardingOverTls : public ::testing::Test {
 protected:
  void SetUp() override {
    authority_ = *http::make_authority({"suite", {}, now_ - 1h, now_ + 24h});
    write("ca.crt", authority_.certificate);
    const auto files = issue("telemetry", kServiceName, "server");
    leader_ = std::make_unique<rpc::Server>(options("telemetry", files), std::vector<grpc::Service*>{&api_});
    forwarder_ = std::make_unique<Forwarder>(
        "telemetry", [this] { return "127.0.0.1:" + std::to_string(leader_->port()); }, security(files, name_));
    auto waits = options("telemetry", files);
    waits.generic = forwarder_.get();
    waits.drain = 0s;
    standby_ = std::make_unique<rpc::Server>(waits, std::vector<grpc::Service*>{});
    // As in a real standby: its server comes up first.
    ASSERT_TRUE(standby_->start());
    ASSERT_TRUE(leader_->start());
  }
  void TearDown() override {
    forwarder_->stop();
    standby_->stop();
    leader_->stop();
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_.path() + "/" + name) << text; }
  rpc::TlsFiles issue(const std::string& who, const std::string& dns, const std::string& file) {
    const auto made =
        http::make_certificate({"quartermaster-" + who, {dns}, now_ - 1h, now_ + 12h, {}, true}, authority_);
    EXPECT_TRUE(made) << made.error().to_string();
    write(file + ".crt", made->certificate);
    write(file + ".key", made->key);
    return {folder_.path() + "/" + file + ".crt", folder_.path() + "/" + file + ".key", folder_.path() + "/ca.crt"};
  }
  static rpc::ServerOptions options(const std::string& service, const rpc::TlsFiles& files) {
    rpc::AccessOptions access;
    access.service = service;
    rpc::ServerOptions out;
    out.tls = files;
    out.access = std::make_shared<rpc::Access>(std::move(access));
    return out;
  }
  static rpc::ClientSecurity security(const rpc::TlsFiles& files, const std::string& name) {
    rpc::ClientSecurity out;
    out.tls = files;
    out.server_name = name;
    return out;
  }
  /// The status of a Push to a server with the certificate of `who`, and the leader's status.
  grpc::StatusCode push(const rpc::Server& to, const std::string& who, const std::string& forwarded = {}) {
    const auto stub = v1::Telemetry::NewStub(rpc::channel_to(
        "127.0.0.1:" + std::to_string(to.port()), 4 << 20, security(issue(who, "qm-" + who, "client"), kServiceName)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 30s);
    if (!forwarded.empty()) context.AddMetadata(rpc::kForwarded, forwarded);
    const auto stream = stub->Push(&context);
    v1::AgentOrder order;
    reported_.clear();
    if (stream->Read(&order)) reported_ = order.fact_committed();
    return stream->Finish().error_code();
  }

  std::chrono::sys_seconds now_ = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  testing::TempDir folder_;
  http::Identity authority_;
  Api api_;
  std::string name_ = kServiceName, reported_;
  std::unique_ptr<rpc::Server> leader_, standby_;
  std::unique_ptr<Forwarder> forwarder_;
};

TEST_F(ForwardingOverTls, AnAgentReachesTheLeaderThroughAnyReplica) {
  EXPECT_EQ(push(*leader_, "agent"), grpc::StatusCode::OK);
  EXPECT_EQ(reported_, "agent");
  EXPECT_EQ(push(*standby_, "agent"), grpc::StatusCode::OK);
  EXPECT_EQ(reported_, "agent") << "the leader does not know the original caller of the forwarded call";
}

TEST_F(ForwardingOverTls, NoOtherCallerBecomesAnAgentByIt) {
  for (const char* who : {"placement", "telemetry", "unknown"}) {
    EXPECT_EQ(push(*leader_, who), grpc::StatusCode::PERMISSION_DENIED) << who;
    EXPECT_EQ(push(*standby_, who), grpc::StatusCode::PERMISSION_DENIED) << who;
  }
  for (const char* who : {"placement", "unknown"})
    EXPECT_EQ(push(*leader_, who, "agent"), grpc::StatusCode::PERMISSION_DENIED) << who;
  EXPECT_EQ(push(*leader_, "telemetry", "agent"), grpc::StatusCode::OK) << "the caller named by a replica is accepted";
}

/// A replica that expects the address of the lease in the certificate.
class ForwardingByAddress : public ForwardingOverTls {
 protected:
  ForwardingByAddress() { name_.clear(); }
};
TEST_F(ForwardingByAddress, IsRefusedByACertificateThatHasOnlyTheServicesName) {
  EXPECT_EQ(push(*standby_, "agent"), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace forwarder_tls_test
}  // namespace qm::replica
