// The API and the control port as their clients use them, over HTTP where it matters.
#include "kube_api.hpp"

#include "qm/testing/testing.hpp"
#include "test/rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>

namespace qm::fleet {
namespace kube_api_test {

http::Response call(const std::function<http::Answer(const http::Request&)>& api, const std::string& method,
                    const std::string& target, const std::string& body = {}, const char* type = "application/json") {
  http::Request request;
  request.method = method;
  request.target = target;
  request.body = body;
  request.headers.set("Content-Type", type);
  return api(request).head;
}

class Api : public ::testing::Test {
 protected:
  http::Response kube(const std::string& method, const std::string& target, const std::string& body = {},
                      const char* type = "application/json") {
    return call([this](const http::Request& r) { return rig.fleet.kube.handle(r); }, method, target, body, type);
  }
  http::Response node(const std::string& method, const std::string& target, const std::string& body = {}) {
    return call([this](const http::Request& r) { return rig.fleet.node.handle(r); }, method, target, body);
  }
  static Json parsed(const http::Response& response) { return Json::parse(response.body).value_or(Json()); }
  static constexpr const char* kMerge = "application/merge-patch+json";
  Rig rig;
};

TEST_F(Api, PathsLeadToObjects) {
  EXPECT_EQ(kube("POST", "/api/v1/namespaces/team-a/configmaps", R"({"metadata":{"name":"c"}})").status, 201);
  EXPECT_EQ(parsed(kube("GET", "/api/v1/namespaces/team-a/configmaps/c"))["kind"].string(), "ConfigMap");
  EXPECT_EQ(parsed(kube("GET", "/api/v1/namespaces/team-a"))["kind"].string(), "Namespace");
  EXPECT_EQ(kube("POST", "/apis/kueue.x-k8s.io/v1beta1/clusterqueues", R"({"metadata":{"name":"q"}})").status, 201);
  EXPECT_EQ(kube("POST", "/apis/karpenter.sh/v1/nodepools", R"({"metadata":{"name":"p"}})").status, 201);
  EXPECT_EQ(kube("PATCH", "/apis/karpenter.sh/v1/nodepools/p/status", R"({"status":{"nodes":1}})", kMerge).status, 200);
  const Json list = parsed(kube("GET", "/api/v1/configmaps?limit=10"));
  EXPECT_EQ(list["kind"].string(), "ConfigMapList");
  EXPECT_EQ(list["items"].size(), 1u);
  EXPECT_EQ(kube("DELETE", "/api/v1/namespaces/team-a/configmaps/c", R"({"preconditions":{"uid":"no"}})").status, 409);
  EXPECT_EQ(kube("DELETE", "/api/v1/namespaces/team-a/configmaps/c").status, 200);
  const auto gone = kube("GET", "/api/v1/namespaces/team-a/configmaps/c");
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(parsed(gone)["message"].string(), "configmaps \"c\" not found");
  EXPECT_EQ(parsed(gone)["reason"].string(), "NotFound");
}

TEST_F(Api, RefusesWhatItDoesNotServe) {
  for (const char* path :
       {"/", "/api", "/apis/none.example/v1/things", "/api/v1/pods/p", "/api/v1/namespaces/team-a/pods/p/log",
        "/api/v1/namespaces/team-a/nodes", "/apis/batch/v1/namespaces/team-a/jobs/j/status/x"}) {
    EXPECT_EQ(kube("GET", path).status, std::string_view(path) == "/api" ? 200 : 404) << path;
  }
  const std::string pods = "/api/v1/namespaces/team-a/pods";
  EXPECT_EQ(kube("POST", pods, "{").status, 400);
  EXPECT_EQ(kube("POST", pods, "[]").status, 400);
  EXPECT_EQ(kube("POST", pods, R"({"metadata":{"name":"p"}})").status, 422);
  EXPECT_EQ(kube("POST", "/api/v1/pods", "{}").status, 405);
  EXPECT_EQ(kube("PUT", pods, "{}").status, 405);
  EXPECT_EQ(kube("PATCH", pods + "/p", "{}", "application/strategic-merge-patch+json").status, 415);
  EXPECT_EQ(kube("PATCH", pods + "/p", "{}", "application/apply-patch+yaml").status, 415);
  EXPECT_EQ(kube("PUT", pods + "/p", R"({"metadata":{"name":"q"}})").status, 400);
  EXPECT_EQ(kube("DELETE", pods + "/p?propagationPolicy=Maybe").status, 422);
  EXPECT_EQ(kube("GET", pods + "?fieldSelector=spec.color%3Dred").status, 400);
  EXPECT_EQ(kube("GET", pods + "?resourceVersion=99999999").status, 504);
  EXPECT_EQ(kube("GET", pods + "?resourceVersion=1&resourceVersionMatch=Exact").status, 410);
}

TEST_F(Api, DiscoveryNamesEveryKind) {
  EXPECT_EQ(parsed(kube("GET", "/version"))["major"].string(), "1");
  const Json groups = parsed(kube("GET", "/apis"))["groups"];
  EXPECT_GT(groups.size(), 8u);
  const auto kueue =
      std::ranges::find_if(groups.items(), [](const Json& g) { return g["name"].string() == "kueue.x-k8s.io"; });
  ASSERT_NE(kueue, groups.items().end());
  EXPECT_EQ((*kueue)["versions"].size(), 2u);
  EXPECT_EQ((*kueue)["preferredVersion"]["groupVersion"].string(), "kueue.x-k8s.io/v1beta1");
  EXPECT_EQ(parsed(kube("GET", "/apis/batch/v1"))["groupVersion"].string(), "batch/v1");
  const Json core = parsed(kube("GET", "/api/v1"));
  EXPECT_EQ(core["resources"].at(0)["name"].string(), "pods");
  EXPECT_TRUE(core["resources"].at(0)["namespaced"].boolean());
  EXPECT_EQ(kube("GET", "/readyz").status, 200);
}

TEST_F(Api, FaultsMeetEveryCall) {
  EXPECT_EQ(node("POST", "/fleet/faults", R"({"kind":"throttle","api":"kube","for_s":10})").status, 200);
  const auto slowed = kube("GET", "/api/v1/nodes");
  EXPECT_EQ(slowed.status, 429);
  EXPECT_EQ(slowed.headers.get("Retry-After"), "1");
  rig.advance(10);
  EXPECT_EQ(node("POST", "/fleet/faults", R"({"kind":"api_5xx","share":1,"for_s":10})").status, 200);
  EXPECT_EQ(kube("GET", "/api/v1/nodes").status, 500);
  rig.advance(10);
  EXPECT_EQ(kube("GET", "/api/v1/nodes").status, 200);
}

TEST_F(Api, ControlPortSteersTheWorld) {
  rig.world.set_factor(120);
  EXPECT_EQ(node("POST", "/fleet/hold", R"({"name":"restart"})").status, 200);
  EXPECT_EQ(rig.world.factor(), 10);
  EXPECT_EQ(parsed(node("GET", "/fleet/state"))["holds"].at(0).string(), "posted:restart");
  EXPECT_EQ(node("DELETE", "/fleet/hold/restart").status, 200);
  EXPECT_EQ(rig.world.factor(), 120);
  EXPECT_EQ(parsed(node("POST", "/fleet/clock", R"({"factor":0})"))["factor"].number(), 0);
  EXPECT_EQ(rig.world.factor(), 0);
  EXPECT_EQ(parsed(node("POST", "/fleet/clock", R"({"factor":-1})"))["field"].string(), "factor");
  EXPECT_EQ(node("POST", "/fleet/hold", "{}").status, 400);
}

TEST_F(Api, FaultsStrikeWhatTheyName) {
  const auto firm = rig.launch();
  const auto spot = rig.launch("g5.xlarge", Market::kSpot);
  const auto fault = [&](const std::string& body) { return node("POST", "/fleet/faults", body); };
  EXPECT_EQ(parsed(fault(R"({"kind":"spot_reclaim","count":5,"notice_s":60})"))["nodes"],
            Json::array({spot.private_dns}));
  EXPECT_EQ(fault(R"({"kind":"xid","node":")" + firm.private_dns + R"(","xid":48,"gpu":2})").status, 200);
  EXPECT_EQ(rig.cluster.node(firm.private_dns)->devices[2].xid, 48);
  EXPECT_EQ(fault(R"({"kind":"heal","node":")" + firm.private_dns + "\"}").status, 200);
  EXPECT_EQ(fault(R"({"kind":"ice","type":"g5.xlarge","market":"spot","until_s":60})").status, 200);
  LaunchSpec spec;
  spec.type = "g5.xlarge";
  spec.market = Market::kSpot;
  EXPECT_EQ(rig.world.launch_instance(spec).error().code, Code::kExhausted);
  EXPECT_EQ(fault(R"({"kind":"metrics_down","node":")" + firm.private_dns + R"(","for_s":30})").status, 200);
  EXPECT_EQ(node("GET", "/node/" + firm.private_dns + "/metrics").status, 503);
  rig.advance(30);
  EXPECT_EQ(node("GET", "/node/" + firm.private_dns + "/metrics").status, 200);
  EXPECT_EQ(fault(R"({"kind":"node_lost","random":true})").status, 200);
  rig.advance(60);
  EXPECT_EQ(fault(R"({"kind":"node_lost","random":true})").status, 404) << "nothing is left";
  EXPECT_EQ(node("GET", "/node/" + firm.private_dns + "/metrics").status, 503);
  EXPECT_EQ(node("GET", "/node/nowhere/metrics").status, 404);

