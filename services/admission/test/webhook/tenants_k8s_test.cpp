// What a tenant may try, on a real API server: webhooks and policies are those of the chart, the tenant is an account
// with the rights of a tenant, and pods are created by the controllers of Kubernetes.
#include "qm/admission/webhook/certificates.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/server.hpp"
#include "qm/base/base64.hpp"
#include "qm/config/manifest.hpp"
#include "qm/model/owned_metadata.hpp"
#include "qm/testing/testing.hpp"
#include "real_server.hpp"
#include "reviews.hpp"
#include "tenant_rows.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace qm::admission::webhook {
namespace tenants_k8s_test {

using namespace std::chrono_literals;
using kube::resources::kJobs;
using kube::resources::kPods;
constexpr auto kPatience = 60s;

/// The rights that teams have in a namespace of their own, and a few that they rarely have.
constexpr const char* kTenantRules = R"([
    {"apiGroups":[""],"resources":["pods","pods/status","pods/ephemeralcontainers","pods/resize","pods/binding","bindings",
      "replicationcontrollers"],"verbs":["*"]},
    {"apiGroups":["apps"],"resources":["deployments","replicasets","statefulsets","daemonsets"],"verbs":["*"]},
    {"apiGroups":["batch"],"resources":["jobs","cronjobs"],"verbs":["*"]}])";

WallTime now() { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); }

