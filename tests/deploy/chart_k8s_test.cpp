// The chart on a real API server: its objects are valid and private. An installation starts, is upgraded, rolled back and uninstalled.
#include "installation.hpp"
#include "qm/admission/webhook/registration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <unistd.h>

namespace qm::deploy {
namespace chart_k8s_test {

constexpr const char* kValueSets[] = {"trial", "production", "admission-only", "cost-only", "full"};
const kube::Resource kPods{"", "v1", "pods", true};

std::string chart() { return source("deploy/helm/quartermaster"); }
std::string values(const std::string& set) { return chart() + "/ci/" + set + ".yaml"; }

// A substitute for cert-manager's kind, if it is not installed.
constexpr const char* kCertificates = R"(apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Certificate, listKind: CertificateList, plural: certificates, singular: certificate}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
)";

class Chart : public ::testing::Test {
 protected:
  void SetUp() override {
    if (setting("QM_KUBE_URL").empty()) GTEST_SKIP() << kNoRealKube;
    if (setting("QM_HELM").empty()) GTEST_SKIP() << "QM_HELM is not set: run ./qm peers helm";
    client_ = std::make_unique<kube::Client>(real_kube());
    ns_ = fmt::format("chart-{}-{}", ::getpid(), counter_++);
  }
  void TearDown() override {
    if (client_ == nullptr) return;
    if (installed_) (void)helm({"uninstall", "qm", "-n", ns_, "--wait", "--timeout", "60s"});
    (void)client_->remove(kNamespaces, "", ns_, {});
  }
  kube::Client& client() { return *client_; }
  [[nodiscard]] const std::string& ns() const { return ns_; }

