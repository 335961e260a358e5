// Placement without admission: pods are placed as they are created, gangs as a whole, and only
// where Quartermaster binds.
#include "little_kube.hpp"
#include "qm/config/manifest.hpp"
#include "qm/placement/shell.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace qm::placement {
namespace solo_test {

using qm::testing::wait_until;
using testing::make_node;
using testing::make_pod;
using testing::node_path;
using testing::pod_path;
using namespace std::chrono_literals;

std::string fresh_bus() {
  static std::atomic<int> serial = 0;
  return fmt::format("memory:placement-solo-{}", ++serial);
}

Json space(const Json& labels) {
  return Json::object(
      {{"kind", "Namespace"}, {"metadata", Json::object({{"name", "team"}, {"uid", "ns-team"}, {"labels", labels}})}});
}

/// A pod without a workload: no owner, no attempt.
Json free_pod(const std::string& name, int gpus, const std::string& scheduler = "quartermaster") {
  auto pod = make_pod(name, "none", 0, 0, gpus);
  auto& metadata = pod.set("metadata");
  metadata.erase("ownerReferences");
  metadata.erase("annotations");
  pod.set("spec").set("schedulerName", scheduler);
  pod.set("spec").set("tolerations", Json::array({Json::object({{"operator", "Exists"}})}));
  return pod;
}

Json member(const std::string& name, const std::string& group, int total, int gpus) {
  auto pod = free_pod(name, gpus);
  pod.set("metadata").set("labels").set("kueue.x-k8s.io/pod-group-name", group);
  pod.set("metadata").set("annotations").set("kueue.x-k8s.io/pod-group-total-count", std::to_string(total));
  return pod;
}

struct Service {
  testing::LittleKube& kube;
  ManualClock clock{from_micros(1'000'000'000)};
  kube::Client client{{kube.origin()}};
  KubeExecutor executor{client, &clock};
  std::unique_ptr<service::Host> host;
  kube::Ownership quota, binding;
  std::unique_ptr<Watcher> watcher;

  Service(testing::LittleKube& k, const std::string& quota_owner, const std::string& binding_owner = "auto",
          std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk())
      : kube(k),
        quota(client, {"quota", quota_owner, kube::other_controllers_of("quota"), 50ms}),
        binding(client, {"binding", binding_owner, kube::other_controllers_of("binding"), 50ms}) {
    auto options = host_options("default");
    options.digest_each_batch = true;
    host = std::make_unique<service::Host>(options, std::make_unique<Shell>(std::make_unique<Engine>(), Codec()),
                                           store::open_memory(std::move(disk)), *bus::make_bus(fresh_bus()), clock,
                                           &executor);
    EXPECT_TRUE(host->open());
    EXPECT_TRUE(host->submit(watch_started()));
    host->start();
    watcher = std::make_unique<Watcher>(client, *host, WatchOptions{&quota, &binding});
    quota.start();
    binding.start();
    watcher->start();
    EXPECT_TRUE(wait_until([&] { return quota.known() && binding.known() && watcher->synced(); }));
  }
  ~Service() {
    quota.stop();
    binding.stop();
    kube.cut_watches();
    watcher->stop();
    host->stop();
  }
  std::string node_of(const std::string& pod) { return kube.get(pod_path(pod)).path("spec.nodeName").string(); }
  int held() {
    int count = 0;
    host->read([&](const service::Shell& shell) {
      for (const auto& [id, row] : engine_of(shell).tables().assignments) count += row.holds() ? 1 : 0;
    });
    return count;
  }
  bool sees(const std::string& pod_uid) {
    bool seen = false;
    host->read([&](const service::Shell& shell) { seen = engine_of(shell).tables().pods.find(pod_uid) != nullptr; });
    return seen;
  }
};

TEST(Solo, PodWithoutQuotaIsPlacedAndReleased) {
  testing::LittleKube kube;
  kube.put("/api/v1/namespaces/team", space({}));
  kube.put(node_path("a"), make_node("a", 8));
  Service service(kube, "none");
  kube.put(pod_path("p"), free_pod("p", 6));
  ASSERT_TRUE(wait_until([&] { return service.node_of("p") == "a"; }));
  EXPECT_EQ(kube::annotation(kube.get(pod_path("p")), words::kDevices), "0,1,2,3,4,5");

  // No free capacity: the pod's condition reports it, as with any scheduler.
  kube.put(pod_path("q"), free_pod("q", 4));
  ASSERT_TRUE(wait_until([&] {
    const auto condition = kube.get(pod_path("q")).path("status.conditions").at(0);
    return condition["reason"].string() == "Unschedulable" && condition["status"].string() == "False";
  }));
  auto done = kube.get(pod_path("p"));
  done.set("status").set("phase", "Succeeded");
  kube.put(pod_path("p"), done);
  ASSERT_TRUE(wait_until([&] { return service.node_of("q") == "a"; }));
  kube.erase(pod_path("q"));
  EXPECT_TRUE(wait_until([&] { return service.held() == 0; }));
}

TEST(Solo, GangIsPlacedWhenComplete) {
  testing::LittleKube kube;
  kube.put("/api/v1/namespaces/team", space({}));
  kube.put(node_path("a"), make_node("a", 8));
  kube.put(node_path("b"), make_node("b", 8));
  Service service(kube, "none");
  kube.put(pod_path("g-0"), member("g-0", "g", 2, 8));
  ASSERT_TRUE(wait_until([&] { return service.sees("uid-g-0"); }));
  EXPECT_EQ(service.held(), 0) << "half a gang";
  kube.put(pod_path("g-1"), member("g-1", "g", 2, 8));
  ASSERT_TRUE(wait_until([&] { return !service.node_of("g-0").empty() && !service.node_of("g-1").empty(); }));
  EXPECT_NE(service.node_of("g-0"), service.node_of("g-1"));
  EXPECT_EQ(service.held(), 1);
}

TEST(Solo, PodsFollowTheirRules) {
  testing::LittleKube kube;
  kube.put("/api/v1/namespaces/team", space({}));
  for (const char* name : {"a", "b"}) {
    auto node = make_node(name, 8);
    node.set("metadata").set("labels").set("kubernetes.io/hostname", name);
    kube.put(node_path(name), node);
  }
  Service service(kube, "none");
  const auto web = [](const std::string& name) {
    auto pod = free_pod(name, 1);
    pod.set("metadata").set("labels", Json::object({{"app", "web"}}));
    pod.set("spec").set("affinity",
                        *Json::parse(R"({"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
      {"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"web"}}}]}})"));
    return pod;
  };
  // A pod that another scheduler bound counts as a neighbor.
  auto foreign = web("foreign");
  foreign.set("spec").set("schedulerName", "default-scheduler");
  foreign.set("spec").set("nodeName", "a");
  foreign.set("status").set("phase", "Running");
  kube.put(pod_path("foreign"), foreign);
  ASSERT_TRUE(wait_until([&] { return service.sees("uid-foreign"); }));
  kube.put(pod_path("p"), web("p"));
  ASSERT_TRUE(wait_until([&] { return service.node_of("p") == "b"; }));
  kube.put(pod_path("q"), web("q"));
  ASSERT_TRUE(wait_until([&] {
    const auto& message = kube.get(pod_path("q")).path("status.conditions").at(0)["message"].string();
    return message.find("2 whose kubernetes.io/hostname has a pod that matches its anti-affinity") != std::string::npos;
  }));
  kube.erase(pod_path("foreign"));
  EXPECT_TRUE(wait_until([&] { return service.node_of("q") == "a"; }));
}

/// Three replicas of a service that prefer different hosts, on a number of nodes n0, n1, ...
struct Replicas {
  testing::LittleKube kube;
  Json affinity;
  std::unique_ptr<Service> service;
  std::set<std::string> live;
  int started = 0;

  Replicas(int nodes, const Json& fragment) : affinity(fragment["affinity"]) {
    kube.put("/api/v1/namespaces/team", space({}));
    for (int n = 0; n < nodes; ++n) {
      auto node = make_node(fmt::format("n{}", n), 8);
      node.set("metadata").set("labels").set("kubernetes.io/hostname", fmt::format("n{}", n));
      kube.put(node_path(fmt::format("n{}", n)), node);
    }
    service = std::make_unique<Service>(kube, "none");
    fill_up();
  }
  void fill_up() {
    while (live.size() < 3) {
      const auto name = fmt::format("r{}", started++);
      auto pod = free_pod(name, 1);
      pod.set("metadata").set("labels", Json::object({{"app", "inference-server"}}));
      pod.set("spec").set("affinity", affinity);
      kube.put(pod_path(name), pod);
      live.insert(name);
    }
  }
  void lose(const std::string& node) {
    kube.erase(node_path(node));
    std::erase_if(live, [&](const std::string& pod) {
      if (service->node_of(pod) != node) return false;
      kube.erase(pod_path(pod));
      return true;
    });
  }
  std::size_t ready() {
    return static_cast<std::size_t>(std::ranges::count_if(
        live, [&](const auto& pod) { return kube.get(pod_path(pod)).path("status.phase").string() == "Running"; }));
  }
  std::multiset<int> by_node() {
    std::map<std::string, int> on;
    for (const auto& pod : live) ++on[service->node_of(pod)];
    std::multiset<int> out;
    for (const auto& [node, pods] : on) out.insert(pods);
    return out;
  }
};

std::vector<Json> preferring_other_hosts() {
  std::vector<Json> out{*Json::parse(R"({"affinity":{"podAntiAffinity":{
      "preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,"podAffinityTerm":{
      "labelSelector":{"matchLabels":{"app":"inference-server"}},"topologyKey":"kubernetes.io/hostname"}}]}}})")};
  if (const auto shared = qm::testing::shared_dir()) {
    const auto loaded = config::load_path(*shared + "/manifests/002-pod-anti-affinity.yaml");
    EXPECT_EQ(loaded.objects.size(), 1U);
    for (const auto& object : loaded.objects) out.push_back(object.document.content);
  }
  return out;
}