  EXPECT_EQ(parsed(fault(R"({"kind":"meteor"})"))["field"].string(), "kind");
  EXPECT_EQ(parsed(fault(R"({"kind":"xid"})"))["field"].string(), "node");
  EXPECT_EQ(parsed(fault(R"({"kind":"ice","type":"x"})"))["field"].string(), "type");
  EXPECT_EQ(parsed(fault(R"({"kind":"ice","type":"g5.xlarge","market":"black"})"))["field"].string(), "market");
  EXPECT_EQ(parsed(fault(R"({"kind":"api_5xx","share":2})"))["field"].string(), "share");
  EXPECT_EQ(fault("[").status, 400);
}

TEST_F(Api, AScriptStrikesAtItsTimes) {
  const auto node_name = rig.launch().private_dns;
  EXPECT_EQ(rig.fleet.faults.plan("{}").error().field, "faults");
  EXPECT_EQ(rig.fleet.faults.plan(R"([{"kind":"xid"}])").error().field, "at_s");
  EXPECT_EQ(rig.fleet.faults.plan(R"([{"at_s":1,"kind":"none"}])").error().field, "kind");
  ASSERT_TRUE(rig.fleet.faults.plan(
      R"([{"at_s":60,"kind":"node_lost","random":true},{"at_s":90,"kind":"node_lost","random":true}])"));
  rig.advance(59);
  EXPECT_TRUE(rig.cluster.node(node_name)->up);
  rig.advance(1);
  EXPECT_FALSE(rig.cluster.node(node_name)->up);
  rig.advance(60);
  EXPECT_EQ(rig.history("signal", "node_lost").size(), 1u) << "a fault that finds nothing is logged, not fatal";
}

TEST_F(Api, CheckpointEndpointOfARank) {
  const auto home = rig.launch();
  rig.make_pod("p", 1,
               annotations({{"quartermaster.dev/checkpoint", "x"}, {"fleet.quartermaster.dev/run-seconds", "100"}}));
  ASSERT_TRUE(rig.bind("p", home.private_dns));
  rig.advance(12);
  const auto saved = node("POST", "/pods/team-a/p/v1/checkpoint", R"({"deadline":"x","reason":"spot","gang":"g"})");
  EXPECT_EQ(saved.status, 200);
  EXPECT_EQ(parsed(saved)["step"].integer(), 10);
  EXPECT_EQ(node("POST", "/pods/team-a/none/v1/checkpoint", "{}").status, 404);
}

/// One watch on its own thread.
struct Watching {
  Watching(std::uint16_t port, std::string target) : client(fmt::format("http://127.0.0.1:{}", port)) {
    thread = std::thread([this, target = std::move(target)] {
      http::Request request;
      request.target = target;
      result = client.stream(
          request, [&](const http::Response& head) { return head.status == 200; },
          [&](std::string_view chunk) {
            const std::lock_guard held(mutex);
            text += chunk;
            return true;
          },
          [&] { return stop.load(); });
      ended = true;
    });
  }
  ~Watching() {
    stop = true;
    thread.join();
  }
  bool saw(std::string_view what) {
    return testing::wait_until([&] {
      const std::lock_guard held(mutex);
      return text.find(what) != std::string::npos;
    });
  }
  http::Client client;
  std::mutex mutex;
  std::string text;
  Status result;
  std::atomic<bool> stop = false, ended = false;
  std::thread thread;
};

TEST(Wire, WatchesStreamEndAndAreBroken) {
  Rig rig;
  KubeApi::Options options;
  options.bookmark_every = std::chrono::milliseconds(100);
  KubeApi api(rig.world, rig.store, options);
  http::Server server({}, [&](const http::Request& request) { return api.handle(request); });
  ASSERT_TRUE(server.start());
  api.start();
  {
    const std::string from = std::to_string(rig.store.resource_version());
    Watching watch(server.port(), "/api/v1/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion=" + from);
    ASSERT_TRUE(testing::wait_until([&] {
      const auto held = rig.world.lock();
      return rig.store.watchers() == 1;
    }));
    rig.make("configmaps", "team-a", Json::object({{"metadata", Json::object({{"name", "c"}})}}));
    EXPECT_TRUE(watch.saw(R"({"type":"ADDED","object":{"metadata":{"name":"c")"));
    EXPECT_TRUE(watch.saw(R"({"type":"BOOKMARK")"));

    Watching old(server.port(), "/api/v1/configmaps?watch=1&resourceVersion=1");
    Watching brief(server.port(), "/api/v1/configmaps?watch=1&timeoutSeconds=1");
    EXPECT_TRUE(testing::wait_until([&] { return brief.ended.load(); })) << "ends after its timeout";
    EXPECT_TRUE(brief.result.has_value());

    EXPECT_GE(api.cut_watches(true), 1u);
    EXPECT_TRUE(testing::wait_until([&] { return watch.ended.load(); }));
    Watching late(server.port(), "/api/v1/configmaps?watch=1&resourceVersion=" + from);
    EXPECT_TRUE(late.saw(R"("code":410)"));
    EXPECT_TRUE(testing::wait_until([&] { return late.ended.load(); }));
  }
  api.stop();
  server.stop();
}

std::size_t resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return static_cast<std::size_t>(std::atoll(line.c_str() + 6)) / 1024;
  }
  return 0;
}