  Ran helm(std::vector<std::string> args) {
    args.insert(args.begin(), setting("QM_HELM"));
    return run(std::move(args));
  }
  /// The documents of a value set as the chart renders them, and the file that holds them.
  std::vector<Json> rendered(const std::string& set, std::vector<std::string> more = {}) {
    file_ = folder_.path() + "/" + set + ".yaml";
    std::vector<std::string> args{"template", "qm", chart(), "-n", ns_, "-f", values(set), "--kube-version", "1.36.0"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = helm(args);
    EXPECT_EQ(ran.code, 0) << ran.output;
    // Helm's notes about symbolic links in the chart precede the first document.
    std::ofstream(file_) << ran.output.substr(std::min(ran.output.find("---\n"), ran.output.size()));
    std::vector<Json> out;
    for (const auto& object : objects_of(file_)) out.push_back(object.document.content);
    EXPECT_FALSE(out.empty());
    return out;
  }
  [[nodiscard]] const std::string& file() const { return file_; }
  void installs(std::vector<std::string> args) {
    Installation::end();
    args.insert(args.end(), {"-n", ns_, "--wait", "--timeout", "110s"});
    installed_ = true;
    const Ran ran = helm(std::move(args));
    ASSERT_EQ(ran.code, 0) << ran.output;
  }
  /// True if a process of the release has this permission for the whole cluster, or in a namespace.
  bool may(const std::string& who, const std::string& verb, const std::string& group, const std::string& resource,
           const std::string& in = {}, const std::string& name = {}) {
    std::string plural = resource.substr(0, resource.find('/'));
    Json attributes = Json::object({{"verb", verb}, {"group", group}, {"resource", plural}});
    if (plural.size() < resource.size()) attributes.set("subresource", resource.substr(plural.size() + 1));
    if (!in.empty()) attributes.set("namespace", in);
    if (!name.empty()) attributes.set("name", name);
    const auto answer = client().create(
        {"authorization.k8s.io", "v1", "subjectaccessreviews", false}, "",
        Json::object(
            {{"apiVersion", "authorization.k8s.io/v1"},
             {"kind", "SubjectAccessReview"},
             {"spec", Json::object({{"user", fmt::format("system:serviceaccount:{}:qm-quartermaster-{}", ns_, who)},
                                    {"resourceAttributes", std::move(attributes)}})}}));
    EXPECT_TRUE(answer) << answer.error().to_string();
    return answer && (*answer)["status"]["allowed"].boolean();
  }

 private:
  static inline int counter_ = 0;
  std::unique_ptr<kube::Client> client_;
  testing::TempDir folder_;
  std::string ns_, file_;
  bool installed_ = false;
};

/// The rendered pod templates, by the name of their workload.
std::vector<std::pair<std::string, Json>> pods_of(const std::vector<Json>& documents) {
  std::vector<std::pair<std::string, Json>> out;
  for (const Json& document : documents) {
    const std::string& kind = document["kind"].string();
    const std::string& name = document["metadata"]["name"].string();
    if (kind == "Pod") out.emplace_back(name, document);
    if (kind == "Deployment" || kind == "DaemonSet" || kind == "StatefulSet" || kind == "Job") {
      Json pod = document["spec"]["template"];
      for (const Json& claim : document["spec"]["volumeClaimTemplates"].items()) {
        pod.set("spec").set("volumes").push_back(
            Json::object({{"name", claim["metadata"]["name"]}, {"emptyDir", Json::object()}}));
      }
      out.emplace_back(name, std::move(pod));
    }
  }
  return out;
}

TEST_F(Chart, EveryValueSetIsTakenByTheServer) {
  make_namespace(client(), ns());
  // A pod is accepted only if its ServiceAccount exists, and a dry run does not create one.
  (void)client().create(kServiceAccounts, ns(), *Json::parse(R"({"metadata":{"name":"qm-quartermaster-test"}})"));
  define(client(), source("deploy/helm/quartermaster/files/crds"));
  const testing::TempDir folder;
  std::ofstream(folder.path() + "/certificates.yaml") << kCertificates;
  define(client(), folder.path());
  for (const char* set : kValueSets) {
    SCOPED_TRACE(set);
    const Ran lint = helm({"lint", "--strict", "--kube-version", "1.36.0", chart(), "-f", values(set)});
    EXPECT_EQ(lint.code, 0) << lint.output;
    const auto documents = rendered(set);
    const Ran taken = run({setting("QM_KUBECTL"), "apply", "-n", ns(), "--server-side", "--force-conflicts",
                           "--dry-run=server", "--validate=strict", "-f", file()});
    EXPECT_EQ(taken.code, 0) << taken.output;
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = taken.output.find("(server dry run)", at)) != std::string::npos; ++at) ++lines;
    EXPECT_EQ(lines, documents.size());
  }
}

// S-361: the chart exposes nothing by default.
TEST_F(Chart, NothingIsPublic) {
  for (const char* set : kValueSets) {
    SCOPED_TRACE(set);
    std::size_t services = 0, policies = 0;
    const auto documents = rendered(set);
    for (const Json& document : documents) {
      const std::string& kind = document["kind"].string();
      EXPECT_NE(kind, "Ingress");
      EXPECT_NE(kind, "Gateway");
      policies += kind == "NetworkPolicy" ? 1 : 0;
      if (kind != "Service") continue;
      ++services;
      EXPECT_EQ(document["spec"]["type"].string(), "ClusterIP") << document["metadata"]["name"].string();
      EXPECT_TRUE(document["spec"]["externalIPs"].is_null());
    }
    EXPECT_GT(services, 0u);
    EXPECT_EQ(policies > 0, std::string(set) != "cost-only");
    for (const auto& [name, pod] : pods_of(documents)) {
      if (name == "qm-quartermaster-agent") continue;
      EXPECT_FALSE(pod["spec"]["hostNetwork"].boolean()) << name;
      EXPECT_EQ(pod.dump().find("hostPort"), std::string::npos) << name;
    }
  }
}

