#include "qm/rpc/process.hpp"

#include "credentials.hpp"
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>

#include <arpa/inet.h>
#include <cstdlib>
#include <future>
#include <net/if.h>
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
  return parse_settings(static_cast<int>(argv.size()), argv.data(), {"qm-tiny", "A tiny service."});
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

TEST(Settings, MigrationsAreAppliedOrChecked) {
  EXPECT_FALSE(parse({}).check_only);
  EXPECT_TRUE(parse({"--migrations", "check"}).check_only);
}

// The names and allowed values of the program's own settings follow the flags.
TEST(SettingsDeathTest, HelpEndsWithTheSettingsOfTheProgram) {
  const auto help = [] {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    std::string arguments[] = {"qm-tiny", "--help"};
    char* argv[] = {arguments[0].data(), arguments[1].data()};
    const settings::Setting hold{"hold", {.allowed = "a duration"}, "5m", "Life of a reservation."};
    (void)parse_settings(2, argv, {"qm-tiny", "A tiny service.", {hold}});
  };
  EXPECT_EXIT(help(), ::testing::ExitedWithCode(0), "--log-format.*hold \\[5m\\]  a duration\n      Life of a reserv");
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
  refused({"--migrations", "maybe"}, "maybe");
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
  explicit Admin(std::shared_ptr<Access> access = {}, const std::string& address = "127.0.0.1:0")
      : server(address, registry, std::move(access),
               {[this] { return alive; }, [this] { return service::Readiness().unless(ready, "it rests"); },
                [this] {
                  if (on_state) on_state();
                  return *Json::parse(
                      R"({"workloads":{"u1":{"queue":"a"},"u2":{"queue":"b"}},
                             "reservations":{"u1/2":{"nodes":["n1"]}},
                             "pods":[{"name":"p","owner":"u1"},{"name":"q","owner":"u2"}]})");
                }}) {
    server.route("GET", "/extra/{name}", [](const http::Request&, const http::Router::Params& params) {
      return http::text(200, "extra " + params.at("name"));
    });
    const auto started = server.start();
    EXPECT_TRUE(started) << started.error().to_string();
    client = std::make_unique<http::Client>("http://127.0.0.1:" + std::to_string(server.port()));
  }
  http::Response ask(const std::string& target, const std::string& method = "GET", std::string body = {},
                     const std::string& token = {}) {
    http::Request request;
    if (!token.empty()) request.headers.set("Authorization", "Bearer " + token);
    request.method = method;
    request.target = target;
    request.body = std::move(body);
    auto answer = client->send(request);
    EXPECT_TRUE(answer);
    return answer ? *answer : http::Response{};
  }
  bool alive = true, ready = false;
  std::function<void()> on_state;
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

