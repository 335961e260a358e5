// Topologies without a placement service: what the API server reports reaches the engine, and pods follow its assignment.
#include "admission_host.hpp"
#include "job_server.hpp"
#include "qm/admission/executor.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/watch/node_watch.hpp"
#include "qm/admission/watch/topology_ungater.hpp"
#include "qm/testing/testing.hpp"
#include "src/shell/rows/rows.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace topology_test {

constexpr const char* kHost = "kubernetes.io/hostname";

const topology::Assignment kTwoOnAOneOnB{{kHost}, {{{"a"}, 2}, {{"b"}, 1}}};

TopologyPod pod_of(const std::string& name, std::optional<std::int64_t> rank, bool gated = true) {
  TopologyPod out;
  out.name = out.uid = name;
  out.rank = rank;
  if (gated) out.gates = {"example.com/other", "kueue.x-k8s.io/topology"};
  return out;
}
/// "name=host ..." of the pods that get a domain.
std::string text_of(const topology::Assignment& assignment, const std::vector<TopologyPod>& pods) {
  std::vector<const TopologyPod*> all;
  for (const auto& pod : pods) all.push_back(&pod);
  std::string out;
  for (const auto& [pod, domain] : domains_of(assignment, all)) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", pod->name, domain.at(kHost));
  }
  return out;
}

TEST(TopologyDomains, FirstRanksGetFirstDomain) {
  EXPECT_EQ(text_of(kTwoOnAOneOnB, {pod_of("z", 0), pod_of("y", 2), pod_of("x", 1)}), "z=a x=a y=b");
  // A pod that replaces another has its rank.
  EXPECT_EQ(text_of(kTwoOnAOneOnB, {pod_of("z", 0, false), pod_of("x", 1), pod_of("y", 2, false)}), "x=a");
}

TEST(TopologyDomains, WithoutRanksEachDomainGetsItsNumberOfPods) {
  EXPECT_EQ(text_of(kTwoOnAOneOnB, {pod_of("x", {}), pod_of("y", {}), pod_of("z", {}), pod_of("zz", {})}),
            "x=a y=a z=b");
  auto runs = pod_of("y", {}, false);
  runs.node_selector[kHost] = "a";
  EXPECT_EQ(text_of(kTwoOnAOneOnB, {pod_of("x", {}), runs, pod_of("z", {})}), "x=a z=b");
  // Two pods of one rank: a JobSet with several Jobs in a pod set.
  EXPECT_EQ(text_of(kTwoOnAOneOnB, {pod_of("x", 0), pod_of("y", 0), pod_of("z", 1)}), "x=a y=a z=b");
}

TEST(TopologyRows, NodesAndAssignmentsSurviveRestart) {
  NodeState node{{{"rack", "r1"}}, {{"gpu", "only", "NoSchedule"}}, {{"cpu", 1500}}, {{"cpu", 100}, {"pods", 1}}};
  node.schedulable = false;
  node.failed = true;
  EXPECT_EQ(from_row(to_row(node)), node);
  const NodesUpdated updated{{{NodeName("a"), node}}, {NodeName("b")}, true};
  const auto read = from_input(to_input(updated));
  EXPECT_EQ(read.nodes, updated.nodes);
  EXPECT_EQ(read.gone, updated.gone);
  EXPECT_TRUE(read.complete);

  Workload w;
  w.spec.uid = WorkloadUid("u");
  w.phase = Phase::kPending;
  w.except([](Exceptions& e) { e.nodes.edit()["main"] = kTwoOnAOneOnB; });
  w.claim = Claim{};
  auto claim = *w.claim;
  claim.nodes.edit()["main"] = kTwoOnAOneOnB;
  w.claim = claim;
  const auto row = from_row(to_row(w));
  EXPECT_EQ(row.nodes(), w.nodes());
  EXPECT_EQ(row.claim->nodes, w.claim->nodes);
}

class TopologyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = std::make_unique<kube::Client>(server_.client());
    executor_ = std::make_unique<JobExecutor>(*client_);
    Options engine;
    engine.places = false;
    host_ = testing::start_admission(clock_, executor_.get(), {}, engine);
    ASSERT_TRUE(host_);
    auto objects = testing::queue_objects();
    auto flavor = *Json::parse(objects.front());
    flavor.set("spec").set("topologyName", "hall");
    flavor.set("spec").erase("nodeLabels");
    objects.front() = flavor.dump();
    objects.push_back(R"({"apiVersion":"kueue.x-k8s.io/v1beta1","kind":"Topology","metadata":{"name":"hall"},
      "spec":{"levels":[{"nodeLabel":"rack"},{"nodeLabel":"kubernetes.io/hostname"}]}})");
    for (const auto& object : objects) Mailbox(*host_).send("object", object);
    node("a", "r1");
    node("b", "r1");
    NodeWatchOptions often;
    often.period = std::chrono::milliseconds(10);
    nodes_ = std::make_unique<NodeWatch>(*client_, *host_, clock_, often);
    nodes_->start();
    UngaterOptions soon;
    soon.period = std::chrono::milliseconds(10);
    ungater_ = std::make_unique<TopologyUngater>(*client_, *host_, soon);
    ungater_->start();
  }
  void TearDown() override {
    server_.close_watches();
    ungater_.reset();
    nodes_.reset();
    if (host_) host_->stop();
  }
  void node(const std::string& name, const std::string& rack, const std::string& ready = "True") {
    server_.put(*Json::parse(fmt::format(
        R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{0}","uid":"{0}","labels":{{"rack":"{1}",
        "kubernetes.io/hostname":"{0}"}}}},"status":{{"allocatable":{{"nvidia.com/gpu":"8","cpu":"1500m","pods":"10"}},
        "conditions":[{{"type":"Ready","status":"{2}","lastTransitionTime":"1970-01-01T00:00:00Z"}}]}}}})",
        name, rack, ready)));
  }
  Json pod(const std::string& name, const std::string& on, const std::string& labels = "{}") {
    return *Json::parse(fmt::format(
        R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"team","name":"{0}","uid":"{0}","labels":{2}}},
        "spec":{{"nodeName":"{1}","containers":[{{"name":"c","resources":{{"requests":{{"nvidia.com/gpu":"6"}}}}}}]}}}})",
        name, on, labels));
  }
  /// A row of the engine; a default row if there is none.
  NodeState row(const std::string& name) {
    NodeState out;
    host_->read([&](const service::Shell& shell) {
      const auto* found = static_cast<const AdmissionShell&>(shell).engine().tables().nodes.find(NodeName(name));
      if (found != nullptr) out = *found;
    });
    return out;
  }
  void submit(Json job) {
    server_.put(job);
    job.set(kExternalScheduler, true);
    Mailbox(*host_).send("job", job.dump(), kube::uid_of(job));
  }

  ManualClock clock_{from_micros(1'000'000)};
  testing::JobServer server_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<JobExecutor> executor_;
  std::unique_ptr<service::Host> host_;
  std::unique_ptr<NodeWatch> nodes_;
  std::unique_ptr<TopologyUngater> ungater_;
};