TEST_F(Chart, DashboardsAndAlertsComeWhereTheyAreWanted) {
  std::size_t files = 0, alerts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source("deploy/grafana/dashboards"))) {
    files += entry.path().extension() == ".json" ? 1 : 0;
  }
  ASSERT_GT(files, 0u);
  const auto count = [&](const char* set) {
    std::size_t found = 0;
    alerts = 0;
    for (const Json& document : rendered(set)) {
      alerts += document["kind"].string() == "PrometheusRule" ? document["spec"]["groups"].size() : 0;
      if (kube::label(document, "grafana_dashboard") != "1") continue;
      ++found;
      for (const auto& [name, text] : document["data"].members()) EXPECT_TRUE(Json::parse(text.string())) << name;
    }
    return found;
  };
  EXPECT_EQ(count("production"), files);
  EXPECT_GT(alerts, 0u);
  EXPECT_EQ(count("trial"), 0u);
  EXPECT_EQ(alerts, 0u);
}

TEST_F(Chart, TheKubeletsSocketsAreMountedOnlyWhereTheyAreAskedFor) {
  for (const auto& [more, mounts] :
       {std::pair("agent.enabled=true", 0), std::pair("agent.podResources=true", 1),
        std::pair("agent.devicePlugin.enabled=true", 2), std::pair("agent.nodeFacts=true", 1)}) {
    for (const auto& [name, pod] : pods_of(rendered("trial", {"--set", more}))) {
      if (name != "qm-quartermaster-agent") continue;
      const auto& volumes = pod["spec"]["volumes"].items();
      EXPECT_EQ(std::ranges::count_if(volumes, [](const Json& v) { return v.contains("hostPath"); }), mounts) << more;
      EXPECT_EQ(pod["spec"]["securityContext"]["runAsNonRoot"].boolean(), mounts == 0) << more;
      EXPECT_FALSE(pod.path("spec.containers").items().at(0)["securityContext"]["capabilities"].contains("add"))
          << more;
    }
  }
}

