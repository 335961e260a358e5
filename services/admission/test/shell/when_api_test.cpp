// When over gRPC, its rows, and which details each caller sees.
#include "qm/admission/api/when_api.hpp"

#include "job_server.hpp"
#include "qm/admission/api.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/executor.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "src/shell/rows/rows.hpp"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

namespace qm::admission {
namespace when_api_test {

using namespace std::chrono_literals;
namespace pb = quartermaster::v1;

TEST(ForecastRows, RoundTrip) {
  forecast::LifeTable table(forecast::RunTimes::Settings().half_life);
  const Instant at = from_micros(1'800'000'000'000'000);
  table.add(3h, forecast::LifeTable::End::kEnded, at);
  table.add(5min, forecast::LifeTable::End::kCutOff, at + 7h);
  const forecast::JobClass job_class{"team", "8 gpu", "train"};
  EXPECT_EQ(from_row(to_row(job_class, table)), std::pair(job_class, table));

  const StartEstimate response{3, at, {1min, 2min, 3min}, {1s, 2min, 5min}, 2, true, false};
  EXPECT_EQ(from_row(to_row(response)), response);

  forecast::Correction correction;
  correction.learn_low(response.raw, 2, true);
  correction.learn_high(response.raw, 0, false);
  EXPECT_FALSE(correction.kept().empty());
  EXPECT_EQ(from_row(to_row(correction)).kept(), correction.kept());
  EXPECT_EQ(from_row(to_row(correction)).corrected(response.raw, 2), correction.corrected(response.raw, 2));
}

TEST(WhenText, NameOnlyWhatCallerSees) {
  Tables rows;
  for (const char* uid : {"mine", "ours", "theirs"}) {
    Workload w;
    w.spec.uid = WorkloadUid(uid);
    w.spec.ns = Namespace(std::string(uid) == "theirs" ? "b" : "a");
    w.spec.name = uid;
    rows.workloads.restore(w.spec.uid, w);
  }
  const Instant now = from_micros(1'800'000'000'000'000);
  When found;
  found.low = now + 1h + 300ms;
  found.middle = now + 2h;
  found.high = now + 3h + 300ms;
  found.futures = found.started = 32;
  found.waits_for = {{WorkloadUid("theirs"), 20}, {WorkloadUid("ours"), 10}, {WorkloadUid("gone"), 2}};
  found.evidence = {{"a", "8 gpu", "mine"}, 12.25};
  rpc::Caller tenant;
  tenant.namespaces = {"a"};
  pb::WhenResponse response;
  put_when(found, rows, WorkloadUid("mine"), tenant, now, response);
  ASSERT_EQ(response.waits_for_size(), 1);
  EXPECT_EQ(response.waits_for(0).workload(), "a/ours");
  EXPECT_EQ(response.waits_for(0).futures(), 10);
  EXPECT_EQ(response.hidden(), 2);
  EXPECT_EQ(response.run_times_of(), "team a, 8 gpu, mine");
  // Rounded outwards, so that the text includes the exact interval.
  EXPECT_EQ(response.summary(), "a/mine starts between 2027-01-15T09:00:00Z and 2027-01-15T11:00:01Z with 80 %");

  pb::WhenResponse all;
  put_when(found, rows, WorkloadUid("mine"), rpc::Caller::anyone(), now, all);
  EXPECT_EQ(all.waits_for_size(), 2);

  found.high.reset();
  pb::WhenResponse open;
  put_when(found, rows, WorkloadUid("mine"), tenant, now, open);
  EXPECT_EQ(open.p90_us(), 0);
  EXPECT_NE(open.summary().find("or later"), std::string::npos);

  When none;
  none.unknown = Cause{"AlreadyAdmitted", "it has started", {}, {}};
  pb::WhenResponse unknown;
  put_when(none, rows, WorkloadUid("mine"), tenant, now, unknown);
  EXPECT_EQ(unknown.unknown().code(), "AlreadyAdmitted");
  EXPECT_EQ(unknown.summary(), "a/mine: no forecast: it has started");
}

struct WhenApi : ::testing::Test {
  void SetUp() override {
    service::HostOptions options;
    options.service = "admission";
    options.produces = {kTopic};
    auto bus = bus::make_bus("memory:admission-when-api");
    ASSERT_TRUE(bus);
    client = std::make_unique<kube::Client>(jobs.client());
    executor = std::make_unique<JobExecutor>(*client);
    host =
        std::make_unique<service::Host>(options, std::make_unique<AdmissionShell>(std::make_unique<Engine>(), Codec{}),
                                        store::open_memory(disk), *bus, clock, executor.get());
    ASSERT_TRUE(host->open());
    host->start();
    service = make_service(*host, clock);
    server = std::make_unique<rpc::Server>(rpc::ServerOptions{}, std::vector<grpc::Service*>{service.get()});
    ASSERT_TRUE(server->start());
    stub = pb::Admission::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(server->port()), grpc::InsecureChannelCredentials()));
    pb::ApplyRequest apply;
    apply.set_manifest(testing::kQueues);
    pb::ApplyResponse applied;
    grpc::ClientContext context;
    ASSERT_TRUE(stub->Apply(&context, apply, &applied).ok());
  }
  void TearDown() override {
    if (server) server->stop();
    if (host) host->stop();
  }
  void see(const Json& job) {
    service::Input input;
    input.source = service::Source::kWatch;
    input.name = "job";
    input.bytes = job.dump();
    ASSERT_TRUE(host->submit(std::move(input)));
    const WorkloadUid uid(job["metadata"]["uid"].string());
    ASSERT_TRUE(qm::testing::wait_until([&] {
      bool known = false;
      host->read([&](const service::Shell& shell) {
        known = static_cast<const AdmissionShell&>(shell).engine().find(uid) != nullptr;
      });
      return known;
    }));
  }
  grpc::Status ask(const std::string& name, pb::WhenResponse& response) {
    pb::WhenRequest request;
    request.set_namespace_("team");
    request.set_name(name);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 30s);
    return stub->When(&context, request, &response);
  }
  std::size_t remembered() {
    std::size_t out = 0;
    host->read([&](const service::Shell& shell) {
      out = static_cast<const AdmissionShell&>(shell).engine().tables().estimates.size();
    });
    return out;
  }