class RealTenants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (env("QM_KUBE_URL").empty()) GTEST_SKIP() << "no Kubernetes: run ./qm peers kubernetes";
    if (env("QM_HELM").empty()) GTEST_SKIP() << "QM_HELM is not set: run ./qm peers helm";
    static int number = 0;
    name_ = fmt::format("tenants-{}-{}", ::getpid(), ++number);
    client_ = std::make_unique<kube::Client>(real());
    ns_ = space("team", true);
    bare_ = space("bare", true);
    free_ = space("free", false);
    settings_.own_users = {fmt::format("system:serviceaccount:{}:*", name_)};
    view_->local_queues[ns_] = {"default", "mine"};
  }
  void TearDown() override {
    if (!client_) return;
    for (const auto& [resource, name] : made_) (void)client_->remove(resource, "", name, {});
    for (const auto& ns : spaces_) (void)client_->remove(kNamespaces, "", ns, {});
    // A CRD that is still being deleted would remove the resources of the next test.
    for (const auto& [resource, name] : made_) {
      EXPECT_TRUE(
          qm::testing::wait_until([&, &at = resource, &one = name] { return !client_->get(at, "", one); }, kPatience))
          << name << " does not go";
    }
    if (server_) server_->stop();
  }

  std::string space(const std::string& what, bool required) {
    const auto ns = name_ + "-" + what;
    auto labels = Json::object({{"webhook-test", name_}});
    if (required) labels.set(kRequiredLabel, "required");
    EXPECT_TRUE(client_->create(kNamespaces, "",
                                Json::object({{"metadata", Json::object({{"name", ns}, {"labels", labels}})}})));
    view_->namespaces[ns].labels = labels_of_json(labels);
    spaces_.push_back(ns);
    const kube::Resource accounts{"", "v1", "serviceaccounts", true},
        roles{"rbac.authorization.k8s.io", "v1", "roles", true},
        bindings{"rbac.authorization.k8s.io", "v1", "rolebindings", true};
    for (const auto* account : {"default", "tenant"}) {
      const auto created =
          client_->create(accounts, ns, Json::object({{"metadata", Json::object({{"name", account}})}}));
      EXPECT_TRUE(created || created.error().code == Code::kAlreadyExists) << created.error().to_string();
    }
    EXPECT_TRUE(client_->create(
        roles, ns, Json::object({{"metadata", Json::object({{"name", "tenant"}})}, {"rules", parsed(kTenantRules)}})));
    EXPECT_TRUE(client_->create(
        bindings, ns,
        parsed(fmt::format(
            R"({{"metadata":{{"name":"tenant"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"Role",
            "name":"tenant"}},"subjects":[{{"kind":"ServiceAccount","name":"tenant","namespace":"{}"}}]}})",
            ns))));
    return ns;
  }
  static Labels labels_of_json(const Json& labels) {
    Labels out;
    for (const auto& [key, value] : labels.members()) out[key] = value.string();
    return out;
  }

  /// The objects of one template of the chart, for the namespaces of this test.
  std::vector<Json> rendered(const std::string& file) {
    const qm::testing::TempDir folder;
    qm::testing::Process::Options options;
    options.argv = {env("QM_HELM"),
                    "template",
                    name_,
                    std::string(QM_SOURCE_DIR) + "/deploy/helm/quartermaster",
                    "-n",
                    name_,
                    "-f",
                    std::string(QM_SOURCE_DIR) + "/deploy/helm/quartermaster/ci/trial.yaml",
                    "--kube-version",
                    "1.36.0",
                    "--set",
                    "ownership.namespaceSelector.matchLabels.webhook-test=" + name_,
                    "-s",
                    "templates/" + file,
                    "--set",
                    "workloadKinds={Job,JobSet,PyTorchJob,MPIJob,RayJob,RayCluster}"};
    options.output = folder.path() + "/out.yaml";
    auto process = qm::testing::Process::start(options);
    EXPECT_TRUE(process);
    if (!process) return {};
    EXPECT_EQ((*process)->wait(std::chrono::minutes(1)).value_or(-1), 0) << qm::testing::read_file(options.output);
    const auto text = qm::testing::read_file(options.output);
    std::ofstream(folder.path() + "/objects.yaml") << text.substr(text.find("---\n"));
    std::vector<Json> out;
    for (const auto& object : config::load_path(folder.path() + "/objects.yaml").objects) {
      if (object.document.content.is_object()) out.push_back(object.document.content);
    }
    return out;
  }
  void create_cluster_object(const Json& object, const std::string& plural) {
    const kube::Resource resource{"admissionregistration.k8s.io", "v1", plural, false};
    const auto created = client_->create(resource, "", object);
    ASSERT_TRUE(created) << created.error().to_string();
    made_.emplace_back(resource, kube::name_of(object));
  }
  void apply_policies() {
    int policies = 0;
    for (const auto& object : rendered("owned-metadata.yaml")) {
      const bool binding = object["kind"].string().ends_with("Binding");
      policies += binding ? 0 : 1;
      create_cluster_object(object, binding ? "validatingadmissionpolicybindings" : "validatingadmissionpolicies");
    }
    EXPECT_EQ(policies, 9);
  }
  /// The webhooks of the chart, which call this process instead of a Service.
  void apply_webhooks() {
    ServerOptions serving;
    serving.port = qm::testing::free_port();
    server_ = std::make_unique<Server>(
        serving, settings_, [this] { return view_; }, registry_);
    const auto authority = *http::make_authority({"ca", {}, now() - 1h, now() + 1h});
    ASSERT_TRUE(server_->serve(*http::make_certificate({"hook", {"127.0.0.1"}, now() - 1h, now() + 1h}, authority)));
    for (auto object : rendered("webhook.yaml")) {
      for (auto& hook : object.set("webhooks").items_mut()) {
        const auto path = hook["clientConfig"]["service"]["path"].string();
        hook.set("clientConfig", Json::object({{"url", fmt::format("https://127.0.0.1:{}{}", serving.port, path)},
                                               {"caBundle", base64(authority.certificate)}}));
      }
      object.set("metadata").set("name", name_);
      create_cluster_object(object, object["kind"].string().starts_with("Mutating")
                                        ? "mutatingwebhookconfigurations"
                                        : "validatingwebhookconfigurations");
    }
  }

  http::Response send(const std::string& user, const std::string& method, const std::string& target,
                      const std::string& body, const char* type = "application/json", bool administrator = false) {
    http::Request request;
    request.method = method;
    request.target = target;
    request.headers.set("Impersonate-User", user);
    std::string groups = "system:authenticated";
    if (const auto account = user.find("system:serviceaccount:"); account == 0) {
      groups = "system:serviceaccounts:" + user.substr(22, user.rfind(':') - 22);
    }
    request.headers.set("Impersonate-Group", administrator ? "system:masters" : groups);
    request.headers.set("Content-Type", type);
    request.body = body;
    return send_to_real(std::move(request));
  }
  [[nodiscard]] static std::string tenant(const std::string& ns) { return "system:serviceaccount:" + ns + ":tenant"; }
  static Json complete(Json object, const std::string& kind, const std::string& name) {
    static const std::map<std::string, std::string> kVersions{{"Pod", "v1"},
                                                              {"ReplicationController", "v1"},
                                                              {"Binding", "v1"},
                                                              {"Job", "batch/v1"},
                                                              {"CronJob", "batch/v1"}};
    const auto found = kVersions.find(kind);
    object.set("apiVersion", found == kVersions.end() ? "apps/v1" : found->second).set("kind", kind);
    object.set("metadata").set("name", name);
    return object;
  }
  http::Response create(const std::string& user, const std::string& target, const Json& object, bool stored) {
    return send(user, "POST", target + (stored ? "" : "?dryRun=All"), object.dump());
  }
  http::Response patch(const std::string& user, const std::string& target, const std::string& body) {
    return send(user, "PATCH", target, body, "application/merge-patch+json");
  }

  /// The result of a request, in the terms of the rows.
  static std::string outcome(const http::Response& answer, const std::string& kind) {
    const auto object = Json::parse(answer.body).value_or(Json());
    if (answer.status >= 300) return fmt::format("{} {}", answer.status, object["message"].string());
    if (kind == "Job") return object["spec"]["suspend"].boolean() ? "suspended" : "left";
    return object["spec"]["schedulingGates"].size() > 0 ? "gated" : "left";
  }
  std::string try_row(const TenantRow& row) {
    const auto& ns = row.queue ? ns_ : bare_;
    const auto& resource = row.kind == "Job" ? kJobs : kPods;
    Json object = gpu_object(row.kind);
    object.merge_patch(parsed(row.object));
    const auto made = create(row.user.empty() ? tenant(ns) : row.user, resource.path(ns),
                             complete(object, row.kind, row.name), !row.change.empty());
    if (row.change.empty()) return outcome(made, row.kind);
    EXPECT_EQ(made.status, 201) << row.name << ": " << made.body;
    return outcome(patch(tenant(ns), resource.path(ns, row.name), row.change), row.kind);
  }
  static bool is_of_metadata(const TenantRow& row) {
    return row.expected.starts_with("annotation ") || row.expected.starts_with("label ");
  }

  struct Kind {
    const char *kind, *path, *more;
    std::vector<std::string> at;  ///< of the template
  };
  /// The kinds that create pods, with a template of one pod with a GPU.
  static std::vector<Kind> kinds() {
    const auto* selected =
        R"({"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}}}})";
    return {{"Deployment", "/apis/apps/v1/namespaces/{}/deployments", selected, {"spec", "template"}},
            {"ReplicaSet", "/apis/apps/v1/namespaces/{}/replicasets", selected, {"spec", "template"}},
            {"StatefulSet", "/apis/apps/v1/namespaces/{}/statefulsets", selected, {"spec", "template"}},
            {"DaemonSet", "/apis/apps/v1/namespaces/{}/daemonsets", selected, {"spec", "template"}},
            {"ReplicationController",
             "/api/v1/namespaces/{}/replicationcontrollers",
             R"({"spec":{"selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}}}}})",
             {"spec", "template"}},
            {"Job", "/apis/batch/v1/namespaces/{}/jobs", R"({"spec":{"suspend":true}})", {"spec", "template"}},
            {"CronJob",
             "/apis/batch/v1/namespaces/{}/cronjobs",
             R"({"spec":{"schedule":"0 0 1 1 *","suspend":true}})",
             {"spec", "jobTemplate", "spec", "template"}}};
  }
  static Json object_of(const Kind& kind, const std::string& name, bool gpus = true) {
    Json object = complete(parsed(kind.more), kind.kind, name);
    Json spec = gpu_object("Pod")["spec"];
    if (!gpus) spec.set("containers").items_mut()[0].erase("resources");
    const std::string_view what(kind.kind);
    if (what == "Job" || what == "CronJob") spec.set("restartPolicy", "Never");
    Json* at = &object;
    for (const auto& step : kind.at) at = &at->set(step);
    at->set("spec", spec);
    return object;
  }
  [[nodiscard]] std::string path(const Kind& kind, const std::string& name = {}) const {
    return fmt::format(fmt::runtime(kind.path), ns_) + (name.empty() ? "" : "/" + name);
  }

  std::string name_, ns_, bare_, free_;
  std::vector<std::string> spaces_;
  std::vector<std::pair<kube::Resource, std::string>> made_;
  std::unique_ptr<kube::Client> client_;
  Settings settings_;
  std::shared_ptr<View> view_ = std::make_shared<View>();
  metrics::Registry registry_;
  std::unique_ptr<Server> server_;
};