TEST_F(Chart, NothingFlowsThatIsNotNamed) {
  std::map<std::string, Json> policies;
  const auto documents = rendered("trial", {"--set", "agent.hostNetwork=false"});
  for (const Json& document : documents) {
    if (document["kind"].string() == "NetworkPolicy") policies[kube::name_of(document)] = document["spec"];
  }
  const Json& deny = policies["qm-quartermaster-deny"];
  EXPECT_EQ(deny["policyTypes"].size(), 2u);
  EXPECT_TRUE(deny["ingress"].is_null());
  EXPECT_TRUE(deny["egress"].is_null());
  for (const auto& [name, pod] : pods_of(documents)) {
    for (const auto& [key, value] : deny["podSelector"]["matchLabels"].members()) {
      EXPECT_EQ(pod["metadata"]["labels"][key], value) << name << " is not denied anything";
    }
  }
  // Ports that a process may connect to in addition to the suite's gRPC, and whether to any address.
  const auto leaves_to = [&](const char* service, int port) {
    for (const Json& rule : policies[std::string("qm-quartermaster-") + service]["egress"].items()) {
      EXPECT_GT(rule["to"].size(), 0u) << service << ": a rule without peers is the whole world";
      EXPECT_GT(rule["ports"].size(), 0u) << service;
      for (const Json& to : rule["ports"].items()) {
        if (to["port"].integer() == port) return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(leaves_to("autoscaler", 443));
  EXPECT_TRUE(leaves_to("telemetry", 6379));
  for (const char* service : {"admission", "placement", "autoscaler", "cost"}) EXPECT_FALSE(leaves_to(service, 6379));
  for (const char* service : {"postgres", "redis"}) {
    EXPECT_TRUE(policies[std::string("qm-quartermaster-") + service]["egress"].is_null()) << service;
  }
  // The metadata service has the credentials of the instance; a process with cloud access must not reach it.
  const std::string cloud = policies["qm-quartermaster-autoscaler"].dump();
  EXPECT_NE(cloud.find(R"("except":["169.254.0.0/16"])"), std::string::npos) << cloud;
}

TEST_F(Chart, ValuesThatItDoesNotKnowAreRefused) {
  const std::pair<const char*, const char*> wrong[] = {
      {"nonsense=1", "'nonsense' not allowed"},
      {"services.admission.replica=3", "'replica' not allowed"},
      {"services.admission.replicas=0", "minimum"},
      {"log.level=loud", "value must be one of"},
      {"monitoring.interval=5s", "does not match pattern"},
      {"monitoring.interval=90s", "does not match pattern"},
      {"networkPolicy.nodes={all}", "does not match pattern"},
      {"crds.readSide={slurm}", "value must be one of"},
      {"image.digest=latest", "does not match pattern"},
      {"bundled.postgres.enabled=false", "no database: name a Secret in postgres.existingSecret"},
      {"bundled.kafka.enabled=true", "bus.kind is not kafka"},
      {"auth.roles.kings.groups={a}", "'kings' not allowed"},
      {"tls.source=secrets", "set tls.secretPrefix"},
      {"aws.credentialsSecret=", "the autoscaler needs keys"},
  };
  for (const auto& [value, answer] : wrong) {
    SCOPED_TRACE(value);
    const Ran ran =
        helm({"template", "qm", chart(), "-f", values("trial"), "--kube-version", "1.36.0", "--set", value});
    EXPECT_NE(ran.code, 0);
    EXPECT_NE(ran.output.find(answer), std::string::npos) << ran.output;
  }
}

TEST_F(Chart, TheScrapeIntervalIsOneSettingWithBounds) {  // S-315
  const auto intervals = [&](std::vector<std::string> more) {
    std::multiset<std::string> out;
    for (const Json& document : rendered("full", std::move(more))) {
      for (const char* list : {"endpoints", "podMetricsEndpoints"}) {
        for (const Json& endpoint : document["spec"][list].items()) out.insert(endpoint["interval"].string());
      }
    }
    return out;
  };
  EXPECT_EQ(intervals({}), (std::multiset<std::string>{"15s", "15s"}));
  EXPECT_EQ(intervals({"--set", "monitoring.interval=60s"}), (std::multiset<std::string>{"60s", "60s"}));
}

// S-364: all pods except the agent meet the restricted profile; a namespace that enforces it denies violations.
TEST_F(Chart, EveryPodButTheAgentIsRestricted) {
  // Like the namespace of the reference manifests: enforced, audited and warned of.
  make_namespace(client(), ns(),
                 Json::object({{"pod-security.kubernetes.io/enforce", "restricted"},
                               {"pod-security.kubernetes.io/audit", "restricted"},
                               {"pod-security.kubernetes.io/warn", "restricted"}}));
  const auto send = [&](const std::string& name, Json pod) {
    pod.set("apiVersion", "v1").set("kind", "Pod");
    pod.set("metadata").set("name", name).set("namespace", ns()).erase("generateName");
    for (const char* field : {"serviceAccountName", "priorityClassName"}) pod.set("spec").erase(field);
    return client().create(kPods, ns(), pod);
  };
  for (const char* set : {"trial", "full", "production"}) {
    SCOPED_TRACE(set);
    std::size_t restricted = 0;
    for (const auto& [name, pod] : pods_of(rendered(set))) {
      const auto made = send(fmt::format("{}-{}", set, name), pod);
      if (pod["spec"]["hostNetwork"].boolean()) {
        EXPECT_EQ(name, "qm-quartermaster-agent");
        ASSERT_FALSE(made) << "an agent on the host's network is restricted?";
        EXPECT_NE(made.error().message.find("violates PodSecurity"), std::string::npos) << made.error().message;
        EXPECT_NE(made.error().message.find("host namespaces"), std::string::npos) << made.error().message;
        // Apart from its host network and host port it violates nothing.
        for (const char* more :
             {"runAsNonRoot", "allowPrivilegeEscalation", "capabilities", "seccompProfile", "hostPath"})
          EXPECT_EQ(made.error().message.find(more), std::string::npos) << made.error().message;
        continue;
      }
      EXPECT_TRUE(made) << name << ": " << made.error().to_string();
      ++restricted;
    }
    EXPECT_GE(restricted, 7u);
  }
  const char* fixtures[] = {
      R"({"spec":{"containers":[{"name":"a","image":"a","securityContext":{"privileged":true}}]}})",
      R"({"spec":{"containers":[{"name":"a","image":"a"}],"volumes":[{"name":"h","hostPath":{"path":"/"}}]}})",
      R"({"spec":{"containers":[{"name":"a","image":"a","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}]}})"};
  for (const char* fixture : fixtures) {
    const auto made = send("violates", *Json::parse(fixture));
    ASSERT_FALSE(made) << fixture;
    EXPECT_NE(made.error().message.find("violates PodSecurity"), std::string::npos) << made.error().message;
  }
}

