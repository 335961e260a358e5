// An operator's workflow on a real API server: helm install, and then Jobs by kubectl that are suspended, admitted,
// bound, run, charged and explained. The programs run as the rendered Deployments specify, see Kubelet.
#include "installation.hpp"

namespace qm::deploy {
namespace story_k8s_test {

using namespace std::chrono_literals;
constexpr auto kPatience = 90s;

class Operator : public InstallationTest {
 protected:
  static bool eventually(const std::function<bool()>& condition) { return testing::wait_until(condition, kPatience); }
};

TEST_F(Operator, InstallsAndAJobIsHeldAdmittedBoundRunChargedAndExplained) {
  // The number of pods is that of the chart, they are ready by their own probes, under the accounts of the chart.
  for (const char* service : {"admission", "placement", "autoscaler", "telemetry", "cost"}) {
    EXPECT_TRUE(eventually([&] { return suite().all_ready(service, 2); })) << service;
    for (const auto& pod : suite().kubelet().pods(service)) EXPECT_EQ(pod.restarts, 0) << pod.name;
  }
  // Its qmctl times out after ten seconds, which may be too short on a loaded host.
  Ran tested;
  EXPECT_TRUE(eventually([&] {
    tested = suite().helm({"test", "qm", "-n", suite().ns(), "--timeout", "60s"});
    return tested.code == 0;
  })) << tested.output;
  const Ran queues = suite().kubectl_apply(Installation::kQueues);
  ASSERT_EQ(queues.code, 0) << queues.output;

  // The webhooks of the chart suspend a Job before it is stored.
  const Ran first = suite().kubectl_apply(Installation::job("first", 8, 3600));
  ASSERT_EQ(first.code, 0) << first.output;
  const Json held = suite().get_job("first");
  EXPECT_EQ(held["spec"]["template"]["spec"]["schedulerName"].string(), "quartermaster") << held.dump();
  EXPECT_TRUE(eventually([&] { return !suite().bound("first").empty(); })) << suite().get_job("first").dump();
  EXPECT_EQ(suite().bound("first"), std::vector<std::string>{suite().node()});

  const Ran second = suite().kubectl_apply(Installation::job("second", 4, 3));
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_TRUE(suite().get_job("second")["spec"]["suspend"].boolean()) << "it was not held";
  std::string why;
  EXPECT_TRUE(eventually([&] {
    const auto now = suite().qmctl({"why", suite().tenant() + "/second"});
    if (now.code == 0) why = now.output;
    return why.find("nvidia.com/gpu") != std::string::npos;
  })) << why;
  EXPECT_NE(why.find("research"), std::string::npos) << why;
  // Another client cannot unsuspend the Job.
  const Ran by_hand = suite().kubectl({"patch", "job", "second", "-n", suite().tenant(), "--as", "alice", "--as-group",
                                       "system:masters", "--type", "merge", "-p", R"({"spec":{"suspend":false}})"});
  EXPECT_NE(by_hand.code, 0) << by_hand.output;
  EXPECT_NE(by_hand.output.find("denied the request"), std::string::npos) << by_hand.output;

  suite().complete("first");
  EXPECT_TRUE(eventually([&] { return suite().finished("first"); }));
  EXPECT_TRUE(eventually([&] { return suite().finished("second"); }));
  std::string report;
  EXPECT_TRUE(eventually([&] {
    const auto now = suite().qmctl({"report"});
    if (now.code == 0) report = now.output;
    return report.find(suite().tenant()) != std::string::npos;
  })) << report;
}

TEST_F(Operator, UnknownClientsAreDenied) {
  const auto denied = suite().qmctl({"list", "workloads"}, "unknown");
  EXPECT_NE(denied.code, 0) << denied.output;
  EXPECT_NE(denied.output.find("unknown"), std::string::npos) << denied.output;
}

}  // namespace story_k8s_test
}  // namespace qm::deploy
