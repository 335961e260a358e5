// The autoscaler with a real Kueue, which requests capacity by a ProvisioningRequest before it admits a Job: Kueue holds
// the quota, the simulated EC2 launches, kube-scheduler binds. Skipped unless it runs (./qm peers kubernetes kueue start).
#include "adoption.hpp"

#include <cstdlib>
#include <map>
#include <set>

namespace qm::adoption {
namespace kueue_k8s_test {

using kube::resources::kJobs;
using kube::resources::kNodes;
using namespace std::chrono_literals;

const kube::Resource kChecks{"kueue.x-k8s.io", "v1beta2", "admissionchecks", false};
const kube::Resource kConfigs{"kueue.x-k8s.io", "v1beta2", "provisioningrequestconfigs", false};
const kube::Resource kRequests{"autoscaling.x-k8s.io", "v1", "provisioningrequests", true};
const kube::Resource kNodeClasses{"karpenter.k8s.aws", "v1", "ec2nodeclasses", false};

class AutoscalerWithKueue : public Adoption {
 protected:
  void SetUp() override {
    if (std::getenv("QM_KUEUE") == nullptr) GTEST_SKIP() << "Kueue does not run: ./qm peers kubernetes kueue start";
    Adoption::SetUp();
    if (IsSkipped()) return;
    definitions("karpenter.yaml");
    const auto discovered = *Json::parse(R"([{"tags":{"karpenter.sh/discovery":"quartermaster"}}])");
    create(kNodeClasses,
           Json::object({{"apiVersion", "karpenter.k8s.aws/v1"},
                         {"kind", "EC2NodeClass"},
                         {"metadata", Json::object({{"name", own("class")}})},
                         {"spec", Json::object({{"amiFamily", "Custom"},
                                                {"amiSelectorTerms", *Json::parse(R"([{"id":"ami-00000000"}])")},
                                                {"subnetSelectorTerms", discovered},
                                                {"securityGroupSelectorTerms", discovered},
                                                {"instanceProfile", "fleet-nodes"}})}}));
    Json pool = node_pool(own("class"));
    pool.set("spec")
        .set("template")
        .set("spec")
        .set("requirements")
        .push_back(Json::object(
            {{"key", "topology.kubernetes.io/zone"}, {"operator", "In"}, {"values", Json::array({kZone})}}));
    create(kube::resources::kNodePools, pool);
    queue_with_check();
    autoscaler_ = service("autoscaler", {"observe=cluster", "aws=" + cluster().aws, "scaling=quartermaster",
                                         "cluster-name=adopted", "cluster-endpoint=https://api.adopted"});
  }

  void TearDown() override {
    if (!IsSkipped()) {
      limit(64);
      for (const auto& instance : instances()) (void)aws().terminate_instances({instance.id});
      for (const auto& [instance, node] : nodes_) (void)client().remove(kNodes, "", node, {});
    }
    Adoption::TearDown();
  }

  /// The cluster's part: instances of the pool register as nodes, and their nodes are deleted with them.
  void others() override {
    std::set<std::string> alive;
    for (const auto& instance : instances()) {
      alive.insert(instance.id);
      most_alive_ = std::max(most_alive_, alive.size());
      if (nodes_.try_emplace(instance.id, instance.private_dns).second) make_node(instance.private_dns, instance.id);
    }
    std::erase_if(nodes_, [&](const auto& one) {
      if (alive.contains(one.first)) return false;
      (void)client().remove(kNodes, "", one.second, {});
      return true;
    });
  }

  std::vector<cloud::Instance> instances() {
    const auto found = aws().describe_instances(
        {}, {{"tag:" + std::string(kPool), {own("pool")}}, {"instance-state-name", {"pending", "running"}}});
    EXPECT_TRUE(found) << (found ? "" : found.error().to_string());
    return found ? *found : std::vector<cloud::Instance>{};
  }

  /// At most `n` live instances of the type in the zone.
  void limit(int n) {
    http::Request request;
    request.method = "POST";
    request.target = "/fleet/faults";
    request.body = fmt::format(R"({{"kind":"capacity","type":"{}","market":"on-demand","zone":"{}","limit":{}}})",
                               kType, kZone, n);
    const auto answer = http::Client(cluster().faults).send(request);
    ASSERT_TRUE(answer && answer->status == 200) << (answer ? answer->body : answer.error().to_string());
  }

