// The program as a process with a private PostgreSQL: decisions are still there after a SIGKILL.
#include "job_server.hpp"
#include "qm/base/digest.hpp"
#include "qm/bus/bus.hpp"
#include "qm/http/http.hpp"
#include "qm/pg/connection.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/envelope.pb.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <thread>

namespace qm::admission {
namespace program_pg_test {

namespace pb = quartermaster::v1;

struct Program {
  int grpc = qm::testing::free_port();
  int http = qm::testing::free_port();
  std::unique_ptr<qm::testing::Process> process;
  std::unique_ptr<pb::Admission::Stub> stub;

  /// Status 0: it does not serve.
  http::Response page(const std::string& target) const {
    http::Client client(fmt::format("http://127.0.0.1:{}", http));
    http::Request request;
    request.target = target;
    auto answer = client.send(request);
    return answer ? *answer : http::text(0, answer.error().to_string());
  }
  void launch(const std::string& postgres, const std::string& kube, const std::string& config, const std::string& log,
              const std::vector<std::string>& more = {}) {
    qm::testing::Process::Options options;
    options.argv = {std::string(QM_BIN_DIR) + "/qm-admission",
                    "--grpc",
                    fmt::format("127.0.0.1:{}", grpc),
                    "--http",
                    fmt::format("127.0.0.1:{}", http),
                    "--postgres",
                    postgres,
                    "--bus",
                    "postgres:" + postgres,
                    "--kube",
                    kube,
                    "--config",
                    config};
    options.argv.insert(options.argv.end(), more.begin(), more.end());
    options.output = log;
    auto started = qm::testing::Process::start(options);
    ASSERT_TRUE(started) << started.error().to_string();
    process = std::move(*started);
  }
  void start(const std::string& postgres, const std::string& kube, const std::string& config, const std::string& log) {
    launch(postgres, kube, config, log);
    ASSERT_TRUE(qm::testing::wait_until([&] { return page("/readyz").status == 200; })) << qm::testing::read_file(log);
    stub = pb::Admission::NewStub(
        grpc::CreateChannel(fmt::format("127.0.0.1:{}", grpc), ::grpc::InsecureChannelCredentials()));
  }
  pb::WorkloadPhase phase(const std::string& uid) {
    ::grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    pb::GetWorkloadRequest request;
    request.set_uid(uid);
    pb::Workload w;
    return stub->Get(&context, request, &w).ok() ? w.state().phase() : pb::WORKLOAD_PHASE_UNSPECIFIED;
  }
};

class AdmissionProgram : public qm::testing::PostgresTest {};

TEST_F(AdmissionProgram, KeepsStateAcrossKill) {
  qm::testing::TempDir dir;
  std::ofstream(dir.path() + "/queues.yaml") << testing::kQueues;
  testing::JobServer jobs;
  jobs.put(testing::make_job("team", "a", "q", 8));
  jobs.put(testing::make_job("team", "b", "q", 8));
  Program first;
  first.start(conninfo_, jobs.client().server, dir.path() + "/queues.yaml", dir.path() + "/first.log");
  ASSERT_TRUE(qm::testing::wait_until([&] { return first.phase("uid-a") == pb::QUOTA_RESERVED; }))
      << qm::testing::read_file(dir.path() + "/first.log");
  EXPECT_TRUE(qm::testing::wait_until([&] { return first.phase("uid-b") == pb::PENDING; }));
  first.process->signal(9);
  first.process->wait(std::chrono::seconds(10));
  jobs.close_watches();
  jobs.remove_silently("team/b");
  Program second;
  second.start(conninfo_, jobs.client().server, dir.path() + "/queues.yaml", dir.path() + "/second.log");
  // A standby is ready too, and returns an error while there is no leader. The first response must be
  // the committed state.
  auto remembered = pb::WORKLOAD_PHASE_UNSPECIFIED;
  EXPECT_TRUE(qm::testing::wait_until([&] {
    remembered = second.phase("uid-a");
    return remembered != pb::WORKLOAD_PHASE_UNSPECIFIED;
  })) << qm::testing::read_file(dir.path() + "/second.log");
  EXPECT_EQ(remembered, pb::QUOTA_RESERVED);
  EXPECT_TRUE(qm::testing::wait_until([&] { return second.phase("uid-b") == pb::CANCELLED; }));
  http::Client client(fmt::format("http://127.0.0.1:{}", second.http));
  http::Request explain;
  explain.target = "/debug/explain?uid=uid-a";
  const auto answer = client.send(explain);
  ASSERT_TRUE(answer);
  EXPECT_NE(answer->body.find("WaitingForPlacement"), std::string::npos) << answer->body;
  explain.target = "/metrics";
  EXPECT_NE(client.send(explain)->body.find("kueue_reserving_active_workloads{cluster_queue=\"research\"} 1"),
            std::string::npos);
  second.process->signal(15);
  const auto status = second.process->wait(std::chrono::seconds(20));
  ASSERT_TRUE(status) << qm::testing::read_file(dir.path() + "/second.log");
  EXPECT_EQ(*status, 0) << qm::testing::read_file(dir.path() + "/second.log");
  jobs.close_watches();
}

// The API server calls each ready pod of the webhook's Service. Here another process has the port of the webhook.
TEST_F(AdmissionProgram, IsNotReadyBeforeItsWebhookServes) {
  qm::testing::TempDir dir;
  std::ofstream(dir.path() + "/queues.yaml") << testing::kQueues;
  testing::JobServer jobs;
  auto other = std::make_unique<http::Server>(http::ServerOptions{}, [](const auto&) { return http::text(200, ""); });
  ASSERT_TRUE(other->start());
  std::array<Program, 2> replicas;  // the leader and a standby
  for (auto& one : replicas) {
    const auto log = fmt::format("{}/{}.log", dir.path(), one.http);
    one.launch(conninfo_, jobs.client().server, dir.path() + "/queues.yaml", log,
               {fmt::format("--set=webhook=127.0.0.1:{}", other->port()),
                fmt::format("--advertise=127.0.0.1:{}", one.grpc), "--set=webhook-service=quartermaster/admission"});
    EXPECT_TRUE(qm::testing::wait_until([&] {
      const auto ready = one.page("/readyz");
      return ready.status == 503 && ready.body.find("the webhook does not serve yet") != std::string::npos;
    })) << one.page("/readyz").body
        << qm::testing::read_file(log);
  }
  other.reset();
  EXPECT_TRUE(qm::testing::wait_until(
      [&] { return std::ranges::any_of(replicas, [](auto& one) { return one.page("/readyz").status == 200; }); }));
  jobs.close_watches();
}

class HostileInput : public qm::testing::PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    std::ofstream(dir_.path() + "/queues.yaml") << testing::kQueues;
    program_.start(conninfo_, jobs_.client().server, dir_.path() + "/queues.yaml", log());
  }
  void TearDown() override { jobs_.close_watches(); }
  [[nodiscard]] std::string log() const { return dir_.path() + "/log"; }
  ::grpc::Status apply(const std::string& id, std::chrono::seconds patience = std::chrono::seconds(20)) {
    ::grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    pb::ApplyRequest request;
    request.set_request_id(id);
    request.set_manifest(testing::kQueues);
    pb::ApplyResponse response;
    return program_.stub->Apply(&context, request, &response);
  }
  http::Response page(const std::string& target) {
    auto answer = program_.page(target);
    EXPECT_NE(answer.status, 0);
    return answer;
  }
  std::uint64_t poison() {
    const auto state = Json::parse(page("/debug/state").body);
    return state ? static_cast<std::uint64_t>((*state)["host"]["poison"].integer()) : 0;
  }

