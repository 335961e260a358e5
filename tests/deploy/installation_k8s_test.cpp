#include "installation.hpp"
#include "qm/pg/connection.hpp"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace qm::deploy {
namespace {

constexpr const char* kServiceNames[] = {"admission", "placement", "autoscaler", "telemetry", "cost"};
const kube::Resource kSecrets{"", "v1", "secrets", true};

Status done(const Ran& ran, const std::string& what) {
  if (ran.code == 0) return {};
  return fail(Code::kInternal, "{} ended with {}: {}", what, ran.code, ran.output);
}

}  // namespace

const char* const Installation::kQueues = R"(apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec:
  nodeLabels: {quartermaster.dev/pool: h100}
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu, cpu, memory]
    flavors:
    - name: h100
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 8}
      - {name: cpu, nominalQuota: 64}
      - {name: memory, nominalQuota: 1Ti}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: burst}
spec:
  nodeLabels: {quartermaster.dev/pool: burst}
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: burst}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu, cpu, memory]
    flavors:
    - name: burst
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 16}
      - {name: cpu, nominalQuota: 64}
      - {name: memory, nominalQuota: 1Ti}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: burst}
spec: {clusterQueue: burst}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: gpus}
spec: {clusterQueue: research}
)";

std::unique_ptr<Installation> Installation::one;

void Installation::end() { one.reset(); }

Installation* Installation::shared(std::string* why_not) {
  static std::string why;
  if (one != nullptr || !why.empty()) {
    *why_not = why;
    return one.get();
  }
  one = []() -> std::unique_ptr<Installation> {
    if (setting("QM_KUBE_URL").empty()) {
      why = kNoRealKube;
    } else if (setting("QM_HELM").empty()) {
      why = "QM_HELM is not set: run ./qm peers helm";
    } else if (setting("QM_KUBE_CONTROLLERS") != "1") {
      why = "needs controllers and kwok, which QM_KUBE_CONTROLLERS=1 tells of";
    } else {
      why = Kubelet::why_not();
    }
    if (why.empty() && testing::Postgres::shared(&why) == nullptr && why.empty()) why = "no PostgreSQL";
    for (const char* service : kServiceNames) {
      const auto program = fmt::format("{}/qm-{}", QM_BIN_DIR, service);
      if (why.empty() && !std::filesystem::exists(program)) why = program + " is not built";
    }
    if (!why.empty()) return nullptr;
    std::unique_ptr<Installation> made(new Installation());
    const auto begun = made->make();
    EXPECT_TRUE(begun) << begun.error().to_string() << "\n" << made->logs();
    if (!begun) why = "the installation failed";
    return begun ? std::move(made) : nullptr;
  }();
  // Runs before the objects that the installation depends on are destroyed: the order of statics is undefined.
  struct End final : ::testing::Environment {
    void TearDown() override { end(); }
  };
  static const auto* environment = ::testing::AddGlobalTestEnvironment(new End);
  (void)environment;
  *why_not = why;
  return one.get();
}

Installation::~Installation() {
  if (client_ == nullptr) return;
  const Ran gone = helm({"uninstall", "qm", "-n", ns_, "--wait", "--timeout", "60s"});
  EXPECT_EQ(gone.code, 0) << gone.output << "\nOther releases cannot own the objects that are left.";
  kubelet_.reset();
  for (const char* kind : {"clusterqueues research burst", "resourceflavors h100 burst",
                           "workloadpriorityclasses urgent", "nodeclaims --all"}) {
    std::vector<std::string> args{"delete", "--ignore-not-found", "--wait=false"};
    std::istringstream words(kind);
    for (std::string word; words >> word;) args.push_back(word);
    (void)kubectl(args);
  }
  (void)client_->remove(kube::resources::kNodes, "", gpu_node_, {});
  for (const auto& node : cordoned_) (void)cordon(node, false);
  for (const auto& ns : {tenant_, ns_}) (void)client_->remove(kNamespaces, "", ns, {});
}

Status Installation::cordon(const std::string& node, bool cordoned) {
  const Json spec = Json::object({{"unschedulable", cordoned ? Json(true) : Json()}});
  const auto done = client_->merge_patch(kube::resources::kNodes, "", node, Json::object({{"spec", spec}}));
  return done ? Status() : Status(fail(done.error()));
}

Ran Installation::helm(std::vector<std::string> args) {
  args.insert(args.begin(), setting("QM_HELM"));
  return run(std::move(args));
}