// S-252: three replicas that prefer different hosts use three nodes if there are three, and two of
// two, so that none is pending.
TEST(Solo, PreferredAntiAffinitySpreadsReplicas) {
  for (const Json& fragment : preferring_other_hosts()) {
    for (const auto& [nodes, expected] : std::map<int, std::multiset<int>>{{3, {1, 1, 1}}, {2, {1, 2}}}) {
      SCOPED_TRACE(fmt::format("{} nodes", nodes));
      Replicas replicas(nodes, fragment);
      ASSERT_TRUE(wait_until([&] { return replicas.ready() == 3; }));
      EXPECT_EQ(replicas.by_node(), expected);
    }
  }
}

// S-253: whichever node is lost, some replica is ready at all times, and soon all of them are.
TEST(Solo, NodeLossLeavesReplicasReady) {
  for (const Json& fragment : preferring_other_hosts()) {
    for (const int nodes : {2, 3}) {
      for (int lost = 0; lost < nodes; ++lost) {
        SCOPED_TRACE(fmt::format("n{} of {} nodes", lost, nodes));
        Replicas replicas(nodes, fragment);
        ASSERT_TRUE(wait_until([&] { return replicas.ready() == 3; }));
        replicas.lose(fmt::format("n{}", lost));
        EXPECT_GE(replicas.ready(), 1U);
        EXPECT_LT(replicas.live.size(), 3U) << "each node has one";
        replicas.fill_up();
        EXPECT_TRUE(wait_until([&] { return replicas.ready() == 3; }));
      }
    }
  }
}

