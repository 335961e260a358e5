// The program as a process over a private PostgreSQL: reservations survive a SIGKILL.
#include "little_kube.hpp"
#include "qm/bus/bus.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/placement_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

namespace qm::placement {
namespace program_pg_test {

namespace pb = quartermaster::v1;
using qm::testing::wait_until;

struct Program {
  int grpc = qm::testing::free_port();
  int http = qm::testing::free_port();
  std::unique_ptr<qm::testing::Process> process;
  std::unique_ptr<pb::Placement::Stub> stub;

  void start(const std::string& postgres, const std::string& kube, const std::string& log,
             const std::vector<std::string>& more = {}) {
    qm::testing::Process::Options options;
    options.argv = {std::string(QM_BIN_DIR) + "/qm-placement",
                    "--grpc",
                    fmt::format("127.0.0.1:{}", grpc),
                    "--http",
                    fmt::format("127.0.0.1:{}", http),
                    "--postgres",
                    postgres,
                    "--bus",
                    "postgres:" + postgres,
                    "--kube",
                    kube};
    options.argv.insert(options.argv.end(), more.begin(), more.end());
    options.output = log;
    auto started = qm::testing::Process::start(options);
    ASSERT_TRUE(started) << started.error().to_string();
    process = std::move(*started);
    stub = pb::Placement::NewStub(
        grpc::CreateChannel(fmt::format("127.0.0.1:{}", grpc), ::grpc::InsecureChannelCredentials()));
  }
  bool answers(const std::string& path) {
    http::Client client(fmt::format("http://127.0.0.1:{}", http));
    http::Request request;
    request.target = path;
    return wait_until([&] {
      const auto answer = client.send(request);
      return answer && answer->status == 200;
    });
  }
  pb::AssignmentEvent state(const std::string& uid) {
    ::grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    pb::GetAssignmentRequest request;
    request.set_uid(uid);
    pb::Assignment assignment;
    (void)stub->Get(&context, request, &assignment);
    return assignment.state();
  }
};

void say(bus::Bus& bus, const std::string& uid, pb::WorkloadPhase phase) {
  pb::WorkloadEvent event;
  event.mutable_spec()->set_uid(uid);
  event.mutable_spec()->set_namespace_("team");
  auto* set = event.mutable_spec()->add_pod_sets();
  set->set_count(1);
  set->mutable_shape()->mutable_gpu()->set_whole(8);
  set->mutable_shape()->add_tolerations()->set_operator_("Exists");
  event.set_attempt(1);
  event.set_phase(phase);
  pb::Envelope envelope;
  envelope.set_topic("qm.workload");
  envelope.set_key(uid);
  envelope.set_key_version(1);
  envelope.set_payload(event.SerializeAsString());
  auto producer = bus.producer("admission");
  ASSERT_TRUE(producer);
  ASSERT_TRUE((*producer)->publish(std::vector<bus::Record>{{"qm.workload", uid, envelope.SerializeAsString()}},
                                   std::chrono::seconds(10)));
}

class PlacementProgram : public qm::testing::PostgresTest {};

TEST_F(PlacementProgram, KeepsDevicesAcrossAKill) {
  qm::testing::TempDir dir;
  testing::LittleKube kube;
  kube.put(testing::node_path("a"), testing::make_node("a", 8));
  Program first;
  first.start(conninfo_, kube.origin(), dir.path() + "/first.log");
  ASSERT_TRUE(first.answers("/readyz")) << qm::testing::read_file(dir.path() + "/first.log");
  auto bus = *bus::make_bus("postgres:" + conninfo_);
  say(*bus, "w", pb::QUOTA_RESERVED);
  ASSERT_TRUE(wait_until([&] { return first.state("w").state() == pb::RESERVED; }))
      << qm::testing::read_file(dir.path() + "/first.log");
  kube.put(testing::pod_path("p"), testing::make_pod("p", "w", 1, 0, 8));
  ASSERT_TRUE(wait_until([&] { return first.state("w").state() == pb::BOUND; }));
  first.process->signal(9);
  first.process->wait(std::chrono::seconds(10));
  kube.cut_watches();

  Program second;
  second.start(conninfo_, kube.origin(), dir.path() + "/second.log");
  ASSERT_TRUE(second.answers("/readyz")) << qm::testing::read_file(dir.path() + "/second.log");
  // A standby is ready, too, but without a leader it cannot respond. The first response must be the committed state.
  auto remembered = pb::ASSIGNMENT_STATE_UNSPECIFIED;
  EXPECT_TRUE(wait_until([&] {
    remembered = second.state("w").state();
    return remembered != pb::ASSIGNMENT_STATE_UNSPECIFIED;
  })) << qm::testing::read_file(dir.path() + "/second.log");
  EXPECT_EQ(remembered, pb::BOUND);
  say(*bus, "v", pb::QUOTA_RESERVED);
  EXPECT_TRUE(wait_until([&] { return second.state("v").state() == pb::SHORT; }));
  EXPECT_TRUE(second.answers("/metrics"));
  EXPECT_TRUE(second.answers("/debug/state"));
  second.process->signal(15);
  EXPECT_EQ(second.process->wait(std::chrono::seconds(20)), 0) << qm::testing::read_file(dir.path() + "/second.log");
}

TEST_F(PlacementProgram, RefusesUnknownSetting) {
  qm::testing::TempDir dir;
  for (const std::string setting : {"held=5", "hold=soon", "hold=0", "policy=best"}) {
    Program program;
    program.start("host=/nowhere", "http://127.0.0.1:1", dir.path() + "/log", {"--set", setting});
    EXPECT_EQ(program.process->wait(std::chrono::seconds(10)), 1);
    const auto log = qm::testing::read_file(dir.path() + "/log");
    EXPECT_NE(log.find("setting"), std::string::npos) << log;
  }
}

}  // namespace program_pg_test
}  // namespace qm::placement