Ran Installation::release(const std::string& verb, const std::vector<std::string>& more) {
  std::vector<std::string> args{verb,
                                "qm",
                                source("deploy/helm/quartermaster"),
                                "-n",
                                ns_,
                                "-f",
                                folder_.path() + "/values.yaml",
                                "--wait",
                                "--timeout",
                                "110s",
                                "--post-renderer",
                                folder_.path() + "/door.sh"};
  args.insert(args.end(), more.begin(), more.end());
  return helm(std::move(args));
}

Ran Installation::kubectl(std::vector<std::string> args) {
  args.insert(args.begin(), setting("QM_KUBECTL"));
  return run(std::move(args));
}

Ran Installation::kubectl_apply(const std::string& yaml) {
  static int number = 0;
  const auto path = fmt::format("{}/apply-{}.yaml", folder_.path(), number++);
  std::ofstream(path) << yaml;
  return kubectl({"apply", "-n", tenant_, "-f", path});
}

Kubelet::Ran Installation::qmctl(const std::vector<std::string>& args, const std::string& account) {
  const Json pod = *Json::parse(fmt::format(
      R"({{"metadata":{{"name":"person","namespace":"{0}"}},"spec":{{"serviceAccountName":"{1}",
      "containers":[{{"name":"qmctl","env":[{{"name":"QM_TOKEN_FILE","value":"/var/run/quartermaster/token"}},
        {{"name":"QM_TLS_CA","value":"/etc/quartermaster/tls/ca.crt"}},
        {{"name":"QM_ENDPOINTS","value":"/etc/quartermaster/endpoints/endpoints.json"}}],
        "volumeMounts":[{{"name":"endpoints","mountPath":"/etc/quartermaster/endpoints"}},
          {{"name":"tls","mountPath":"/etc/quartermaster/tls"}},{{"name":"token","mountPath":"/var/run/quartermaster"}}]}}],
      "volumes":[{{"name":"endpoints","configMap":{{"name":"qm-quartermaster-endpoints"}}}},
        {{"name":"tls","secret":{{"secretName":"qm-quartermaster-tls-client"}}}},
        {{"name":"token","projected":{{"sources":[{{"serviceAccountToken":{{"audience":"quartermaster",
          "expirationSeconds":3600,"path":"token"}}}}]}}}}]}}}})",
      ns_, account));
  std::vector<std::string> argv{"qmctl", "--timeout", "50s"};
  argv.insert(argv.end(), args.begin(), args.end());
  return kubelet_->exec(pod, argv);
}

bool Installation::all_ready(const std::string& component, std::size_t count) {
  const auto pods = kubelet_->pods(component);
  return pods.size() == count && std::ranges::all_of(pods, [](const auto& pod) { return pod.ready && !pod.ending; });
}

std::string Installation::job(const std::string& name, int gpus, int run_seconds, const std::string& priority,
                              const std::string& queue) {
  return fmt::format(R"(apiVersion: batch/v1
kind: Job
metadata:
  name: {0}
  labels: {{kueue.x-k8s.io/queue-name: {4}{3}}}
spec:
  parallelism: 1
  completions: 1
  template:
    metadata:
      annotations: {{fleet.quartermaster.dev/run-seconds: "{2}"}}
    spec:
      restartPolicy: Never
      nodeSelector: {{quartermaster.dev/pool: {5}}}
      tolerations: [{{key: nvidia.com/gpu, operator: Exists}}]
      containers:
      - name: main
        image: example.com/train
        resources:
          requests: {{nvidia.com/gpu: "{1}", cpu: "1", memory: 1Gi}}
          limits: {{nvidia.com/gpu: "{1}"}}
)",
                     name, gpus, run_seconds, priority.empty() ? "" : ", kueue.x-k8s.io/priority-class: " + priority,
                     queue, queue == "gpus" ? "h100" : queue);
}

Json Installation::get_job(const std::string& name) {
  const auto found = client_->get(kube::resources::kJobs, tenant_, name);
  return found ? *found : Json();
}

bool Installation::finished(const std::string& name) {
  const Json found = get_job(name);
  for (const Json& condition : found["status"]["conditions"].items()) {
    if (condition["type"].string() == "Complete" && condition["status"].string() == "True") return true;
  }
  return false;
}