TEST_F(TopologyTest, NodesAndPodsOfOthersReachTheEngine) {
  using NodeAmounts = std::map<std::string, std::int64_t>;
  ASSERT_TRUE(qm::testing::wait_until([&] { return row("b").labels.contains("rack"); }));
  EXPECT_EQ(row("a").allocatable, (NodeAmounts{{"cpu", 1500}, {"nvidia.com/gpu", 8}, {"pods", 10}}));
  EXPECT_TRUE(row("a").ready);
  ASSERT_TRUE(qm::testing::wait_until([&] { return server_.watched("pods") && server_.watched("nodes"); }));
  server_.put(pod("other", "a"));
  server_.put(pod("assigned", "b", R"({"kueue.x-k8s.io/tas":"true"})"));
  ASSERT_TRUE(qm::testing::wait_until([&] { return !row("a").used.empty(); }));
  EXPECT_EQ(row("a").used, (NodeAmounts{{"nvidia.com/gpu", 6}, {"pods", 1}}));
  EXPECT_TRUE(row("b").used.empty());
  server_.remove("team/other");
  ASSERT_TRUE(qm::testing::wait_until([&] { return row("a").used.empty(); }));
  // It has failed once it is not ready for 30 s.
  node("b", "r1", "False");
  ASSERT_TRUE(qm::testing::wait_until([&] { return !row("b").ready; }));
  EXPECT_FALSE(row("b").failed);
  clock_.advance(std::chrono::seconds(30));
  ASSERT_TRUE(qm::testing::wait_until([&] { return row("b").failed; }));
  server_.remove("/b");
  ASSERT_TRUE(qm::testing::wait_until([&] { return row("b").labels.empty(); }));
}

TEST_F(TopologyTest, PodsOfJobSelectTheirNodesByRank) {
  ASSERT_TRUE(qm::testing::wait_until([&] { return row("b").labels.contains("rack"); }));
  auto job = testing::make_job("team", "train", "q", 4, 2);
  job.set("spec")
      .set("template")
      .set("metadata")
      .set("annotations")
      .set("kueue.x-k8s.io/podset-required-topology", kHost);
  job.set("spec").set("template").set("spec").set("schedulerName", "default-scheduler");
  submit(job);
  ASSERT_TRUE(qm::testing::wait_until([&] { return !server_.get("team/train")["spec"]["suspend"].boolean(true); }));
  const auto pods = server_.get("team/train").path("spec.template");
  EXPECT_EQ(pods["spec"]["schedulingGates"].dump(), R"([{"name":"kueue.x-k8s.io/topology"}])");
  EXPECT_EQ(kube::label(pods, "kueue.x-k8s.io/tas"), "true");
  EXPECT_EQ(kube::label(pods, "kueue.x-k8s.io/podset"), "main");
  EXPECT_EQ(kube::annotation(pods, "quartermaster.dev/workload"), "uid-train");

  for (const int rank : {1, 0}) {
    Json one = Json::object({{"apiVersion", "v1"}, {"kind", "Pod"}, {"spec", pods["spec"]}});
    one.set("metadata", pods["metadata"]);
    const auto name = fmt::format("train-{}", rank);
    one.set("metadata").set("namespace", "team").set("name", name).set("uid", name);
    one.set("metadata").set("labels").set("batch.kubernetes.io/job-completion-index", std::to_string(rank));
    server_.put(std::move(one));
  }
  const auto host_of = [&](const char* name) { return server_.get(name).path("spec.nodeSelector")[kHost].string(); };
  ASSERT_TRUE(
      qm::testing::wait_until([&] { return !host_of("team/train-0").empty() && !host_of("team/train-1").empty(); }));
  EXPECT_EQ(host_of("team/train-0"), host_of("team/train-1"));
  EXPECT_TRUE(server_.get("team/train-0").path("spec.schedulingGates").is_null());

  // After an eviction the author's template is restored: it then has the additions of the next attempt only.
  Json evicted = server_.get("team/train");
  const auto& kind = *config::workload_kind("Job");
  EXPECT_EQ(spec_print(evicted, kind), spec_print(job, kind));
  EXPECT_EQ(as_submitted(evicted, kind).path("spec.template.spec.schedulingGates").size(), 0U);
}

}  // namespace topology_test
}  // namespace qm::admission
