// Drills: where they are refused, and when they fail. tests/e2e runs them against a suite.
#include "fake_suite.hpp"
#include "qm/base/json.hpp"
#include "qm/http/http.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::cli {
namespace chaos_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The controls of a fleet, which record the posted bodies.
class Controls {
 public:
  Controls() : server_({}, [this](const http::Request& r) { return answer(r); }) { EXPECT_TRUE(server_.start()); }
  ~Controls() { server_.stop(); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  std::vector<std::string> posted;
  std::function<void()> on_fault = [] {};

 private:
  http::Answer answer(const http::Request& request) {
    if (request.method == "GET") return http::json(200, R"({"configured_factor":5})");
    posted.push_back(request.target + " " + request.body);
    if (request.target != "/fleet/faults") return http::json(200, "{}");
    on_fault();
    const bool spot = request.body.find("spot_reclaim") != std::string::npos;
    return http::json(200, spot ? R"({"nodes":[]})" : R"({"node":"n1"})");
  }
  http::Server server_;
};

/// Endpoints of the fake suite with other members.
std::string endpoints_with(const FakeSuite& suite, const std::string& member, const std::string& value) {
  Json all = *Json::parse(testing::read_file(suite.endpoints()));
  all.set(member, value);
  return suite.file("drill.json", all.dump());
}

// S-250: a drill is for a simulation.
TEST(Chaos, IsRefusedWithoutASimulatedFleet) {
  FakeSuite suite;
  const auto ran = qmctl(suite, {"chaos", "spot-interrupt", "--node", "n1"});
  EXPECT_EQ(ran.code, kFailed);
  EXPECT_THAT(ran.err, HasSubstr("names no simulated fleet"));
  EXPECT_THAT(ran.err, HasSubstr("--fleet URL"));
}

TEST(Chaos, IsRefusedInRealTimeUnlessItIsAllowed) {
  FakeSuite suite;
  Controls fleet;
  const auto file = endpoints_with(suite, "clock", "system");
  const auto refused =
      qmctl(std::vector<std::string>{"--endpoints", file, "chaos", "node-kill", "--fleet", fleet.url()});
  EXPECT_EQ(refused.code, kFailed);
  EXPECT_THAT(refused.err, HasSubstr("runs in real time"));
  EXPECT_THAT(fleet.posted, IsEmpty());
  const auto allowed = qmctl(
      std::vector<std::string>{"--endpoints", file, "chaos", "node-kill", "--fleet", fleet.url(), "--allow-real-time"});
  EXPECT_EQ(allowed.code, kDone) << allowed.err;
  EXPECT_THAT(fleet.posted, ElementsAre(R"(/fleet/faults {"kind":"node_lost","random":true})"));
}

TEST(Chaos, ARowThatIsGoneFailsTheDrillAndIsInTheReport) {
  FakeSuite suite;
  populate(suite.state);
  Controls fleet;
  fleet.on_fault = [&] {
    const std::lock_guard lock(suite.state.mutex);
    suite.state.workloads.clear();
  };
  const auto file = endpoints_with(suite, "clock", "system");
  const auto report = suite.file("report.json", "");
  const auto ran =
      qmctl(std::vector<std::string>{"--endpoints", file, "chaos", "node-kill", "--fleet", fleet.url(),
                                     "--allow-real-time", "--within", "1s", "--report", report, "-o", "json"});
  EXPECT_EQ(ran.code, kFailed) << ran.err;
  const auto drills = Json::parse(testing::read_file(report));
  ASSERT_TRUE(drills && drills->size() == 1);
  EXPECT_FALSE(drills->at(0)["ok"].boolean());
  EXPECT_GT(drills->at(0)["lost"].size(), 0U);
}

TEST(Chaos, WrongArgumentsAreNamed) {
  FakeSuite suite;
  Controls fleet;
  const auto file = endpoints_with(suite, "fleet", fleet.url());
  EXPECT_THAT(qmctl(suite, {"chaos", "spot-interrupt"}).err, HasSubstr("--node is not set"));
  EXPECT_THAT(qmctl(std::vector<std::string>{"--endpoints", file, "chaos", "node-kill", "--cron", "10 FRI"}).err,
              HasSubstr("FRI"));
  const auto none = qmctl(std::vector<std::string>{"--endpoints", file, "chaos", "spot-interrupt", "--node", "n9"});
  EXPECT_EQ(none.code, kNotFound);
  EXPECT_THAT(none.err, HasSubstr("n9 is no running spot node"));
}

}  // namespace chaos_test
}  // namespace qm::cli
