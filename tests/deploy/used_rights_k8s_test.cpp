// Least privilege, from the API server's audit log: the chart's accounts have used all their permissions, had a
// permission for every call, and no call was forbidden. The test triggers events that are rarer than a running Job.
#include "grants.hpp"

#include <algorithm>
#include <fstream>

namespace qm::deploy {
namespace used_rights_k8s_test {

using namespace std::chrono_literals;
constexpr auto kPatience = 60s;
const kube::Resource kClusterRoles{"rbac.authorization.k8s.io", "v1", "clusterroles", false};
const kube::Resource kRoles{"rbac.authorization.k8s.io", "v1", "roles", true};
const kube::Resource kSecrets{"", "v1", "secrets", true};

class UsedRights : public InstallationTest {
 protected:
  void SetUp() override {
    InstallationTest::SetUp();
    if (IsSkipped() || HasFailure()) return;
    if (!suite().audit()) GTEST_SKIP() << "the API server writes no audit log: start it with QM_KUBE_AUDIT=1";
    const Ran queues = suite().kubectl_apply(Installation::kQueues);
    ASSERT_EQ(queues.code, 0) << queues.output;
  }
  static bool eventually(const std::function<bool()>& condition) { return testing::wait_until(condition, kPatience); }

  /// The permissions of the release, read from the API server.
  std::vector<Grant> grants() {
    std::vector<Grant> out;
    kube::ListOptions ours;
    ours.label_selector = "app.kubernetes.io/instance=qm";
    for (const auto& [kind, ns, name] :
         {std::tuple(kClusterRoles, std::string(), "ClusterRole"), std::tuple(kRoles, suite().ns(), "Role")}) {
      const auto found = suite().api().list(kind, ns, ours);
      EXPECT_TRUE(found) << found.error().to_string();
      if (!found) continue;
      for (Json role : found->items) {
        role.set("kind", name);  // lists omit it
        const auto more = grants_of(role, kube::label(role, "app.kubernetes.io/component"));
        out.insert(out.end(), more.begin(), more.end());
      }
    }
    return out;
  }
  /// `group`: empty = any.
  bool was(const std::string& component, const std::string& verb, const std::string& resource,
           const std::string& group = {}) {
    const auto* calls = suite().audit();
    return std::ranges::any_of(*calls, [&](const auto& call) {
      return call.component == component && call.verb == verb && call.resource == resource &&
             (group.empty() || call.group == group) && call.code != 403 && call.code < 500;
    });
  }
  void expect_was(const std::string& component, const std::string& verb, const std::string& resource,
                  const std::string& group = {}) {
    EXPECT_TRUE(eventually([&] { return was(component, verb, resource, group); }))
        << component << " " << verb << " " << resource << " " << group;
  }
  void apply(const std::string& yaml) {
    const Ran ran = suite().kubectl_apply(yaml);
    EXPECT_EQ(ran.code, 0) << ran.output;
  }
  void qmctl(const std::vector<std::string>& args) {
    const auto ran = suite().qmctl(args);
    EXPECT_EQ(ran.code, 0) << args.front() << ": " << ran.output;
  }
  [[nodiscard]] std::string path(const std::string& name) { return suite().tenant() + "/" + name; }

