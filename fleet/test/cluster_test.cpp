#include "cluster.hpp"

#include "test/rig.hpp"

#include <gtest/gtest.h>

namespace qm::fleet {
namespace cluster_test {

class Kubelet : public ::testing::Test {
 protected:
  std::vector<int> devices_of(const std::string& pod) {
    const PodState* state = rig.cluster.pod(uid_of(rig.get("pods", "team-a", pod)));
    return state == nullptr ? std::vector<int>{} : state->devices;
  }
  /// A gang of `ranks` pods with 8 GPUs, each bound to a node of its own.
  ObjectPtr gang(int ranks, Json pod_annotations) {
    const auto job = rig.make_job("gang", ranks, 8, std::move(pod_annotations));
    rig.settle();
    for (const auto& pod : rig.pods_of(job)) {
      nodes.push_back(rig.launch().private_dns);
      EXPECT_TRUE(rig.bind(pod, nodes.back()));
    }
    return job;
  }
  Rig rig;
  std::vector<std::string> nodes;
};

TEST_F(Kubelet, ABootedInstanceIsANode) {
  LaunchSpec spec;
  spec.type = "p5.48xlarge";
  spec.zone = "us-east-1b";
  spec.market = Market::kSpot;
  spec.tags["karpenter.sh/nodepool"] = "gpu";
  spec.user_data =
      "#!/bin/sh\nkubelet --node-labels=tier=a,rack=r1 "
      "--register-with-taints=nvidia.com/gpu=true:NoSchedule,x:NoExecute\n";
  const auto instance = rig.world.launch_instance(spec);
  rig.advance(59);
  EXPECT_TRUE(rig.get("nodes", "", instance->private_dns).is_null());
  rig.advance(62);
  const Json node = rig.get("nodes", "", instance->private_dns);
  EXPECT_EQ(node["spec"]["providerID"].string(), "aws:///us-east-1b/" + instance->id);
  EXPECT_EQ(label_of(node, words::kInstanceType).string(), "p5.48xlarge");
  EXPECT_EQ(label_of(node, words::kCapacityType).string(), "spot");
  EXPECT_EQ(label_of(node, words::kNodePool).string(), "gpu");
  EXPECT_EQ(label_of(node, words::kGpuProduct).string(), "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(label_of(node, "rack").string(), "r1");
  EXPECT_EQ(node["spec"]["taints"].at(0)["key"].string(), "nvidia.com/gpu");
  EXPECT_EQ(node["spec"]["taints"].at(1)["effect"].string(), "NoExecute");
  EXPECT_EQ(node["status"]["allocatable"]["nvidia.com/gpu"].string(), "8");
  EXPECT_EQ(condition_of(node, "Ready")["status"].string(), "True");
  const std::string renewed = rig.get("leases", "kube-node-lease", instance->private_dns)["spec"]["renewTime"].string();
  rig.advance(10);
  rig.cluster.heartbeat();
  EXPECT_NE(rig.get("leases", "kube-node-lease", instance->private_dns)["spec"]["renewTime"].string(), renewed);
}

TEST_F(Kubelet, RunsAPodForItsSecondsAndNoLonger) {
  const auto node = rig.launch();
  rig.make_pod("p", 2, run_for(30));
  ASSERT_TRUE(rig.bind("p", node.private_dns, "5,6"));
  rig.advance(1);
  EXPECT_EQ(rig.phase("p"), "Pending");
  EXPECT_EQ(devices_of("p"), (std::vector<int>{5, 6})) << "the planned devices";
  rig.advance(1);
  EXPECT_EQ(rig.phase("p"), "Running");
  const Json running = rig.get("pods", "team-a", "p");
  EXPECT_TRUE(running["status"]["podIP"].string().starts_with("10."));
  EXPECT_EQ(condition_of(running, "Ready")["status"].string(), "True");
  rig.advance(29);
  EXPECT_EQ(rig.phase("p"), "Running");
  rig.advance(1);
  EXPECT_EQ(rig.phase("p"), "Succeeded");
  EXPECT_TRUE(devices_of("p").empty());
  const auto starts = rig.history("pod_start"), stops = rig.history("pod_stop");
  ASSERT_EQ(starts.size(), 1u);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(starts[0]["devices"], Json::array({5, 6}));
  EXPECT_EQ(stops[0]["reason"].string(), "Succeeded");
  EXPECT_EQ(stops[0]["step"].integer(), 30);
}

TEST_F(Kubelet, ResumesAtTheStepOfItsCheckpointAndEndsByItsExitCode) {
  const auto node = rig.launch();
  rig.make_pod("p", 1,
               annotations({{"fleet.quartermaster.dev/run-seconds", "100"},
                            {"fleet.quartermaster.dev/exit-code", "3"},
                            {"quartermaster.dev/resume-uri", "fleet://team-a/p?step=90"}}));
  ASSERT_TRUE(rig.bind("p", node.private_dns));
  rig.advance(13);
  EXPECT_EQ(rig.phase("p"), "Failed");
  const Json pod = rig.get("pods", "team-a", "p");
  EXPECT_EQ(pod["status"]["containerStatuses"].at(0)["state"]["terminated"]["exitCode"].integer(), 3);
  EXPECT_EQ(rig.history("pod_stop")[0]["step"].integer(), 100);
}

TEST_F(Kubelet, RefusesAPodWithoutFreeDevices) {
  const auto node = rig.launch();
  rig.make_pod("first", 6, run_for(100));
  rig.make_pod("second", 3, run_for(100));
  ASSERT_TRUE(rig.bind("first", node.private_dns));
  ASSERT_TRUE(rig.bind("second", node.private_dns));
  rig.advance(5);
  EXPECT_EQ(rig.phase("first"), "Running");
  EXPECT_EQ(rig.phase("second"), "Failed");
  EXPECT_EQ(rig.get("pods", "team-a", "second")["status"]["reason"].string(), "UnexpectedAdmissionError");
  EXPECT_EQ(rig.history("signal", "admission_refused").size(), 1u);
  EXPECT_EQ(rig.history("pod_start").size(), 1u) << "it never held a device";
}

class MigManager : public Kubelet {
 protected:
  void label(const char* layout) {
    rig.patch("nodes", "", node.private_dns,
              fmt::format(R"({{"metadata":{{"labels":{{"nvidia.com/mig.config":"{}"}}}}}})", layout).c_str());
  }
  std::string state() {
    return label_of(rig.get("nodes", "", node.private_dns), "nvidia.com/mig.config.state").string();
  }
  std::string available(const char* what, const char* resource) {
    return rig.get("nodes", "", node.private_dns)["status"][what][resource].string();
  }
  void boot() { rig.advance(130); }
  Json wants(int instances) {
    Json spec = Rig::pod_spec(0);
    spec.set("containers")
        .items_mut()[0]
        .set("resources", Json::object({{"limits", Json::object({{"nvidia.com/mig-1g.10gb", instances}})}}));
    return spec;
  }
  Instance node = rig.launch("p5.4xlarge");
};

TEST_F(MigManager, TheLabelGoesFromPendingToSuccessAndTheNodeHasInstances) {
  boot();
  EXPECT_EQ(state(), "") << "not requested";
  label("all-1g.10gb");
  rig.advance(1);
  EXPECT_EQ(state(), "pending");
  EXPECT_EQ(available("allocatable", "nvidia.com/gpu"), "1");
  rig.advance(19);
  EXPECT_EQ(state(), "success");
  EXPECT_EQ(available("allocatable", "nvidia.com/mig-1g.10gb"), "7");
  EXPECT_EQ(available("capacity", "nvidia.com/mig-1g.10gb"), "7");
  EXPECT_EQ(available("allocatable", "nvidia.com/gpu"), "0");
  label("all-3g.40gb");
  rig.advance(20);
  EXPECT_EQ(available("allocatable", "nvidia.com/mig-3g.40gb"), "2");
  EXPECT_EQ(available("allocatable", "nvidia.com/mig-1g.10gb"), "") << "what was cut before is gone";
  label("all-1g.20gb");
  rig.advance(20);
  EXPECT_EQ(available("allocatable", "nvidia.com/mig-1g.20gb"), "4");
  label("all-disabled");
  rig.advance(20);
  EXPECT_EQ(state(), "success");
  EXPECT_EQ(available("allocatable", "nvidia.com/gpu"), "1");
}

TEST_F(MigManager, FailsOnOrderOnLayoutsThatItDoesNotKnowAndOnGpusInUse) {
  boot();
  ASSERT_TRUE(rig.fleet.faults.inject(Json::object({{"kind", "mig"}, {"node", node.private_dns}})));
  label("all-1g.10gb");
  rig.advance(20);
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(available("allocatable", "nvidia.com/gpu"), "1");
  label("mine");
  rig.advance(20);
  EXPECT_EQ(state(), "failed");
  rig.make_pod("p", 1, run_for(100));
  ASSERT_TRUE(rig.bind("p", node.private_dns));
  label("all-1g.10gb");
  rig.advance(20);
  EXPECT_EQ(state(), "failed") << "a pod has the GPU";
  // Two labels in a row: the later one is applied.
  rig.advance(100);
  label("all-2g.20gb");
  label("all-1g.10gb");
  rig.advance(20);
  EXPECT_EQ(available("allocatable", "nvidia.com/mig-1g.10gb"), "7");
}

TEST_F(MigManager, PodsGetInstancesAsFarAsThereAreSome) {
  boot();
  label("all-1g.10gb");
  rig.advance(20);
  for (int i = 0; i < 8; ++i) {
    const std::string name = fmt::format("p{}", i);
    rig.make("pods", "team-a",
             Json::object(
                 {{"metadata", Json::object({{"name", name}, {"annotations", run_for(100)}})}, {"spec", wants(1)}}));
    ASSERT_TRUE(rig.bind(name, node.private_dns));
  }
  rig.advance(3);
  EXPECT_EQ(rig.phase("p6"), "Running");
  EXPECT_EQ(rig.phase("p7"), "Failed") << "there is no eighth";
  rig.make_pod("whole", 1);
  ASSERT_TRUE(rig.bind("whole", node.private_dns));
  rig.advance(3);
  EXPECT_EQ(rig.phase("whole"), "Failed") << "a GPU that is cut is not given as a whole";
}

TEST_F(Kubelet, MayDifferFromThePlan) {
  Fleet::Options options;
  options.cluster.kubelet_differs = 1;
  Rig other(std::move(options));
  const auto node = other.launch();
  other.make_pod("p", 2, run_for(100));
  ASSERT_TRUE(other.bind("p", node.private_dns, "0,1"));
  other.advance(3);
  const auto& given = other.cluster.pod(uid_of(other.get("pods", "team-a", "p")))->devices;
  EXPECT_EQ(given, (std::vector<int>{2, 3}));
}

TEST_F(Kubelet, AGangMakesStepsOnlyWhileAllItsRanksRun) {
  const auto job =
      rig.make_job("gang", 2, 8,
                   annotations({{"fleet.quartermaster.dev/run-seconds", "60"}, {"quartermaster.dev/checkpoint", "x"}}));
  rig.settle();
  const auto pods = rig.pods_of(job);
  ASSERT_TRUE(rig.bind(pods[0], rig.launch().private_dns));
  rig.advance(50);
  EXPECT_EQ((*rig.cluster.checkpoint("team-a", pods[0], Json::object()))["step"].integer(), 0);
  ASSERT_TRUE(rig.bind(pods[1], rig.launch().private_dns));
  rig.advance(2 + 20);
  const auto saved = rig.cluster.checkpoint("team-a", pods[0], Json::object({{"reason", "drain"}}));
  EXPECT_EQ((*saved)["step"].integer(), 20);
  EXPECT_EQ((*saved)["uri"].string(), "fleet://team-a/gang?step=20");
  EXPECT_EQ(rig.history("signal", "checkpoint").back()["step"].integer(), 20);
  rig.advance(39);
  EXPECT_EQ(rig.phase(pods[0]), "Running");
  rig.advance(1);
  EXPECT_EQ(rig.phase(pods[0]), "Succeeded");
  EXPECT_EQ(rig.phase(pods[1]), "Succeeded");
  EXPECT_EQ(condition_of(rig.get("jobs", "team-a", "gang"), "Complete")["status"].string(), "True");
  EXPECT_TRUE(rig.history("signal", "partial_gang").empty());
}

TEST_F(Kubelet, AGangThatStaysPartialIsInTheHistory) {
  const auto job = rig.make_job("gang", 3, 8);
  rig.settle();
  ASSERT_TRUE(rig.bind(rig.pods_of(job)[0], rig.launch().private_dns));
  rig.advance(299);
  EXPECT_TRUE(rig.history("signal", "partial_gang").empty());
  rig.advance(2);
  const auto partial = rig.history("signal", "partial_gang");
  ASSERT_EQ(partial.size(), 1u);
  EXPECT_EQ(partial[0]["running"].integer(), 1);
  EXPECT_EQ(partial[0]["size"].integer(), 3);
}

TEST_F(Kubelet, CheckpointsAreRefusedWhereThereAreNone) {
  const auto node = rig.launch();
  rig.make_pod("plain", 1, run_for(100));
  rig.make_pod("waits", 1, annotations({{"quartermaster.dev/checkpoint", "x"}}));
  ASSERT_TRUE(rig.bind("plain", node.private_dns));
  rig.advance(5);
  EXPECT_EQ(rig.cluster.checkpoint("team-a", "plain", Json::object()).error().code, 404);
  EXPECT_EQ(rig.cluster.checkpoint("team-a", "waits", Json::object()).error().code, 409);
  EXPECT_EQ(rig.cluster.checkpoint("team-a", "none", Json::object()).error().code, 404);
}

TEST_F(Kubelet, DeletionTakesAMomentAndFreesTheDevices) {
  const auto node = rig.launch();
  rig.make_pod("p", 8, run_for(1000));
  ASSERT_TRUE(rig.bind("p", node.private_dns));
  rig.advance(5);
  ASSERT_TRUE(rig.store.remove(kind_of("pods"), "team-a", "p", {}));
  rig.settle();
  EXPECT_EQ(rig.get("pods", "team-a", "p")["metadata"]["deletionGracePeriodSeconds"].integer(), 30);
  rig.advance(2);
  EXPECT_TRUE(rig.get("pods", "team-a", "p").is_null());
  EXPECT_EQ(rig.history("pod_stop")[0]["reason"].string(), "Deleted");

  rig.make_pod("q", 8, run_for(1000));
  ASSERT_TRUE(rig.bind("q", node.private_dns));
  rig.advance(5);
  ASSERT_TRUE(rig.store.remove(kind_of("pods"), "team-a", "q", {{}, {}, 0, {}}));
  rig.settle();
  EXPECT_TRUE(rig.get("pods", "team-a", "q").is_null()) << "no grace, no wait";
  EXPECT_EQ(rig.history("pod_stop").size(), 2u);
}

TEST_F(Kubelet, DrainingSlowsTheClock) {
  rig.world.set_factor(100);
  const auto node = rig.launch();
  rig.make_pod("p", 1, run_for(1000));
  ASSERT_TRUE(rig.bind("p", node.private_dns));
  rig.advance(5);
  rig.patch("nodes", "", node.private_dns, R"({"spec":{"unschedulable":true}})");
  EXPECT_EQ(rig.world.factor(), 100);
  ASSERT_TRUE(rig.store.remove(kind_of("pods"), "team-a", "p", {}));
  rig.settle();
  EXPECT_EQ(rig.world.factor(), 10);
  rig.advance(3);
  EXPECT_EQ(rig.world.factor(), 100);
}

TEST_F(Kubelet, AStoppedInstanceTakesItsPodsAndNodeAlong) {
  const auto job = gang(2, run_for(100));
  rig.advance(12);
  const auto pods = rig.pods_of(job);
  const auto lost = rig.world.instance_by_dns(nodes[0]);
  ASSERT_TRUE(rig.world.terminate_instance(lost->id, "Client.UserInitiatedShutdown"));
  const auto stops = rig.history("pod_stop");
  ASSERT_EQ(stops.size(), 1u) << "what ran is gone at once";
  EXPECT_EQ(stops[0]["reason"].string(), "NodeLost");
  EXPECT_EQ(stops[0]["step"].integer(), 10);
  rig.advance(6);
  EXPECT_TRUE(rig.get("nodes", "", nodes[0]).is_null());
  EXPECT_TRUE(rig.get("pods", "team-a", pods[0]).is_null());
  rig.advance(200);
  EXPECT_EQ(rig.phase(pods[1]), "Running") << "the other rank waits for its gang";
  EXPECT_EQ(rig.cluster.gangs().step(uid_of(rig.get("pods", "team-a", pods[1])), rig.world.now()), 10);
}

TEST_F(Kubelet, ALostNodeShowsAfterItsHeartbeatsStop) {
  const auto node = rig.launch();
  rig.make_pod("p", 1, run_for(1000));
  rig.make_pod("dying", 1, run_for(1000));
  for (const char* pod : {"p", "dying"}) ASSERT_TRUE(rig.bind(pod, node.private_dns));
  rig.advance(5);
  ASSERT_TRUE(rig.cluster.lose_node(node.private_dns));
  EXPECT_EQ(rig.cluster.lose_node(node.private_dns).error().code, Code::kNotFound);
  ASSERT_TRUE(rig.store.remove(kind_of("pods"), "team-a", "dying", {}));
  rig.advance(39);
  EXPECT_EQ(condition_of(rig.get("nodes", "", node.private_dns), "Ready")["status"].string(), "True");
  EXPECT_EQ(rig.phase("p"), "Running");
  EXPECT_FALSE(rig.get("pods", "team-a", "dying").is_null()) << "no controller to end it";
  rig.advance(1);
  const Json shown = rig.get("nodes", "", node.private_dns);
  EXPECT_EQ(condition_of(shown, "Ready")["status"].string(), "Unknown");
  EXPECT_EQ(shown["spec"]["taints"].size(), 2u);
  EXPECT_EQ(rig.phase("p"), "Failed");
  EXPECT_EQ(rig.get("pods", "team-a", "p")["status"]["reason"].string(), "NodeLost");
  EXPECT_TRUE(rig.get("pods", "team-a", "dying").is_null());
  EXPECT_TRUE(rig.world.instance(node.id)->alive()) << "EC2 does not know";

  ASSERT_TRUE(rig.cluster.heal_node(node.private_dns));
  EXPECT_EQ(condition_of(rig.get("nodes", "", node.private_dns), "Ready")["status"].string(), "True");
  EXPECT_FALSE(rig.get("nodes", "", node.private_dns)["spec"].contains("taints"));
}

TEST_F(Kubelet, AGpuThatFallsOffTheBusEndsItsPod) {
  const auto node = rig.launch();
  rig.make_pod("hit", 2, run_for(1000));
  rig.make_pod("other", 2, run_for(1000));
  ASSERT_TRUE(rig.bind("hit", node.private_dns, "0,1"));
  ASSERT_TRUE(rig.bind("other", node.private_dns, "2,3"));
  rig.advance(12);
  ASSERT_TRUE(rig.cluster.xid(node.private_dns, 79, 1));
  EXPECT_EQ(rig.get("nodes", "", node.private_dns)["status"]["allocatable"]["nvidia.com/gpu"].string(), "7");
  rig.advance(9);
  EXPECT_EQ(rig.phase("hit"), "Running") << "it hangs before it dies";
  rig.advance(12);
  EXPECT_EQ(rig.phase("hit"), "Failed");
  EXPECT_EQ(rig.phase("other"), "Running");
  const auto stops = rig.history("pod_stop");
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0]["step"].integer(), 10) << "no step after the fault";
  rig.make_pod("next", 7, run_for(10));
  ASSERT_TRUE(rig.bind("next", node.private_dns));
  rig.advance(3);
  EXPECT_EQ(rig.phase("next"), "Failed") << "the device is not given out again";
  EXPECT_EQ(rig.cluster.xid(node.private_dns, 79, 8).error().field, "gpu");
  EXPECT_EQ(rig.cluster.xid("nowhere", 79, {}).error().code, Code::kNotFound);
}

TEST_F(Kubelet, AHarmlessXidLeavesThePodAlone) {
  const auto node = rig.launch();
  rig.make_pod("p", 1, run_for(100));
  ASSERT_TRUE(rig.bind("p", node.private_dns));
  rig.advance(5);
  ASSERT_TRUE(rig.cluster.xid(node.private_dns, 63, {}));
  rig.advance(60);
  EXPECT_EQ(rig.phase("p"), "Running");
  EXPECT_EQ(rig.get("nodes", "", node.private_dns)["status"]["allocatable"]["nvidia.com/gpu"].string(), "8");
}

TEST_F(Kubelet, PodsOfANodeThatNeverExistedAreCollected) {
  rig.make_pod("p", 1);
  ASSERT_TRUE(rig.bind("p", "ip-10-0-99-99.ec2.internal")) << "a binding does not ask whether the node exists";
  rig.advance(39);
  EXPECT_EQ(rig.phase("p"), "Pending");
  rig.advance(2);
  EXPECT_TRUE(rig.get("pods", "team-a", "p").is_null());
}

TEST_F(Kubelet, SummaryCountsWhatComputes) {
  gang(2, run_for(1000));
  rig.launch();
  rig.advance(5);
  const Json now = rig.cluster.summary();
  EXPECT_EQ(now["gpus"].integer(), 24);
  EXPECT_EQ(now["gpus_allocated"].integer(), 16);
  EXPECT_EQ(now["gpus_computing"].integer(), 16);
  ASSERT_TRUE(rig.cluster.lose_node(nodes[0]));
  EXPECT_EQ(rig.cluster.summary()["gpus_computing"].integer(), 0) << "half a gang computes nothing";
  EXPECT_EQ(rig.cluster.summary()["gpus_allocated"].integer(), 8);
}

}  // namespace cluster_test
}  // namespace qm::fleet
