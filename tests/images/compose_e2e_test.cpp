// docker-compose.yml with real containers: our images together with PostgreSQL, Redis and Prometheus. For omitted
// services and the reasons see compose.yml.
#include "qm/base/json.hpp"
#include "support.hpp"

#include <csignal>

namespace qm::images {
namespace compose_e2e_test {

using namespace std::chrono_literals;

constexpr const char* kFiles = "-f docker-compose.yml -f deploy/compose/host.yml -f tests/images/compose.yml";
constexpr const char* kProject = "qmtest";
const std::vector<std::string> kServices{"admission", "placement", "autoscaler", "telemetry", "cost"};

/// A compose project that is stopped at the end.
class Project {
 public:
  Project() {
    for (const char* name : {"POSTGRES", "REDIS", "PROMETHEUS"})
      ::setenv(fmt::format("QM_IMAGE_{}", name).c_str(), "localhost/qm-peers:test", 1);
    ::setenv("QM_REGISTRY", "localhost/quartermaster", 1);
    ::setenv("QM_TAG", "test", 1);
    ::setenv("QM_BUS", "postgres:host=postgres dbname=quartermaster user=qm_bus password=quartermaster", 1);
    ::setenv("QM_SPEED", "20", 1);
    ::setenv("QM_NODES", "4", 1);
  }
  ~Project() { down(); }

  static Ran compose(const std::string& verb, std::chrono::seconds timeout = 5min) {
    return sh(fmt::format("{} -p {} {} --profile tools {}", setting("QM_PODMAN_COMPOSE"), kProject, kFiles, verb),
              timeout);
  }
  static Ran down() { return compose("down -v -t 5"); }
  static Ran qmctl(const std::string& args) { return compose("run --rm -T qmctl " + args, 1min); }

  /// Starts these services, and waits until their health checks succeed; returns the unhealthy ones.
  static std::string up(const std::vector<std::string>& names) {
    const auto ran = compose(fmt::format("up -d --no-build {}", fmt::join(names, " ")));
    if (ran.code != 0) return ran.output;
    std::string who;
    testing::wait_until(
        [&] {
          who.clear();
          for (const auto& name : names) {
            if (!healthy(name)) who += name + " ";
          }
          return who.empty();
        },
        3min);
    return who.empty() ? who : fmt::format("not healthy: {}\n{}", who, sh("podman ps -a").output);
  }
  /// Without systemd the health checks do not run by themselves, so the test runs them.
  static bool healthy(const std::string& name) {
    return sh(fmt::format("podman healthcheck run {}_{}_1", kProject, name), 30s).code == 0;
  }
  static int pid(const std::string& name) {
    const auto ran = sh(fmt::format("podman inspect --format '{{{{.State.Pid}}}}' {}_{}_1", kProject, name), 30s);
    return ran.code == 0 ? std::atoi(ran.output.c_str()) : 0;
  }
};

std::string get(const std::string& url) { return sh("curl -fsS --max-time 5 '" + url + "'", 30s).output; }

/// The number of named jobs that have finished, with a reason.
int ended(const std::string& prefix, const std::string& reason) {
  int count = 0;
  for (const auto& line : lines_of(Project::qmctl("list").output))
    count += line.find(prefix) != std::string::npos && line.find(reason) != std::string::npos;
  return count;
}

void submit(const std::string& prefix, int jobs) {
  for (int i = 1; i <= jobs; ++i) {
    const auto ran =
        Project::qmctl(fmt::format("submit -n research --name {}-{} --queue research --gpus 8 --annotation "
                                   "fleet.quartermaster.dev/run-seconds=200",
                                   prefix, i));
    ASSERT_EQ(ran.code, 0) << ran.output;
  }
}

TEST(Compose, TheFilesMeetTheSchemaOfCompose) {
  if (setting("QM_CONTAINERS").empty()) GTEST_SKIP() << kNoContainers;
  const auto ran = sh(setting("QM_CHECK_JSONSCHEMA") +
                      " --builtin-schema vendor.compose-spec docker-compose.yml deploy/compose/host.yml");
  EXPECT_EQ(ran.code, 0) << ran.output;
}

TEST(Compose, JobsRunCostAndSurviveAKill) {
  if (setting("QM_CONTAINERS").empty()) GTEST_SKIP() << kNoContainers;
  ASSERT_EQ(build_once(), "");
  const auto peers =
      sh("podman image exists localhost/qm-peers:test || podman import -q $(tools/peers/containers.sh rootfs peers "
         "postgresql-15 redis-server prometheus) localhost/qm-peers:test",
         10min);
  ASSERT_EQ(peers.code, 0) << peers.output;
  const Project project;
  Project::down();  // left by an earlier run

  ASSERT_EQ(Project::up({"postgres", "redis", "fleet"}), "");
  ASSERT_EQ(Project::up(kServices), "");
  ASSERT_EQ(Project::up({"agent", "prometheus"}), "");

  const auto ns =
      sh("curl -fsS -H 'Content-Type: application/json' "
         R"(-d '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"research"}}' )"
         "http://127.0.0.1:7301/api/v1/namespaces");
  ASSERT_EQ(ns.code, 0) << ns.output;
  const auto applied = Project::qmctl("apply -f /examples/queues");
  ASSERT_EQ(applied.code, 0) << applied.output;
  submit("before", 3);
  EXPECT_TRUE(testing::wait_until([] { return ended("before-", "Succeeded") == 3; }, 3min))
      << Project::qmctl("list").output;

  // A service crashes and is restarted; calls during the outage take effect afterwards.
  const int victim = Project::pid("placement");
  ASSERT_GT(victim, 0);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  submit("after", 2);
  EXPECT_TRUE(testing::wait_until(
      [victim] { return Project::healthy("placement") && Project::pid("placement") != victim; }, 1min));
  EXPECT_TRUE(testing::wait_until([] { return ended("after-", "Succeeded") == 2; }, 3min))
      << Project::qmctl("list").output;

  const auto report = Project::qmctl("report -o json");
  ASSERT_EQ(report.code, 0) << report.output;
  const auto statement = Json::parse(report.output);
  ASSERT_TRUE(statement) << report.output;
  EXPECT_EQ((*statement)["imbalanceNanoUsd"].string(), "0") << report.output;
  long paid = 0;
  for (const auto& line : (*statement)["lines"].items()) {
    if (line["team"].string() == "research") paid = std::stol(line["nanoUsd"].string());
  }
  EXPECT_GT(paid, 1'000'000'000) << report.output;
  std::string targets;
  EXPECT_TRUE(testing::wait_until(
      [&] {
        targets = get("http://127.0.0.1:9090/api/v1/query?query=sum(up)");
        return targets.find("\"6\"") != std::string::npos;
      },
      1min))
      << targets;

  const auto down = Project::down();
  EXPECT_EQ(down.code, 0) << down.output;
  EXPECT_EQ(sh(fmt::format("podman ps -aq --filter label=io.podman.compose.project={}", kProject)).output, "");
  EXPECT_EQ(sh(fmt::format("podman volume ls -q --filter name={}_", kProject)).output, "");
}

}  // namespace compose_e2e_test
}  // namespace qm::images
