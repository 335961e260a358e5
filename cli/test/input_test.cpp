// How qmctl responds to a wrong command line and to unavailable services, and how it continues.
#include "fake_suite.hpp"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <fstream>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace qm::cli {
namespace input_test {

void expect_usage(const std::vector<std::string>& args, const std::string& shows) {
  // The endpoints file does not exist: a wrong command line is detected before the file is read.
  auto all = args;
  all.insert(all.begin(), {"--endpoints", "/nonexistent/endpoints.json"});
  const auto ran = qmctl(all);
  EXPECT_EQ(ran.code, kUsage) << ran.out << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find(shows), std::string::npos) << "wanted: " << shows << "\n" << ran.err;
  EXPECT_NE(ran.err.find("remedy: "), std::string::npos) << ran.err;
}

TEST(Usage, WrongCommandLinesAreExplained) {
  expect_usage({}, "no verb is given");
  expect_usage({"lst"}, "unknown verb 'lst'");
  expect_usage({"lst"}, "use one of apply, submit");
  expect_usage({"list", "--color"}, "unexpected argument '--color'");
  expect_usage({"list", "pods"}, "list shows workloads");
  expect_usage({"get", "pods"}, "not 'pods'");
  expect_usage({"get", "queues"}, "'get' and 'queues' are two verbs");
  expect_usage({"list", "-o", "xml"}, "xml");
  expect_usage({"list", "--phase", "sleeping"}, "not one of Pending, QuotaReserved");
  expect_usage({"claims", "--state", "maybe"}, "not one of Requested, Running");
  expect_usage({"list", "--timeout", "soon"}, "--timeout");
  expect_usage({"list", "--timeout", "0s"}, "out of range");
  expect_usage({"list", "--timeout", "25h"}, "at most 24h");
  expect_usage({"why"}, "workload is required");
  expect_usage({"why", "a/b/c"}, "is not a valid workload name");
  expect_usage({"why", "/b"}, "is not a valid workload name");
  expect_usage({"events"}, "--follow");
  expect_usage({"events", "--follow", "--topic", "qm.gpus"}, "qm.gpus");
  expect_usage({"events", "--follow", "--count", "0"}, "--count");
  expect_usage({"report", "--period", "2026-13"}, "is not a valid period");
  expect_usage({"report", "--period", "November"}, "is not a valid period");
  expect_usage({"apply"}, "--file is required");
  expect_usage({"submit"}, "nothing to submit");
  expect_usage({"submit", "--name", "a"}, "--queue is not set");
  expect_usage({"submit", "--name", "a", "--queue", "q", "--pods", "0"}, "--pods");
  expect_usage({"submit", "--name", "a", "--queue", "q", "--gpus", "many"}, "--gpus");
  expect_usage({"submit", "--name", "a", "--queue", "q", "--cpu", "fast"}, "--cpu");
  expect_usage({"submit", "--name", "a", "--queue", "q", "--memory", "-1Gi"}, "--memory");
  expect_usage({"submit", "--name", "a", "--queue", "q", "--annotation", "x"}, "key=value");
  expect_usage({"submit", "-f", "j.yaml", "--pods", "2"}, "only --annotation may be added");
}

TEST(Usage, FilesAreReadBeforeAnythingIsSent) {
  FakeSuite suite;
  const auto refused = [&](const std::vector<std::string>& args, const std::string& shows, const std::string& in = {}) {
    const auto ran = qmctl(suite, args, in);
    EXPECT_EQ(ran.code, kUsage) << ran.err;
    EXPECT_NE(ran.err.find(shows), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("field:  --file"), std::string::npos) << ran.err;
  };
  const auto good = suite.file("good.yaml", "kind: X\n");
  refused({"apply", "-f", good, "-f", "/nonexistent.yaml"}, "/nonexistent.yaml cannot be read");
  refused({"apply", "-f", "-"}, "the input is empty", " \n");
  refused({"apply", "-f", suite.file("big.yaml", std::string((1 << 20) + 1, '#'))}, "larger than 1 MiB");
  const testing::TempDir empty;
  refused({"apply", "-f", empty.path()}, "holds no YAML");
  refused({"submit", "-f", good.substr(0, good.rfind('/'))}, "is a folder");
  EXPECT_TRUE(suite.state.applied.empty());
  EXPECT_TRUE(suite.state.submitted.empty());
}

