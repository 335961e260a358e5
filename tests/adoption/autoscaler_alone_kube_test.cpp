// The autoscaler alone: it provisions nodes for pods that another scheduler could not place. Creating an instance for a
// NodeClaim, and a node for a group's instance, is the task of other programs: the test simulates it if the cluster
// does not.
#include "adoption.hpp"
#include "qm/cloud/aws.hpp"

#include <algorithm>
#include <map>

namespace qm::adoption {
namespace autoscaler_alone_kube_test {

using kube::resources::kNodeClaims;
using kube::resources::kNodePools;
using kube::resources::kNodes;
using kube::resources::kPods;
using namespace std::chrono_literals;

class AutoscalerAlone : public Adoption {
 protected:
  void SetUp() override {
    Adoption::SetUp();
    if (IsSkipped()) return;
    if (cluster().aws.empty()) GTEST_SKIP() << "there is no cloud with this cluster";
    definitions("karpenter.yaml");
  }

  void TearDown() override {
    if (!IsSkipped()) {
      for (const auto& claim : claims()) (void)client().remove(kNodeClaims, "", kube::name_of(claim), {});
      for (const auto& [claim, machine] : machines_) terminate_instance(machine);
      for (const auto& instance : group_nodes_) (void)client().remove(kNodes, "", instance.second, {});
    }
    Adoption::TearDown();
  }

  std::unique_ptr<Service> start(std::vector<std::string> sets) {
    sets.emplace_back("observe=cluster");
    sets.push_back("aws=" + cluster().aws);
    return service("autoscaler", sets);
  }

  /// A pod that fits only a node of our pool.
  Json pod_of_pool(const std::string& name, int run_s = 3) {
    auto made = pod(name, 8, run_s);
    made.set("spec").set("nodeSelector", Json::object({{kPool, own("pool")}}));
    return made;
  }

  std::vector<Json> claims() {
    auto all = client().list_all(kNodeClaims, "");
    if (!all) return {};
    std::erase_if(*all, [&](const Json& claim) { return kube::label(claim, kPool) != own("pool"); });
    return std::move(*all);
  }
  bool ended(const std::string& pod) { return get(kPods, pod).path("status.phase").string() == "Succeeded"; }
  bool waits(const std::string& pod) {
    const auto object = get(kPods, pod);
    for (const auto& c : object.path("status.conditions").items()) {
      if (c["reason"].string() == "Unschedulable") return true;
    }
    return false;
  }

  void others() override {
    if (plays_karpenter_) play_karpenter();
    if (!group_.empty() && !cluster().machines) play_kubelets();
  }

  bool plays_karpenter_ = false;
  std::string group_;
  std::map<std::string, Machine> machines_;  // by claim
  std::map<std::string, std::string> group_nodes_;

 private:
  /// The cloud side of Karpenter: creates an instance for each claim, and deletes it with the claim.
  void play_karpenter() {
    const auto there = claims();
    for (const auto& claim : there) {
      const auto name = kube::name_of(claim);
      if (!machines_.contains(name)) machines_[name] = create_instance(name);
      const auto& [instance, node] = machines_[name];
      if (!claim.path("status.providerID").is_null() || !client().get(kNodes, "", node)) continue;
      const auto launched = Json::object({{"type", "Launched"}, {"status", "True"}, {"reason", "Launched"}});
      const auto status = Json::object({{"providerID", "aws:///us-east-1a/" + instance},
                                        {"nodeName", node},
                                        {"conditions", Json::array({launched})}});
      (void)client().merge_patch(kNodeClaims, "", name, Json::object({{"status", status}}), "status");
    }
    for (auto it = machines_.begin(); it != machines_.end();) {
      const bool stands =
          std::any_of(there.begin(), there.end(), [&](const Json& c) { return kube::name_of(c) == it->first; });
      if (!stands) terminate_instance(it->second);
      it = stands ? std::next(it) : machines_.erase(it);
    }
  }

