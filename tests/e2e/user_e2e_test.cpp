// A new user's mistakes against a running suite: each error message names the problem, its position, and the remedy.
// And a trace context that arrives with a call is propagated to all its effects.
#include "qm/bus/bus.hpp"
#include "qm/pg/connection.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/events.pb.h"
#include "support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace qm::e2e {
namespace user_e2e_test {

using namespace std::chrono_literals;

class NewUser : public SharedSuite<NewUser> {
 public:
  static std::vector<std::string> flags() { return {"--nodes", "2", "--speed", "20"}; }

 protected:
  static void expect_words(const Ran& ran, const std::vector<std::string>& words) {
    for (const auto& word : words)
      EXPECT_NE(ran.output.find(word), std::string::npos) << word << " is not in\n" << ran.output;
  }
};

TEST_F(NewUser, WrongYamlNamesFileLineFieldAndRemedy) {
  const testing::TempDir dir;
  const std::string file = dir.path() + "/queue.yaml";
  std::ofstream(file)
      << "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata:\n  name: wrong\nspec:\n"
         "  namespaceSelector: {}\n  queueingStrategy: Fastest\n"
         "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata:\n  name: wrong-too\nspec: {}\n"
         "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata:\n  name: wrong-local\n"
         "  namespace: e2e-lab\nspec:\n  clusterQueue: e2e-lab\n";
  const auto ran = suite().qmctl({"apply", "-f", file});
  EXPECT_EQ(ran.code, 1);
  expect_words(ran, {file + ":7", "queueingStrategy", "Fastest", "remedy:", "StrictFIFO"});
  const auto queues = suite().qmctl({"queues"});
  EXPECT_EQ(queues.output.find("wrong"), std::string::npos) << "it was applied all the same\n" << queues.output;
  const auto half =
      suite().qmctl({"submit", "-n", Suite::kNamespace, "--name", "half", "--queue", "wrong-local", "--gpus", "1"});
  EXPECT_EQ(half.code, 4) << "the rest of the file was applied: " << half.output;
}

TEST_F(NewUser, YamlThatIsNoYamlNamesItsLine) {
  const testing::TempDir dir;
  const std::string file = dir.path() + "/broken.yaml";
  std::ofstream(file) << "apiVersion: kueue.x-k8s.io/v1beta1\nkind: [ClusterQueue\nmetadata:\n  name: wrong\n";
  const auto ran = suite().qmctl({"apply", "-f", file});
  EXPECT_EQ(ran.code, 1);
  expect_words(ran, {file + ":", "remedy:"});
}

TEST_F(NewUser, ASubmitToAnUnknownQueueIsRefusedWithTheField) {
  const auto ran =
      suite().qmctl({"submit", "-n", Suite::kNamespace, "--name", "refused", "--queue", "nosuch", "--gpus", "1"});
  EXPECT_EQ(ran.code, 4) << "not found";
  expect_words(ran, {"queue nosuch does not exist in namespace e2e-lab", "field:", "remedy:"});
}

// kubectl does not call the suite: the Job is created, stays pending, and `why` reports the reason.
TEST_F(NewUser, AJobOfAnUnknownQueueIsPendingAndWhyNamesTheCause) {
  const testing::TempDir dir;
  const auto made = suite().kubectl_create("/apis/batch/v1/namespaces/e2e-lab/jobs", *Json::parse(R"({
      "apiVersion": "batch/v1", "kind": "Job",
      "metadata": {"name": "nowhere", "namespace": "e2e-lab", "labels": {"kueue.x-k8s.io/queue-name": "nosuch"}},
      "spec": {"suspend": true, "parallelism": 1, "completions": 1, "completionMode": "Indexed", "template": {
        "metadata": {"annotations": {"fleet.quartermaster.dev/run-seconds": "30"}},
        "spec": {"schedulerName": "quartermaster", "restartPolicy": "Never", "containers": [
          {"name": "main", "image": "train", "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}]}}}})"));
  ASSERT_TRUE(made) << made.error().to_string();
  ASSERT_TRUE(eventually([] {
    const auto found = suite().workload("nowhere");
    return found && found->state().phase() == pb::PENDING;
  }));
  const auto why = suite().qmctl({"why", "e2e-lab/nowhere"});
  EXPECT_EQ(why.code, 0);
  expect_words(why, {"queue nosuch does not exist in namespace e2e-lab", "remedy: apply a LocalQueue"});
  EXPECT_EQ(suite().count("pod_start", "nowhere"), 0);

  // The remedy works: once the queue exists, the job runs.
  std::ofstream(dir.path() + "/queue.yaml")
      << "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata:\n  name: nosuch\n  namespace: e2e-lab\n"
         "spec:\n  clusterQueue: e2e-lab\n";
  const auto applied = suite().qmctl({"apply", "-f", dir.path() + "/queue.yaml"});
  EXPECT_EQ(applied.code, 0) << applied.output;
  EXPECT_TRUE(eventually([] { return suite().finished("nowhere"); }));
}

// The start of a pending job is predicted from the run times of earlier jobs. An 80 % interval may miss; this test
// limits the error of its middle.
TEST_F(NewUser, APendingJobStartsNearItsForecast) {
  const testing::TempDir dir;
  std::ofstream(dir.path() + "/queue.yaml")
      << "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata:\n  name: e2e-when\nspec:\n"
         "  namespaceSelector: {}\n  resourceGroups:\n  - coveredResources: [nvidia.com/gpu, cpu, memory]\n    flavors:\n"
         "    - name: gpu\n      resources:\n      - {name: nvidia.com/gpu, nominalQuota: 4}\n"
         "      - {name: cpu, nominalQuota: 1000}\n      - {name: memory, nominalQuota: 10Ti}\n---\n"
         "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata:\n  name: when\n  namespace: e2e-lab\n"
         "spec:\n  clusterQueue: e2e-when\n";
  const auto applied = suite().qmctl({"apply", "-f", dir.path() + "/queue.yaml"});
  ASSERT_EQ(applied.code, 0) << applied.output;
  constexpr int kLearned = 8, kRunning = 4, kRun = 240;
  const auto name = [](int i) { return fmt::format("learn-{}", i); };
  for (int i = 0; i < kLearned; ++i)
    ASSERT_TRUE(suite().submit({.name = name(i), .gpus = 1, .run_s = kRun, .queue = "when"}));
  ASSERT_TRUE(eventually(
      [&] {
        for (int i = 0; i < kLearned; ++i) {
          if (!suite().finished(name(i))) return false;
        }
        return true;
      },
      90s))
      << "they do not end";
  for (int i = kLearned; i <= kLearned + kRunning; ++i)
    ASSERT_TRUE(suite().submit({.name = name(i), .gpus = 1, .run_s = kRun, .queue = "when"}));
  const std::string waits = name(kLearned + kRunning);
  ASSERT_TRUE(eventually([&] {
    const auto found = suite().workload(waits);
    const auto before = suite().workload(name(kLearned + kRunning - 1));
    return found && found->state().phase() == pb::PENDING && before && before->state().admitted_us() > 0;
  }));
  const auto asked = suite().qmctl({"when", "e2e-lab/" + waits, "-o", "json"});
  ASSERT_EQ(asked.code, 0) << asked.output;
  const auto reported = Json::parse(asked.output);
  ASSERT_TRUE(reported) << asked.output;
  const auto at = [&](const char* field) { return std::stoll((*reported)[field].string()); };
  EXPECT_TRUE((*reported)["unknown"].is_null()) << asked.output;
  EXPECT_EQ((*reported)["runTimesOf"].string(), "team e2e-lab, 1 gpu, learn");
  EXPECT_FALSE((*reported)["waitsFor"].items().empty()) << asked.output;
  std::int64_t started = 0;
  ASSERT_TRUE(eventually(
      [&] {
        const auto found = suite().workload(waits);
        if (found) started = found->state().admitted_us();
        return started != 0;
      },
      60s))
      << "it does not start";
  EXPECT_LT(std::abs(started - at("p50Us")), kRun * std::int64_t{1'000'000}) << started << '\n' << asked.output;
  EXPECT_LE(at("p10Us"), at("p50Us"));
  EXPECT_LE(at("p50Us"), at("p90Us"));
  const auto running = suite().qmctl({"when", "e2e-lab/" + waits});
  EXPECT_EQ(running.code, 0);
  expect_words(running, {"no forecast"});
}

TEST_F(NewUser, APortThatIsTakenIsNamedAndTheFirstServiceServesOn) {
  auto argv = suite().command_line("admission");
  ASSERT_FALSE(argv.empty());
  // A second suite started next to the first: its own database, but the same port.
  {
    const auto connection = pg::Connection::open(suite().postgres(), {.application_name = "e2e"});
    ASSERT_TRUE(connection) << connection.error().to_string();
    const auto made = (*connection)->exec("create database second");
    ASSERT_TRUE(made) << made.error().to_string();
  }
  const std::string first = suite().postgres();
  const std::string second = first.substr(0, first.rfind("dbname=")) + "dbname=second";
  for (std::size_t i = 0; i + 1 < argv.size(); ++i) {
    if (argv[i] == "--http") argv[i + 1] = "127.0.0.1:0";
    if (argv[i] == "--postgres") argv[i + 1] = second;
    if (argv[i] == "--bus") argv[i + 1] = "postgres:" + second;
  }
  const auto ran = run(argv, 30s);
  EXPECT_EQ(ran.code, 1);
  expect_words(ran, {"cannot listen on " + suite().grpc("admission"), "another port"});
  EXPECT_TRUE(suite().ready("admission"));
  EXPECT_TRUE(suite().submit({.name = "after-the-second"}));
}

TEST_F(NewUser, TheSameServiceStartedTwiceEndsAndTheFirstServesOn) {
  const auto ran = run(suite().command_line("admission"), 30s);
  EXPECT_EQ(ran.code, 1) << ran.output;
  expect_words(ran, {suite().grpc("admission")});
  EXPECT_TRUE(eventually([] { return suite().ready("admission"); }, 20s));
  ASSERT_TRUE(suite().submit({.name = "after-the-twin"}));
  EXPECT_TRUE(eventually([] { return suite().finished("after-the-twin"); }));
}

TEST_F(NewUser, EightClientsAtOnceGetNoGpuTwice) {  // S-057
  constexpr int kClients = 8, kJobs = 5;
  const auto name = [](int client, int job) { return fmt::format("client-{}-{}", client, job); };
  std::atomic<int> refused = 0, busy = kClients;
  std::vector<std::jthread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      for (int j = 0; j < kJobs; ++j) {
        const JobAsk ask{.name = name(c, j), .pods = 1 + j % 2, .gpus = 1 + (c + j) % 3, .run_s = 40};
        if (!suite().submit(ask)) ++refused;
      }
      --busy;
    });
  }
  // The holders of each device, at each poll.
  int looks = 0, most = 0;
  const auto look = [&] {
    const auto all = suite().assignments();
    if (!all) return;
    std::map<std::string, std::string> holder;
    std::map<std::string, int> used;
    int held = 0;
    for (const auto& a : all->assignments()) {
      for (const auto& member : a.state().members()) {
        if (member.released_us() != 0) continue;
        for (const auto& device : member.devices()) {
          const auto [it, first] =
              holder.emplace(fmt::format("{}/{}", member.node(), device.index()), a.state().workload());
          EXPECT_TRUE(first) << it->first << " is held by " << it->second << " and " << a.state().workload();
          EXPECT_LE(++used[member.node()], 8) << member.node();
          ++held;
        }
      }
    }
    ++looks;
    most = std::max(most, held);
  };
  EXPECT_TRUE(eventually([&] {
    look();
    for (int c = 0; busy == 0 && c < kClients; ++c) {
      for (int j = 0; j < kJobs; ++j) {
        if (!suite().finished(name(c, j))) return false;
      }
    }
    return busy == 0;
  }));
  EXPECT_EQ(refused, 0);
  EXPECT_GT(looks, 5);
  EXPECT_GT(most, 8) << "there was no crowd";
}

TEST_F(NewUser, AFolderThatCannotBeWrittenIsNamed) {
  const testing::TempDir dir;
  std::ofstream(dir.path() + "/file") << "not a folder\n";
  const auto ran = run({program("qm-demo"), "--up", "--dir", dir.path() + "/file/run"}, 30s);
  EXPECT_EQ(ran.code, 2);
  expect_words(ran, {dir.path() + "/file/run", "--dir", "name a folder that can be written"});
}

TEST_F(NewUser, AFullDiskIsNamedBeforeAnythingRuns) {
  const testing::TempDir dir;
  // A separate mount namespace: the small disk is invisible to others and is removed with the command.
  const std::string small = "mount -t tmpfs -o size=1m none " + dir.path();
  if (run({"unshare", "--mount", "sh", "-c", small}, 10s).code != 0)
    GTEST_SKIP() << "a small disk can only be mounted by root";
  const auto ran = run({"unshare", "--mount", "sh", "-c",
                        small + " && exec " + program("qm-demo") + " --up --dir " + dir.path() + "/run"},
                       30s);
  EXPECT_EQ(ran.code, 2);
  expect_words(ran, {dir.path() + "/run", "MiB are free", "--dir", "free 512 MiB"});
}

// A caller's trace id is in all effects of the call: in the events, and in the log of each service that decided on it.
TEST_F(NewUser, ATraceThatCameWithASubmitGoesOutWithTheWorkload) {
  const std::string id = "4bf92f3577b34da6a3ce929d0e0e4736", trace = "00-" + id + "-00f067aa0ba902b7-01";
  const auto sent = suite().submit({.name = "traced", .run_s = 30, .trace_parent = trace});
  ASSERT_TRUE(sent) << sent.error().to_string();
  ASSERT_TRUE(suite().submit({.name = "untraced", .run_s = 30}));
  const auto bus = bus::make_bus("postgres:" + suite().postgres());
  ASSERT_TRUE(bus) << bus.error().to_string();
  // A separate group: it does not affect other consumers.
  bus::ConsumerOptions options;
  options.group = "e2e/trace";
  options.topics = {"qm.workload", "qm.placement"};
  options.cursor = [](const bus::TopicPartition&) { return -1; };
  const auto consumer = (*bus)->consumer(std::move(options));
  ASSERT_TRUE(consumer) << consumer.error().to_string();
  std::map<std::string, std::map<std::string, int>> carried;  // workload -> topic and trace -> events
  bool finished = false;
  EXPECT_TRUE(testing::wait_until(
      [&] {
        const auto messages = (*consumer)->poll(100, 200ms);
        if (!messages) return false;
        for (const auto& message : *messages) {
          pb::Envelope envelope;
          pb::WorkloadEvent workload;
          pb::PlacementEvent placement;
          if (!envelope.ParseFromString(message.value)) continue;
          if (envelope.topic() == "qm.workload" && workload.ParseFromString(envelope.payload())) {
            ++carried[workload.spec().name()]["qm.workload " + envelope.trace_parent()];
            finished |= workload.spec().name() == "traced" && workload.phase() == pb::FINISHED;
          } else if (placement.ParseFromString(envelope.payload()) && placement.has_assignment()) {
            ++carried[placement.assignment().workload()]["qm.placement " + envelope.trace_parent()];
          }
        }
        return finished && carried["traced"]["qm.placement " + trace] > 0;
      },
      60s))
      << "it does not end";
  EXPECT_GE(carried["traced"]["qm.workload " + trace], 4) << "pending, quota reserved, admitted, finished";
  EXPECT_GE(carried["traced"]["qm.placement " + trace], 1) << "reserved";
  for (const char* topic : {"qm.workload ", "qm.placement "})
    EXPECT_EQ(carried["untraced"][topic + trace], 0) << "the trace of another call";
  for (const char* service : {"admission", "placement", "autoscaler", "cost"}) {
    EXPECT_TRUE(eventually([&] {
      return !suite()
                  .log_lines(service, {"decided", "decision_id=" + std::string(service) + "/", "trace_id=" + id})
                  .empty();
    })) << service
        << " has no trace";
  }
}

TEST_F(NewUser, EachServiceIsFoundByReflectionAndHealth) {
  const std::map<std::string, std::string> api = {{"admission", "Admission"},
                                                  {"placement", "Placement"},
                                                  {"autoscaler", "Capacity"},
                                                  {"telemetry", "Telemetry"},
                                                  {"cost", "Cost"}};
  for (const auto& [service, name] : api) {
    EXPECT_NE(suite().reflected(service).find("quartermaster.v1." + name), std::string::npos) << service;
    EXPECT_TRUE(suite().serving(service)) << service;
  }
}

TEST_F(NewUser, AClientMadeFromTheProtosInPythonSubmitsWatchesAndAsks) {
  const char* python = std::getenv("QM_PYCLIENT");
  if (python == nullptr) GTEST_SKIP() << "no Python client: run ./qm peers pyclient";
  const auto ran = run({python, "tests/e2e/client_py/client.py", "--endpoints", suite().dir() + "/endpoints.json",
                        "--proto", "proto", "--namespace", Suite::kNamespace, "--queue", "jobs", "--team",
                        Suite::kNamespace, "--name", "from-python", "--until", "finished"},
                       120s);
  EXPECT_EQ(ran.code, 0) << ran.output;
  for (const char* check :
       {"submit", "submit again", "watch", "watch order", "get", "list", "why", "refusal", "cost", "allocation"}) {
    EXPECT_NE(ran.output.find(std::string("PASS ") + check + ":"), std::string::npos) << check << "\n" << ran.output;
  }
  EXPECT_EQ(suite().count("job_finish", "from-python"), 1);
}

// The engines have decided on the jobs of all tests above. A replay of their inputs, with the times of the batches, has
// the state that the services stored.
TEST_F(NewUser, TheJournalOfEachServiceReplaysToItsState) {
  for (const auto& service : Suite::services()) {
    SCOPED_TRACE(service);
    const auto ran = run({program("qm-replay"), "--postgres", suite().postgres(), "--service", service}, 60s);
    EXPECT_EQ(ran.code, 0) << ran.output;
    EXPECT_NE(ran.output.find("; 0 of "), std::string::npos) << ran.output;
  }
  const auto other = run(
      {program("qm-replay"), "--postgres", suite().postgres(), "--service", "cost", "--set", "posting-delay=1s"}, 60s);
  EXPECT_EQ(other.code, 1) << "another setting decides otherwise\n" << other.output;
  EXPECT_NE(other.output.find("give the settings of the service"), std::string::npos) << other.output;
  EXPECT_EQ(run({program("qm-replay"), "--service", "cost"}, 60s).code, 2) << "no database is named";
  const auto wrong = run({program("qm-replay"), "--postgres", "host=/nowhere", "--service", "billing"}, 60s);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.output.find("use admission, placement, autoscaler, telemetry or cost"), std::string::npos)
      << wrong.output;
}

}  // namespace user_e2e_test
}  // namespace qm::e2e