TEST(EndpointsFile, IsCheckedFieldByField) {
  const testing::TempDir dir;
  const auto file = dir.path() + "/e.json";
  const auto refused = [&](const std::string& text, const std::string& shows) {
    std::ofstream(file) << text;
    const auto ran = qmctl({"--endpoints", file, "list"});
    EXPECT_EQ(ran.code, kUsage) << ran.err;
    EXPECT_NE(ran.err.find(shows), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("remedy:"), std::string::npos) << ran.err;
  };
  refused("", "cannot be read");
  refused("{\"admission\": ", "is not a JSON object");
  refused("[]", "is not a JSON object");
  refused("{\"admission\": \"localhost\"}", "\"localhost\" is not a valid address");
  refused("{\"admission\": 7101}", "7101 is not a valid address");
  refused("{\"cost\": \"127.0.0.1:1\"}", "names no address of admission");
  EXPECT_EQ(qmctl({"--endpoints", "/nonexistent/e.json", "list"}).code, kUsage);
}

TEST(Unreachable, EndsWithTheTimeoutAndNamesTheAddress) {
  FakeSuite suite;
  suite.stop();
  for (const auto& verb : std::vector<std::vector<std::string>>{{"list"}, {"events", "--follow"}, {"report"}}) {
    auto args = verb;
    args.insert(args.end(), {"--timeout", "200ms"});
    const auto ran = qmctl(suite, args);
    EXPECT_EQ(ran.code, kUnreachable) << ran.err;
    EXPECT_NE(ran.err.find("remedy: start the service, correct its address in "), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("127.0.0.1:"), std::string::npos) << ran.err;
  }
}

/// Notifies other threads of a write.
class NotedBuffer final : public std::stringbuf {
 public:
  std::atomic<bool> noted = false;

 private:
  std::streamsize xsputn(const char* text, std::streamsize n) override {
    const auto done = std::stringbuf::xsputn(text, n);
    noted = true;
    return done;
  }
};

TEST(Unreachable, AServiceThatComesBackIsAnswered) {
  FakeSuite suite;
  populate(suite.state);
  suite.stop();
  NotedBuffer buffer;
  std::jthread later([&] {
    if (testing::wait_until([&] { return buffer.noted.load(); })) suite.start();
  });
  std::istringstream in;
  std::ostringstream out;
  std::ostream err(&buffer);
  const int code =
      run({"--endpoints", suite.endpoints(), "why", "vision/finetune", "--timeout", "20s"}, {in, out, err});
  later.join();
  EXPECT_EQ(code, kDone) << buffer.str();
  EXPECT_NE(buffer.str().find("is not available; retrying"), std::string::npos) << buffer.str();
}

TEST(Refusals, KeepFieldAndRemedyAndGiveTheirExitCode) {
  FakeSuite suite;
  const auto code_of = [&](Code code) {
    suite.state.fails = fail({code, "what happened", "spec.queue", "what to do"});
    const auto ran = qmctl(suite, {"list", "--timeout", "2s"});
    EXPECT_NE(ran.err.find("qmctl: list: what happened\n  field:  spec.queue\n  remedy: what to do\n"),
              std::string::npos)
        << ran.err;
    return ran.code;
  };
  EXPECT_EQ(code_of(Code::kInvalid), kFailed);
  EXPECT_EQ(code_of(Code::kFailedPrecondition), kFailed);
  EXPECT_EQ(code_of(Code::kExhausted), kFailed);
  EXPECT_EQ(code_of(Code::kInternal), kFailed);
  EXPECT_EQ(code_of(Code::kNotFound), kNotFound);
  EXPECT_EQ(code_of(Code::kUnavailable), kUnreachable);
  EXPECT_EQ(code_of(Code::kDeadlineExceeded), kUnreachable);
}