// S-366: the documented cache of weights runs in a restricted namespace, the one on the host's disk does not.
TEST_F(Chart, AWeightCacheOnAVolumeIsAllowedWhereHostPathIsNot) {
  make_namespace(client(), ns(), Json::object({{"pod-security.kubernetes.io/enforce", "restricted"}}));
  const std::string page = testing::read_file(source("docs/policies.md"));
  const auto section = page.find("\n## Restricted namespaces\n");
  ASSERT_NE(section, std::string::npos);
  const auto begin = page.find("```yaml\n", section) + 8;
  const auto loaded = config::load_text(page.substr(begin, page.find("```\n", begin) - begin), "policies.md");
  ASSERT_EQ(loaded.objects.size(), 2u);
  const Json& claim = loaded.objects[0].document.content;
  Json pod = loaded.objects[1].document.content["spec"]["template"];
  pod.set("apiVersion", "v1").set("kind", "Pod").set("metadata").set("name", "on-a-volume");
  ASSERT_EQ(pod["spec"]["volumes"].at(0)["persistentVolumeClaim"]["claimName"], claim["metadata"]["name"]);
  EXPECT_TRUE(pod["spec"]["containers"].at(0)["volumeMounts"].at(0)["readOnly"].boolean());
  const auto volume = client().create({"", "v1", "persistentvolumeclaims", true}, ns(), claim);
  EXPECT_TRUE(volume) << volume.error().to_string();
  const auto made = client().create(kPods, ns(), pod);
  EXPECT_TRUE(made) << made.error().to_string();

  pod.set("metadata").set("name", "on-the-host");
  pod.set("spec").set("volumes", *Json::parse(R"([{"name":"weights","hostPath":{"path":"/var/cache/models"}}])"));
  const auto refused = client().create(kPods, ns(), pod);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("violates PodSecurity"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("hostPath"), std::string::npos) << refused.error().message;
}