void Installation::complete(const std::string& job) {
  kube::ListOptions ask;
  ask.label_selector = "job-name=" + job;
  const auto found = client_->list(kube::resources::kPods, tenant_, ask);
  ASSERT_TRUE(found) << found.error().to_string();
  // kwok reads the run time of a pod again at each change of the pod.
  const Json run = Json::object({{"fleet.quartermaster.dev/run-seconds", "0"}});
  const Json patch = Json::object({{"metadata", Json::object({{"annotations", run}})}});
  for (const Json& pod : found->items) {
    const auto patched = client_->merge_patch(kube::resources::kPods, tenant_, kube::name_of(pod), patch);
    EXPECT_TRUE(patched) << patched.error().to_string();
  }
}

std::vector<std::string> Installation::bound(const std::string& job) {
  kube::ListOptions ask;
  ask.label_selector = "job-name=" + job;
  const auto found = client_->list(kube::resources::kPods, tenant_, ask);
  std::vector<std::string> out;
  if (!found) return out;
  for (const Json& pod : found->items) {
    if (!pod["spec"]["nodeName"].string().empty()) out.push_back(pod["spec"]["nodeName"].string());
  }
  return out;
}

std::string Installation::logs() {
  std::string out;
  if (kubelet_ == nullptr) return out;
  for (const char* service : kServiceNames) {
    const auto log = kubelet_->logs(service);
    out += log.size() > 6000 ? log.substr(log.size() - 6000) : log;
  }
  out += kubelet_->logs("migrations") + kubelet_->logs("agent").substr(0, 3000);
  return out;
}

// Each service as its own role, and the bus as its own, as deploy/postgres/roles.sql makes them.
Status Installation::database() {
  std::string why;
  database_ = testing::Postgres::shared(&why)->fresh_database();
  QM_ASSIGN(auto owner, pg::Connection::open(database_, {.application_name = "install"}));
  QM_TRY(owner->exec(testing::read_file(source("deploy/postgres/roles.sql"))));
  Json data = Json::object();
  for (const char* role : {"admission", "placement", "autoscaler", "telemetry", "cost", "bus"})
    data.set(role, std::regex_replace(database_, std::regex("user=\\S+"), std::string("user=qm_") + role));
  for (auto [name, content] :
       {std::pair<const char*, Json>{"qm-database", data},
        {"qm-aws", Json::object({{"AWS_ACCESS_KEY_ID", "test"}, {"AWS_SECRET_ACCESS_KEY", "test"}})}}) {
    QM_TRY(client_->create(kSecrets, ns_,
                           Json::object({{"metadata", Json::object({{"name", name}})}, {"stringData", content}})));
  }
  return {};
}

/// EC2 from the simulated fleet, whose other protocols are not used; and a page of dcgm-exporter.
Status Installation::cloud() {
  const auto dir = folder_.path() + "/fleet";
  std::filesystem::create_directories(dir);
  QM_ASSIGN(fleet_, testing::Process::start({{std::string(QM_BIN_DIR) + "/qm-fleet", "--dir", dir, "--nodes", "1",
                                              "--boot-seconds", "86400"},
                                             {},
                                             dir + "/log"}));
  if (!testing::wait_until([&] { return std::filesystem::exists(dir + "/fleet.json"); }))
    return fail(Code::kUnavailable, "the fleet does not start: {}", testing::read_file(dir + "/log"));
  QM_ASSIGN(ports_, Json::parse(testing::read_file(dir + "/fleet.json")));
  exporter_ = std::make_unique<http::Server>(http::ServerOptions{}, [this](const http::Request&) {
    std::string page;
    for (const auto& [metric, value] :
         {std::pair("DCGM_FI_DEV_GPU_UTIL", 0), std::pair("DCGM_FI_DEV_XID_ERRORS", xid.load())})
      page += fmt::format("{}{{gpu=\"0\",UUID=\"GPU-0\",device=\"nvidia0\",modelName=\"NVIDIA H100 80GB HBM3\"}} {}\n",
                          metric, value);
    return http::text(200, page);
  });
  return exporter_->start();
}

Status Installation::fault(const std::string& json) {
  http::Request request;
  request.method = "POST";
  request.target = "/fleet/faults";
  request.body = json;
  QM_ASSIGN(const auto answer,
            http::Client(fmt::format("http://127.0.0.1:{}", ports_["node"].integer())).send(request));
  if (answer.status >= 300) return fail(Code::kInvalid, "{}", answer.body);
  return {};
}