  /// The instances of the group register as nodes, and their nodes are deleted with them.
  void play_kubelets() {
    const auto groups = aws().describe_groups({group_});
    if (!groups || groups->empty()) return;
    const auto instances = aws().describe_instances();
    if (!instances) return;
    for (const auto& instance : *instances) {
      const auto tag = instance.tags.find("aws:autoscaling:groupName");
      if (tag == instance.tags.end() || tag->second != group_) continue;
      const bool over = instance.state == "terminated" || instance.state == "shutting-down";
      if (!over && !group_nodes_.contains(instance.id)) {
        make_node(instance.private_dns, instance.id);
        group_nodes_[instance.id] = instance.private_dns;
      } else if (over && group_nodes_.contains(instance.id)) {
        (void)client().remove(kNodes, "", group_nodes_[instance.id], {});
      }
    }
  }
};

TEST_F(AutoscalerAlone, APendingPodGetsAnInstanceByANodeClaimWhichIsTerminatedWhenIdle) {
  create(kNodePools, node_pool("adopted"));
  plays_karpenter_ = true;
  const auto autoscaler = start({"driver=karpenter", "scaling=quartermaster"});
  EXPECT_TRUE(claims().empty());
  create(kPods, pod_of_pool("waits"));
  ASSERT_TRUE(comes([&] { return !claims().empty(); })) << autoscaler->log();
  const auto claim = claims().front();
  EXPECT_EQ(claim.path("spec.nodeClassRef.name").string(), "adopted");
  EXPECT_NE(kube::annotation(claim, "quartermaster.dev/reason").find(kType), std::string::npos);
  ASSERT_TRUE(comes([&] { return !get(kPods, "waits").path("spec.nodeName").string().empty(); }, 90s))
      << autoscaler->log();
  EXPECT_EQ(claims().size(), 1U) << "one instance is enough";
  ASSERT_TRUE(comes([&] { return ended("waits"); }, 90s)) << get(kPods, "waits").dump() << autoscaler->log();
  // No other pod needs it: the node is cordoned, and its claim is deleted.
  EXPECT_TRUE(comes([&] { return claims().empty(); }, 90s)) << autoscaler->state().pretty();
  EXPECT_TRUE(comes([&] { return autoscaler->state().path("engine.demand").size() == 0; }));
}

// Its scheduler is not simulated, so that the pod stays pending.
TEST_F(AutoscalerAlone, APendingPodIsNominatedForTheNodeThatWasLaunchedForIt) {
  create(kNodePools, node_pool("adopted"));
  plays_karpenter_ = true;
  const auto autoscaler = start({"driver=karpenter", "scaling=quartermaster"});
  auto made = pod_of_pool("later");
  made.set("spec").set("schedulerName", "another-scheduler");
  create(kPods, made);
  set_no_capacity(get(kPods, "later"));
  const auto nominated = [&] { return get(kPods, "later").path("status.nominatedNodeName").string(); };
  ASSERT_TRUE(comes([&] { return !nominated().empty(); }, 90s)) << autoscaler->state().pretty() << autoscaler->log();
  ASSERT_EQ(machines_.size(), 1U);
  EXPECT_EQ(nominated(), machines_.begin()->second.node);
  EXPECT_TRUE(get(kPods, "later").path("spec.nodeName").string().empty());
}

TEST_F(AutoscalerAlone, APendingPodScalesUpAnAutoScalingGroupAndAnIdleInstanceLeavesIt) {
  group_ = own("group");
  cloud::NewGroup wanted;
  wanted.name = group_;
  wanted.instance_type = kType;
  wanted.zones = {"us-east-1a"};
  wanted.max = 2;
  wanted.tags = {{kPool, own("pool")}};
  const auto created = aws().create_group(wanted);
  ASSERT_TRUE(created) << created.error().to_string();
  const auto desired = [&] {
    const auto groups = aws().describe_groups({group_});
    return groups && !groups->empty() ? groups->front().desired : -1;
  };
  create(kNodePools, node_pool("adopted", Json::object({{"quartermaster.dev/auto-scaling-group", group_}})));
  const auto autoscaler = start({"scaling=quartermaster"});
  EXPECT_EQ(desired(), 0);
  create(kPods, pod_of_pool("waits"));
  ASSERT_TRUE(comes([&] { return desired() == 1; })) << autoscaler->log();
  ASSERT_TRUE(comes([&] { return !get(kPods, "waits").path("spec.nodeName").string().empty(); }, 90s))
      << autoscaler->log();
  EXPECT_TRUE(claims().empty()) << "an instance of a group has no NodeClaim";
  ASSERT_TRUE(comes([&] { return ended("waits"); }, 90s)) << get(kPods, "waits").dump() << autoscaler->log();
  EXPECT_TRUE(comes([&] { return desired() == 0; }, 90s)) << autoscaler->state().pretty();
}

TEST_F(AutoscalerAlone, AnInstanceCordonedByAUserIsTerminatedToo) {
  create(kNodePools, node_pool("adopted"));
  plays_karpenter_ = true;
  const auto autoscaler = start({"driver=karpenter", "scaling=quartermaster"});
  create(kPods, pod_of_pool("waits", cluster().scheduler ? 4 : 40));
  ASSERT_TRUE(comes([&] { return !get(kPods, "waits").path("spec.nodeName").string().empty(); }, 90s))
      << autoscaler->log();
  const auto node = get(kPods, "waits").path("spec.nodeName").string();
  ASSERT_TRUE(
      client().merge_patch(kNodes, "", node, Json::object({{"spec", Json::object({{"unschedulable", true}})}})));
  EXPECT_TRUE(comes([&] { return claims().empty(); }, 90s)) << autoscaler->state().pretty();
}

TEST_F(AutoscalerAlone, AGangGetsItsInstancesTogetherOnceItIsComplete) {
  create(kNodePools, node_pool("adopted"));
  const auto autoscaler = start({"driver=karpenter", "scaling=quartermaster"});
  const auto member = [&](const std::string& name) {
    auto made = pod_of_pool(name);
    made.set("metadata").set("labels").set("kueue.x-k8s.io/pod-group-name", "gang");
    made.set("metadata").set("annotations").set("kueue.x-k8s.io/pod-group-total-count", "2");
    return made;
  };
  create(kPods, member("gang-0"));
  ASSERT_TRUE(comes([&] { return waits("gang-0"); }));
  create(kPods, pod_of_pool("single"));
  ASSERT_TRUE(comes([&] { return !claims().empty(); })) << autoscaler->log();
  EXPECT_EQ(claims().size(), 1U) << "half a gang gets nothing";
  create(kPods, member("gang-1"));
  EXPECT_TRUE(comes([&] { return claims().size() == 3; })) << autoscaler->state().pretty();
}

TEST_F(AutoscalerAlone, AClaimDeletedWithoutAnInstanceIsDroppedAndClaimsOfOthersStay) {
  create(kNodePools, node_pool("adopted"));
  const auto only = [](const char* key, const char* value) {
    return Json::object({{"key", key}, {"operator", "In"}, {"values", Json::array({value})}});
  };
  auto theirs = Json::object(
      {{"apiVersion", "karpenter.sh/v1"},
       {"kind", "NodeClaim"},
       {"metadata", Json::object({{"name", own("theirs")}, {"labels", Json::object({{kPool, own("pool")}})}})},
       {"spec", Json::object({{"requirements", Json::array({only("node.kubernetes.io/instance-type", kType)})},
                              {"nodeClassRef", Json::object({{"group", "karpenter.k8s.aws"},
                                                             {"kind", "EC2NodeClass"},
                                                             {"name", "adopted"}})}})}});
  create(kNodeClaims, theirs);
  const auto status =
      Json::object({{"providerID", "aws:///us-east-1a/i-" + own("theirs")}, {"nodeName", own("theirs")}});
  ASSERT_TRUE(client().merge_patch(kNodeClaims, "", own("theirs"), Json::object({{"status", status}}), "status"));
  const auto autoscaler = start({"driver=karpenter", "scaling=quartermaster"});
  ASSERT_TRUE(comes([&] { return autoscaler->state().path("engine.claims").contains("i-" + own("theirs")); }))
      << autoscaler->state().pretty();
  EXPECT_EQ(autoscaler->state().path("engine.claims")["i-" + own("theirs")]["pool"].string(), "");
  create(kPods, pod_of_pool("waits"));
  ASSERT_TRUE(comes([&] { return claims().size() == 2; })) << autoscaler->log();
  for (const auto& claim : claims()) {
    if (kube::name_of(claim) != own("theirs")) (void)client().remove(kNodeClaims, "", kube::name_of(claim), {});
  }
  EXPECT_TRUE(comes([&] {
    return autoscaler->state().dump().find("its NodeClaim was deleted before it had an instance") != std::string::npos;
  })) << autoscaler->state().pretty();
  EXPECT_FALSE(get(kNodeClaims, own("theirs")).is_null()) << "it is not ours to end";
}

TEST_F(AutoscalerAlone, WithoutScalingItOnlyReportsItsPlan) {
  create(kNodePools, node_pool("adopted"));
  const auto autoscaler = start({"driver=karpenter", "scaling=none"});
  create(kPods, pod_of_pool("waits"));
  ASSERT_TRUE(comes([&] { return has_event("DeferredToOtherController", "pod " + ns() + "/waits is left to none"); }))
      << autoscaler->log();
  ASSERT_TRUE(comes([&] {
    return autoscaler->state().dump().find("Quartermaster would launch 1 x p5.48xlarge on-demand at") !=
           std::string::npos;
  })) << autoscaler->state().pretty();
  EXPECT_TRUE(waits("waits"));
  EXPECT_TRUE(claims().empty());
  for (const auto& [name, claim] : autoscaler->state().path("engine.claims").members()) {
    EXPECT_NE(claim["pool"].string(), own("pool")) << name;
  }
}

TEST_F(AutoscalerAlone, WithKarpenterActiveItDefersUntilALabel) {
  create(kNodePools, node_pool("adopted"));
  lease("karpenter-leader-election", "karpenter-1");
  plays_karpenter_ = true;
  const auto autoscaler = start({"driver=karpenter"});
  create(kPods, pod_of_pool("theirs"));
  ASSERT_TRUE(comes([&] { return has_event("DeferredToOtherController", "karpenter is active"); }))
      << autoscaler->log();
  EXPECT_TRUE(claims().empty());
  label_namespace("quartermaster.dev/scaling", "quartermaster");
  ASSERT_TRUE(comes([&] { return !claims().empty(); })) << autoscaler->log();
  EXPECT_TRUE(comes([&] { return !get(kPods, "theirs").path("spec.nodeName").string().empty(); }, 90s))
      << autoscaler->log();
}

TEST_F(AutoscalerAlone, WhereAClusterAutoscalerIsAtWorkAndTheNamespaceKeepsItNothingIsLaunched) {
  create(kNodePools, node_pool("adopted"));
  lease("cluster-autoscaler", "cluster-autoscaler-1");
  const auto autoscaler = start({"driver=karpenter"});
  create(kPods, pod_of_pool("theirs"));
  ASSERT_TRUE(comes([&] { return has_event("DeferredToOtherController", "cluster-autoscaler is active"); }))
      << autoscaler->log();
  // A namespace that names the other autoscaler is not handled twice.
  label_namespace("quartermaster.dev/scaling", "cluster-autoscaler");
  ASSERT_TRUE(comes([&] { return autoscaler->state().path("engine.owners").dump().find(ns()) != std::string::npos; }))
      << autoscaler->state().pretty();
  EXPECT_TRUE(claims().empty());
}

TEST_F(AutoscalerAlone, AnUnreadableNodePoolKeepsItsLastStateAndGetsAnEvent) {
  create(kNodePools, node_pool("adopted"));
  plays_karpenter_ = true;
  const auto autoscaler = start({"driver=karpenter", "scaling=quartermaster"});
  ASSERT_TRUE(comes([&] { return autoscaler->state().path("engine.pools").integer() >= 1; })) << autoscaler->log();
  auto broken = get(kNodePools, own("pool"));
  broken.set("spec").set("disruption").set("consolidateAfter", "soon");
  ASSERT_TRUE(client().update(kNodePools, "", own("pool"), broken));
  ASSERT_TRUE(comes([&] {
    const auto events = client().list_all(kube::resources::kEvents, "default");
    return events && std::any_of(events->begin(), events->end(), [&](const Json& event) {
             return event["reason"].string() == "NotAccepted" &&
                    event.path("involvedObject.name").string() == own("pool");
           });
  })) << autoscaler->log();
  create(kPods, pod_of_pool("waits"));
  EXPECT_TRUE(comes([&] { return !claims().empty(); })) << "the last version that could be read is in force";
  // A pool that is being deleted accepts no more pods, and its instances are terminated when they are empty.
  ASSERT_TRUE(client().remove(kNodePools, "", own("pool"), {}));
  EXPECT_TRUE(comes([&] {
    return autoscaler->state().dump().find("no NodePool") != std::string::npos ||
           autoscaler->state().path("engine.pools").integer() == 0;
  })) << autoscaler->log();
}

}  // namespace autoscaler_alone_kube_test
}  // namespace qm::adoption