TEST(Bound, ThirteenHundredNodesAndTenThousandPodsFitOneGibibyte) {
  Rig rig;
  const auto api = [&](const http::Request& request) { return rig.fleet.kube.handle(request); };
  std::size_t seen = 0;
  {
    const auto held = rig.world.lock();
    rig.store.watch(kind_of("pods"), "", Selector{}, "",
                    [&](const std::string& line) { return ++seen, !line.empty(); });
  }
  std::vector<std::string> nodes;
  for (int i = 0; i < 1300; ++i) nodes.push_back(rig.launch().private_dns);
  const std::string pods = "/api/v1/namespaces/team-a/pods";
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "pod-" + std::to_string(i);
    Json pod = Json::object(
        {{"metadata", Json::object({{"name", name}, {"annotations", run_for(600)}})}, {"spec", Rig::pod_spec(1)}});
    ASSERT_EQ(call(api, "POST", pods, pod.dump()).status, 201);
    const auto bound = call(api, "POST", pods + "/" + name + "/binding",
                            R"({"target":{"name":")" + nodes[static_cast<std::size_t>(i) % nodes.size()] + "\"}}");
    ASSERT_EQ(bound.status, 201) << bound.body;
  }
  rig.advance(5);
  const Json state = rig.fleet.node.state();
  EXPECT_EQ(state["pods"]["Running"].integer(), 10'000);
  EXPECT_GE(seen, 30'000u);
  EXPECT_EQ(call(api, "GET", "/api/v1/pods?limit=500").status, 200);
  EXPECT_LT(resident_mib(), 1024u);
  ::testing::Test::RecordProperty("resident_mib", static_cast<int>(resident_mib()));
  rig.advance(600);
  EXPECT_EQ(rig.fleet.node.state()["pods"]["Succeeded"].integer(), 10'000);
}

}  // namespace kube_api_test
}  // namespace qm::fleet