TEST(Solo, PodsOfAGroupWithOwnRulesAreSeparatePodSets) {
  testing::LittleKube kube;
  kube.put("/api/v1/namespaces/team", space({}));
  for (const char* name : {"a", "b"}) {
    auto node = make_node(name, 8);
    node.set("metadata").set("labels").set("kubernetes.io/hostname", name);
    kube.put(node_path(name), node);
  }
  Service service(kube, "none");
  const auto only = [](Json pod, const char* op) {
    pod.set("spec").set(
        "affinity", *Json::parse(fmt::format(
                        R"({{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[
              {{"matchExpressions":[{{"key":"kubernetes.io/hostname","operator":"{}","values":["a"]}}]}}]}}}}}})",
                        op)));
    return pod;
  };
  kube.put(pod_path("g-0"), only(member("g-0", "g", 2, 1), "NotIn"));
  kube.put(pod_path("g-1"), member("g-1", "g", 2, 1));
  EXPECT_TRUE(wait_until([&] { return service.node_of("g-0") == "b" && !service.node_of("g-1").empty(); }));
}

TEST(Solo, ARestartChangesNothing) {
  testing::LittleKube kube;
  kube.put("/api/v1/namespaces/team", space({}));
  kube.put(node_path("a"), make_node("a", 8));
  const auto disk = store::make_memory_disk();
  {
    Service first(kube, "none", "auto", disk);
    kube.put(pod_path("p"), free_pod("p", 8));
    ASSERT_TRUE(wait_until([&] { return first.node_of("p") == "a"; }));
    ASSERT_TRUE(wait_until([&] { return first.held() == 1; }));
  }
  Service second(kube, "none", "auto", disk);
  EXPECT_EQ(second.held(), 1);
  kube.put(pod_path("q"), free_pod("q", 8));
  kube.erase(pod_path("p"));
  EXPECT_TRUE(wait_until([&] { return second.node_of("q") == "a"; }));
}