TEST(AdminServer, StateAndReferencesToAWorkload) {
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

std::shared_ptr<Access> with_roles(const qm::testing::TempDir& dir) {
  testing::write_file(dir.path() + "/tokens",
                      "t-operator,olga,u1\nt-auditor,anna,u2\nt-user,ursula,u3\nt-none,nora,u4\n");
  testing::write_file(dir.path() + "/roles.yaml", R"(
apiVersion: access.quartermaster.dev/v1alpha1
kind: RoleMap
metadata: {name: roles}
spec:
  operators: {users: [olga]}
  auditors: {users: [anna]}
  tenants:
  - {name: lab, users: [ursula], namespaces: [lab]}
)");
  Settings settings;
  settings.auth = "static:" + dir.path() + "/tokens";
  settings.roles = dir.path() + "/roles.yaml";
  auto access = make_access(settings, "tiny");
  EXPECT_TRUE(access) << access.error().to_string();
  return *access;
}

TEST(AdminServer, PagesOfDebugNeedATokenOfARoleWhereCallersAreAsked) {
  const qm::testing::TempDir dir;
  Admin admin(with_roles(dir));
  const auto before = log::level();
  struct Row {
    const char* token;
    int reads, changes;
  };
  for (const auto& row : {Row{"t-operator", 200, 200}, Row{"t-auditor", 200, 403}, Row{"t-user", 403, 403},
                          Row{"t-none", 403, 403}, Row{"t-forged", 401, 401}, Row{"", 401, 401}}) {
    EXPECT_EQ(admin.ask("/debug/state", "GET", {}, row.token).status, row.reads) << row.token;
    EXPECT_EQ(admin.ask("/debug/explain?uid=u1", "GET", {}, row.token).status, row.reads) << row.token;
    EXPECT_EQ(admin.ask("/%64ebug/state", "GET", {}, row.token).status, row.reads) << row.token << ", in other letters";
    EXPECT_EQ(admin.ask("/debug/log-level", "GET", {}, row.token).status, row.reads) << row.token;
    EXPECT_EQ(admin.ask("/debug/log-level", "PUT", "error", row.token).status, row.changes) << row.token;
    for (const auto* open : {"/metrics", "/healthz", "/extra/a"}) {
      EXPECT_EQ(admin.ask(open, "GET", {}, row.token).status, 200) << open;
    }
  }
  log::set_level(before);
  const auto no_token = admin.ask("/debug/state");
  EXPECT_EQ(no_token.headers.get("WWW-Authenticate"), "Bearer");
  EXPECT_NE(no_token.body.find("GET /debug/state needs a bearer token"), std::string::npos) << no_token.body;
  const auto user = admin.ask("/debug/state", "GET", {}, "t-user");
  EXPECT_NE(user.body.find("ursula may not call GET /debug/state: the call needs an operator, and the caller is user"),
            std::string::npos)
      << user.body;
  EXPECT_EQ(user.body.find("workloads"), std::string::npos) << user.body;
}

TEST(AdminServer, WithoutAuthenticationTheLoopbackInterfaceAloneIsAnswered) {
  ifaddrs* all = nullptr;
  ASSERT_EQ(getifaddrs(&all), 0);
  const std::shared_ptr<ifaddrs> owned(all, freeifaddrs);
  std::string other;
  for (const auto* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    char text[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    other = inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
  }
  if (other.empty()) GTEST_SKIP() << "this host has no address but loopback";
  Admin admin({}, "0.0.0.0:0");
  EXPECT_EQ(admin.ask("/debug/state").status, 200);
  admin.client = std::make_unique<http::Client>(fmt::format("http://{}:{}", other, admin.server.port()));
  for (const auto* target : {"/debug/state", "/debug/explain?uid=u1", "/debug/log-level"}) {
    const auto refused = admin.ask(target);
    EXPECT_EQ(refused.status, 403) << target;
    EXPECT_NE(refused.body.find("use kubectl port-forward"), std::string::npos) << refused.body;
  }
  EXPECT_EQ(admin.ask("/debug/log-level", "PUT", "error").status, 403);
  EXPECT_EQ(admin.ask("/metrics").status, 200);
  EXPECT_EQ(admin.ask("/healthz").status, 200);
  EXPECT_EQ(admin.ask("/readyz").status, 503);
}

TEST(AdminServer, OnePageOfDebugAtATimeAndTheOthersStayOpen) {
  Admin admin;
  std::promise<void> begun, go;
  admin.on_state = [&] {
    begun.set_value();
    go.get_future().wait();
  };
  std::jthread slow([&] { EXPECT_EQ(admin.ask("/debug/state").status, 200); });
  begun.get_future().wait();
  for (const auto* target : {"/debug/state", "/debug/explain?uid=u1", "/debug/log-level"}) {
    const auto refused = admin.ask(target);
    EXPECT_EQ(refused.status, 429) << target;
    EXPECT_EQ(refused.headers.get("Retry-After"), "1");
  }
  EXPECT_EQ(admin.ask("/healthz").status, 200);
  EXPECT_EQ(admin.ask("/metrics").status, 200);
  go.set_value();
  slow.join();
  admin.on_state = {};
  EXPECT_EQ(admin.ask("/debug/state").status, 200);
}

TEST(AdminServer, TwoTokensAreCheckedAtATimeAndTheOpenPagesAnswer) {
  std::promise<void> go;
  std::atomic<int> asked{0};
  AccessOptions options;
  const auto released = go.get_future().share();
  options.review = [&](const std::string&) -> Result<Identity> {
    ++asked;
    released.wait();
    return fail(Code::kUnavailable, "no answer");
  };
  const qm::testing::TempDir dir;
  (void)with_roles(dir);
  options.roles = *RoleMap::open(dir.path() + "/roles.yaml");
  Admin admin(std::make_shared<Access>(std::move(options)));
  const auto ask = [&](std::string token) { EXPECT_EQ(admin.ask("/debug/state", "GET", {}, token).status, 503); };
  std::jthread one([&] { ask("a"); }), two([&] { ask("b"); });
  ASSERT_TRUE(qm::testing::wait_until([&] { return asked == 2; }));
  EXPECT_EQ(admin.ask("/debug/state", "GET", {}, "c").status, 429);
  EXPECT_EQ(admin.ask("/healthz").status, 200);
  go.set_value();
}

TEST(AdminServer, AWrongAddressIsNamed) {
  metrics::Registry registry;
  for (const auto* wrong : {"", "7201", ":7201", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"}) {
    AdminServer server(wrong, registry, nullptr, {});
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
