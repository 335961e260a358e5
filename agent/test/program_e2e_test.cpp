// The programs themselves: qm-agent on the simulated fleet, with a fake telemetry service.
#include "qm/http/http.hpp"
#include "qm/kube/client.hpp"
#include "qm/testing/testing.hpp"
#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <signal.h>

namespace qm::agent {
namespace program_e2e_test {

namespace pb = quartermaster::v1;

using qm::testing::Process;
using qm::testing::wait_until;
using testing::FakeTelemetry;
using ::testing::HasSubstr;

class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fleet = run({"qm-fleet", "--dir", dir.path(), "--nodes", "1", "--spot-nodes", "1", "--factor", "60"});
    ASSERT_TRUE(fleet);
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(dir.path() + "/fleet.json"); }));
    const auto ports = Json::parse(qm::testing::read_file(dir.path() + "/fleet.json"));
    ASSERT_TRUE(ports);
    kube_url = "http://127.0.0.1:" + std::to_string((*ports)["kube"].integer());
    node_url = "http://127.0.0.1:" + std::to_string((*ports)["node"].integer());
    kube = std::make_unique<kube::Client>(kube::ClientOptions{.server = kube_url});
  }
  std::unique_ptr<Process> run(std::vector<std::string> argv) {
    const std::string name = argv[0];
    argv[0] = std::string(QM_BIN_DIR) + "/" + name;
    auto process = Process::start({std::move(argv), {}, dir.path() + "/" + name + ".log"});
    EXPECT_TRUE(process);
    return process ? std::move(*process) : nullptr;
  }
  std::unique_ptr<Process> run_agent(const std::string& which) {
    return run({"qm-agent", "--kube", kube_url, "--clock", "scaled:" + dir.path() + "/clock", "--set", which, "--set",
                "telemetry=" + telemetry.address(), "--set", "dcgm=" + node_url + "/node/{node}/metrics", "--set",
                "imds=" + node_url + "/node/{node}", "--set", "sample-period=30s", "--set", "notice-period=10s",
                "--set", "checkpoint-gateway=" + node_url + "/pods/{namespace}/{pod}"});
  }
  Json post(const std::string& path, const std::string& body) {
    http::Request request;
    request.method = "POST";
    request.target = path;
    request.body = body;
    const auto answer = http::Client(node_url).send(request);
    EXPECT_TRUE(answer && answer->status == 200) << path;
    return answer ? Json::parse(answer->body).value_or(Json()) : Json();
  }
  std::string spot_node() {
    std::string name;
    EXPECT_TRUE(wait_until([&] {
      const auto nodes = kube->list_all(kube::resources::kNodes, "");
      if (!nodes) return false;
      for (const auto& node : *nodes) {
        if (kube::label(node, "karpenter.sh/capacity-type") == "spot") name = kube::name_of(node);
      }
      return !name.empty();
    }));
    return name;
  }
  void place_rank(const std::string& node) {
    Json pod = testing::pod_of("r0", "", "job", 1, "http://{podIP}:8480/v1/checkpoint");
    pod.set("apiVersion", "v1").set("kind", "Pod");
    pod.erase("status");
    pod.set("spec").erase("nodeName");
    pod.set("spec").set("schedulerName", "quartermaster");
    pod.set("metadata").set("namespace", "default").erase("uid");
    pod.set("metadata").set("annotations").set("fleet.quartermaster.dev/run-seconds", "36000");
    const auto made = kube->create(kube::resources::kPods, "default", pod);
    ASSERT_TRUE(made) << made.error().to_string();
    ASSERT_TRUE(kube->bind("default", "r0", kube::uid_of(*made), node));
    // The pod holds its devices before its container runs, and answers an order only then.
    ASSERT_TRUE(wait_until([&] {
      const auto now = kube->get(kube::resources::kPods, "default", "r0");
      return now && now->path("status.phase").string() == "Running";
    }));
  }
  bool publish_all(const std::function<bool(const pb::AgentFact&)>& fits) {
    return wait_until([&] {
      const auto facts = telemetry.facts();
      return std::any_of(facts.begin(), facts.end(), fits);
    });
  }

  qm::testing::TempDir dir;
  FakeTelemetry telemetry;
  std::string kube_url, node_url;
  std::unique_ptr<kube::Client> kube;
  std::unique_ptr<Process> fleet;
};

TEST_F(ProgramTest, SeesAPodAnXidANoticeAndSavesItsWork) {
  const std::string node = spot_node();
  const auto agent = run_agent("except=none");
  ASSERT_TRUE(agent);
  place_rank(node);
  ASSERT_TRUE(publish_all([&](const auto& f) {
    return f.has_devices() && f.devices().node() == node && f.devices().pods_size() == 1 &&
           f.devices().pods(0).pod() == "r0";
  }));
  post("/fleet/faults", R"({"kind":"spot_reclaim","count":1,"notice_s":1200})");
  ASSERT_TRUE(publish_all([&](const auto& f) {
    return f.has_notice() && f.notice().node() == node && f.notice().action() == "terminate";
  }));
  pb::CheckpointOrder order;
  order.set_id("job/1/1");
  order.set_uid("job");
  order.set_attempt(1);
  order.set_namespace_("default");
  order.set_kind("Job");
  order.add_nodes(node);
  ASSERT_TRUE(telemetry.order(order));
  ASSERT_TRUE(wait_until([&] { return !telemetry.acks().empty(); }));
  const auto ack = telemetry.acks()[0];
  EXPECT_TRUE(ack.ok()) << ack.message();
  EXPECT_EQ(ack.ranks(), 1);
  EXPECT_THAT(ack.uri(), HasSubstr("fleet://default/r0?step="));
  post("/fleet/faults", R"({"kind":"xid","node":")" + node + R"(","gpu":0,"xid":48})");
  ASSERT_TRUE(publish_all([&](const auto& f) { return f.has_xid() && f.xid().xid() == 48 && f.xid().node() == node; }));
  EXPECT_TRUE(wait_until([&] {
    const auto frames = telemetry.frames();
    return std::any_of(frames.begin(), frames.end(), [](const auto& f) { return f.gpus_size() > 0; });
  }));
}

