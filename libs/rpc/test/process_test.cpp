#include "qm/rpc/process.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace qm::rpc {
namespace process_test {

Settings parse(std::vector<std::string> args) {
  args.insert(args.begin(), "qm-tiny");
  std::vector<char*> argv;
  for (auto& arg : args) argv.push_back(arg.data());
  return parse_settings(static_cast<int>(argv.size()), argv.data(), "qm-tiny", "A tiny service.");
}

struct Env {
  Env(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Env() { unsetenv(name_); }
  const char* name_;
};

TEST(Settings, FlagsWinOverTheEnvironment) {
  const Env grpc("QM_GRPC", "127.0.0.1:1"), shard("QM_SHARD", "east");
  const Env peers("QM_PEERS", "admission=127.0.0.1:11,cost=127.0.0.1:12");
  const auto settings = parse({"--grpc", "127.0.0.1:2", "--set", "window=5m", "--set", "a=b=c"});
  EXPECT_EQ(settings.grpc, "127.0.0.1:2");
  EXPECT_EQ(settings.shard, "east");
  EXPECT_EQ(settings.peers.at("admission"), "127.0.0.1:11");
  EXPECT_EQ(settings.peers.at("cost"), "127.0.0.1:12");
  EXPECT_EQ(settings.extra.at("window"), "5m");
  EXPECT_EQ(settings.extra.at("a"), "b=c");
  EXPECT_EQ(settings.clock, "system");
}

TEST(Settings, PeersRepeat) {
  const auto settings = parse({"--peer", "a=h:1", "--peer", "b=h:2"});
  EXPECT_EQ(settings.peers.size(), 2U);
}

TEST(SettingsDeathTest, WrongValuesAreNamed) {
  const auto refused = [](std::vector<std::string> args, const char* text) {
    EXPECT_EXIT(
        parse(std::move(args)), [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) != 0; }, text);
  };
  refused({"--grpc", "7101"}, "'7101' is not of the form host:port");
  refused({"--http", "h:99999"}, "host:port");
  refused({"--clock", "fast"}, "'fast' is neither system nor scaled:PATH");
  refused({"--peer", "admission"}, "'admission' is not of the form name=value");
  refused({"--peer", "admission=nowhere"}, "'nowhere' is not of the form host:port");
  refused({"--config", "/nowhere/a.yaml"}, "/nowhere/a.yaml");
  refused({"--log-level", "loud"}, "loud");
  refused({"--unknown"}, "--unknown");
  EXPECT_EXIT(parse({"--help"}), ::testing::ExitedWithCode(0), "");
}

TEST(SettingsDeathTest, ATakenAddressEndsItBeforeAnythingIsDone) {
  http::Server other({}, [](const http::Request&) { return http::text(200, "mine"); });
  ASSERT_TRUE(other.start());
  const auto address = "127.0.0.1:" + std::to_string(other.port());
  EXPECT_EXIT(parse({"--grpc", address}), ::testing::ExitedWithCode(1), "cannot listen on " + address);
  EXPECT_EXIT(parse({"--http", address}), ::testing::ExitedWithCode(1), "cannot listen on " + address);
  other.stop();
  EXPECT_EQ(parse({"--grpc", address}).grpc, address);
}

TEST(ShutdownDeathTest, ExitsAfterTheTimeout) {
  const auto hang = [](const std::function<void()>& begin) {
    block_signals();
    limit_shutdown(std::chrono::milliseconds(100), 3);
    begin();
    while (true) ::pause();
  };
  EXPECT_EXIT(hang([] { ::kill(::getpid(), SIGTERM); }), ::testing::ExitedWithCode(3), "shutdown exceeded its timeout");
  EXPECT_EXIT(hang([] { shutdown_started(); }), ::testing::ExitedWithCode(3), "shutdown exceeded its timeout");
  EXPECT_EXIT(hang([] {
                std::thread([] { ::kill(::getpid(), SIGTERM); }).detach();
                wait_for_signal();
              }),
              ::testing::ExitedWithCode(3), "shutdown exceeded its timeout");
}

struct Admin {
  Admin()
      : server(
            "127.0.0.1:0", registry, [this] { return alive; },
            [this] { return service::Readiness().unless(ready, "it rests"); },
            [] {
              return *Json::parse(
                  R"({"workloads":{"u1":{"queue":"a"},"u2":{"queue":"b"}},
                             "reservations":{"u1/2":{"nodes":["n1"]}},
                             "pods":[{"name":"p","owner":"u1"},{"name":"q","owner":"u2"}]})");
            }) {
    server.route("GET", "/extra/{name}", [](const http::Request&, const http::Router::Params& params) {
      return http::text(200, "extra " + params.at("name"));
    });
    const auto started = server.start();
    EXPECT_TRUE(started) << started.error().to_string();
    client = std::make_unique<http::Client>("http://127.0.0.1:" + std::to_string(server.port()));
  }
  http::Response ask(const std::string& target, const std::string& method = "GET", std::string body = {}) {
    http::Request request;
    request.method = method;
    request.target = target;
    request.body = std::move(body);
    auto answer = client->send(request);
    EXPECT_TRUE(answer);
    return answer ? *answer : http::Response{};
  }
  bool alive = true, ready = false;
  metrics::Registry registry;
  AdminServer server;
  std::unique_ptr<http::Client> client;
};