TEST_F(Chart, InstallsUpgradesRollsBackAndUninstalls) {
  if (setting("QM_KUBE_CONTROLLERS") != "1")
    GTEST_SKIP() << "needs controllers and kwok, which QM_KUBE_CONTROLLERS=1 tells of";
  const kube::Resource& nodes = kube::resources::kNodes;
  const std::string node = ns() + "-node";  // simulated by kwok
  const auto made_node = client().create(
      nodes, "",
      *Json::parse(fmt::format(R"({{"metadata":{{"name":"{0}","annotations":{{"kwok.x-k8s.io/node":"fake"}},
        "labels":{{"kubernetes.io/hostname":"{0}"}}}},"status":{{"capacity":{{"cpu":"96","memory":"1Ti","pods":"110"}},
        "allocatable":{{"cpu":"96","memory":"1Ti","pods":"110"}}}}}})",
                               node)));
  ASSERT_TRUE(made_node) << made_node.error().to_string();
  make_namespace(client(), ns(), Json::object({{"pod-security.kubernetes.io/enforce", "restricted"}}));
  // Kueue's own definition, as far as the chart can see: another manager created it.
  define(client(), source("deploy/helm/quartermaster/files/crds/ecosystem/kueue.yaml"));
  const std::string foreign = "clusterqueues.kueue.x-k8s.io", own = "priceplans.quartermaster.dev";
  ASSERT_TRUE(client().merge_patch(kDefinitions, "", foreign,
                                   *Json::parse(R"({"metadata":{"labels":{"made-by":"another-owner"}}})")));
  const auto foreign_before = client().get(kDefinitions, "", foreign);
  ASSERT_TRUE(foreign_before);
  (void)client().remove(kDefinitions, "", own, {});
  ASSERT_TRUE(testing::wait_until([&] { return !client().get(kDefinitions, "", own).has_value(); }));

  // A kwok node runs a pod until it gets SIGTERM; hooks must end by themselves.
  const std::vector<std::string> common{chart(),
                                        "-f",
                                        values("trial"),
                                        "--set",
                                        "agent.enabled=false",
                                        "--set-string",
                                        "migrations.annotations.fleet\\.quartermaster\\.dev/run-seconds=1",
                                        "--set-string",
                                        "test.annotations.fleet\\.quartermaster\\.dev/run-seconds=1"};
  const auto with = [&](std::vector<std::string> args, std::vector<std::string> more = {}) {
    args.insert(args.end(), common.begin(), common.end());
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  installs(with({"install", "qm"}));
  const auto certificate = [&] {
    const auto secret = client().get({"", "v1", "secrets", true}, ns(), "qm-quartermaster-tls-admission");
    return secret ? (*secret)["data"]["tls.crt"].string() : std::string();
  };
  const auto log_level = [&] {
    const auto found = client().get({"apps", "v1", "deployments", true}, ns(), "qm-quartermaster-cost");
    std::string out;
    if (!found) return out;
    for (const Json& env : (*found)["spec"]["template"]["spec"]["containers"].at(0)["env"].items()) {
      if (env["name"].string() == "QM_LOG_LEVEL") out = env["value"].string();
    }
    return out;
  };
  const std::string first = certificate();
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(log_level(), "info");
  const auto running = client().list_all(kPods, ns());
  ASSERT_TRUE(running);
  EXPECT_EQ(running->size(), 12u) << "two of each service, a database and a Redis";

  // Fields that the service writes at run time are not reverted.
  const kube::Resource hooks{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", false};
  auto registered = client().get(hooks, "", "quartermaster");
  ASSERT_TRUE(registered);
  ASSERT_EQ((*registered)["webhooks"].size(), 10u);
  for (Json& hook : registered->set("webhooks").items_mut()) hook.set("clientConfig").set("caBundle", first);
  ASSERT_TRUE(client().update(hooks, "", "quartermaster", *registered));

  installs(with({"upgrade", "qm"}, {"--set", "log.level=debug"}));
  registered = client().get(hooks, "", "quartermaster");
  ASSERT_TRUE(registered);
  for (const Json& hook : (*registered)["webhooks"].items()) {
    EXPECT_EQ(hook["clientConfig"]["caBundle"].string(), first) << hook["name"].string();
  }
  EXPECT_EQ(log_level(), "debug");
  EXPECT_EQ(certificate(), first) << "an upgrade makes no new keys";
  const Ran tested = helm({"test", "qm", "-n", ns(), "--timeout", "60s"});
  EXPECT_EQ(tested.code, 0) << tested.output;

  installs({"rollback", "qm", "1"});
  EXPECT_EQ(log_level(), "info");
  const Ran gone = helm({"uninstall", "qm", "-n", ns(), "--wait", "--timeout", "60s"});
  EXPECT_EQ(gone.code, 0) << gone.output;

  (void)client().remove(nodes, "", node, {});

  const auto own_after = client().get(kDefinitions, "", own);
  ASSERT_TRUE(own_after) << "definitions stay, and the objects with them";
  EXPECT_EQ(kube::annotation(*own_after, "helm.sh/resource-policy"), "keep");
  const auto foreign_after = client().get(kDefinitions, "", foreign);
  ASSERT_TRUE(foreign_after);
  EXPECT_EQ(kube::uid_of(*foreign_after), kube::uid_of(*foreign_before));
  EXPECT_EQ(kube::resource_version_of(*foreign_after), kube::resource_version_of(*foreign_before))
      << "the definition of another owner was changed";
  for (const auto& left :
       {kube::Resource{"apps", "v1", "deployments", true}, kube::Resource{"apps", "v1", "statefulsets", true},
        kube::Resource{"", "v1", "services", true}, kube::Resource{"", "v1", "secrets", true},
        kube::Resource{"networking.k8s.io", "v1", "networkpolicies", true}}) {
    const auto found = client().list_all(left, ns());
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->empty()) << left.plural << ": " << found->size();
  }
}