TEST_F(ProgramTest, StopsInTimeWithUnconfirmedFactsAndAPausedClock) {
  telemetry.confirm_facts(false);
  const auto agent = run_agent("except=none");
  ASSERT_TRUE(agent);
  ASSERT_TRUE(publish_all([](const auto& f) { return f.has_devices(); }));
  post("/fleet/clock", R"({"factor":0})");
  agent->signal(SIGTERM);
  EXPECT_EQ(agent->wait(std::chrono::milliseconds(3000)), 0);
}

// One agent of a large fleet receives the pods of its own node, and no object of another.
TEST(ScopeTest, OneAgentOfAThousandNodesIsSentItsOwnPodsAlone) {
  constexpr int kNodes = 1000;
  const qm::testing::TempDir dir;
  const auto start = [&](std::vector<std::string> argv) {
    const std::string name = argv[0];
    argv[0] = std::string(QM_BIN_DIR) + "/" + name;
    return Process::start({std::move(argv), {}, dir.path() + "/" + name + ".log"});
  };
  const auto fleet = start(
      {"qm-fleet", "--dir", dir.path(), "--nodes", std::to_string(kNodes), "--spot-nodes", "0", "--factor", "60"});
  ASSERT_TRUE(fleet);
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(dir.path() + "/fleet.json"); }));
  const auto ports = Json::parse(qm::testing::read_file(dir.path() + "/fleet.json"));
  ASSERT_TRUE(ports);
  const std::string kube_url = "http://127.0.0.1:" + std::to_string((*ports)["kube"].integer());
  kube::Client kube(kube::ClientOptions{.server = kube_url});
  std::vector<std::string> nodes;
  ASSERT_TRUE(wait_until([&] {
    nodes.clear();
    const auto all = kube.list_all(kube::resources::kNodes, "");
    if (all) {
      for (const auto& node : *all) nodes.push_back(kube::name_of(node));
    }
    return nodes.size() == static_cast<std::size_t>(kNodes);
  }));
  const auto add = [&](const std::string& name, const std::string& node) {
    Json pod = testing::pod_of(name, node, "job", 1);
    pod.set("apiVersion", "v1").set("kind", "Pod");
    pod.erase("status");
    if (node.empty()) pod.set("spec").erase("nodeName");
    pod.set("metadata").set("namespace", "default").erase("uid");
    pod.set("metadata").set("annotations").set("fleet.quartermaster.dev/run-seconds", "360000");
    return kube.create(kube::resources::kPods, "default", pod);
  };
  for (int i = 0; i < kNodes; ++i) ASSERT_TRUE(add(fmt::format("p{}", i), nodes[static_cast<std::size_t>(i)]));
  const auto unbound = add("later", "");
  ASSERT_TRUE(unbound);

  FakeTelemetry telemetry;
  const int http = qm::testing::free_port();
  const auto agent = start({"qm-agent", "--kube", kube_url, "--clock", "scaled:" + dir.path() + "/clock", "--http",
                            "127.0.0.1:" + std::to_string(http), "--set", "nodes=" + nodes[0], "--set",
                            "telemetry=" + telemetry.address()});
  ASSERT_TRUE(agent);
  http::Client admin("http://127.0.0.1:" + std::to_string(http));
  const auto metric = [&](const std::string& name) {
    http::Request request;
    request.target = "/metrics";
    const auto answer = admin.send(request);
    const auto at = answer ? answer->body.find("\n" + name + " ") : std::string::npos;
    return at == std::string::npos ? -1 : std::atoi(answer->body.c_str() + at + name.size() + 2);
  };
  ASSERT_TRUE(wait_until([&] { return metric("qm_agent_pods") == 1; }));
  // Each of the other nodes' pods changes; then, after all of these, one arrives at the agent's node.
  const Json mark = Json::object({{"metadata", Json::object({{"labels", Json::object({{"x", "1"}})}})}});
  for (int i = 1; i < kNodes; ++i)
    ASSERT_TRUE(kube.merge_patch(kube::resources::kPods, "default", fmt::format("p{}", i), mark));
  ASSERT_TRUE(kube.bind("default", "later", kube::uid_of(*unbound), nodes[0]));
  ASSERT_TRUE(wait_until([&] { return metric("qm_agent_pods") == 2; }));
  // Each change of its own two pods is an object: bound, started, running.
  const auto objects = metric("qm_agent_pod_objects");
  EXPECT_GE(objects, 2);
  EXPECT_LE(objects, 16) << "of " << 2 * kNodes << " changes in the cluster";
}

TEST_F(ProgramTest, BadSettingsAreNamed) {
  const auto agent = run({"qm-agent", "--kube", kube_url, "--set", "telemetry=" + telemetry.address()});
  ASSERT_TRUE(agent);
  EXPECT_EQ(agent->wait(std::chrono::seconds(20)), 1);
  EXPECT_THAT(qm::testing::read_file(dir.path() + "/qm-agent.log"), HasSubstr("no node is named"));
}

}  // namespace program_e2e_test
}  // namespace qm::agent
