// The same on PostgreSQL: as inputs of each service, as gRPC calls, and as messages of the PostgreSQL bus.
#include "entrances.hpp"
#include "qm/admission/api.hpp"
#include "qm/rpc/channel.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/envelope.pb.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

namespace qm {
namespace hostile_pg_test {

namespace pb = quartermaster::v1;
using hostile::Attacker;
using hostile::Case;

class OnPostgres : public testing::PostgresTest {
 protected:
  std::unique_ptr<store::Store> open_store(const std::string& service, std::vector<store::Migration> migrations = {}) {
    auto store = store::open_postgres({.conninfo = conninfo_, .service = service, .migrations = std::move(migrations)});
    EXPECT_TRUE(store) << store.error().to_string();
    return std::move(*store);
  }
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
};

class HostileOnPostgres : public OnPostgres, public ::testing::WithParamInterface<Case> {};

TEST_P(HostileOnPostgres, NoInputEndsOrStallsTheService) {
  const auto& c = GetParam();
  service::HostOptions options;
  options.service = c.service;
  auto store = open_store(c.service, c.service == "cost" ? cost::migrations() : std::vector<store::Migration>{});
  service::Host host(options, c.shell(), std::move(store), nullptr, clock_, nullptr);
  ASSERT_TRUE(host.open());
  hostile::attack(host, clock_, c, 500);
}

INSTANTIATE_TEST_SUITE_P(Services, HostileOnPostgres, ::testing::ValuesIn(hostile::services()),
                         [](const auto& one) { return one.param.service; });

constexpr const char* kQueue = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: research}
spec: {resourceGroups: []}
)";

TEST_F(OnPostgres, NoCallOfGrpcEndsOrStallsTheServiceAndTheNextOneIsCommitted) {
  const auto all = hostile::services();
  service::HostOptions options;
  options.service = "admission";
  service::Host host(options, all.front().shell(), open_store("admission"), nullptr, clock_, nullptr);
  ASSERT_TRUE(host.open());
  host.start();
  const auto api = admission::make_service(host, clock_);
  rpc::ServerOptions server_options;
  server_options.drain = std::chrono::seconds(0);
  rpc::Server server(server_options, {api.get()});
  ASSERT_TRUE(server.start());
  const auto channel = rpc::channel_to(fmt::format("127.0.0.1:{}", server.port()));
  grpc::GenericStub stub(channel);
  const auto next = pb::Admission::NewStub(channel);
  const std::vector<std::pair<std::string, std::string>> calls = {
      {"Submit", "SubmitRequest"},   {"Get", "GetWorkloadRequest"},         {"List", "ListWorkloadsRequest"},
      {"Cancel", "CancelRequest"},   {"AnswerCheck", "AnswerCheckRequest"}, {"SetActive", "SetActiveRequest"},
      {"Explain", "ExplainRequest"}, {"WhatIf", "WhatIfRequest"},           {"Apply", "ApplyRequest"}};
  Attacker attacker(20261129);
  std::map<int, int> codes;
  for (int i = 0; i < 1500; ++i) {
    const auto& [method, type] = calls[attacker.pick(calls.size())];
    const auto bytes = attacker.bytes(hostile::v1(type));
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    grpc::CompletionQueue queue;
    auto running = stub.PrepareUnaryCall(&context, "/quartermaster.v1.Admission/" + method, request, &queue);
    running->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    running->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    ++codes[static_cast<int>(status.error_code())];
    ASSERT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << i << " " << method;

    pb::ApplyRequest valid;
    valid.set_request_id(fmt::format("next-{}", i));
    valid.set_manifest(kQueue);
    pb::ApplyResponse applied;
    grpc::ClientContext second;
    second.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const auto done = next->Apply(&second, valid, &applied);
    ASSERT_TRUE(done.ok()) << i << " after " << method << ": " << done.error_message();
  }
  server.stop();
  host.stop();
  EXPECT_GE(host.counters().batches, 1500U);
  EXPECT_GT(codes[static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT)], 100);
}

TEST_F(OnPostgres, NoMessageOfTheBusEndsOrStallsTheServiceAndTheNextOneIsCommitted) {
  const auto all = hostile::services();
  const Case& placement = all.at(1);
  auto bus = bus::make_bus("postgres:" + conninfo_);
  ASSERT_TRUE(bus) << bus.error().to_string();
  service::HostOptions options;
  options.service = "placement";
  options.consumes = {"qm.workload", "qm.gpu"};
  options.produces = {"qm.placement", "qm.node"};
  service::Host host(options, placement.shell(), open_store("placement"), *bus, clock_, nullptr);
  ASSERT_TRUE(host.open());
  auto producer = (*bus)->producer("attacker");
  ASSERT_TRUE(producer) << producer.error().to_string();
  Attacker attacker(20261130);
  std::uint64_t valid = 0;
  for (int i = 0; i < 10; ++i) {
    std::vector<bus::Record> records;
    for (int n = 0; n < 100; ++n) {
      const std::string topic = attacker.pick(2) == 0 ? "qm.workload" : "qm.gpu";
      pb::Envelope hostile;
      attacker.fill(hostile);
      if (attacker.pick(2) == 0) {
        hostile.clear_shard();
        hostile.set_key(fmt::format("k{}", attacker.pick(50)));
        hostile.set_payload(attacker.bytes(hostile::v1(topic == "qm.gpu" ? "GpuEvent" : "WorkloadEvent")));
      }
      auto value = hostile.SerializePartialAsString();
      if (attacker.pick(10) == 0) value = attacker.text();
      if (value.size() > 100'000) value.resize(1000);
      records.push_back({topic, fmt::format("k{}", n), std::move(value)});
      pb::Envelope next;
      next.set_topic(topic);
      next.set_key("next");
      next.set_key_version(++valid);
      next.set_payload(topic == "qm.gpu" ? pb::GpuEvent().SerializeAsString()
                                         : pb::WorkloadEvent().SerializeAsString());
      records.push_back({topic, "next", next.SerializeAsString()});
    }
    const auto sent = (*producer)->publish(records, std::chrono::seconds(10));
    ASSERT_TRUE(sent) << sent.error().to_string();
    const auto lag = [&] {
      host.consume_once();
      while (host.pump()) {
      }
      return host.counters().bus_lag;
    };
    ASSERT_TRUE(testing::wait_until([&] { return lag() == 0; })) << host.readiness().text;
    ASSERT_TRUE(host.readiness().ready) << host.readiness().text;
  }
  std::uint64_t newest = 0;
  const auto loaded = open_store("placement")->acquire("look");
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  for (const auto& row : loaded->seen) {
    // The bits above are the breaks of the topic's history, which hostile terms cause.
    if (row.key == "next") newest = std::max(newest, row.version & ((std::uint64_t{1} << 40) - 1));
  }
  EXPECT_EQ(newest, valid) << "the last of the valid ones, after every hostile one";
  EXPECT_GT(host.counters().poison, 100U);
}

}  // namespace hostile_pg_test
}  // namespace qm