  qm::testing::TempDir dir_;
  testing::JobServer jobs_;
  Program program_;
};

// Submit refuses what `qmctl admit` refuses, unless the namespace has another mode; a Job that the service builds is
// not checked.
TEST_F(HostileInput, SubmitAppliesFleetRules) {
  const auto submit = [&](const std::string& name, bool by_spec = false) {
    ::grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    pb::SubmitRequest request;
    if (by_spec) {
      auto& spec = *request.mutable_spec();
      spec.set_namespace_("team");
      spec.set_name(name);
      spec.set_queue("q");
      auto& set = *spec.add_pod_sets();
      set.set_count(1);
      set.mutable_shape()->mutable_gpu()->set_whole(1);
    } else {
      request.set_manifest(testing::make_job("team", name, "q", 1).dump());
    }
    pb::SubmitResponse response;
    return program_.stub->Submit(&context, request, &response);
  };
  ASSERT_TRUE(qm::testing::wait_until([&] { return apply("queues").ok(); })) << qm::testing::read_file(log());
  const auto refused = submit("plain");
  EXPECT_EQ(refused.error_code(), ::grpc::StatusCode::FAILED_PRECONDITION) << refused.error_message();
  for (const auto* rule : {"Job team/plain is refused by 3 rules", "gpu-share: ", "gpu-toleration: ", "gpu-node: "})
    EXPECT_NE(refused.error_message().find(rule), std::string::npos) << refused.error_message();
  EXPECT_TRUE(jobs_.get("team/plain").is_null());
  EXPECT_TRUE(submit("built", true).ok());
  ::grpc::ClientContext context;
  pb::ApplyRequest lenient;
  lenient.set_manifest(
      "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team\n  labels: {policy.quartermaster.dev/mode: warn}\n");
  pb::ApplyResponse applied;
  ASSERT_TRUE(program_.stub->Apply(&context, lenient, &applied).ok());
  EXPECT_TRUE(submit("plain").ok());
}