// The webhook registration exists twice: in the chart, so that the release owns it, and in the service, for
// installations without the chart. Both must be equal.
TEST_F(Chart, WebhooksAreAsTheServiceWouldRegisterThem) {
  namespace webhook = admission::webhook;
  webhook::Registration registration;
  registration.service_ns = ns();
  registration.service = "qm-quartermaster-admission";
  registration.service_port = 9443;
  registration.excluded.insert(ns());
  const auto without_bundle = [](const Json& configuration) {
    Json out = configuration["webhooks"];
    for (Json& hook : out.items_mut()) hook.set("clientConfig").erase("caBundle");
    return out;
  };
  std::size_t compared = 0;
  for (const Json& document : rendered("trial")) {
    const std::string& kind = document["kind"].string();
    if (!kind.ends_with("WebhookConfiguration")) continue;
    EXPECT_EQ(kube::name_of(document), registration.name);
    const Json ours =
        without_bundle(kind.starts_with("Mutating") ? webhook::mutating_configuration(registration, "")
                                                    : webhook::validating_configuration(registration, ""));
    const Json chart = without_bundle(document);
    ASSERT_EQ(chart.size(), ours.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(chart.at(i) == ours.at(i)) << "chart: " << chart.at(i).dump() << "\nservice: " << ours.at(i).dump();
      ++compared;
    }
  }
  EXPECT_EQ(compared, 19u);
}

// A variable or flag that a program does not know would be ignored silently, or end the program.
TEST_F(Chart, ProgramsKnowTheirSettings) {
  const std::set<std::string> for_others{"QM_NODE", "QM_POD_IP", "QM_BUS_CONNINFO"};  // named in other values by $(...)
  std::map<std::string, std::string> help;
  std::set<std::string> seen;
  for (const char* set : kValueSets) {
    SCOPED_TRACE(set);
    for (const auto& [name, pod] : pods_of(rendered(set))) {
      for (const Json& container : pod["spec"]["containers"].items()) {
        const std::string& program = container["command"].at(0).string();
        if (!program.starts_with("qm")) continue;
        const std::string path = std::string(QM_BIN_DIR) + "/" + program;
        if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not built";
        std::string& text = help[program];
        if (text.empty()) text = run({path, "--help"}).output;
        for (const Json& variable : container["env"].items()) {
          const std::string& known = variable["name"].string();
          if (!known.starts_with("QM_") || for_others.contains(known)) continue;
          EXPECT_NE(text.find(known), std::string::npos) << program << " in " << name << " does not know " << known;
          seen.insert(known);
        }
        for (const Json& arg : container["args"].items()) {
          if (!arg.string().starts_with("--")) continue;
          const std::string flag = arg.string().substr(0, arg.string().find('='));
          EXPECT_NE(text.find(flag), std::string::npos) << program << " in " << name << " does not know " << flag;
        }
      }
    }
  }
  EXPECT_GE(seen.size(), 15u);
}