TEST(Lists, AreReadToTheLastPage) {
  FakeSuite suite;
  populate(suite.state);
  suite.state.page = 1;
  const auto ran =
      qmctl(suite, {"list", "-n", "nlp", "--queue", "q", "--team", "t", "--phase", "finished", "-o", "json"});
  EXPECT_EQ(suite.state.pages, 3);
  const auto json = Json::parse(ran.out);
  ASSERT_TRUE(json) << ran.out;
  EXPECT_EQ((*json)["workloads"].size(), 3U);
  EXPECT_EQ((*json)["total"].string(), "3");
  EXPECT_EQ((*json)["nextPageToken"].string(), "");
  EXPECT_EQ(suite.state.listed.namespace_(), "nlp");
  EXPECT_EQ(suite.state.listed.queue(), "q");
  EXPECT_EQ(suite.state.listed.team(), "t");
  EXPECT_EQ(suite.state.listed.phase(), pb::FINISHED);
}

TEST(Lists, APageThatComesAgainIsAnError) {
  FakeSuite suite;
  populate(suite.state);
  suite.state.page = 0;  // every page is empty and names itself as the next
  const auto ran = qmctl(suite, {"queues"});
  EXPECT_EQ(ran.code, kFailed);
  EXPECT_NE(ran.err.find("repeatedly"), std::string::npos) << ran.err;
}

TEST(Lists, EmptyListsPrintANoteOnStderr) {
  FakeSuite suite;
  for (const char* verb : {"list", "queues", "nodes", "claims", "top", "prices"}) {
    const auto ran = qmctl(suite, {verb});
    EXPECT_EQ(ran.code, kDone) << verb;
    EXPECT_EQ(ran.out, "") << verb;
    EXPECT_TRUE(ran.err.starts_with("no ")) << ran.err;
  }
}

TEST(Report, AStatementThatDoesNotAddUpIsPrintedAndRefused) {
  FakeSuite suite;
  for (const auto& spoil : std::vector<std::function<void(pb::Statement&)>>{
           [](auto& s) { s.set_provider_nano_usd(s.provider_nano_usd() + 1); },
           [](auto& s) { s.set_total_nano_usd(s.total_nano_usd() - 1); }, [](auto& s) { s.set_imbalance_nano_usd(1); },
           [](auto& s) { s.mutable_lines(0)->set_nano_usd(0); }}) {
    populate(suite.state);
    spoil(suite.state.statement);
    for (const char* format : {"table", "json"}) {
      const auto ran = qmctl(suite, {"report", "-o", format});
      EXPECT_EQ(ran.code, kFailed);
      EXPECT_NE(ran.out, "");
      EXPECT_NE(ran.err.find("does not add up"), std::string::npos) << ran.err;
    }
  }
}

// A server that accepts the connection but is slow in its handshake does not count as unavailable.
TEST(Connection, IsNotGivenUpWhileItsHandshakeIsSlow) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 16), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  FakeSuite suite;
  auto json = Json::parse(testing::read_file(suite.endpoints()));
  json->set("admission", fmt::format("127.0.0.1:{}", ntohs(address.sin_port)));
  const auto file = suite.file("slow.json", json->dump());
  EXPECT_EQ(qmctl({"--endpoints", file, "list", "--timeout", "500ms"}).code, kUnreachable);
  int connections = 0;
  for (int fd = 0; (fd = ::accept(listener, nullptr, nullptr)) >= 0; ++connections) ::close(fd);
  ::close(listener);
  EXPECT_EQ(connections, 1);
}

