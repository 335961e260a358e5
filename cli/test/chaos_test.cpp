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
  std::function<void()> on_clock = [] {};  ///< a factor of the simulated clock is set

 private:
  http::Answer answer(const http::Request& request) {
    if (request.method == "GET") return http::json(200, R"({"configured_factor":5})");
    posted.push_back(request.target + " " + request.body);
    if (request.target != "/fleet/faults") {
      on_clock();
      return http::json(200, "{}");
    }
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

// S-497: each Friday of the line a node fails, and the report has what each workload of the node lost.
TEST(Chaos, ANodeFailsEachFridayAndTheReportHasTheLosses) {
  using namespace std::chrono_literals;
  FakeSuite suite;
  populate(suite.state);
  Controls fleet;
  const auto clock_file = suite.file("clock-of-drill", "");
  const auto clock = *ScaledClockWriter::create(clock_file, *from_rfc3339("2026-11-26T22:00:00Z"), 0);
  const std::vector<Instant> fridays = {*from_rfc3339("2026-11-27T10:00:00Z"), *from_rfc3339("2026-12-04T10:00:00Z")};
  std::size_t factors = 0;
  // The first factor of each wait moves the clock to the next Friday, slower the nearer it is; then it stops.
  fleet.on_clock = [&] {
    const std::size_t wait = factors++;
    if (wait % 2 == 1 || wait / 2 >= fridays.size()) return;
    const Instant to = fridays[wait / 2];
    EXPECT_TRUE(testing::wait_until([&] {
      const double left_s = std::chrono::duration<double>(to - clock->now()).count();
      clock->set_factor(std::clamp(3 * left_s, 1000.0, 1e6));
      return left_s <= 0;
    }));
    clock->set_factor(0);
  };
  // "pretrain" has two GPUs on two nodes, started an hour before, and saved ten minutes before.
  const auto state_of = [&]() -> pb::WorkloadEvent& { return *suite.state.workloads[1].mutable_state(); };
  const auto bind = [&](Instant at) {
    auto& placed = *suite.state.assignment.mutable_state();
    placed.set_attempt(state_of().attempt());
    for (auto& member : *placed.mutable_members()) {
      member.set_bound_us(micros(at));
      member.clear_devices();
      member.add_devices()->set_milli(1000);
    }
    placed.mutable_members(0)->set_node("n1");
  };
  bind(fridays[0] - 1h);
  state_of().set_saved_us(micros(fridays[0] - 10min));
  std::vector<Instant> faults;
  fleet.on_fault = [&] {
    const std::lock_guard lock(suite.state.mutex);
    faults.push_back(clock->now());
    state_of().set_attempt(state_of().attempt() + 1);
    state_of().set_queued_us(micros(faults.back() + 30s));
    state_of().set_saved_us(0);
    bind(faults.back() + 5min);
  };
  Json endpoints = *Json::parse(testing::read_file(suite.endpoints()));
  endpoints.set("clock", clock_file).set("fleet", fleet.url());
  const auto report = suite.file("report.json", "");
  const auto ran =
      qmctl(std::vector<std::string>{"--endpoints", suite.file("drill.json", endpoints.dump()), "chaos", "node-kill",
                                     "--cron", "0 10 * * FRI", "--times", "2", "--speed", "50000", "--report", report});
  ASSERT_EQ(ran.code, kDone) << ran.err;
  ASSERT_EQ(faults.size(), 2U);
  const auto drills = *Json::parse(testing::read_file(report));
  ASSERT_EQ(drills.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(drills.at(i)["at"].string().substr(0, 10), to_rfc3339(fridays[i]).substr(0, 10));
    EXPECT_EQ(drills.at(i)["node"].string(), "n1");
    EXPECT_TRUE(drills.at(i)["ok"].boolean());
    ASSERT_EQ(drills.at(i)["workloads"].size(), 1U);
    const Json& one = drills.at(i)["workloads"].at(0);
    EXPECT_EQ(one["workload"].string(), "nlp/pretrain");
    EXPECT_EQ(one["attempt_after"].integer(), one["attempt_before"].integer() + 1);
    EXPECT_EQ(one["gpus"].number(), 2);
    EXPECT_NEAR(one["requeued_s"].number(), 30, 1);
    EXPECT_NEAR(one["running_s"].number(), 300, 1);
    // First since the checkpoint; the second attempt saved nothing, so all its work since the first Friday is lost.
    const double since =
        std::chrono::duration<double>(faults[i] - (i == 0 ? fridays[0] - 10min : faults[0] + 5min)).count();
    EXPECT_NEAR(one["lost_gpu_hours"].number(), 2 * (since + 300) / 3600, 0.01);
    EXPECT_NEAR(drills.at(i)["lost_gpu_hours"].number(), one["lost_gpu_hours"].number(), 1e-9);
  }
  EXPECT_THAT(ran.out, HasSubstr("1 workload(s) on it, 0 lost, all recovered"));
  EXPECT_THAT(ran.out, HasSubstr("GPU-HOURS-LOST"));
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
