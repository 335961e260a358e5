// Interruptions against the whole suite: notices of the metadata and of the platform, faulty GPUs, and drills.
#include "qm/bus/bus.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/events.pb.h"
#include "support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

namespace qm::e2e {
namespace interruptions_e2e_test {

using namespace std::chrono_literals;

/// The metadata service of each node, with a record of the calls.
class Metadata {
 public:
  Metadata() : server_({.threads = 4}, [this](const http::Request& r) { return forward(r); }) {
    EXPECT_TRUE(server_.start());
  }
  ~Metadata() { server_.stop(); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  void to(const std::string& fleet) {
    const std::lock_guard lock(mutex_);
    fleet_ = std::make_shared<http::Client>(fleet);
  }
  /// "PUT token 21600", "GET spot/instance-action", in order, of one node.
  std::vector<std::string> calls(const std::string& node) {
    const std::lock_guard lock(mutex_);
    return calls_[node];
  }

 private:
  http::Answer forward(const http::Request& request) {
    std::shared_ptr<http::Client> fleet;
    {
      const std::lock_guard lock(mutex_);
      fleet = fleet_;
      if (!fleet) return http::text(503, "");
      const std::string path = request.path().substr(std::string("/node/").size());
      const std::string node = path.substr(0, path.find('/'));
      const auto ttl = request.headers.get("X-aws-ec2-metadata-token-ttl-seconds");
      for (const char* part : {"token", "spot/instance-action"}) {
        if (path.ends_with(part))
          calls_[node].push_back(request.method + " " + part + (ttl.empty() ? "" : " " + std::string(ttl)));
      }
    }
    auto answer = fleet->send(request);
    return answer ? *answer : http::text(503, "");
  }
  std::mutex mutex_;
  std::shared_ptr<http::Client> fleet_;
  std::map<std::string, std::vector<std::string>> calls_;
  http::Server server_;
};

class Interruptions : public SharedSuite<Interruptions> {
 public:
  static Metadata& metadata() {
    static Metadata one;
    return one;
  }
  static std::vector<std::string> flags() {
    return {"--nodes",      "6",
            "--spot-nodes", "6",
            "--speed",      "10",
            "--agent-set",  "imds=" + metadata().url() + "/node/{node}",
            "--agent-set",  "notice-period=5s"};
  }