TEST(Describe, PrintsThatPlacementIsUnavailable) {
  FakeSuite suite, other;
  populate(suite.state);
  other.state.fails = fail(Code::kPermissionDenied, "ada is not let in");
  const auto elsewhere = Json::parse(testing::read_file(other.endpoints()));
  auto json = Json::parse(testing::read_file(suite.endpoints()));
  json->set("placement", (*elsewhere)["placement"]);
  const auto file = suite.file("half.json", json->dump());
  const auto ran = qmctl({"--endpoints", file, "describe", "nlp/pretrain"});
  EXPECT_EQ(ran.code, kDone);
  EXPECT_NE(ran.out.find("nlp/pretrain"), std::string::npos);
  EXPECT_NE(ran.err.find("no placement shown"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("ada is not let in"), std::string::npos) << ran.err;
}

// S-247
TEST(Describe, PrintsTheCheckpointInterval) {
  FakeSuite suite;
  populate(suite.state);
  auto& spec = *suite.state.workloads[0].mutable_state()->mutable_spec();
  const auto name = spec.namespace_() + "/" + spec.name();
  EXPECT_EQ(qmctl(suite, {"describe", name}).out.find("checkpoint "), std::string::npos);
  spec.set_checkpoints(true);
  EXPECT_NE(qmctl(suite, {"describe", name}).out.find("checkpoint by order\n"), std::string::npos);
  spec.mutable_checkpoint()->set_steps(1000);
  spec.mutable_checkpoint()->set_interval_us(600'000'000);
  spec.mutable_checkpoint()->set_quorum(1);
  spec.mutable_checkpoint()->set_uri("s3://bucket/run");
  const auto ran = qmctl(suite, {"describe", name});
  EXPECT_NE(ran.out.find("checkpoint every 1000 steps, ordered every 600 s on spot capacity, valid with 1 rank, to "
                         "s3://bucket/run\n"),
            std::string::npos)
      << ran.out;
}

TEST(Describe, PrintsTheSchedulerThatBindsAnAdmittedWorkload) {
  FakeSuite suite;
  populate(suite.state);
  suite.state.workloads[0].mutable_state()->set_phase(pb::ADMITTED);
  suite.state.explanation.clear_remedies();
  auto& cause = *suite.state.explanation.mutable_causes(0);
  cause.Clear();
  cause.set_code("OtherScheduler");
  cause.set_message("its pods are bound by the scheduler in their schedulerName");
  cause.set_remedy("set spec.schedulerName");
  for (const auto* verb : {"describe", "why"}) {
    const auto ran = qmctl(suite, {verb, "vision/finetune"});
    EXPECT_EQ(ran.code, kDone);
    EXPECT_NE(ran.out.find("OtherScheduler: " + cause.message()), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("remedy: " + cause.remedy()), std::string::npos) << ran.out;
  }
  EXPECT_EQ(qmctl(suite, {"describe", "nlp/pretrain"}).out.find("\nwhy "), std::string::npos) << "it just runs";
}

// Texts use the name of a workload; its uid is a field of the JSON.
TEST(Describe, ShowsNoUid) {
  FakeSuite suite;
  populate(suite.state);
  for (const std::vector<std::string>& args : {std::vector<std::string>{"describe", "vision/finetune"},
                                               {"describe", "nlp/pretrain"},
                                               {"why", "vision/finetune"},
                                               {"list"},
                                               {"get", "nlp/pretrain"},
                                               {"defrag", "plan"},
                                               {"plan"},
                                               {"scale", "eval"},
                                               {"events", "--follow", "--count", "3"}}) {
    const auto out = qmctl(suite, args).out;
    for (const auto* uid : {"u-1", "u-2", "u-3", "uid"})
      EXPECT_EQ(out.find(uid), std::string::npos) << args[0] << '\n' << out;
  }
}

TEST(Why, PrintsTheDiagnosisOfPlacement) {
  FakeSuite suite;
  populate(suite.state);
  auto& why = suite.state.explanation;
  why.set_summary("vision/finetune is pending: quota is reserved, and no nodes have the capacity: 40 of 64 pods fit");
  why.clear_causes();
  why.clear_remedies();
  why.add_causes()->set_code("InsufficientCapacity");
  auto& shortfall = suite.state.shortfall;
  shortfall.set_pod_set("main");
  shortfall.add_conflict("GPU model H100");
  shortfall.add_conflict("8 GPUs for each of 64 pods");
  shortfall.add_remedies("with 40 pods instead of 64");
  const auto ran = qmctl(suite, {"why", "vision/finetune"});
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_NE(ran.out.find("  no nodes meet together GPU model H100; 8 GPUs for each of 64 pods\n"
                         "  any one of these makes it schedulable now:\n"
                         "    with 40 pods instead of 64\n"),
            std::string::npos)
      << ran.out;
  const auto json = Json::parse(qmctl(suite, {"why", "vision/finetune", "-o", "json"}).out);
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["shortfall"]["remedies"].size(), 1U);
  EXPECT_NE(qmctl(suite, {"describe", "vision/finetune"}).out.find("with 40 pods instead of 64"), std::string::npos);
  ASSERT_GT(suite.state.tried.pod_sets_size(), 0);
  EXPECT_FALSE(suite.state.tried.uid().empty()) << "whose claims and neighbours count";
  EXPECT_EQ(suite.state.tried.pod_sets(0).shape().gpu().whole(), 8);
  // Placement reports the MIG repartition for the workload.
  const std::string cut = "node a is being repartitioned to all-1g.10gb for it: mig-manager applies the layout";
  suite.state.assignment.Clear();
  for (const auto& w : suite.state.workloads) {
    if (w.state().spec().name() == "finetune") suite.state.assignment.mutable_state()->set_uid(w.state().spec().uid());
  }
  suite.state.assignment.set_layout(cut);
  EXPECT_NE(qmctl(suite, {"why", "vision/finetune"}).out.find("  MIG: " + cut + "\n"), std::string::npos);
  EXPECT_NE(qmctl(suite, {"describe", "vision/finetune"}).out.find("MIG: " + cut), std::string::npos);
  EXPECT_EQ((*Json::parse(qmctl(suite, {"why", "vision/finetune", "-o", "json"}).out))["layout"].string(), cut);
  // If the workload fits meanwhile, nothing more is printed.
  shortfall.Clear();
  const auto alone = qmctl(suite, {"why", "vision/finetune"});
  EXPECT_EQ(alone.code, kDone);
  EXPECT_EQ(alone.out.find("no nodes meet"), std::string::npos);
}