  void jobs_that_are_preempted_submitted_and_cancelled() {
    apply(Installation::job("low", 8, 600));
    EXPECT_TRUE(eventually([&] { return suite().bound("low").size() == 1; }));
    apply(Installation::job("urgent", 8, 600, "urgent"));
    EXPECT_TRUE(eventually([&] { return suite().bound("urgent").size() == 1; }));
    // Servers before 1.35 keep the start time of a suspended Job; admission clears it before it unsuspends the Job.
    const Ran started =
        suite().kubectl({"patch", "job", "low", "-n", suite().tenant(), "--subresource=status", "--type", "merge", "-p",
                         R"({"status":{"startTime":"2026-01-01T00:00:00Z"}})"});
    EXPECT_EQ(started.code, 0) << started.output;
    suite().complete("urgent");
    EXPECT_TRUE(eventually([&] { return suite().finished("urgent"); }));
    EXPECT_TRUE(eventually([&] { return suite().bound("low").size() == 1; }));
    qmctl({"cancel", path("low")});
    EXPECT_TRUE(eventually([&] { return suite().get_job("low").is_null(); }));
    const testing::TempDir dir;
    auto sent = Installation::job("sent", 1, 600);
    sent.replace(sent.find("  name: sent"), 12, "  name: sent\n  namespace: " + suite().tenant());
    std::ofstream(dir.path() + "/job.yaml") << sent;
    qmctl({"submit", "-f", dir.path() + "/job.yaml"});
    EXPECT_TRUE(eventually([&] { return !suite().get_job("sent").is_null(); }));
    qmctl({"cancel", path("sent")});
    // An operator of the suite can submit only objects that the cluster allows the operator to create.
    const auto elsewhere = sent.replace(sent.find(suite().tenant()), suite().tenant().size(), suite().ns());
    std::ofstream(dir.path() + "/elsewhere.yaml") << elsewhere;
    const auto denied = suite().qmctl({"submit", "-f", dir.path() + "/elsewhere.yaml"});
    EXPECT_NE(denied.code, 0);
    EXPECT_NE(denied.output.find("system:serviceaccount:" + suite().ns() +
                                 ":operator may not create jobs.batch in namespace " + suite().ns()),
              std::string::npos)
        << denied.output;
  }
  static std::string pod(const std::string& name) {
    return fmt::format(R"(apiVersion: v1
kind: Pod
metadata:
  name: {0}
  labels: {{kueue.x-k8s.io/queue-name: gpus, name: {0}}}
  annotations: {{fleet.quartermaster.dev/run-seconds: "600"}}
spec:
  restartPolicy: Never
  nodeSelector: {{quartermaster.dev/pool: h100}}
  tolerations: [{{key: nvidia.com/gpu, operator: Exists}}]
  containers:
  - name: main
    image: example.com/train
    resources:
      requests: {{nvidia.com/gpu: 8, cpu: 1, memory: 1Gi}}
      limits: {{nvidia.com/gpu: 8}}
)",
                       name);
  }
  bool has_node(const std::string& name) {
    const auto found = suite().api().get(kube::resources::kPods, suite().tenant(), name);
    return found && !(*found)["spec"]["nodeName"].string().empty();
  }
  void pods_that_are_let_go_evicted_and_deleted() {
    apply(pod("evicted"));
    EXPECT_TRUE(eventually([&] { return has_node("evicted"); }));
    // A PodDisruptionBudget delays the eviction until its deadline; then the pod is deleted.
    apply(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: evicted}\n"
        "spec: {minAvailable: 1, selector: {matchLabels: {name: evicted}}}\n");
    EXPECT_TRUE(eventually([&] {
      const auto budget =
          suite().api().get({"policy", "v1", "poddisruptionbudgets", true}, suite().tenant(), "evicted");
      return budget && (*budget)["status"]["expectedPods"].integer() == 1;
    }));
    apply(Installation::job("urgent-2", 8, 1, "urgent"));
    EXPECT_TRUE(eventually([&] { return suite().finished("urgent-2"); }));
    apply(pod("cancelled"));
    EXPECT_TRUE(eventually([&] { return has_node("cancelled"); }));
    qmctl({"cancel", path("cancelled")});
    expect_was("admission", "delete", "pods");
  }
  /// A Kueue Workload without an owner, which a user stops.
  void unowned_workload() {
    apply(R"(apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: unowned}
spec:
  queueName: gpus
  podSets:
  - name: main
    count: 1
    template: {spec: {restartPolicy: Never, containers: [{name: main, image: a, resources: {requests: {cpu: 1}}}]}}
)");
    expect_was("admission", "patch", "workloads/status");
    qmctl({"stop", path("unowned")});
    expect_was("admission", "patch", "workloads");
  }
  /// A PodGroup without pods.
  void a_pod_group_of_volcanos() {
    apply(R"(apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: ring}
spec: {minMember: 2, queue: gpus, minResources: {cpu: 1}}
)");
    expect_was("admission", "patch", "podgroups/status");
  }
  /// An invalid object is reported in an Event, which is counted up at the next report.
  void events_of_owner() {
    for (const char* strategy : {"Whatever", "Neither"}) {
      apply(std::string("apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: unreadable}\n"
                        "spec: {queueingStrategy: ") +
            strategy + "}\n");
      expect_was("admission", "create", "events");
    }
    expect_was("admission", "patch", "events");
    for (const char* sign : {"Near", "Far"}) {
      apply(fmt::format(
          "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: unreadable}}\n"
          "spec: {{template: {{spec: {{requirements: [{{key: topology.kubernetes.io/zone, operator: {}, "
          "values: [a]}}], nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}}}}}}}\n",
          sign));
      expect_was("autoscaler", "create", "events");
    }
    expect_was("autoscaler", "patch", "events");
    // The highest price that the definition allows, and a price beyond the range of the ledger.
    for (const char* price : {"99999999999999999999", "88888888888888888888"}) {
      apply(std::string("apiVersion: quartermaster.dev/v1alpha1\nkind: PricePlan\nmetadata: {name: unreadable}\n"
                        "spec: {prices: [{usdPerHour: \"") +
            price + "\"}]}\n");
      expect_was("cost", "create", "events");
    }
    expect_was("cost", "patch", "events");
    (void)suite().kubectl({"delete", "clusterqueues,nodepools,priceplans", "unreadable", "--wait=false"});
  }
  /// If another system manages quota and Quartermaster binds, placement itself reports that there is no capacity.
  void unadmitted_pod() {
    const auto ns = suite().ns() + "-unadmitted";
    make_namespace(suite().api(), ns,
                   Json::object({{"quartermaster.dev/quota", "user"}, {"quartermaster.dev/binding", "quartermaster"}}));
    auto yaml = pod("too-wide");
    yaml.replace(yaml.find("  name: too-wide"), 16, "  name: too-wide\n  namespace: " + ns);
    yaml.replace(yaml.find("  restartPolicy"), 15, "  schedulerName: quartermaster\n  restartPolicy");
    for (std::size_t at = 0; (at = yaml.find("nvidia.com/gpu: 8", at)) != std::string::npos; at += 18)
      yaml.replace(at, 17, "nvidia.com/gpu: 64");
    const testing::TempDir dir;
    std::ofstream(dir.path() + "/pod.yaml") << yaml;
    const Ran ran = suite().kubectl({"apply", "-f", dir.path() + "/pod.yaml"});
    EXPECT_EQ(ran.code, 0) << ran.output;
    expect_was("placement", "patch", "pods/status");
    (void)suite().api().remove(kNamespaces, "", ns, {});
  }
  /// The claim receives the node for which its volume must be provisioned.
  void a_volume_that_waits_for_its_pod() {
    apply(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: qm-later}\n"
        "provisioner: quartermaster.dev/none\nvolumeBindingMode: WaitForFirstConsumer\n");
    apply(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"
        "spec: {storageClassName: qm-later, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}\n");
    auto yaml = pod("reader");
    yaml.replace(yaml.find("  restartPolicy"), 15,
                 "  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n  restartPolicy");
    apply(yaml);
    expect_was("placement", "patch", "persistentvolumeclaims");
    EXPECT_TRUE(eventually([&] { return has_node("reader"); }));
    qmctl({"cancel", path("reader")});
    (void)suite().kubectl({"delete", "storageclass", "qm-later", "--wait=false"});
  }
  void a_certificate_that_is_lost() {
    const auto spoiled =
        suite().api().merge_patch(kSecrets, suite().ns(), "quartermaster-webhook-cert",
                                  *Json::parse(R"({"data":{"tls.crt":"bm9uZQ==","ca.crt":"bm9uZQ=="}})"));
    EXPECT_TRUE(spoiled) << spoiled.error().to_string();
    expect_was("admission", "update", "secrets");
  }
  bool claims(std::size_t count) {
    const auto found = suite().api().list_all(kube::resources::kNodeClaims, "");
    return found && found->size() == count;
  }
  /// Scalers that exist when their workloads are annotated: the autoscaler suspends them, and no webhook did.
  /// No metrics API is served here: its answer to each question is that it does not exist.
  void scalers_that_are_taken_over() {
    for (const char* name : {"metered", "scheduled"}) {
      apply(fmt::format(R"(apiVersion: apps/v1
kind: Deployment
metadata: {{name: {0}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {0}}}}}
  template:
    metadata: {{labels: {{app: {0}}}}}
    spec:
      nodeSelector: {{quartermaster.dev/pool: none}}
      containers: [{{name: main, image: a, resources: {{requests: {{cpu: 1}}}}}}]
)",
                        name));
    }
    apply(R"(apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: metered}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: metered}
  minReplicas: 1
  maxReplicas: 4
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}
  - {type: Pods, pods: {metric: {name: queue_depth}, target: {type: AverageValue, averageValue: "1"}}}
  - {type: External, external: {metric: {name: requests_waiting}, target: {type: AverageValue, averageValue: "1"}}}
)");
    apply(R"(apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: scheduled}
spec:
  scaleTargetRef: {name: scheduled}
  pollingInterval: 5
  minReplicaCount: 2
  maxReplicaCount: 3
  triggers:
  - {type: cron, metadata: {timezone: Etc/UTC, start: "0 0 * * *", end: "59 23 * * *", desiredReplicas: "3"}}
)");
    expect_was("autoscaler", "get", "deployments/scale");
    expect_was("autoscaler", "list", "pods", "metrics.k8s.io");
    expect_was("autoscaler", "get", "pods/queue_depth", "custom.metrics.k8s.io");
    expect_was("autoscaler", "list", "requests_waiting", "external.metrics.k8s.io");
    EXPECT_FALSE(was("autoscaler", "update", "scaledobjects"));
    const Ran annotated = suite().kubectl({"annotate", "deployment", "metered", "scheduled", "-n", suite().tenant(),
                                           "quartermaster.dev/replicas=quartermaster"});
    EXPECT_EQ(annotated.code, 0) << annotated.output;
    expect_was("autoscaler", "update", "horizontalpodautoscalers");
    expect_was("autoscaler", "update", "scaledobjects");
    expect_was("autoscaler", "patch", "deployments/scale");
    for (const char* kinds : {"scaledobjects,horizontalpodautoscalers", "deployments"})
      (void)suite().kubectl({"delete", kinds, "--all", "-n", suite().tenant(), "--wait=false"});
  }
  void a_provisioning_request() {
    apply(
        "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: requested}\n"
        "template: {spec: {containers: [{name: main, image: a, resources: {requests: {cpu: 1}}}]}}\n");
    apply(
        "apiVersion: autoscaling.x-k8s.io/v1\nkind: ProvisioningRequest\nmetadata: {name: requested}\n"
        "spec: {provisioningClassName: check-capacity.autoscaling.x-k8s.io, "
        "podSets: [{count: 1, podTemplateRef: {name: requested}}]}\n");
    expect_was("autoscaler", "patch", "provisioningrequests/status");
    (void)suite().kubectl(
        {"delete", "provisioningrequests,podtemplates", "requested", "-n", suite().tenant(), "--wait=false"});
  }
  /// The NodePool of the release's file as an object, with an end of its nodes.
  static constexpr const char* kBriefNodes = R"(apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: burst}
