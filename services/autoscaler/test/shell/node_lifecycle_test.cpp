// What the API server gets for the decisions of the engine: status of NodeClaims, taints and labels of nodes, evictions.
#include "qm/autoscaler/nodes/node_lifecycle.hpp"

#include "qm/autoscaler/shell.hpp"
#include "qm/http/http.hpp"
#include "qm/model/pod_owner.hpp"
#include "src/shell/instances/node_claim.hpp"

#include <gtest/gtest.h>

#include <mutex>

namespace qm::autoscaler {
namespace node_lifecycle_test {

using namespace std::chrono_literals;

/// Objects by path, and what was written.
class Api {
 public:
  Api() : server_({}, [this](const http::Request& r) { return answer(r); }) { EXPECT_TRUE(server_.start()); }
  ~Api() { server_.stop(); }
  [[nodiscard]] std::string origin() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  std::map<std::string, Json> objects;
  Json pods = Json::array();
  std::vector<std::string> writes;

 private:
  http::Answer answer(const http::Request& r) {
    std::string path = r.path();
    if (path == "/api/v1/pods")
      return http::json(200, Json::object({{"metadata", Json::object()}, {"items", pods}}).dump());
    if (r.method == "POST" || r.method == "DELETE") {
      writes.push_back(r.method + " " + path);
      if (r.method == "DELETE") writes.back() += " " + (*Json::parse(r.body))["gracePeriodSeconds"].dump();
      return http::json(201, "{}");
    }
    const bool status = path.ends_with("/status");
    if (status) path.resize(path.size() - 7);
    const auto at = objects.find(path);
    if (at == objects.end())
      return http::json(404, R"({"kind":"Status","code":404,"reason":"NotFound","message":"not found"})");
    if (r.method == "PATCH") {
      writes.push_back("PATCH " + r.path());
      Json patch = *Json::parse(r.body);
      at->second.merge_patch(patch);
    }
    return http::json(200, at->second.dump());
  }
  http::Server server_;
};

Json pod(const char* name, const char* annotation) {
  Json metadata = Json::object({{"name", name}, {"namespace", "ml"}, {"uid", name}});
  if (*annotation != 0)
    metadata.set("annotations", Json::object({{"karpenter.sh/do-not-disrupt", std::string(annotation)}}));
  return Json::object({{"metadata", std::move(metadata)},
                       {"spec", Json::object({{"terminationGracePeriodSeconds", 60}})},
                       {"status", Json::object({{"phase", "Running"}})}});
}

class Lifecycle : public ::testing::Test {
 protected:
  Lifecycle() {
    pool_.name = "p";
    pool_.instance_types = {"g5.xlarge"};
    pool_.markets = {Market::kOnDemand};
    pool_.consolidate_empty = false;
    pool_.lifecycle.template_hash = "a";
    pool_.labels = {{"team", "ml"}, {"node-restriction.kubernetes.io/tenant", "ml"}};
    pool_.lifecycle.termination_grace = 10min;
    PodSet pods;
    pods.shape.gpu.whole = 1;
    step({PoolsApplied{{pool_}}, DemandUpdated{{{{WorkloadUid("w"), 1}, {pods}, 0, clock_.now()}}}});
    claim_ = engine_.tables().claims.begin()->first;
    api_.objects["/apis/karpenter.sh/v1/nodeclaims/" + claim_.value()] = *Json::parse("{}");
    api_.objects["/api/v1/nodes/n1"] = *Json::parse(
        R"({"metadata":{"name":"n1","resourceVersion":"7"},"spec":{"taints":[{"key":"karpenter.sh/unregistered","effect":"NoExecute"},{"key":"gpu","effect":"NoSchedule"}]}})");
  }
  void step(const std::vector<Command>& batch) {
    (void)engine_.step(batch, clock_.now());
    engine_.commit();
  }
  void run(std::int32_t pods) {
    InstanceFact fact{InstanceId("i-1"), claim_,         "p",          "g5.xlarge", "z1",
                      Market::kOnDemand, NodeName("n1"), clock_.now(), {}};
    fact.image = "ami-1";
    step({LaunchEnded{claim_, fact.id, ""}, InstancesListed{{fact}}, DemandUpdated{},
          NodeUpdated{NodeName("n1"), true, false, false, pods, pods == 0 ? std::optional(clock_.now()) : std::nullopt,
                      fact.id}});
  }
  void details(std::int64_t gpus, std::vector<Taint> taints) {
    NodeDetailsUpdated update{NodeName("n1"), false, {}};
    update.details.instance = InstanceId("i-1");
    update.details.taints = std::move(taints);
    update.details.allocatable["nvidia.com/gpu"] = gpus;
    step({update});
  }
  std::string condition(const std::string& type) {
    const Json& status = api_.objects.at("/apis/karpenter.sh/v1/nodeclaims/" + claim_.value())["status"];
    for (const Json& c : status["conditions"].items()) {
      if (c["type"].string() == type) return c["status"].string() + " " + c["reason"].string();
    }
    return "absent";
  }
  std::vector<std::string> taints() {
    std::vector<std::string> out;
    for (const Json& taint : api_.objects.at("/api/v1/nodes/n1")["spec"]["taints"].items())
      out.push_back(taint["key"].string());
    return out;
  }

  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  Api api_;
  kube::Client client_{{api_.origin(), {}, {}, {}, {}}};
  Pool pool_;
  Engine engine_{catalog_types(), [] {
                   autoscaler::Options options;
                   options.node_details = true;
                   return options;
                 }()};
  ClaimName claim_;
  NodeLifecycle lifecycle_{
      client_, [this](const auto& use) { use(engine_); }, clock_, {.period = 1s, .drain_period = 0s}};
};

TEST(NodeClaim, HasTheLifeOfItsNode) {
  const Json bare = *Json::parse(
      R"({"metadata":{"name":"p-1","annotations":{"quartermaster.dev/reason":"why"}},"spec":{"requirements":[]}})");
  const Json intent = *Json::parse(
      R"({"lifecycle":{"startup_taints":[{"key":"cni","value":"","effect":"NoExecute"}],"annotations":{"a":"b"},)"
      R"("resources":["nvidia.com/gpu"],"hash":"0a1b","expire_after_s":86400,"termination_grace_s":600}})");
  const Json own = with_lifecycle(bare, intent, Driver::kEc2);
  EXPECT_EQ(kube::annotation(own, "karpenter.sh/nodepool-hash"), "0a1b");
  EXPECT_EQ(kube::annotation(own, "a"), "b");
  EXPECT_EQ(kube::annotation(own, "quartermaster.dev/reason"), "why");
  EXPECT_EQ(own["spec"]["expireAfter"].string(), "86400s");
  EXPECT_EQ(own["spec"]["terminationGracePeriod"].string(), "600s");
  EXPECT_EQ(own["spec"]["startupTaints"].size(), 1U);
  EXPECT_EQ(own["spec"]["resources"]["requests"]["nvidia.com/gpu"].string(), "1");
  // Karpenter must neither expire the claim without a checkpoint nor compare a hash that is not its own.
  const Json theirs = with_lifecycle(bare, intent, Driver::kKarpenter);
  EXPECT_EQ(theirs["spec"]["expireAfter"].string(), "Never");
  EXPECT_EQ(kube::annotation(theirs, "karpenter.sh/nodepool-hash"), "");
  EXPECT_EQ(starting_taints(intent),
            (std::vector<Taint>{{"cni", "", "NoExecute"}, {"karpenter.sh/unregistered", "", "NoExecute"}}));
  EXPECT_TRUE(starting_taints(*Json::parse("{}")).empty()) << "an intent of an earlier release";
}

// DaemonSets that register extended resources do not tolerate the taint, and a group has a launch template.
TEST(NodeClaim, StartsWithATaintWhereItsPodsAreNominated) {
  const auto taints = [](bool nominates, const char* group, std::vector<std::string> resources) {
    LaunchIntent launch;
    launch.pool.group = group;
    launch.row.life.resources = std::move(resources);
    return starting_taints(Json::object({{"lifecycle", launch_lifecycle(launch, nominates)}}));
  };
  const Taint unregistered{"karpenter.sh/unregistered", "", "NoExecute"};
  EXPECT_EQ(taints(true, "", {}),
            (std::vector<Taint>{{"quartermaster.dev/nominating", "", "NoSchedule"}, unregistered}));
  EXPECT_EQ(taints(false, "", {}), std::vector<Taint>{unregistered});
  EXPECT_EQ(taints(true, "gpu-group", {}), std::vector<Taint>{unregistered});
  EXPECT_EQ(taints(true, "", {"nvidia.com/gpu"}), std::vector<Taint>{unregistered});
}

TEST_F(Lifecycle, ANodeIsRegisteredAndThenInitialized) {
  lifecycle_.pass();
  EXPECT_EQ(condition("Launched"), "Unknown AwaitingReconciliation");
  run(0);
  details(0, {{"karpenter.sh/unregistered", "", "NoExecute"}});
  lifecycle_.pass();
  EXPECT_EQ(condition("Launched"), "True Launched");
  EXPECT_EQ(condition("Registered"), "Unknown UnregisteredTaintExists");
  EXPECT_EQ(taints(), std::vector<std::string>{"gpu"}) << "the others stay";
  const Json& node = api_.objects.at("/api/v1/nodes/n1");
  EXPECT_EQ(node["metadata"]["labels"]["karpenter.sh/registered"].string(), "true");
  EXPECT_TRUE(node["metadata"]["labels"]["karpenter.sh/initialized"].is_null());
  EXPECT_EQ(node["metadata"]["labels"]["node-restriction.kubernetes.io/tenant"].string(), "ml");
  EXPECT_TRUE(node["metadata"]["labels"]["team"].is_null()) << "its kubelet sets it";
  details(0, {});
  lifecycle_.pass();
  EXPECT_EQ(condition("Initialized"), "Unknown ResourceNotRegistered");
  EXPECT_EQ(condition("Ready"), "Unknown ReconcilingDependents");
  details(1, {{"quartermaster.dev/nominating", "", "NoSchedule"}});
  lifecycle_.pass();
  EXPECT_EQ(condition("Initialized"), "Unknown StartupTaintsExist");
  EXPECT_EQ(taints(), std::vector<std::string>{"gpu"});
  details(1, {});
  lifecycle_.pass();
  EXPECT_EQ(condition("Ready"), "True Ready");
  EXPECT_EQ(api_.objects.at("/api/v1/nodes/n1")["metadata"]["labels"]["karpenter.sh/initialized"].string(), "true");
  EXPECT_EQ(api_.objects.at("/apis/karpenter.sh/v1/nodeclaims/" + claim_.value())["status"]["imageID"].string(),
            "ami-1");
  // What is written already is not written again.
  api_.writes.clear();
  lifecycle_.pass();
  EXPECT_EQ(api_.writes, std::vector<std::string>{});
}

// Placement keeps the node for these workloads.
TEST_F(Lifecycle, ANodeThatRegistersNamesTheWorkloadsThatArePlannedOnIt) {
  PodSet pods;
  pods.shape.gpu.whole = 1;
  const auto item = [&](const char* uid) {
    return DemandUpdated::Item{{WorkloadUid(uid), 1}, {pods}, 0, clock_.now()};
  };
  step({DemandUpdated{{item("w"), item("x")}}});
  const auto& claims = engine_.tables().claims;
  ASSERT_EQ(claims.size(), 2U) << "x has an instance of its own";
  InstanceFact fact{InstanceId("i-1"), claim_,         "p",          "g5.xlarge", "z1",
                    Market::kOnDemand, NodeName("n1"), clock_.now(), {}};
  step({LaunchEnded{claim_, fact.id, ""}, InstancesListed{{fact}},
        NodeUpdated{NodeName("n1"), true, false, false, 0, clock_.now(), fact.id}});
  details(0, {{"karpenter.sh/unregistered", "", "NoExecute"}});
  lifecycle_.pass();
  const Json& node = api_.objects.at("/api/v1/nodes/n1");
  EXPECT_EQ(taints(), std::vector<std::string>{"gpu"});
  EXPECT_EQ(kube::annotation(node, "quartermaster.dev/launched-for"), "w") << "in the write that removes the taint";
  EXPECT_EQ(std::ranges::count(api_.writes, "PATCH /api/v1/nodes/n1"), 1);
  details(0, {});
  lifecycle_.pass();
  EXPECT_EQ(std::ranges::count(api_.writes, "PATCH /api/v1/nodes/n1"), 1);
  // Until it is initialized others may be planned on it.
  engine_.mutable_tables().plans.edit(WorkloadUid("x")).places = {{claim_, 0, 1}};
  engine_.commit();
  lifecycle_.pass();
  EXPECT_EQ(kube::annotation(node, "quartermaster.dev/launched-for"), "w,x");
  // Afterwards it stays as it is.
  details(1, {});
  step({DemandUpdated{}});
  lifecycle_.pass();
  const auto written = std::ranges::count(api_.writes, "PATCH /api/v1/nodes/n1");
  lifecycle_.pass();
  EXPECT_EQ(std::ranges::count(api_.writes, "PATCH /api/v1/nodes/n1"), written);
}

// User data of the user's own may lack the taint: such a node registers once it is initialized.
TEST_F(Lifecycle, ANodeHasTheLabelsThatItsKubeletMayNotSet) {
  Json& node = api_.objects.at("/api/v1/nodes/n1");
  const auto label = [&](const char* key) { return kube::label(node, key); };
  constexpr const char* kTenant = "node-restriction.kubernetes.io/tenant";
  node.set("spec").set("taints", Json::array());
  engine_.mutable_tables().claims.edit(claim_).labels = {{"node-role.kubernetes.io/gpu", "train"}, {"tier", "gold"}};
  engine_.commit();
  run(0);
  details(1, {});
  lifecycle_.pass();
  EXPECT_EQ(label("karpenter.sh/registered"), "true");
  EXPECT_EQ(label(kTenant), "ml") << "of the NodePool";
  EXPECT_EQ(label("node-role.kubernetes.io/gpu"), "train") << "chosen at the launch";
  EXPECT_EQ(label("tier"), "") << "its kubelet sets it";
  // A label that is changed later is not written again, also after a restart and with the NodePool's next labels.
  node.set("metadata").set("labels").set(kTenant, "ops");
  pool_.labels = {{"node-role.kubernetes.io/next", "x"}};
  step({PoolsApplied{{pool_}}});
  api_.writes.clear();
  NodeLifecycle again{client_, [this](const auto& use) { use(engine_); }, clock_, {.period = 1s, .drain_period = 0s}};
  for (NodeLifecycle* lifecycle : {&lifecycle_, &again}) lifecycle->pass();
  EXPECT_EQ(std::ranges::count(api_.writes, "PATCH /api/v1/nodes/n1"), 0);
  EXPECT_EQ(label(kTenant), "ops");
  EXPECT_EQ(label("node-role.kubernetes.io/next"), "");
}

TEST_F(Lifecycle, TimesOfTransitionsSurviveARestart) {
  run(0);
  details(1, {});
  lifecycle_.pass();
  const std::string path = "/apis/karpenter.sh/v1/nodeclaims/" + claim_.value();
  const Json before = api_.objects.at(path)["status"]["conditions"];
  clock_.advance(1h);
  NodeLifecycle again{client_, [this](const auto& use) { use(engine_); }, clock_, {.period = 1s, .drain_period = 0s}};
  pool_.lifecycle.template_hash = "b";
  step({PoolsApplied{{pool_}}});
  again.pass();
  EXPECT_EQ(condition("Drifted"), "True NodePoolDrifted");
  const Json after = api_.objects.at(path)["status"]["conditions"];
  EXPECT_EQ(after.at(0).dump(), before.at(0).dump()) << "Launched has its time";
}

// An expired node: the taint, evictions except of pods that must not be disrupted, and at the deadline deletions in time.
TEST_F(Lifecycle, AnExpiredNodeIsTaintedAndEmptied) {
  pool_.lifecycle.expire_after = 24h;
  run(2);
  details(1, {});
  api_.pods = Json::array({pod("a", ""), pod("b", "true")});
  engine_.mutable_tables().claims.edit(claim_).life.expire_after = 24h;
  engine_.commit();
  clock_.advance(24h);
  step({Tick{}});
  ASSERT_TRUE(engine_.tables().claims.find(claim_)->evicts_pods());
  lifecycle_.pass();
  EXPECT_EQ(taints().back(), "karpenter.sh/disrupted");
  EXPECT_EQ(condition("DisruptionReason"), "True Expired");
  EXPECT_EQ(condition("Drained"), "Unknown Draining");
  EXPECT_EQ(api_.writes.back(), "POST /api/v1/namespaces/ml/pods/a/eviction");
  EXPECT_EQ(std::ranges::count(api_.writes, "POST /api/v1/namespaces/ml/pods/b/eviction"), 0);
  clock_.advance(9min);
  api_.pods = Json::array({pod("b", "true")});
  lifecycle_.pass();
  EXPECT_EQ(api_.writes.back(), "DELETE /api/v1/namespaces/ml/pods/b 60");
}

// S-241: on a notice of the cloud the control plane evicts what is no gang; pods of DaemonSets stay, bare pods are deleted.
TEST_F(Lifecycle, ANodeThatTheCloudTakesIsEmptiedOfAllButItsGangsAndDaemonSets) {
  run(4);
  details(1, {});
  Json daemon = pod("exporter", ""), rank = pod("rank", ""), web = pod("web", "");
  daemon.set("metadata").set("ownerReferences", *Json::parse(R"([{"kind":"DaemonSet","controller":true}])"));
  web.set("metadata").set("ownerReferences", *Json::parse(R"([{"kind":"ReplicaSet","controller":true}])"));
  rank.set("metadata").set("annotations", Json::object({{std::string(words::kWorkload), "gang"}}));
  api_.pods = Json::array({pod("bare", ""), daemon, rank, web, pod("held", "true")});
  step({WorkloadUpdated{WorkloadUid("gang"), 1, true, false, "ml", "Job", "train"},
        AssignmentUpdated{{WorkloadUid("gang"), 1}, true, {NodeName("n1")}}});
  lifecycle_.pass();
  api_.writes.clear();
  step({SpotNoticeUpdated{NodeName("n1"), clock_.now() + 2min}});
  lifecycle_.pass();
  EXPECT_EQ(api_.writes, (std::vector<std::string>{"POST /api/v1/namespaces/ml/pods/bare/eviction",
                                                   "POST /api/v1/namespaces/ml/pods/web/eviction"}));
  // A pod that holds the node is deleted in time; the gang is evicted by its order alone.
  api_.pods = Json::array({daemon, rank, pod("held", "true")});
  api_.writes.clear();
  clock_.advance(50s);  // 110 s minus a grace period of 60 s
  lifecycle_.pass();
  EXPECT_EQ(api_.writes, std::vector<std::string>{"DELETE /api/v1/namespaces/ml/pods/held 60"});
}

TEST_F(Lifecycle, AMaintenanceOfTomorrowEvictsNothingYet) {
  run(1);
  details(1, {});
  api_.pods = Json::array({pod("bare", "")});
  step({SpotNoticeUpdated{NodeName("n1"), clock_.now() + 24h, false, NoticeKind::kMaintenance}});
  lifecycle_.pass();
  EXPECT_EQ(std::ranges::count_if(api_.writes, [](const auto& w) { return w.find("eviction") != std::string::npos; }),
            0);
  clock_.advance(24h - 9min);
  step({Tick{}});
  lifecycle_.pass();
  EXPECT_EQ(api_.writes.back(), "POST /api/v1/namespaces/ml/pods/bare/eviction");
}

}  // namespace node_lifecycle_test
}  // namespace qm::autoscaler
