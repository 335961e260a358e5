// Without placement: the observation of the cluster, cordons by the autoscaler, and workloads that are bound at the
// last moment.
#include "qm/autoscaler/cluster.hpp"
#include "qm/autoscaler/settings.hpp"
#include "test/shell/rig.hpp"

namespace qm::autoscaler {
namespace alone_test {

using namespace autoscaler::testing;

store::IntentRow cordon(bool on) {
  return {"cordon/n1/1", "node.cordon", "node/n1", 0,
          Json::object({{"node", "n1"}, {"on", on}, {"reason", "Empty"}}).dump()};
}

Json node(bool cordoned) {
  Json made = Json::object({{"metadata", Json::object({{"name", "n1"}})}, {"spec", Json::object()}});
  if (cordoned) made.set("spec").set("unschedulable", true);
  return made;
}

TEST(Alone, CordonsANodeAndTakesItsOwnCordonBack) {
  Rig rig;
  rig.kube.nodes["n1"] = node(false);
  for (int i = 0; i < 2; ++i) rig.run(cordon(true));
  EXPECT_TRUE(rig.kube.nodes["n1"]["spec"]["unschedulable"].boolean());
  EXPECT_EQ(kube::annotation(rig.kube.nodes["n1"], kDrainAnnotation), "Empty");
  for (int i = 0; i < 2; ++i) rig.run(cordon(false));
  EXPECT_FALSE(rig.kube.nodes["n1"]["spec"]["unschedulable"].boolean());
  EXPECT_TRUE(kube::annotation(rig.kube.nodes["n1"], kDrainAnnotation).empty());
  rig.kube.nodes["n1"] = node(true);
  rig.run(cordon(false));
  EXPECT_TRUE(rig.kube.nodes["n1"]["spec"]["unschedulable"].boolean()) << "the cordon of another user stays";
  // Also if the autoscaler requested the cordon too for a while.
  for (int i = 0; i < 2; ++i) rig.run(cordon(true));
  EXPECT_EQ(kube::annotation(rig.kube.nodes["n1"], kDrainAnnotation), "cordoned by another, Empty");
  for (int i = 0; i < 2; ++i) rig.run(cordon(false));
  EXPECT_TRUE(rig.kube.nodes["n1"]["spec"]["unschedulable"].boolean());
  EXPECT_TRUE(kube::annotation(rig.kube.nodes["n1"], kDrainAnnotation).empty());
  rig.kube.nodes.clear();
  rig.run(cordon(true));  // the node is gone: no effect
}

TEST(Alone, TerminatesNoInstanceThatGotAPod) {
  Rig rig;
  rig.run(rig.launch);
  const store::IntentRow terminate{"terminate/p-1/5", "instance.terminate", "p-1", 0,
                                   R"({"claim":"p-1","instance":"i-1","node":"n1"})"};
  const auto owner = Json::object({{"kind", "DaemonSet"}});
  rig.kube.pods = Json::array(
      {Json::object({{"metadata", Json::object({{"name", "w"}})}, {"status", Json::object({{"phase", "Running"}})}})});
  const auto busy = rig.run(terminate);
  EXPECT_TRUE(busy["busy"].boolean());
  EXPECT_EQ(rig.ec2.count("TerminateInstances"), 0);
  EXPECT_EQ(rig.kube.objects.size(), 1U);
  EXPECT_EQ(rig.kube.asked_pods, std::vector<std::string>{"spec.nodeName=n1"});
  // A pod that has ended, or is part of the node, does not occupy it.
  rig.kube.pods = Json::array({Json::object({{"status", Json::object({{"phase", "Succeeded"}})}}),
                               Json::object({{"metadata", Json::object({{"ownerReferences", Json::array({owner})}})},
                                             {"status", Json::object({{"phase", "Running"}})}})});
  EXPECT_EQ(rig.run(terminate)["error"].string(), "");
  EXPECT_EQ(rig.ec2.count("TerminateInstances"), 1);
}

TEST(Alone, LeavesTheTerminationToKarpenterToo) {
  Rig rig;
  Executor executor(rig.client, rig.aws, Driver::kKarpenter, "east");
  rig.launch.payload = R"({"claim":"p-1","pool":"p","type":"p5.48xlarge","zone":"z1",)"
                       R"("labels":{"node-role.kubernetes.io/gpu":"train","team":"ml"},"taints":[]})";
  ASSERT_TRUE(executor.execute(rig.launch));
  EXPECT_EQ(kube::label(rig.kube.objects.at("p-1"), kOwnerTag), "east");
  EXPECT_EQ(kube::label(rig.kube.objects.at("p-1"), "team"), "ml");
  EXPECT_EQ(kube::label(rig.kube.objects.at("p-1"), "node-role.kubernetes.io/gpu"), "train")
      << "Karpenter sets the labels of the NodeClaim on the node, also those that a kubelet may not set";
  ASSERT_TRUE(executor.execute(rig.terminate));
  EXPECT_TRUE(rig.kube.objects.empty());
  EXPECT_EQ(rig.ec2.count("TerminateInstances"), 0);
}

TEST(Alone, InputsOfTheClusterAreCommands) {
  const auto read = [](const char* name, const std::string& bytes) {
    service::Input in;
    in.source = service::Source::kWatch;
    in.name = name;
    in.bytes = bytes;
    const auto commands = Codec{}.decode(in);
    EXPECT_TRUE(commands) << commands.error().to_string();
    return commands ? commands->front() : Command{};
  };
  const auto update = std::get<NodeUpdated>(
      read("node", R"({"node":"n1","ready":true,"cordoned":true,"pods":2,"empty_since_us":0,"instance":"i-1"})"));
  EXPECT_TRUE(update.ready && update.cordoned && !update.gone);
  EXPECT_EQ(update.pods, 2);
  EXPECT_FALSE(update.empty_since);
  const auto owners = std::get<OwnersUpdated>(read(
      "owners", R"([{"namespace":"","ours":false,"owner":"karpenter"},{"namespace":"a","ours":true,"owner":"x"}])"));
  ASSERT_EQ(owners.owners.size(), 2U);
  EXPECT_FALSE(owners.owners[0].ours);
  EXPECT_EQ(owners.owners[1].ns, "a");
  const auto lost = std::get<LaunchEnded>(read("claim.lost", R"({"claim":"p-1","error":"deleted"})"));
  EXPECT_TRUE(lost.instance.empty());
  EXPECT_EQ(lost.error, "deleted");
}

TEST(Alone, ADrainIsACordonOnlyWithoutAnotherScheduler) {
  Engine engine(catalog_types());
  Output out;
  out.drains.push_back({NodeName("n1"), "Empty", std::nullopt, false, from_micros(7)});
  service::Effects together, alone;
  Codec{}.encode(engine, out, {}, together);
  EXPECT_TRUE(together.intents.empty());
  Codec(true).encode(engine, out, {}, alone);
  ASSERT_EQ(alone.intents.size(), 1U);
  EXPECT_EQ(alone.intents[0].kind, "node.cordon");
  EXPECT_EQ(alone.intents[0].id, "cordon/n1/7/on");
}

// At the deadline of a drain the instance ends with the pods on it: the executor does not check for them.
TEST(Alone, ADrainPastItsDeadlineEndsWithItsPods) {
  const auto checks_pods = [](std::optional<Instant> deadline) {
    Engine engine(catalog_types());
    Claim claim;
    claim.node = NodeName("n1");
    claim.life.deadline = deadline;
    engine.mutable_tables().claims.insert(ClaimName("p-1"), claim);
    Output out;
    out.terminations.push_back({ClaimName("p-1"), InstanceId("i-1"), from_micros(7), ""});
    service::Effects effects;
    Codec(true).encode(engine, out, {}, effects);
    return !(*Json::parse(effects.intents.at(0).payload))["node"].is_null();
  };
  EXPECT_TRUE(checks_pods(std::nullopt));
  EXPECT_TRUE(checks_pods(from_micros(8)));
  EXPECT_FALSE(checks_pods(from_micros(7)));
}

// Placement acts on a ready node at once, and is given two minutes before an unused node counts as refused.
TEST(Alone, APlanIsRenewedSoonAfterTheLongestBackOffOfTheScheduler) {
  const auto settle = [](const std::map<std::string, std::string>& settings) {
    return engine_options(*settings_table().read(settings)).settle;
  };
  EXPECT_EQ(settle({{"observe", "cluster"}}), std::chrono::seconds(30));
  EXPECT_EQ(settle({}), std::chrono::minutes(2));
}

TEST(Alone, WrongSettingsListTheValidOnes) {
  const auto& table = settings_table();
  EXPECT_TRUE(table.read({{"observe", "cluster"}})->cluster.alone);
  EXPECT_EQ(table.read({{"scaling", "none"}})->cluster.scaling, "none");
  EXPECT_EQ(table.read({{"aws", "http://127.0.0.1:1"}})->aws, "http://127.0.0.1:1");
  EXPECT_EQ(table.read({})->cluster.driver, Driver::kEc2);
  EXPECT_EQ(table.read({{"observe", "all"}}).error().field, "observe");
  EXPECT_EQ(table.read({{"driver", "gce"}}).error().field, "driver");
}

}  // namespace alone_test
}  // namespace qm::autoscaler
