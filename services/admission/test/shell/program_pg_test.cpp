// The program as a process over a private PostgreSQL: what was decided is there after a SIGKILL.
#include "job_server.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>

namespace qm::admission {
namespace program_pg_test {

namespace pb = quartermaster::v1;

struct Program {
  int grpc = qm::testing::free_port();
  int http = qm::testing::free_port();
  std::unique_ptr<qm::testing::Process> process;
  std::unique_ptr<pb::Admission::Stub> stub;

  void start(const std::string& postgres, const std::string& kube, const std::string& config, const std::string& log) {
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
    options.output = log;
    auto started = qm::testing::Process::start(options);
    ASSERT_TRUE(started) << started.error().to_string();
    process = std::move(*started);
    http::Client client(fmt::format("http://127.0.0.1:{}", http));
    ASSERT_TRUE(qm::testing::wait_until([&] {
      http::Request ready;
      ready.target = "/readyz";
      const auto answer = client.send(ready);
      return answer && answer->status == 200;
    })) << qm::testing::read_file(log);
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

TEST(AdmissionProgram, RemembersAcrossAKill) {
  std::string why;
  auto* postgres = qm::testing::Postgres::shared(&why);
  if (postgres == nullptr) GTEST_SKIP() << why;
  const std::string database = postgres->fresh_database();
  qm::testing::TempDir dir;
  std::ofstream(dir.path() + "/queues.yaml") << testing::kQueues;
  testing::JobServer jobs;
  jobs.put(testing::make_job("team", "a", "q", 8));
  jobs.put(testing::make_job("team", "b", "q", 8));
  Program first;
  first.start(database, jobs.client().server, dir.path() + "/queues.yaml", dir.path() + "/first.log");
  ASSERT_TRUE(qm::testing::wait_until([&] { return first.phase("uid-a") == pb::QUOTA_RESERVED; }))
      << qm::testing::read_file(dir.path() + "/first.log");
  EXPECT_TRUE(qm::testing::wait_until([&] { return first.phase("uid-b") == pb::PENDING; }));
  first.process->signal(9);
  first.process->wait(std::chrono::seconds(10));
  jobs.close_watches();
  jobs.remove_silently("team/b");
  Program second;
  second.start(database, jobs.client().server, dir.path() + "/queues.yaml", dir.path() + "/second.log");
  // Ready before it leads, it has no answer while nobody does; its first one is what was decided.
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

}  // namespace program_pg_test
}  // namespace qm::admission