TEST_F(RealTenants, FactsAreNotForgedWithoutWebhook) {
  apply_policies();
  // Each policy is compiled and active some time after it was created.
  for (const auto& kind : kinds()) {
    Json forged = object_of(kind, "probe");
    Json* at = &forged;
    for (const auto& step : kind.at) at = &at->set(step);
    at->set("metadata").set("annotations").set(words::kAttempt, "1");
    std::string last;
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          last = outcome(create(tenant(ns_), path(kind), forged, false), "");
          return last.find("annotation quartermaster.dev/attempt of " + std::string(kind.kind) + " " + ns_ +
                           "/probe is written by Quartermaster alone, and " + tenant(ns_) +
                           " sets it: remove it from the object") != std::string::npos;
        },
        kPatience))
        << kind.kind << ": " << last;
  }
  const TenantRow probe{"probe", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/attempt":"1"}}})",
                        "annotation"};
  ASSERT_TRUE(
      qm::testing::wait_until([&] { return try_row(probe).find("annotation") != std::string::npos; }, kPatience));
  int tried = 0;
  for (const auto& row : tenant_rows()) {
    if (!is_of_metadata(row)) continue;
    SCOPED_TRACE(row.name);
    const auto got = try_row(row);
    EXPECT_NE(got.find(row.expected), std::string::npos) << got;
    EXPECT_TRUE(got.starts_with("403 ")) << got;
    ++tried;
  }
  EXPECT_GE(tried, 18);

  // The same holds for updates of existing objects; all other fields may change.
  for (const auto& kind : kinds()) {
    SCOPED_TRACE(kind.kind);
    const bool job = std::string_view(kind.kind) == "Job";
    ASSERT_EQ(create(tenant(ns_), path(kind), object_of(kind, "kept", false), true).status, 201);
    Json change = Json::object(
        {{"metadata", Json::object({{"annotations", Json::object({{"quartermaster.dev/devices", "0"}})}})}});
    for (auto step = kind.at.rbegin(); step != kind.at.rend(); ++step) change = Json::object({{*step, change}});
    const auto got = outcome(patch(tenant(ns_), path(kind, "kept"), change.dump()), "");
    EXPECT_NE(got.find("annotation quartermaster.dev/devices of "), std::string::npos) << got;
    EXPECT_EQ(patch(tenant(ns_), path(kind, "kept"), R"({"metadata":{"annotations":{"note":"x"}}})").status, 200);
    for (const auto key : words::kOwnedObjectAnnotations) {
      const auto own = outcome(
          patch(tenant(ns_), path(kind, "kept"),
                Json::object({{"metadata", Json::object({{"annotations", Json::object({{std::string(key), "1"}})}})}})
                    .dump()),
          "");
      EXPECT_NE(own.find(fmt::format("annotation {} of ", key)), std::string::npos) << own;
    }
    if (job) {
      const auto label = outcome(
          patch(tenant(ns_), path(kind, "kept"), R"({"metadata":{"labels":{"quartermaster.dev/unadmitted":"true"}}})"),
          "");
      EXPECT_NE(label.find("label quartermaster.dev/unadmitted of Job "), std::string::npos) << label;
    }
  }

  // Nor by a subresource: a binding copies its annotations to the pod.
  Json pod = complete(gpu_object("Pod"), "Pod", "bound");
  ASSERT_EQ(create(tenant(ns_), kPods.path(ns_), pod, true).status, 201);
  const auto binding = parsed(fmt::format(R"({{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"bound",
      "annotations":{{"quartermaster.dev/devices":"0"}}}},"target":{{"kind":"Node","name":"n1"}}}})"));
  for (const auto& target :
       {kPods.path(ns_, "bound") + "/binding", fmt::format("/api/v1/namespaces/{}/bindings", ns_)}) {
    const auto got = outcome(create(tenant(ns_), target, binding, true), "");
    EXPECT_NE(got.find("annotation quartermaster.dev/devices of Binding"), std::string::npos) << target << " " << got;
  }
  const auto* devices = R"({"metadata":{"annotations":{"quartermaster.dev/devices":"0"}}})";
  const auto status = outcome(patch(tenant(ns_), kPods.path(ns_, "bound") + "/status", devices), "");
  EXPECT_NE(status.find("annotation quartermaster.dev/devices of Pod"), std::string::npos) << status;
  // These leave metadata unchanged, whatever is sent.
  for (const auto* sub : {"/ephemeralcontainers", "/resize"}) {
    (void)patch(tenant(ns_), kPods.path(ns_, "bound") + sub, devices);
    const auto now_it_is = client_->get(kPods, ns_, "bound");
    ASSERT_TRUE(now_it_is);
    EXPECT_EQ(kube::annotation(*now_it_is, words::kDevices), "") << sub;
  }

  // Namespaces that require nothing protect owned metadata too, and our own accounts may write it.
  EXPECT_NE(outcome(create(tenant(free_), kPods.path(free_),
                           complete(parsed(R"({"metadata":{"annotations":{"quartermaster.dev/workload":"x"}},
                               "spec":{"containers":[{"name":"main","image":"x"}]}})"),
                                    "Pod", "forged"),
                           false),
                    "")
                .find("annotation quartermaster.dev/workload of Pod"),
            std::string::npos);
  for (const auto* ours : {"admission", "placement"}) {
    const auto user = fmt::format("system:serviceaccount:{0}:{0}-quartermaster-{1}", name_, ours);
    const auto wrote = send(user, "PATCH", kPods.path(ns_, "bound"), devices, "application/merge-patch+json", true);
    EXPECT_EQ(wrote.status, 200) << wrote.body;
  }
  const auto stranger =
      send(fmt::format("system:serviceaccount:{0}:{0}-quartermaster-agent", name_), "PATCH", kPods.path(ns_, "bound"),
           R"({"metadata":{"annotations":{"quartermaster.dev/devices":"1"}}})", "application/merge-patch+json", true);
  EXPECT_EQ(stranger.status, 403) << stranger.body;
}