spec:
  template:
    metadata: {labels: {quartermaster.dev/pool: burst}}
    spec:
      expireAfter: 10s
      terminationGracePeriod: 13s
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
)";
  void create(const kube::Resource& kind, const std::string& ns, const std::string& object) {
    const auto read = Json::parse(object);
    ASSERT_TRUE(read) << object;
    std::string error;  // the service account of a new namespace may not exist yet
    EXPECT_TRUE(eventually([&] {
      const auto made = suite().api().create(kind, ns, *read);
      error = made ? "" : made.error().to_string();
      return made.has_value();
    })) << error;
  }
  /// The status of the only claim; null until its instance is launched.
  Json launched() {
    const auto found = suite().api().list_all(kube::resources::kNodeClaims, "");
    const bool has_instance = found && found->size() == 1 && found->front()["status"]["providerID"].is_string();
    return has_instance ? found->front()["status"] : Json();
  }
  /// The node of an instance of the pool, as the instance registers it, and pods that are bound to it.
  void node_with_pods(const Json& claim, const std::string& ns) {
    const std::string node = claim["nodeName"].string();
    make_namespace(suite().api(), ns);
    create(
        {"policy", "v1", "poddisruptionbudgets", true}, ns,
        R"({"metadata":{"name":"guarded"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"name":"guarded"}}}})");
    for (const char* pod : {"plain", "guarded"}) {
      create(kube::resources::kPods, ns,
             fmt::format(R"({{"metadata":{{"name":"{0}","labels":{{"name":"{0}"}},
          "annotations":{{"fleet.quartermaster.dev/run-seconds":"600"}}}},"spec":{{"nodeName":"{1}",
          "terminationGracePeriodSeconds":8,"containers":[{{"name":"main","image":"a"}}],"tolerations":[
          {{"key":"karpenter.sh/unregistered","operator":"Exists"}},{{"key":"nvidia.com/gpu","operator":"Exists"}}]}}}})",
                         pod, node));
    }
    const auto like = suite().api().get(kube::resources::kNodes, "", suite().node());
    ASSERT_TRUE(like) << like.error().to_string();
    create(kube::resources::kNodes, "",
           fmt::format(R"({{"metadata":{{"name":"{0}","annotations":{{"kwok.x-k8s.io/node":"fake"}},"labels":{{
               "kubernetes.io/hostname":"{0}","quartermaster.dev/pool":"burst","karpenter.sh/nodepool":"burst",
               "node.kubernetes.io/instance-type":"p5.48xlarge"}}}},"spec":{{"providerID":"{1}","taints":[
               {{"key":"karpenter.sh/unregistered","effect":"NoExecute"}},
               {{"key":"nvidia.com/gpu","value":"true","effect":"NoSchedule"}}]}},
               "status":{{"capacity":{2},"allocatable":{3}}}}})",
                       node, claim["providerID"].string(), (*like)["status"]["capacity"].dump(),
                       (*like)["status"]["allocatable"].dump()));
  }
  /// Its pods are evicted; one with a PodDisruptionBudget is deleted in time for the deadline.
  void a_node_that_expires() {
    apply(kBriefNodes);
    expect_was("autoscaler", "patch", "nodepools/status");
    apply(Installation::job("brief", 8, 600, {}, "burst"));
    Json claim;
    ASSERT_TRUE(eventually([&] { return !(claim = launched()).is_null(); }));
    qmctl({"cancel", path("brief")});
    const auto ns = suite().ns() + "-drained";
    node_with_pods(claim, ns);
    expect_was("autoscaler", "patch", "nodes");
    expect_was("autoscaler", "create", "pods/eviction");
    expect_was("autoscaler", "delete", "pods");
    EXPECT_TRUE(eventually([&] { return claims(0); }));
    (void)suite().api().remove(kube::resources::kNodes, "", claim["nodeName"].string(), {});
    (void)suite().api().remove(kNamespaces, "", ns, {});
    (void)suite().kubectl({"delete", "nodepools", "burst", "--wait=false"});
  }
  void launches_and_refusals() {
    apply(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\n"
        "spec: {amiFamily: Custom, amiSelectorTerms: [{id: ami-00000000}], instanceProfile: fleet-nodes, "
        "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: quartermaster}}], "
        "securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: quartermaster}}]}\n");
    expect_was("autoscaler", "patch", "ec2nodeclasses/status");
    const auto deletions = [&] {
      return std::ranges::count_if(*suite().audit(), [](const auto& call) {
        return call.component == "autoscaler" && call.verb == "delete" && call.resource == "nodeclaims";
      });
    };
    const auto before = deletions();
    apply(Installation::job("wide", 8, 600, {}, "burst"));
    EXPECT_TRUE(eventually([&] { return claims(1); }));
    expect_was("autoscaler", "patch", "nodeclaims/status");
    const auto none = suite().fault(R"({"kind":"ice","type":"p5.48xlarge","market":"on-demand","for_s":3600})");
    EXPECT_TRUE(none) << none.error().to_string();
    apply(Installation::job("wider", 8, 600, {}, "burst"));
    EXPECT_TRUE(eventually([&] { return deletions() > before; }));
    qmctl({"cancel", path("wide")});
    qmctl({"cancel", path("wider")});
  }
  /// A NodeOverlay, and CapacityBuffers by a PodTemplate and by each kind that can be scaled.
  void overlays_and_buffers() {
    apply(
        "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: discount}\n"
        "spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}], priceAdjustment: \"-10%\"}\n");
    expect_was("autoscaler", "patch", "nodeoverlays/status");
    const std::string pods =
        "metadata: {labels: {app: buffer}}, spec: {containers: [{name: main, image: a, "
        "resources: {requests: {cpu: 1}}}]";
    apply("apiVersion: v1\nkind: PodTemplate\nmetadata: {name: buffer}\ntemplate: {" + pods + "}}\n");
    const auto scaled = [&](const char* version, const char* kind, const char* count, const char* restart) {
      const bool job = std::string(kind) == "Job";
      apply(fmt::format(
          "apiVersion: {}\nkind: {}\nmetadata: {{name: buffer}}\nspec: {{{}: 0, {}template: {{{}{}}}}}}}\n", version,
          kind, count, job ? "suspend: true, " : "selector: {matchLabels: {app: buffer}}, ", pods, restart));
    };
    scaled("apps/v1", "Deployment", "replicas", "");
    scaled("apps/v1", "ReplicaSet", "replicas", "");
    scaled("apps/v1", "StatefulSet", "replicas", "");
    scaled("batch/v1", "Job", "parallelism", ", restartPolicy: Never");
    const auto buffer = [&](const std::string& name, const std::string& source) {
      apply(
          fmt::format("apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {{name: {}}}\n"
                      "spec: {{replicas: 0, {}}}\n",
                      name, source));
    };
    buffer("template", "podTemplateRef: {name: buffer}");
    expect_was("autoscaler", "get", "podtemplates");
    for (const auto& [group, kind, plural] :
         {std::tuple("apps", "Deployment", "deployments"), std::tuple("apps", "ReplicaSet", "replicasets"),
          std::tuple("apps", "StatefulSet", "statefulsets"), std::tuple("batch", "Job", "jobs")}) {
      std::string name = kind;
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      buffer(name, fmt::format("scalableRef: {{apiGroup: {}, kind: {}, name: buffer}}", group, kind));
      expect_was("autoscaler", "get", plural);
    }
    expect_was("autoscaler", "patch", "capacitybuffers/status");
    for (const char* kinds : {"nodeoverlays", "capacitybuffers,podtemplates,deployments,replicasets,statefulsets"}) {
      const bool cluster = std::string(kinds) == "nodeoverlays";
      std::vector<std::string> args{"delete", kinds, "--all", "--wait=false"};
      if (!cluster) args.insert(args.end(), {"-n", suite().tenant()});
      (void)suite().kubectl(args);
    }
  }
  void a_gpu_that_falls_off_the_bus() {
    EXPECT_TRUE(eventually([&] { return suite().all_ready("agent", 1); })) << suite().kubelet().logs("agent");
    suite().xid = 79;
    expect_was("placement", "patch", "nodes");
  }
  void users() {
    qmctl({"list", "workloads"});
    qmctl({"nodes"});
    qmctl({"plan"});
    qmctl({"top"});
    qmctl({"prices"});
  }
};