  void create_gang(const std::string& name) {
    Json gang = job(name, 8, 5);
    gang.set("spec").set("parallelism", 4).set("completions", 4);
    create(kJobs, gang);
  }
  Json request() {
    const auto all = client().list_all(kRequests, ns());
    return all && !all->empty() ? all->front() : Json();
  }
  static std::string condition(const Json& object, const std::string& type) {
    for (const auto& c : object.path("status.conditions").items()) {
      if (c["type"].string() == type) return c["status"].string();
    }
    return {};
  }
  std::set<std::string> nodes_of_pods() {
    std::set<std::string> out;
    const auto pods = client().list_all(kube::resources::kPods, ns());
    if (!pods) return out;
    for (const auto& pod : *pods) out.insert(pod.path("spec.nodeName").string());
    out.erase("");
    return out;
  }
  std::string all_states() {
    return fmt::format("{}\n{}\n{}", request().dump(), get(kJobs, "gang").dump(), autoscaler_->log());
  }

  static constexpr const char* kZone = "us-east-1a";
  std::unique_ptr<Service> autoscaler_;
  std::map<std::string, std::string> nodes_;  // by instance
  std::size_t most_alive_ = 0;

 private:
  void queue_with_check() {
    create(kConfigs,
           Json::object(
               {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                {"kind", "ProvisioningRequestConfig"},
                {"metadata", Json::object({{"name", own("config")}})},
                {"spec", *Json::parse(R"({"provisioningClassName":"best-effort-atomic-scale-up.autoscaling.x-k8s.io",
                                       "managedResources":["nvidia.com/gpu"]})")}}));
    create(kChecks,
           Json::object({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                         {"kind", "AdmissionCheck"},
                         {"metadata", Json::object({{"name", own("check")}})},
                         {"spec", Json::object({{"controllerName", "kueue.x-k8s.io/provisioning-request"},
                                                {"parameters", Json::object({{"apiGroup", "kueue.x-k8s.io"},
                                                                             {"kind", "ProvisioningRequestConfig"},
                                                                             {"name", own("config")}})}})}}));
    queues(64);
    // The pods, and the pod templates of the request, fit only the nodes of our pool.
    const auto labels = Json::object({{kPool, own("pool")}});
    ASSERT_TRUE(
        client().merge_patch(flavors_, "", own("f"), Json::object({{"spec", Json::object({{"nodeLabels", labels}})}})));
    const auto checks = Json::object({{"admissionChecks", Json::array({Json::object({{"name", own("check")}})})}});
    ASSERT_TRUE(client().merge_patch(cluster_queues_, "", own("cq"),
                                     Json::object({{"spec", Json::object({{"admissionChecksStrategy", checks}})}})));
  }
};

TEST_F(AutoscalerWithKueue, AProvisioningRequestStartsAGangOfFourNodes) {
  create_gang("gang");
  ASSERT_TRUE(comes([&] { return condition(request(), "Provisioned") == "True"; }, 90s)) << all_states();
  EXPECT_EQ(instances().size(), 4U);
  ASSERT_TRUE(comes([&] { return nodes_of_pods().size() == 4; }, 60s)) << all_states();
  EXPECT_FALSE(get(kJobs, "gang").path("spec.suspend").boolean());
  EXPECT_EQ(most_alive_, 4U) << "nothing is launched for the pods of the request";
  ASSERT_TRUE(comes([&] { return get(kJobs, "gang").path("status.succeeded").integer() == 4; }, 90s)) << all_states();
}

TEST_F(AutoscalerWithKueue, OfAGangWhoseThirdLaunchIsRefusedNothingRemains) {
  limit(2);
  create_gang("gang");
  ASSERT_TRUE(comes([&] { return condition(request(), "Accepted") == "True"; }, 60s)) << all_states();
  ASSERT_TRUE(
      comes([&] { return autoscaler_->state().dump().find("InsufficientInstanceCapacity") != std::string::npos; }, 60s))
      << autoscaler_->state().pretty();
  EXPECT_TRUE(comes([&] { return instances().empty(); }, 60s)) << all_states();
  EXPECT_TRUE(get(kJobs, "gang").path("spec.suspend").boolean());
  EXPECT_NE(condition(request(), "Provisioned"), "True");
  // Kueue is released as soon as the cloud has room again.
  limit(64);
  EXPECT_TRUE(comes([&] { return nodes_of_pods().size() == 4; }, 300s)) << all_states();
}

}  // namespace kueue_k8s_test
}  // namespace qm::adoption
