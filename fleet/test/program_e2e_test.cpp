// The program itself: its flags, its output files, and how it ends.
#include "qm/base/json.hpp"
#include "qm/clock/clock.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

namespace qm::fleet {
namespace program_e2e_test {

const std::string kProgram = std::string(QM_BIN_DIR) + "/qm-fleet";

std::unique_ptr<testing::Process> start(std::vector<std::string> flags, const std::string& output) {
  flags.insert(flags.begin(), kProgram);
  auto started = testing::Process::start({std::move(flags), {}, output});
  EXPECT_TRUE(started.has_value()) << started.error().to_string();
  return started ? std::move(*started) : nullptr;
}

TEST(Program, ServesItsPortsFollowsItsClockAndEndsCleanly) {
  if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << "qm-fleet is not built: run ./qm build";
  testing::TempDir dir;
  auto fleet = start(
      {"--dir", dir.path(), "--nodes", "2", "--spot-nodes", "1", "--factor", "50", "--start", "2026-11-21T09:00:00Z"},
      dir.path() + "/log");
  ASSERT_NE(fleet, nullptr);
  ASSERT_TRUE(
      testing::wait_until([&] { return std::filesystem::exists(dir.path() + "/fleet.json") || !fleet->running(); }));
  const Json ports = *Json::parse(testing::read_file(dir.path() + "/fleet.json"));
  const auto get = [&](const char* port, const std::string& path) {
    http::Client client(fmt::format("http://127.0.0.1:{}", ports[port].integer()));
    http::Request request;
    request.target = path;
    auto answer = client.send(request);
    return answer ? *answer : http::Response{0, {}, answer.error().message};
  };
  EXPECT_EQ(get("kube", "/readyz").body, "ok");
  EXPECT_EQ(Json::parse(get("kube", "/api/v1/nodes").body)->operator[]("items").size(), 3u);
  EXPECT_EQ(get("aws", "/").status / 100, 4) << "unsigned";
  const Json state = *Json::parse(get("node", "/fleet/state").body);
  EXPECT_EQ(state["factor"].number(), 50);
  EXPECT_EQ(state["instances"].size(), 3u);

  const auto clock = make_clock("scaled:" + dir.path() + "/clock");
  ASSERT_TRUE(clock.has_value()) << clock.error().to_string();
  EXPECT_GE((*clock)->now(), *from_rfc3339("2026-11-21T09:00:00Z"));
  EXPECT_LT((*clock)->now(), *from_rfc3339("2026-11-22T09:00:00Z"));

  fleet->signal(SIGTERM);
  EXPECT_EQ(fleet->wait(std::chrono::seconds(20)), 0) << testing::read_file(dir.path() + "/log");
  EXPECT_NE(testing::read_file(dir.path() + "/history.jsonl").find(R"("e":"instance_launch")"), std::string::npos);
}

TEST(Program, ReportsWrongFlags) {
  if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << "qm-fleet is not built: run ./qm build";
  testing::TempDir dir;
  const std::string log = dir.path() + "/log";
  const auto refused = [&](std::vector<std::string> flags, std::string_view why) {
    flags.insert(flags.end(), {"--dir", dir.path()});
    auto fleet = start(std::move(flags), log);
    const auto status = fleet->wait(std::chrono::seconds(20));
    EXPECT_TRUE(status && *status != 0) << why;
    EXPECT_NE(testing::read_file(log).find(why), std::string::npos) << testing::read_file(log);
  };
  refused({"--shape", "p9.huge"}, "p9.huge");
  refused({"--nodes-file", dir.path() + "/none.csv"}, "none.csv");
  refused({"--start", "yesterday"}, "yesterday");
  refused({"--factor", "-1"}, "--factor");
}

}  // namespace program_e2e_test
}  // namespace qm::fleet