  testing::JobServer jobs;
  ManualClock clock{from_micros(1'800'000'000'000'000)};
  std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk();
  std::unique_ptr<kube::Client> client;
  std::unique_ptr<JobExecutor> executor;
  std::unique_ptr<service::Host> host;
  std::shared_ptr<grpc::Service> service;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<pb::Admission::Stub> stub;
};

TEST_F(WhenApi, AnswersOverGrpcAndKeepsForecastsAcrossRestart) {
  see(testing::make_job("team", "a", "q", 8));
  see(testing::make_job("team", "b", "q", 8));
  pb::WhenResponse first;
  const auto done = ask("b", first);
  ASSERT_TRUE(done.ok()) << done.error_message();
  EXPECT_FALSE(first.has_unknown()) << first.summary();
  EXPECT_EQ(first.now_us(), micros(clock.now()));
  EXPECT_GE(first.p10_us(), first.now_us());
  EXPECT_LE(first.p10_us(), first.p50_us());
  EXPECT_LE(first.p50_us(), first.p90_us());
  EXPECT_EQ(first.futures(), 32);
  ASSERT_EQ(first.waits_for_size(), 1);
  EXPECT_EQ(first.waits_for(0).workload(), "team/a");
  EXPECT_EQ(first.run_times_of(), "") << "nothing ran yet";
  EXPECT_TRUE(qm::testing::wait_until([&] { return remembered() == 1; }));

  pb::WhenResponse holds;
  ASSERT_TRUE(ask("a", holds).ok());
  EXPECT_EQ(holds.unknown().code(), "AlreadyAdmitted");
  pb::WhenResponse no_candidates;
  EXPECT_EQ(ask("ghost", no_candidates).error_code(), grpc::StatusCode::NOT_FOUND);

  // Another process on the same rows returns the same.
  server->stop();
  host->stop();
  auto bus = bus::make_bus("memory:admission-when-api-2");
  ASSERT_TRUE(bus);
  service::HostOptions options;
  options.service = "admission";
  options.produces = {kTopic};
  service::Host second(options, std::make_unique<AdmissionShell>(std::make_unique<Engine>(), Codec{}),
                       store::open_memory(disk), *bus, clock, executor.get());
  ASSERT_TRUE(second.open());
  second.start();
  pb::WhenResponse again;
  const auto answered = answer_when(second, WorkloadUid("uid-b"), rpc::Caller::anyone(), clock.now(), again);
  ASSERT_TRUE(answered);
  EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  second.read([](const service::Shell& shell) {
    EXPECT_EQ(static_cast<const AdmissionShell&>(shell).engine().tables().estimates.size(), 1U);
  });
  second.stop();
}

}  // namespace when_api_test
}  // namespace qm::admission