TEST_F(UsedRights, EveryGrantIsUsedAndEveryUseIsGranted) {
  jobs_that_are_preempted_submitted_and_cancelled();
  pods_that_are_let_go_evicted_and_deleted();
  unowned_workload();
  a_pod_group_of_volcanos();
  events_of_owner();
  unadmitted_pod();
  a_volume_that_waits_for_its_pod();
  scalers_that_are_taken_over();
  a_provisioning_request();
  a_node_that_expires();
  launches_and_refusals();
  overlays_and_buffers();
  a_gpu_that_falls_off_the_bus();
  users();
  a_certificate_that_is_lost();  // last: for half a minute the other replica serves a certificate that no client trusts

  auto given = grants();
  auto calls = *suite().audit();
  EXPECT_GT(given.size(), 40u);
  const auto difference = compare(given, calls);
  for (const auto& one : difference.missing) ADD_FAILURE() << "used and not given: " << one;
  for (const auto& one : difference.unused) ADD_FAILURE() << "given and never used: " << one;

  // The comparison detects one superfluous and one missing grant.
  const Grant planted{"placement", "delete", "", "nodes", {}, {}};
  given.push_back(planted);
  EXPECT_TRUE(compare(given, calls).unused.contains(planted.text()));
  given.pop_back();
  std::erase_if(given,
                [](const Grant& grant) { return grant.component == "placement" && grant.resource == "pods/binding"; });
  EXPECT_FALSE(compare(given, calls).missing.empty());
  // And a call that the server refused, regardless of the grants.
  calls.push_back({"placement", "list", "", "nodes", {}, {}, 403});
  given = grants();
  EXPECT_TRUE(compare(given, calls).missing.contains("placement: list nodes"));
}

}  // namespace used_rights_k8s_test
}  // namespace qm::deploy