TEST(Why, QuotaIsNoRemedyForPodsThatNoNodeCanHold) {
  FakeSuite suite;
  populate(suite.state);
  suite.state.explanation.mutable_causes(0)->set_resource("nvidia.com/gpu");
  const std::string header = "any one of these admits it now", raise = "RaiseQuota: raise", wait = "remedy: wait until";
  auto ran = qmctl(suite, {"why", "vision/finetune"}).out;
  EXPECT_NE(ran.find(header), std::string::npos) << ran;
  // The nodes are full: quota alone does not start the workload.
  suite.state.shortfall.add_conflict("9 GPUs for each of 4 pods");
  ran = qmctl(suite, {"why", "vision/finetune"}).out;
  EXPECT_EQ(ran.find(header), std::string::npos) << ran;
  EXPECT_NE(ran.find("any one of these gives it quota now; it then waits for nodes:"), std::string::npos) << ran;
  EXPECT_NE(ran.find(raise), std::string::npos) << ran;
  // No node has as many GPUs: the service reports it, and qmctl prints it once.
  auto& why = suite.state.explanation;
  why.clear_remedies();
  why.mutable_causes(0)->clear_remedy();
  auto& cause = *why.add_causes();
  cause.set_code("Unschedulable");
  cause.set_message("no nodes meet 9 GPUs for each of 4 pods, even with no other pod on them; waiting does not help");
  cause.set_remedy("with at most 8 GPUs a pod; or add nodes that fit its pods");
  for (const char* verb : {"why", "describe"}) {
    ran = qmctl(suite, {verb, "vision/finetune"}).out;
    EXPECT_EQ(ran.find(raise), std::string::npos) << ran;
    EXPECT_EQ(ran.find(wait), std::string::npos) << ran;
    EXPECT_NE(ran.find("    remedy: with at most 8 GPUs a pod; or add nodes that fit its pods\n"), std::string::npos)
        << ran;
    EXPECT_EQ(ran.find("no nodes meet"), ran.rfind("no nodes meet")) << ran;
  }
}

TEST(Queues, AQueueThatAdmitsNothingIsMarkedWithTheReason) {
  FakeSuite suite;
  populate(suite.state);
  suite.state.queues[1].set_state("Terminating");
  suite.state.queues[1].set_reason("ClusterQueue vision is terminating: it was deleted");
  const auto ran = qmctl(suite, {"queues"}).out;
  EXPECT_NE(ran.find("Terminating"), std::string::npos) << ran;
  EXPECT_NE(ran.find("vision: ClusterQueue vision is terminating: it was deleted\n"), std::string::npos) << ran;
}

}  // namespace input_test
}  // namespace qm::cli