TEST_F(Chart, EachProcessMayDoWhatItsCodeDoesAndNoMore) {
  make_namespace(client(), ns());
  (void)rendered("trial");
  const Ran applied = run({setting("QM_KUBECTL"), "apply", "-n", ns(), "-l", "app.kubernetes.io/instance=qm", "-f",
                           file(), "--prune=false"});
  ASSERT_EQ(applied.code, 0) << applied.output;
  struct Right {
    const char *who, *verb, *group, *resource;
  };
  constexpr Right kAllowed[] = {
      {"admission", "watch", "batch", "jobs"},
      {"admission", "create", "batch", "jobs"},
      {"admission", "patch", "batch", "jobs"},
      {"admission", "patch", "batch", "jobs/status"},
      {"admission", "delete", "batch", "jobs"},
      {"admission", "create", "", "events"},
      {"admission", "watch", "kueue.x-k8s.io", "clusterqueues"},
      {"admission", "patch", "", "pods"},
      {"admission", "patch", "kueue.x-k8s.io", "clusterqueues/status"},
      {"admission", "list", "coordination.k8s.io", "leases"},
      {"placement", "create", "", "pods/eviction"},
      {"placement", "patch", "", "pods/status"},
      {"admission", "create", "", "pods/eviction"},
      {"placement", "create", "", "pods/binding"},
      {"placement", "delete", "", "pods"},
      {"placement", "patch", "", "nodes"},
      {"placement", "watch", "", "nodes"},
      {"autoscaler", "create", "karpenter.sh", "nodeclaims"},
      {"autoscaler", "patch", "karpenter.sh", "nodeclaims/status"},
      {"autoscaler", "delete", "karpenter.sh", "nodeclaims"},
      {"agent", "watch", "", "pods"},
      {"agent", "list", "", "pods"},
  };
  for (const Right& r : kAllowed) {
    EXPECT_TRUE(may(r.who, r.verb, r.group, r.resource)) << r.who << " " << r.verb << " " << r.resource;
  }
  for (const char* who : {"admission", "placement", "autoscaler", "telemetry", "cost", "agent"}) {
    // Drivers and DaemonSets belong to the operator; no service may exec into a pod, read a Secret or create RBAC rules.
    const Right never[] = {{who, "patch", "apps", "daemonsets"},
                           {who, "delete", "apps", "daemonsets"},
                           {who, "create", "apps", "deployments"},
                           {who, "create", "", "pods/exec"},
                           {who, "get", "", "secrets"},
                           {who, "list", "", "secrets"},
                           {who, "delete", "", "nodes"},
                           {who, "impersonate", "", "users"},
                           {who, "create", "rbac.authorization.k8s.io", "clusterrolebindings"},
                           {who, "patch", "nvidia.com", "clusterpolicies"}};
    for (const Right& r : never) {
      EXPECT_FALSE(may(r.who, r.verb, r.group, r.resource)) << r.who << " " << r.verb << " " << r.resource;
    }
  }
  for (const char* who : {"telemetry", "cost"}) {
    EXPECT_FALSE(may(who, "list", "", "pods")) << who;
    EXPECT_FALSE(may(who, "list", "", "nodes")) << who;
  }
  EXPECT_FALSE(may("placement", "delete", "batch", "jobs"));
  EXPECT_FALSE(may("agent", "delete", "", "pods"));
  EXPECT_FALSE(may("autoscaler", "patch", "", "pods"));
  EXPECT_FALSE(may("autoscaler", "delete", "karpenter.sh", "nodepools"));
  EXPECT_FALSE(may("admission", "create", "", "pods"));
  EXPECT_FALSE(may("admission", "patch", "kueue.x-k8s.io", "clusterqueues")) << "specs are their owners'";
  const std::string hooks = "mutatingwebhookconfigurations";
  EXPECT_TRUE(may("admission", "update", "admissionregistration.k8s.io", hooks, "", "quartermaster"));
  EXPECT_FALSE(may("admission", "update", "admissionregistration.k8s.io", hooks, "", "another-owner"));
  EXPECT_TRUE(may("admission", "update", "", "secrets", ns(), "quartermaster-webhook-cert"));
  EXPECT_FALSE(may("admission", "get", "", "secrets", ns(), "quartermaster-database"));
  EXPECT_FALSE(may("admission", "get", "", "secrets", "kube-system", "quartermaster-webhook-cert"));
  (void)run({setting("QM_KUBECTL"), "delete", "-n", ns(), "--ignore-not-found", "--wait=false", "-f", file(), "-l",
             "app.kubernetes.io/component notin (crds)"});
}
}  // namespace chart_k8s_test
}  // namespace qm::deploy