// S-077: pods of the default scheduler are bound by it, unless the namespace assigns them to Quartermaster.
TEST(Solo, PodsOfOtherSchedulersAreIgnored) {
  testing::LittleKube kube;
  kube.put("/api/v1/namespaces/team", space({}));
  kube.put(node_path("a"), make_node("a", 8));
  Service service(kube, "none");
  auto gated = free_pod("gated", 1);
  gated.set("spec").set("schedulingGates", Json::array({Json::object({{"name", "example.com/wait"}})}));
  kube.put(pod_path("gated"), gated);
  kube.put(pod_path("default"), free_pod("default", 1, "default-scheduler"));
  kube.put(pod_path("volcano"), free_pod("volcano", 1, "volcano"));
  kube.put(pod_path("mine"), free_pod("mine", 1));
  ASSERT_TRUE(wait_until([&] { return service.node_of("mine") == "a"; }));
  EXPECT_EQ(service.node_of("default"), "");
  EXPECT_EQ(service.node_of("volcano"), "");
  EXPECT_EQ(service.node_of("gated"), "");
  // The gate is removed: now Quartermaster binds the pod.
  gated = kube.get(pod_path("gated"));
  gated.set("spec").set("schedulingGates", Json::array());
  kube.put(pod_path("gated"), gated);
  EXPECT_TRUE(wait_until([&] { return service.node_of("gated") == "a"; }));
  // The namespace is handed over: Quartermaster binds all its pods, whichever scheduler they name.
  kube.put("/api/v1/namespaces/team", space(Json::object({{"quartermaster.dev/binding", "quartermaster"}})));
  EXPECT_TRUE(wait_until([&] { return service.node_of("default") == "a" && service.node_of("volcano") == "a"; }));
}

// S-077: in a namespace that kube-scheduler binds, nothing is placed.
TEST(Solo, NamespaceOfAnotherSchedulerIsIgnored) {
  testing::LittleKube kube;
  kube.put("/api/v1/namespaces/team", space(Json::object({{"quartermaster.dev/binding", "default-scheduler"}})));
  kube.put(node_path("a"), make_node("a", 8));
  Service service(kube, "none");
  kube.put(pod_path("p"), free_pod("p", 1));
  ASSERT_TRUE(wait_until([&] { return service.sees("uid-p"); }));
  EXPECT_EQ(service.held(), 0);
  kube.put("/api/v1/namespaces/team", space({}));
  EXPECT_TRUE(wait_until([&] { return service.node_of("p") == "a"; }));
}

TEST(Solo, WithQuotaManagementPodsWaitForAdmission) {
  testing::LittleKube kube;
  kube.put("/api/v1/namespaces/team", space({}));
  kube.put(node_path("a"), make_node("a", 8));
  Service service(kube, "auto");
  kube.put(pod_path("p"), free_pod("p", 1));
  ASSERT_TRUE(wait_until([&] { return service.sees("uid-p"); }));
  EXPECT_EQ(service.held(), 0);
  // Kueue now owns quota of the namespace: admission will not publish the pod any more.
  kube.put("/api/v1/namespaces/team", space(Json::object({{"quartermaster.dev/quota", "kueue"}})));
  EXPECT_TRUE(wait_until([&] { return service.node_of("p") == "a"; }));
}

TEST(Solo, BindingsOfAnotherSchedulerAreAdopted) {
  testing::LittleKube kube;
  kube.put("/api/v1/namespaces/team", space({}));
  kube.put(node_path("a"), make_node("a", 8));
  Service service(kube, "none");
  // Another scheduler binds the pod between the decision and the bind call.
  kube.fail_next("POST", 409, "Conflict");
  auto migration_target = free_pod("p", 8);
  kube.put(pod_path("p"), migration_target);
  ASSERT_TRUE(wait_until([&] { return kube.calls("POST") >= 1; }));
  kube.put(node_path("b"), make_node("b", 8));
  auto bound = kube.get(pod_path("p"));
  if (bound.path("spec.nodeName").string().empty()) {
    bound.set("spec").set("nodeName", "b");
    kube.put(pod_path("p"), bound);
  }
  ASSERT_TRUE(wait_until([&] { return !service.node_of("p").empty(); }));
  const bool theirs = service.node_of("p") == "b";
  kube.put(pod_path("q"), free_pod("q", 8));
  EXPECT_TRUE(wait_until([&] { return service.node_of("q") == (theirs ? "a" : "b"); }));
}

}  // namespace solo_test
}  // namespace qm::placement