TEST(AdminServer, HealthAndMetrics) {
  Admin admin;
  admin.registry.counter("qm_x_total", "X.").add();
  EXPECT_EQ(admin.ask("/healthz").status, 200);
  EXPECT_EQ(admin.ask("/readyz").status, 503);
  EXPECT_EQ(admin.ask("/readyz").body, "not ready: it rests\n");
  admin.ready = true;
  admin.alive = false;
  EXPECT_EQ(admin.ask("/readyz").status, 200);
  EXPECT_EQ(admin.ask("/healthz").status, 503);
  const auto metrics = admin.ask("/metrics");
  EXPECT_NE(metrics.body.find("qm_x_total 1\n"), std::string::npos);
  EXPECT_EQ(metrics.headers.get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(admin.ask("/extra/a").body, "extra a");
  EXPECT_EQ(admin.ask("/other").status, 404);
}

TEST(SettingsDeathTest, AProbeAsksTheProcessThatRuns) {
  Admin admin;
  const std::string port = ":" + std::to_string(admin.server.port());
  const auto probe = [](const std::string& address) { parse({"--probe", "--http", address}); };
  EXPECT_EXIT(probe("127.0.0.1" + port), ::testing::ExitedWithCode(1), "");
  admin.ready = true;
  EXPECT_EXIT(probe("127.0.0.1" + port), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(probe("0.0.0.0" + port), ::testing::ExitedWithCode(0), "") << "all addresses are asked on the loopback";
  admin.server.stop();
  EXPECT_EXIT(probe("127.0.0.1" + port), ::testing::ExitedWithCode(1), "");
}

TEST(AdminServer, StateAndWhatSpeaksOfAWorkload) {
  Admin admin;
  EXPECT_TRUE(Json::parse(admin.ask("/debug/state").body)->contains("workloads"));
  const auto found = Json::parse(admin.ask("/debug/explain?uid=u1").body);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size(), 3U);
  EXPECT_EQ((*found)["workloads.u1"]["queue"].string(), "a");
  EXPECT_TRUE((*found)["reservations.u1/2"].contains("nodes"));
  EXPECT_EQ((*found)["pods[0]"]["name"].string(), "p");
  EXPECT_EQ(admin.ask("/debug/explain?uid=u3").status, 404);
  EXPECT_EQ(admin.ask("/debug/explain").status, 400);
}

TEST(AdminServer, TheLogLevelIsLive) {
  Admin admin;
  const auto before = log::level();
  EXPECT_EQ(admin.ask("/debug/log-level", "PUT", "error\n").status, 200);
  EXPECT_EQ(log::level(), log::Level::kError);
  EXPECT_EQ(admin.ask("/debug/log-level").body, "error\n");
  EXPECT_EQ(admin.ask("/debug/log-level?level=warn", "PUT").status, 200);
  EXPECT_EQ(log::level(), log::Level::kWarn);
  const auto wrong = admin.ask("/debug/log-level", "PUT", "loud");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_NE(wrong.body.find("loud"), std::string::npos);
  EXPECT_EQ(log::level(), log::Level::kWarn);
  log::set_level(before);
}

TEST(AdminServer, AWrongAddressIsNamed) {
  metrics::Registry registry;
  for (const auto* wrong : {"", "7201", ":7201", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"}) {
    AdminServer server(wrong, registry, {}, {}, {});
    const auto started = server.start();
    ASSERT_FALSE(started) << wrong;
    EXPECT_EQ(started.error().code, Code::kInvalid);
    EXPECT_EQ(started.error().field, "http");
  }
}

TEST(SignalsDeathTest, TheFirstIsWaitedForTheSecondEnds) {
  EXPECT_EXIT(
      {
        block_signals();
        kill(getpid(), SIGTERM);
        wait_for_signal();
        kill(getpid(), SIGPIPE);  // ignored
        kill(getpid(), SIGINT);
        for (;;) pause();
      },
      ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(
      {
        block_signals();
        if (signal_pending()) std::_Exit(1);
        kill(getpid(), SIGINT);
        if (!signal_pending()) std::_Exit(2);
        wait_for_signal();
        if (signal_pending()) std::_Exit(3);
        if (!signal_received()) std::_Exit(4);
        std::_Exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace process_test
}  // namespace qm::rpc