 protected:
  void SetUp() override {
    SharedSuite::SetUp();
    metadata().to(suite().endpoints()["fleet"].string());
  }
  static std::vector<Json> history() {
    std::vector<Json> out;
    std::ifstream in(suite().dir() + "/fleet/history.jsonl");
    for (std::string line; std::getline(in, line);) {
      if (auto read = Json::parse(line)) out.push_back(std::move(*read));
    }
    return out;
  }
  /// The events of the job: indexes in the history.
  static std::vector<std::size_t> find(const std::vector<Json>& lines, const std::function<bool(const Json&)>& fits) {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (fits(lines[i])) out.push_back(i);
    }
    return out;
  }
  static std::string uid_of(const std::string& job) { return suite().workload(job)->state().spec().uid(); }
  static std::vector<Json> starts(const std::string& uid, int attempt) {
    std::vector<Json> out;
    for (Json& line : history()) {
      if (line["e"].string() == "pod_start" && line["owner"].string() == uid && line["attempt"].integer() == attempt)
        out.push_back(std::move(line));
    }
    return out;
  }
  /// The Acked orders of the workload that are on the bus.
  static std::vector<pb::CheckpointOrder> acked(const std::string& uid) {
    std::vector<pb::CheckpointOrder> out;
    const auto bus = bus::make_bus("postgres:" + suite().postgres());
    static int readers = 0;
    const auto consumer = (*bus)->consumer({.group = fmt::format("e2e/interruptions/{}", ++readers),
                                            .topics = {"qm.capacity"},
                                            .cursor = [](const bus::TopicPartition&) { return std::int64_t{-1}; }});
    const auto until = std::chrono::steady_clock::now() + 20s;
    for (bool begun = false; std::chrono::steady_clock::now() < until;) {
      const auto messages = (*consumer)->poll(1000, 500ms);
      if (!messages || (messages->empty() && begun)) break;
      begun = begun || !messages->empty();
      for (const auto& message : *messages) {
        pb::Envelope envelope;
        pb::CapacityEvent event;
        if (!envelope.ParseFromString(message.value) || !event.ParseFromString(envelope.payload())) continue;
        if (event.has_checkpoint() && event.checkpoint().uid() == uid && event.checkpoint().outcome() == "Acked")
          out.push_back(event.checkpoint());
      }
    }
    return out;
  }
  static Instant fleet_time() {
    const auto state = suite().fleet_state();
    return state ? from_rfc3339((*state)["time"].string()).value_or(Instant{}) : Instant{};
  }
  /// Submits a gang of two whole nodes, and waits until it has run for a while.
  static std::string run_gang(const std::string& name) {
    EXPECT_TRUE(suite().submit({.name = name, .pods = 2, .gpus = 8, .run_s = 2'000'000, .saves = true}));
    EXPECT_TRUE(eventually([&] { return suite().count("pod_start", name) == 2; }, 60s));
    const Instant begun = fleet_time();
    EXPECT_TRUE(eventually([&] { return fleet_time() >= begun + 30s; })) << "it makes steps";
    return uid_of(name);
  }
  /// The assertion of every way to lose a node: the next attempt starts where the newest acknowledged checkpoint ends.
  static void expect_resumed(const std::string& uid, int attempt) {
    ASSERT_TRUE(eventually([&] { return starts(uid, attempt + 1).size() == 2; }, 90s)) << "attempt " << attempt + 1;
    std::int64_t newest = 0;
    for (const auto& order : acked(uid)) newest = order.attempt() <= attempt ? std::max(newest, order.step()) : newest;
    EXPECT_GT(newest, 0);
    for (const Json& start : starts(uid, attempt + 1)) EXPECT_EQ(start["start_step"].integer(), newest);
  }
  static void make_pod(const std::string& name, const std::string& node, const char* owner_kind) {
    Json pod = *Json::parse(
        R"({"apiVersion":"v1","kind":"Pod","spec":{"terminationGracePeriodSeconds":5,"containers":[{"name":"main","image":"x"}]}})");
    pod.set("metadata")
        .set("name", name)
        .set("annotations", Json::object({{"fleet.quartermaster.dev/run-seconds", "1000000"}}));
    if (*owner_kind != 0) {
      pod.set("metadata")
          .set("ownerReferences", Json::array({Json::object({{"apiVersion", "apps/v1"},
                                                             {"kind", owner_kind},
                                                             {"name", "owner"},
                                                             {"uid", "owner-uid"},
                                                             {"controller", true}})}));
    }
    const std::string pods = fmt::format("/api/v1/namespaces/{}/pods", Suite::kNamespace);
    ASSERT_TRUE(suite().kubectl_create(pods, pod));
    ASSERT_TRUE(suite().kubectl_create(
        pods + "/" + name + "/binding",
        Json::object({{"apiVersion", "v1"},
                      {"kind", "Binding"},
                      {"metadata", Json::object({{"name", name}})},
                      {"target", Json::object({{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}})}})));
  }
  static bool exists(const std::string& name) {
    const auto pod = suite().kube("GET", fmt::format("/api/v1/namespaces/{}/pods/{}", Suite::kNamespace, name));
    return pod && pod->status == 200 && Json::parse(pod->body)->path("metadata.deletionTimestamp").is_null();
  }
};

// S-237: token, poll, checkpoint, drain. S-240: the checkpoint is an event. S-241: other pods leave, DaemonSets stay.
TEST_F(Interruptions, ANoticeOfTheMetadataLeadsToACheckpointAndThenToTheDrain) {
  const std::string uid = run_gang("spot");
  ASSERT_FALSE(uid.empty());
  const std::string node = starts(uid, 1).at(0)["node"].string();
  make_pod("bare", node, "");
  make_pod("exporter", node, "DaemonSet");
  ASSERT_TRUE(eventually([&] { return metadata().calls(node).size() > 3; }));
  const auto calls = metadata().calls(node);
  EXPECT_EQ(calls[0], "PUT token 21600");
  EXPECT_EQ(calls[1], "GET spot/instance-action");
  EXPECT_EQ(calls[2], "GET spot/instance-action") << "the token serves many reads";

  const auto struck = suite().fault(Json::object({{"kind", "spot_reclaim"}, {"node", node}, {"notice_s", 900}}));
  ASSERT_TRUE(struck) << struck.error().to_string();
  ASSERT_EQ((*struck)["nodes"].size(), 1U);
  expect_resumed(uid, 1);
  const auto lines = history();
  const auto kind = [](const char* name) {
    return [name](const Json& line) { return line["e"].string() == "signal" && line["kind"].string() == name; };
  };
  const auto notices = find(lines, kind("spot_notice"));
  const auto saves = find(lines, [&](const Json& line) {
    return kind("checkpoint")(line) && line["owner"].string() == uid && line["reason"].string() == "SpotInterruption";
  });
  const auto stops =
      find(lines, [&](const Json& line) { return line["e"].string() == "pod_stop" && line["owner"].string() == uid; });
  ASSERT_FALSE(notices.empty());
  ASSERT_EQ(saves.size(), 2U) << "each rank of the gang, also of the other node";
  ASSERT_EQ(stops.size(), 2U);
  EXPECT_LT(notices[0], saves[0]);
  EXPECT_LT(saves[1], stops[0]) << "no pod ends before the gang has saved";

  const auto orders = acked(uid);
  const auto order = std::ranges::find(orders, std::string("SpotInterruption"), &pb::CheckpointOrder::reason);
  ASSERT_NE(order, orders.end());
  EXPECT_EQ(order->uri(), fmt::format("fleet://{}/spot?step={}", Suite::kNamespace, order->step()));
  EXPECT_GT(order->step(), 0);
  EXPECT_EQ(order->bytes(), std::int64_t{16} << 30);
  EXPECT_GT(order->took_us(), 0);

  const auto cordoned = suite().kube("GET", "/api/v1/nodes/" + node);
  ASSERT_TRUE(cordoned && cordoned->status == 200);
  EXPECT_TRUE(Json::parse(cordoned->body)->path("spec.unschedulable").boolean());
  EXPECT_TRUE(eventually([&] { return !exists("bare"); }));
  EXPECT_TRUE(exists("exporter")) << "it belongs to the node";
}

// S-249: the ECC fault of a GPU; S-155: the taint of GKE's termination handler. The assertion is that of a spot notice.
TEST_F(Interruptions, AFaultyGpuAndASignOfThePlatformResumeTheSameWay) {
  const std::string uid = run_gang("faults");
  ASSERT_FALSE(uid.empty());
  const auto node_of = [&](int attempt) { return starts(uid, attempt).at(0)["node"].string(); };
  ASSERT_TRUE(suite().kube(
      "PATCH", "/api/v1/nodes/" + node_of(1),
      *Json::parse(
          R"({"spec":{"taints":[{"key":"cloud.google.com/impending-node-termination","effect":"NoSchedule"}]}})")));
  expect_resumed(uid, 1);
  ASSERT_FALSE(starts(uid, 2).empty());
  const auto struck = suite().fault(Json::object({{"kind", "xid"}, {"node", node_of(2)}, {"gpu", 0}, {"xid", 48}}));
  ASSERT_TRUE(struck) << struck.error().to_string();
  expect_resumed(uid, 2);
}

// S-250: a drill interrupts a spot node of the simulation, and the workload resumes.
TEST_F(Interruptions, ASpotInterruptionCanBeProvokedAndIsRefusedElsewhere) {
  ASSERT_TRUE(suite().submit({.name = "drill", .pods = 1, .gpus = 8, .run_s = 20'000'000, .saves = true}));
  std::string spot;
  ASSERT_TRUE(eventually(
      [&] {
        const auto state = suite().fleet_state();
        const auto assignments = suite().assignments();
        if (!state || !assignments) return false;
        for (const Json& instance : (*state)["instances"].items()) {
          if (instance["market"].string() != "spot" || instance["state"].string() != "running" ||
              instance.contains("spot_deadline"))
            continue;
          // Not the node of a gang of another test: the NodePool may be at its limit, so that it cannot recover.
          for (const auto& assignment : assignments->assignments()) {
            if (assignment.state().workload() != "drill") continue;
            for (const auto& member : assignment.state().members()) {
              if (assignment.state().state() == pb::BOUND && member.node() == instance["node"].string())
                spot = member.node();
            }
          }
        }
        return !spot.empty();
      },
      60s));
  const auto ran = suite().qmctl({"chaos", "spot-interrupt", "--node", spot, "--timeout", "5m", "-o", "json"}, 200s);
  EXPECT_EQ(ran.code, 0) << ran.output;
  const auto drills = Json::parse(ran.output);
  ASSERT_TRUE(drills && drills->size() == 1) << ran.output;
  EXPECT_EQ(drills->at(0)["node"].string(), spot);
  ASSERT_GE(drills->at(0)["workloads"].size(), 1U);
  for (const Json& one : drills->at(0)["workloads"].items()) {
    EXPECT_TRUE(one["recovered"].boolean());
    EXPECT_NE(one["resume_uri"].string().find("?step="), std::string::npos) << "it resumes";
  }
  const auto again = suite().qmctl({"chaos", "spot-interrupt", "--node", "no-such-node"});
  EXPECT_EQ(again.code, 4) << again.output;
}

class Drills : public SharedSuite<Drills> {
 public:
  static std::vector<std::string> flags() { return {"--nodes", "5", "--spot-nodes", "0", "--speed", "20"}; }
};

// S-251, S-497: the node of Friday fails, every gang recovers, no row of a queue is lost, and there is a report.
TEST_F(Drills, TheNodeKillOfFridayLosesNothing) {
  for (const char* name : {"a", "b", "c"})
    ASSERT_TRUE(suite().submit({.name = name, .pods = 2, .gpus = 4, .run_s = 20'000'000, .saves = true}));
  ASSERT_TRUE(suite().submit({.name = "pending", .pods = 1, .gpus = 8, .run_s = 60, .queue = "jobs"}));
  for (const char* name : {"a", "b", "c"})
    ASSERT_TRUE(eventually([&] { return suite().count("pod_start", name) == 2; }, 60s));
  const std::string report = suite().dir() + "/report.json";
  const auto ran = suite().qmctl(
      {"chaos", "node-kill", "--cron", "0 10 * * FRI", "--speed", "20000", "--timeout", "10m", "--report", report},
      200s);
  EXPECT_EQ(ran.code, 0) << ran.output;
  const auto drills = Json::parse(qm::testing::read_file(report));
  ASSERT_TRUE(drills && drills->size() == 1) << ran.output;
  const Json& drill = drills->at(0);
  EXPECT_TRUE(drill["ok"].boolean());
  EXPECT_EQ(drill["at"].string().substr(0, 14), "2026-11-06T10:") << "the first Friday";
  EXPECT_GE(drill["workloads"].size(), 1U);
  double lost = 0;
  for (const Json& one : drill["workloads"].items()) {
    EXPECT_GT(one["attempt_after"].integer(), one["attempt_before"].integer());
    EXPECT_EQ(one["gpus"].number(), 8);
    EXPECT_GT(one["requeued_s"].number(), 0);
    EXPECT_GE(one["running_s"].number(), one["requeued_s"].number());
    // The simulated fleet gives no notice of a failure, so the GPUs are lost at least until the gang runs again.
    EXPECT_GE(one["lost_gpu_hours"].number(), 8 * one["running_s"].number() / 3600);
    lost += one["lost_gpu_hours"].number();
  }
  EXPECT_NEAR(drill["lost_gpu_hours"].number(), lost, 1e-6);
  EXPECT_EQ(drill["lost"].size(), 0U);
}

}  // namespace interruptions_e2e_test
}  // namespace qm::e2e