// The gang kind of scheduler-plugins, for which the chart has no definition.
constexpr const char* kPodGroups = R"(apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.scheduling.x-k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: scheduling.x-k8s.io
  scope: Namespaced
  names: {kind: PodGroup, listKind: PodGroupList, plural: podgroups, singular: podgroup}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
)";

/// A node with GPUs, a tenant, and users.
Status Installation::world() {
  const testing::TempDir kinds;
  std::ofstream(kinds.path() + "/podgroups.yaml") << kPodGroups;
  define(*client_, kinds.path());
  // The instance belongs to the cloud, and kwok is its kubelet.
  kube::ClientOptions there;
  there.server = fmt::format("http://127.0.0.1:{}", ports_["kube"].integer());
  QM_ASSIGN(const auto machines, kube::Client(there).list_all(kube::resources::kNodes, ""));
  if (machines.size() != 1) return fail(Code::kInternal, "the fleet has {} instances", machines.size());
  const Json& machine = machines.front();
  gpu_node_ = kube::name_of(machine);
  Json labels = machine["metadata"]["labels"];
  labels.set("quartermaster.dev/pool", "h100");
  QM_ASSIGN(const auto taints, Json::parse(R"([{"key":"nvidia.com/gpu","effect":"NoSchedule"}])"));
  const Json annotations = Json::object({{"kwok.x-k8s.io/node", "fake"}});
  QM_TRY(client_->create(
      kube::resources::kNodes, "",
      Json::object({{"metadata", Json::object({{"name", gpu_node_}, {"labels", labels}, {"annotations", annotations}})},
                    {"spec", Json::object({{"providerID", machine["spec"]["providerID"]}, {"taints", taints}})},
                    {"status", Json::object({{"capacity", machine["status"]["capacity"]},
                                             {"allocatable", machine["status"]["allocatable"]}})}})));
  make_namespace(*client_, tenant_,
                 Json::object({{"quartermaster.dev/webhook", "required"},
                               {"quartermaster.dev/quota", "quartermaster"},
                               {"quartermaster.dev/binding", "quartermaster"}}));
  for (const char* person : {"operator", "unknown"}) {
    QM_TRY(client_->create(kServiceAccounts, ns_, Json::object({{"metadata", Json::object({{"name", person}})}})));
  }
  // The operator may submit only objects that the operator may create.
  QM_ASSIGN(const auto role, Json::parse(R"({"metadata":{"name":"submit"},
      "rules":[{"apiGroups":["batch"],"resources":["jobs"],"verbs":["create"]}]})"));
  QM_TRY(client_->create({"rbac.authorization.k8s.io", "v1", "roles", true}, tenant_, role));
  QM_ASSIGN(
      const auto binding,
      Json::parse(fmt::format(R"({{"metadata":{{"name":"submit"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io",
      "kind":"Role","name":"submit"}},"subjects":[{{"kind":"ServiceAccount","name":"operator","namespace":"{}"}}]}})",
                              ns_)));
  QM_TRY(client_->create({"rbac.authorization.k8s.io", "v1", "rolebindings", true}, tenant_, binding));
  return {};
}

std::string Installation::values() const {
  std::string services;
  for (const char* service : kServiceNames) {
    services += fmt::format("  {}:\n    nodeSelector: {{quartermaster.dev/processes: \"true\"}}\n", service);
    if (std::string(service) == "admission") services += "    settings: {webhook-scheduler: quartermaster}\n";
    if (std::string(service) == "autoscaler")
      services += fmt::format("    env: [{{name: AWS_ENDPOINT_URL, value: \"http://127.0.0.1:{}\"}}]\n",
                              ports_["aws"].integer());
  }
  return fmt::format(R"(services:
{0}agent:
  nodeSelector: {{quartermaster.dev/processes: "true"}}
  dcgm: http://127.0.0.1:{3}/metrics
  settings: {{sample-period: 1s}}
  imds: http://127.0.0.1:9
log: {{level: debug}}
aws: {{region: us-east-1, credentialsSecret: qm-aws}}
postgres:
  existingSecret: qm-database
  keys: {{admission: admission, placement: placement, autoscaler: autoscaler, telemetry: telemetry, cost: cost}}
  busKey: bus
auth:
  roles:
    operators: {{groups: [], users: ["system:serviceaccount:{1}:operator"]}}
ownership: {{namespaces: [{2}]}}
crds: {{readSide: [kueue, karpenter, capacity, volcano, keda]}}
manifests:
  prices.yaml: |
    apiVersion: quartermaster.dev/v1alpha1
    kind: PricePlan
    metadata: {{name: list}}
    spec:
      prices:
      - {{instanceType: p5.48xlarge, usdPerHour: "98.32"}}
  pools.yaml: |
    apiVersion: karpenter.k8s.aws/v1
    kind: EC2NodeClass
    metadata: {{name: gpu}}
    spec:
      amiFamily: Custom
      amiSelectorTerms: [{{id: ami-00000000}}]
      subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: quartermaster}}}}]
      securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: quartermaster}}}}]
      instanceProfile: fleet-nodes
    ---
    apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: {{name: burst}}
    spec:
      template:
        metadata: {{labels: {{quartermaster.dev/pool: burst}}}}
        spec:
          requirements:
          - {{key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}}
          - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
          taints: [{{key: nvidia.com/gpu, value: "true", effect: NoSchedule}}]
          nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}
)",
                     services, ns_, tenant_, exporter_->port());
}