// Their operators create the pods, so a template of theirs would copy metadata that a tenant may not write.
TEST_F(RealTenants, TemplatesOfOtherKindsAreProtected) {
  struct Other {
    const char *group, *version, *kind, *plural, *spec;  ///< in the spec, # is a template
  };
  const std::array<Other, 5> kOthers{{
      {"jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets",
       R"({"replicatedJobs":[{"name":"a","template":{"spec":{"template":{}}}},{"name":"b","template":{"spec":{"template":#}}}]})"},
      {"kubeflow.org", "v1", "PyTorchJob", "pytorchjobs",
       R"({"pytorchReplicaSpecs":{"Master":{"template":{}},"Worker":{"template":#}}})"},
      {"kubeflow.org", "v2beta1", "MPIJob", "mpijobs", R"({"mpiReplicaSpecs":{"Launcher":{"template":#}}})"},
      {"ray.io", "v1", "RayCluster", "rayclusters",
       R"({"headGroupSpec":{"template":{}},"workerGroupSpecs":[{"groupName":"a","template":#}]})"},
      {"ray.io", "v1", "RayJob", "rayjobs",
       R"({"rayClusterSpec":{"headGroupSpec":{"template":{}},"workerGroupSpecs":[{"groupName":"a","template":#}]}})"},
  }};
  const kube::Resource definitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};
  for (const auto& other : kOthers) {
    const auto name = fmt::format("{}.{}", other.plural, other.group);
    const auto defined = client_->create(
        definitions, "",
        parsed(fmt::format(
            R"({{"metadata":{{"name":"{}"}},"spec":{{"group":"{}","scope":"Namespaced","names":{{"kind":"{}","plural":"{}"}},
            "versions":[{{"name":"{}","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object",
            "x-kubernetes-preserve-unknown-fields":true}}}}}}]}}}})",
            name, other.group, other.kind, other.plural, other.version)));
    ASSERT_TRUE(defined || defined.error().code == Code::kAlreadyExists) << defined.error().to_string();
    if (defined) made_.emplace_back(definitions, name);
  }
  apply_policies();
  const auto administrator = [&](const std::string& user, const char* method, const std::string& target,
                                 const std::string& body) {
    return send(user, method, target, body,
                std::string_view(method) == "POST" ? "application/json" : "application/merge-patch+json", true);
  };
  const std::string stranger = "stranger",
                    ours = fmt::format("system:serviceaccount:{0}:{0}-quartermaster-admission", name_);
  for (const auto& other : kOthers) {
    SCOPED_TRACE(other.kind);
    const kube::Resource resource{other.group, other.version, other.plural, true};
    const auto with = [&](const char* annotations) {
      std::string spec = other.spec;
      spec.replace(spec.find('#'), 1, fmt::format(R"({{"metadata":{{"annotations":{}}}}})", annotations));
      return fmt::format(R"({{"apiVersion":"{}/{}","kind":"{}","metadata":{{"name":"one"}},"spec":{}}})", other.group,
                         other.version, other.kind, spec);
    };
    std::string last;
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          last = outcome(administrator(stranger, "POST", resource.path(ns_) + "?dryRun=All",
                                       with(R"({"quartermaster.dev/workload":"x"})")),
                         "");
          return last.find(
                     fmt::format("annotation quartermaster.dev/workload of {} {}/one is written by Quartermaster alone",
                                 other.kind, ns_)) != std::string::npos;
        },
        kPatience))
        << last;
    ASSERT_EQ(administrator(stranger, "POST", resource.path(ns_), with(R"({"note":"x"})")).status, 201);
    const auto one = resource.path(ns_, "one");
    const auto* attempt = R"({"quartermaster.dev/attempt":"1"})";
    EXPECT_EQ(administrator(stranger, "PATCH", one, with(attempt)).status, 403);
    const auto wrote = administrator(ours, "PATCH", one, with(attempt));
    EXPECT_EQ(wrote.status, 200) << wrote.body;
    EXPECT_EQ(administrator(stranger, "PATCH", one, R"({"metadata":{"labels":{"a":"b"}}})").status, 200)
        << "own fields are kept, and the rest may change";
    EXPECT_EQ(administrator(stranger, "PATCH", one, with(R"({"quartermaster.dev/attempt":"2"})")).status, 403);
  }
}