TEST_F(HostileInput, NoRequestIdStopsOrStallsIt) {
  ASSERT_TRUE(qm::testing::wait_until([&] { return apply("first").ok(); })) << qm::testing::read_file(log());
  std::string random(12'000, ' ');
  for (std::size_t i = 0; i < random.size(); ++i)
    random[i] = static_cast<char>('a' + stable_hash(std::to_string(i)) % 26);
  for (const auto& id : {std::string("a\0b", 3), random, std::string("line\n"), std::string("\xc3\xa9")}) {
    const auto status = apply(id);
    EXPECT_EQ(status.error_code(), ::grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_NE(status.error_message().find("request id"), std::string::npos) << status.error_message();
    EXPECT_TRUE(apply("").ok());
  }
  EXPECT_EQ(page("/readyz").status, 200);
}

TEST_F(HostileInput, KeyWithNulIsDeadLetterAndNextIsRead) {
  auto bus = *bus::make_bus("postgres:" + conninfo_);
  auto producer = *bus->producer("attacker");
  std::vector<bus::Record> records;
  for (const auto& key : {std::string("a\0b", 3), std::string("next")}) {
    pb::Envelope envelope;
    envelope.set_topic("qm.placement");
    envelope.set_key(key);
    envelope.set_key_version(1);
    pb::PlacementEvent event;
    event.mutable_assignment()->set_uid(key);
    envelope.set_payload(event.SerializeAsString());
    records.push_back({"qm.placement", "one", envelope.SerializeAsString()});
  }
  // The second one has no effect; the third cannot be parsed, so its dead letter shows that the second was consumed.
  records.push_back({"qm.placement", "one", "\xff\xff"});
  ASSERT_TRUE(producer->publish(records, std::chrono::seconds(10)));
  EXPECT_TRUE(qm::testing::wait_until([&] { return poison() == 2; })) << qm::testing::read_file(log());
  EXPECT_EQ(page("/readyz").status, 200);
}

// The database neither responds nor fails: the backends of our sessions are stopped.
TEST_F(HostileInput, SignalStopsItWhileDatabaseHangs) {
  ASSERT_TRUE(qm::testing::wait_until([&] { return apply("first").ok(); })) << qm::testing::read_file(log());
  std::vector<int> hung;
  auto session = *pg::Connection::open(conninfo_, {"test"});
  const auto rows = *session->query(
      "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()");
  for (std::size_t i = 0; i < rows.size(); ++i) hung.push_back(static_cast<int>(rows.int8(i, 0)));
  ASSERT_GE(hung.size(), 2U);
  const auto stopped = std::shared_ptr<void>(nullptr, [&](void*) {
    for (const int pid : hung) ::kill(pid, SIGCONT);
  });
  for (const int pid : hung) EXPECT_EQ(::kill(pid, SIGSTOP), 0);
  std::jthread caller([&] { EXPECT_FALSE(apply("second").ok()); });
  program_.process->signal(15);
  EXPECT_EQ(program_.process->wait(std::chrono::seconds(15)), 1) << qm::testing::read_file(log());
  EXPECT_NE(qm::testing::read_file(log()).find("shutdown exceeded its timeout"), std::string::npos);
}

}  // namespace program_pg_test
}  // namespace qm::admission