Status Installation::make() {
  client_ = std::make_unique<kube::Client>(real_kube());
  ns_ = fmt::format("operator-{}", ::getpid());
  tenant_ = ns_ + "-research";
  make_namespace(*client_, ns_);
  // Pods of the release without a node selector, such as the migrations, must be bound to our kubelet's node.
  QM_ASSIGN(const auto others, client_->list_all(kube::resources::kNodes, ""));
  for (const Json& other : others) {
    if (other["spec"]["unschedulable"].boolean()) continue;
    cordoned_.push_back(kube::name_of(other));
    QM_TRY(cordon(cordoned_.back(), true));
  }
  kubelet_ = std::make_unique<Kubelet>(real_kube(), ns_ + "-processes", ns_);
  QM_TRY(cloud());
  QM_TRY(database());
  QM_TRY(world());
  std::ofstream(folder_.path() + "/values.yaml") << values();
  // The API server can reach Services only by their cluster addresses, which are not routed here, so the Service of the
  // admission webhook becomes an ExternalName.
  const auto script = folder_.path() + "/door.sh";
  std::ofstream(script) << fmt::format(R"(#!/bin/sh
exec awk '/^---/ {{ service = ours = 0 }} /^kind: Service$/ {{ service = 1 }} /^  name: qm-quartermaster-admission$/ {{ ours = 1 }}
  service && ours && /^  type: ClusterIP$/ {{ print "  type: ExternalName"; print "  externalName: {}"; next }} {{ print }}'
)",
                                       kubelet_->address_of("qm-quartermaster-admission"));
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  return done(release("install"), "helm install");
}

// A full log is renamed, and a new one is started.
const std::vector<Installation::Call>* Installation::audit() {
  bool any = false;
  for (const auto& file : std::filesystem::directory_iterator(setting("QM_KUBE_RUN"))) {
    const auto name = file.path().filename().string();
    if (!name.starts_with("audit") || !name.ends_with(".log")) continue;
    any = true;
    struct stat facts {};
    if (::stat(file.path().c_str(), &facts) != 0) continue;
    std::ifstream log(file.path());
    auto& from = read_[facts.st_ino];
    log.seekg(from);
    for (std::string line; std::getline(log, line) && !log.eof();) {
      from = log.tellg();
      note(line);
    }
  }
  return any ? &calls_ : nullptr;
}

void Installation::note(const std::string& line) {
  const auto prefix = account("");
  if (line.find(prefix) == std::string::npos) return;
  const auto entry = Json::parse(line);
  if (!entry || !(*entry)["user"]["username"].string().starts_with(prefix)) return;
  const Json& object = (*entry)["objectRef"];
  if (object.is_null()) return;  // discovery, which any caller may do
  Call call;
  call.component = (*entry)["user"]["username"].string().substr(prefix.size());
  call.verb = (*entry)["verb"].string();
  call.group = object["apiGroup"].string();
  call.resource = object["resource"].string();
  if (const auto& sub = object["subresource"].string(); !sub.empty()) call.resource += "/" + sub;
  call.ns = object["namespace"].string();
  call.name = object["name"].string();
  call.code = static_cast<int>((*entry)["responseStatus"]["code"].integer());
  calls_.push_back(std::move(call));
}

}  // namespace qm::deploy