TEST_F(RealTenants, GpusDoNotBypassQuota) {
  apply_policies();
  apply_webhooks();
  // Registered and active: mutating and validating webhooks, and the policies.
  const TenantRow unmanaged{"probe", "Pod", R"({"metadata":{"labels":{"quartermaster.dev/managed":"false"}}})",
                            "its label"};
  const TenantRow job{"probe", "Job", R"({"metadata":{"labels":{"quartermaster.dev/managed":"false"}}})", "its label"};
  const TenantRow forged{"probe", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/attempt":"1"}}})", "Policy"};
  for (const auto* row : {&unmanaged, &job, &forged}) {
    std::string last;
    ASSERT_TRUE(qm::testing::wait_until([&] { return (last = try_row(*row)).find(row->expected) != std::string::npos; },
                                        kPatience))
        << last;
  }
  const auto left =
      fmt::format(R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"probe","finalizers":["orphan"]}},
      "spec":{}}})",
                  gpu_object("Job")["spec"].dump());
  ASSERT_TRUE(qm::testing::wait_until(
      [&] {
        return create(tenant(ns_), kJobs.path(ns_), parsed(left), false).body.find("would leave its pods behind") !=
               std::string::npos;
      },
      kPatience));
  int tried = 0;
  for (const auto& row : tenant_rows()) {
    if (row.by_node) continue;
    SCOPED_TRACE(row.name);
    const auto got = try_row(row);
    EXPECT_NE(got.find(row.expected), std::string::npos) << got;
    ++tried;
  }
  EXPECT_GE(tried, 60);

  // The API server itself refuses a request for GPUs that is added to an existing pod, and a gated pod
  // cannot be bound.
  ASSERT_EQ(create(tenant(ns_), kPods.path(ns_), complete(gpu_object("Pod"), "Pod", "waits"), true).status, 201);
  const auto waits = kPods.path(ns_, "waits");
  const auto debug = patch(
      tenant(ns_), waits + "/ephemeralcontainers",
      R"({"spec":{"ephemeralContainers":[{"name":"d","image":"x","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}})");
  EXPECT_EQ(debug.status, 422) << debug.body;
  const auto resized =
      send(tenant(ns_), "PATCH", waits + "/resize",
           R"({"spec":{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":"8"}}}]}})",
           "application/strategic-merge-patch+json");
  EXPECT_EQ(resized.status, 422) << resized.body;
  const auto bound = create(
      tenant(ns_), waits + "/binding",
      parsed(
          R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":"waits"},"target":{"kind":"Node","name":"n1"}})"),
      true);
  EXPECT_EQ(bound.status, 409) << bound.body;

  // Controllers of Kubernetes.
  const auto pods = [&](const std::string& name) {
    auto all = client_->list_all(kPods, ns_).value_or(std::vector<Json>());
    std::erase_if(all, [&](const Json& pod) { return !kube::name_of(pod).starts_with(name + "-"); });
    return all;
  };
  for (const auto& kind : kinds()) {
    const std::string what = kind.kind;
    if (what != "Deployment" && what != "StatefulSet" && what != "ReplicationController") continue;
    SCOPED_TRACE(what);
    std::string name = "real-" + what;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    ASSERT_EQ(create(tenant(ns_), path(kind), object_of(kind, name), true).status, 201);
    ASSERT_TRUE(qm::testing::wait_until([&] { return !pods(name).empty(); }, kPatience));
    const auto one = pods(name).front();
    EXPECT_EQ(one["spec"]["schedulingGates"].at(0)["name"].string(), kAdmissionGate);
    EXPECT_EQ(kube::label(one, words::kQueueLabel), "default");
  }
  // Pods of a DaemonSet are allowed without GPUs, and are refused with a reason otherwise.
  const auto machine = name_ + "-node";
  EXPECT_TRUE(client_->create(
      kube::resources::kNodes, "",
      parsed(fmt::format(R"({{"metadata":{{"name":"{0}","labels":{{"gpu":"h100","only":"{0}"}}}}}})", machine))));
  made_.emplace_back(kube::resources::kNodes, machine);
  const auto daemon_sets = kinds()[3];
  for (const bool gpus : {false, true}) {
    auto object = object_of(daemon_sets, gpus ? "daemon-gpus" : "daemon", gpus);
    object.set("spec").set("template").set("spec").set("nodeSelector", Json::object({{"only", machine}}));
    ASSERT_EQ(create(tenant(ns_), path(daemon_sets), object, true).status, 201);
  }
  EXPECT_TRUE(qm::testing::wait_until([&] { return pods("daemon").size() == 1; }, kPatience));
  const kube::Resource events{"", "v1", "events", true};
  EXPECT_TRUE(qm::testing::wait_until(
      [&] {
        const auto all = client_->list_all(events, ns_).value_or(std::vector<Json>());
        return std::ranges::any_of(all, [](const Json& event) {
          return event["involvedObject"]["name"].string() == "daemon-gpus" &&
                 event["message"].string().find("runs on every node and is not queued") != std::string::npos;
        });
      },
      kPatience));
  EXPECT_EQ(pods("daemon").size(), 1U);

  // A Job is suspended until our account starts it; then its pods follow its template.
  const auto jobs = kinds()[5];
  ASSERT_EQ(create(tenant(ns_), path(jobs), object_of(jobs, "train"), true).status, 201);
  EXPECT_EQ(patch(tenant(ns_), path(jobs, "train"), R"({"spec":{"suspend":false}})").status, 403);
  const auto started =
      send(fmt::format("system:serviceaccount:{0}:{0}-quartermaster-admission", name_), "PATCH", path(jobs, "train"),
           R"({"spec":{"suspend":false,"template":{"metadata":{"annotations":{"quartermaster.dev/attempt":"1"}}}}})",
           "application/merge-patch+json", true);
  ASSERT_EQ(started.status, 200) << started.body;
  ASSERT_TRUE(qm::testing::wait_until([&] { return !pods("train").empty(); }, kPatience));
  EXPECT_EQ(kube::annotation(pods("train").front(), words::kAttempt), "1");
  EXPECT_EQ(pods("train").front()["spec"]["schedulingGates"].size(), 0U);

  // Its pods stay owned by the Job: its controller would release a pod that it no longer finds, and
  // create another one.
  const auto one = kPods.path(ns_, kube::name_of(pods("train").front()));
  for (const auto* change : {R"({"metadata":{"labels":{"batch.kubernetes.io/controller-uid":null}}})",
                             R"({"metadata":{"labels":{"batch.kubernetes.io/job-name":"other"}}})",
                             R"({"metadata":{"ownerReferences":null}})"}) {
    for (const auto* sub : {"", "/status"}) {
      const auto got = outcome(patch(tenant(ns_), one + sub, change), "");
      const bool ignored =
          std::string_view(sub) == "/status" && std::string_view(change).find("owner") != std::string_view::npos;
      if (ignored) continue;  // the status of a pod cannot set an owner
      EXPECT_NE(got.find("is counted with the workload that owns it"), std::string::npos)
          << change << sub << " " << got;
    }
  }
  EXPECT_EQ(patch(tenant(ns_), one, R"({"metadata":{"labels":{"note":"x"}}})").status, 200);
  const auto orphaned = send(tenant(ns_), "DELETE", path(jobs, "train"), R"({"propagationPolicy":"Orphan"})");
  EXPECT_EQ(orphaned.status, 403) << orphaned.body;
  EXPECT_NE(orphaned.body.find("Job " + ns_ + "/train would leave its pods behind"), std::string::npos)
      << orphaned.body;
  EXPECT_EQ(send(tenant(ns_), "DELETE", path(jobs, "train") + "?orphanDependents=true", "").status, 403);
  EXPECT_EQ(send(tenant(ns_), "DELETE", path(jobs, "train"), "").status, 403) << "the default of a Job";
  EXPECT_EQ(patch(tenant(ns_), path(jobs, "train"), R"({"metadata":{"finalizers":["orphan"]}})").status, 403);
  EXPECT_EQ(pods("train").size(), 1U);
  EXPECT_EQ(send(tenant(ns_), "DELETE", path(jobs, "train"), R"({"propagationPolicy":"Background"})").status, 200);
  EXPECT_TRUE(qm::testing::wait_until(
      [&] {
        const auto still = pods("train");
        return std::ranges::all_of(still,
                                   [](const Json& pod) { return !pod.path("metadata.deletionTimestamp").is_null(); });
      },
      kPatience));
}

}  // namespace tenants_k8s_test
}  // namespace qm::admission::webhook
