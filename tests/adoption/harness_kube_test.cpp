// What the cases share. Named as a test so that it is built into both binaries.
#include "adoption.hpp"

#include <chrono>
#include <unistd.h>

namespace qm::adoption {
namespace {

using kube::resources::kJobs;
using kube::resources::kPods;
using namespace std::chrono_literals;

const kube::Resource kNamespaces{"", "v1", "namespaces", false};
const kube::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};
constexpr const char* kKueue = "kueue.x-k8s.io";

/// Kueue's kinds, as open as can be; a server that has them keeps its own.
Json definition(const std::string& plural, const std::string& kind, bool namespaced) {
  const auto open = Json::object({{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}});
  const auto schema =
      Json::object({{"type", "object"}, {"properties", Json::object({{"spec", open}, {"status", open}})}});
  const auto version = Json::object({{"name", "v1beta2"},
                                     {"served", true},
                                     {"storage", true},
                                     {"schema", Json::object({{"openAPIV3Schema", schema}})},
                                     {"subresources", Json::object({{"status", Json::object()}})}});
  return Json::object({{"apiVersion", "apiextensions.k8s.io/v1"},
                       {"kind", "CustomResourceDefinition"},
                       {"metadata", Json::object({{"name", plural + "." + kKueue}})},
                       {"spec", Json::object({{"group", kKueue},
                                              {"scope", namespaced ? "Namespaced" : "Cluster"},
                                              {"names", Json::object({{"plural", plural}, {"kind", kind}})},
                                              {"versions", Json::array({version})}})}});
}

Json containers(int gpus) {
  const Json amounts = Json::object({{"cpu", "1"}, {"memory", "1Gi"}, {"nvidia.com/gpu", std::to_string(gpus)}});
  return Json::array({Json::object({{"name", "main"},
                                    {"image", "example/none:1"},
                                    {"resources", Json::object({{"requests", amounts}, {"limits", amounts}})}})});
}

}  // namespace

Service::Service(const std::string& name, const Cluster& cluster, const std::string& database,
                 const std::vector<std::string>& sets) {
  testing::Process::Options options;
  options.argv = {std::string(QM_BIN_DIR) + "/qm-" + name,
                  "--grpc",
                  "127.0.0.1:0",
                  "--http",
                  "127.0.0.1:" + std::to_string(http_),
                  "--postgres",
                  database,
                  "--bus",
                  "postgres:" + database,
                  "--kube",
                  cluster.setting,
                  "--clock",
                  cluster.clock};
  for (const auto& set : sets) {
    options.argv.emplace_back("--set");
    options.argv.push_back(set);
  }
  options.output = dir_.path() + "/log";
  auto started = testing::Process::start(options);
  if (!started) {
    ADD_FAILURE() << started.error().to_string();
    return;
  }
  process_ = std::move(*started);
  http::Client pages("http://127.0.0.1:" + std::to_string(http_));
  http::Request ready;
  ready.target = "/readyz";
  const bool up = testing::wait_until(
      [&] {
        const auto answer = pages.send(ready);
        return (answer && answer->status == 200) || !process_->running();
      },
      60s);
  EXPECT_TRUE(up && process_->running()) << log();
}

Service::~Service() {
  if (!process_) return;
  process_->signal(15);
  EXPECT_EQ(process_->wait(20s), 0) << log();
}

std::string Service::log() const { return testing::read_file(dir_.path() + "/log"); }

Json Service::state() {
  http::Client pages("http://127.0.0.1:" + std::to_string(http_));
  http::Request ask;
  ask.target = "/debug/state";
  const auto answer = pages.send(ask);
  return answer ? Json::parse(answer->body).value_or(Json()) : Json();
}

void Adoption::SetUp() {
  std::string why_not;
  cluster_ = Cluster::shared(&why_not);
  if (cluster_ == nullptr) GTEST_SKIP() << why_not;
  if (testing::Postgres::shared(&why_not) == nullptr) GTEST_SKIP() << why_not;
  client_ = std::make_unique<kube::Client>(cluster_->options);
  static int serial = 0;
  ns_ = fmt::format("adopt-{}-{}", ::getpid(), ++serial);
  create(kNamespaces,
         Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", Json::object({{"name", ns_}})}}));
  // A real server gives each namespace an account, and takes no pods before.
  const kube::Resource accounts{"", "v1", "serviceaccounts", true};
  if (cluster_->scheduler) {
    ASSERT_TRUE(testing::wait_until([&] { return client_->get(accounts, ns_, "default").has_value(); }));
  }
  for (const auto& [plural, kind, namespaced] :
       {std::tuple("resourceflavors", "ResourceFlavor", false), std::tuple("clusterqueues", "ClusterQueue", false),
        std::tuple("localqueues", "LocalQueue", true)}) {
    if (!client_->find_kind(kKueue, plural, {})) {
      (void)client_->create(kDefinitions, "", definition(plural, kind, namespaced));
    }
    Result<kube::Resource> found = fail(Code::kNotFound, "not looked for");
    ASSERT_TRUE(testing::wait_until([&] {
      found = client_->find_kind(kKueue, plural, {"v1beta2", "v1beta1"});
      return found && client_->list(*found, "").has_value();
    })) << plural;
    (std::string(plural) == "resourceflavors" ? flavors_
     : std::string(plural) == "clusterqueues" ? cluster_queues_
                                              : local_queues_) = *found;
  }
}

void Adoption::TearDown() {
  if (!client_) return;
  for (const auto& resource : {kJobs, kPods, local_queues_}) {
    const auto left = client_->list_all(resource, ns_);
    if (!left) continue;
    for (const auto& object : *left) {
      (void)client_->remove(resource, ns_, kube::name_of(object), {{}, 0, "Background"});
    }
  }
  for (const auto& [resource, name] : cluster_wide_) (void)client_->remove(resource, "", name, {});
}

std::unique_ptr<Service> Adoption::service(const std::string& name, const std::vector<std::string>& sets) {
  std::string why_not;
  return std::make_unique<Service>(name, *cluster_, testing::Postgres::shared(&why_not)->fresh_database(), sets);
}

Json Adoption::create(const kube::Resource& r, Json object) {
  if (!r.namespaced) cluster_wide_.emplace_back(r, kube::name_of(object));
  auto made = client_->create(r, r.namespaced ? ns_ : "", object);
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? std::move(*made) : Json();
}

Json Adoption::get(const kube::Resource& r, const std::string& name) {
  auto found = client_->get(r, r.namespaced ? ns_ : "", name);
  return found ? std::move(*found) : Json();
}

void Adoption::label_namespace(const std::string& key, const std::string& value) {
  const auto patch = Json::object({{"metadata", Json::object({{"labels", Json::object({{key, Json(value)}})}})}});
  EXPECT_TRUE(client_->merge_patch(kNamespaces, "", ns_, patch));
}

void Adoption::queues(int gpus) {
  const auto api = [](const kube::Resource& r) { return Json(r.group + "/" + r.version); };
  create(
      flavors_,
      Json::object({{"apiVersion", api(flavors_)},
                    {"kind", "ResourceFlavor"},
                    {"metadata", Json::object({{"name", own("f")}})},
                    {"spec", Json::object({{"tolerations", Json::array({Json::object({{"key", "flavor.example.com"},
                                                                                      {"operator", "Exists"}})})}})}}));
  Json resources = Json::array();
  for (const auto& [name, quota] : {std::pair("nvidia.com/gpu", std::to_string(gpus)),
                                    std::pair("cpu", std::string("100")), std::pair("memory", std::string("1000Gi"))}) {
    resources.push_back(Json::object({{"name", name}, {"nominalQuota", quota}}));
  }
  const auto flavor = Json::object({{"name", own("f")}, {"resources", resources}});
  const auto group = Json::object(
      {{"coveredResources", Json::array({"nvidia.com/gpu", "cpu", "memory"})}, {"flavors", Json::array({flavor})}});
  create(cluster_queues_, Json::object({{"apiVersion", api(cluster_queues_)},
                                        {"kind", "ClusterQueue"},
                                        {"metadata", Json::object({{"name", own("cq")}})},
                                        {"spec", Json::object({{"namespaceSelector", Json::object()},
                                                               {"resourceGroups", Json::array({group})}})}}));
  create(local_queues_, Json::object({{"apiVersion", api(local_queues_)},
                                      {"kind", "LocalQueue"},
                                      {"metadata", Json::object({{"name", "q"}, {"namespace", ns_}})},
                                      {"spec", Json::object({{"clusterQueue", own("cq")}})}}));
}

Json Adoption::pod(const std::string& name, int gpus, int run_s, const std::string& scheduler) {
  return Json::object({{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", Json::object({{"name", name},
                                                  {"namespace", ns_},
                                                  {"annotations", Json::object({{"fleet.quartermaster.dev/run-seconds",
                                                                                 std::to_string(run_s)}})}})},
                       {"spec", Json::object({{"schedulerName", scheduler},
                                              {"restartPolicy", "Never"},
                                              {"tolerations", Json::array({Json::object({{"operator", "Exists"}})})},
                                              {"containers", containers(gpus)}})}});
}

Json Adoption::job(const std::string& name, int gpus, int run_s, const std::string& scheduler) {
  Json one = pod(name, gpus, run_s, scheduler);
  const auto labels = Json::object({{"kueue.x-k8s.io/queue-name", "q"}});
  return Json::object(
      {{"apiVersion", "batch/v1"},
       {"kind", "Job"},
       {"metadata", Json::object({{"name", name}, {"namespace", ns_}, {"labels", labels}})},
       {"spec",
        Json::object(
            {{"suspend", true},
             {"completionMode", "Indexed"},
             {"parallelism", 1},
             {"completions", 1},
             {"template", Json::object({{"metadata", Json::object({{"annotations", one["metadata"]["annotations"]}})},
                                        {"spec", one["spec"]}})}})}});
}

void Adoption::gate(Json& pod) {
  pod.set("metadata").set("labels").set("kueue.x-k8s.io/queue-name", "q");
  pod.set("spec").set("schedulingGates", Json::array({Json::object({{"name", "quartermaster.dev/admission"}})}));
}

void Adoption::schedule() {
  if (cluster_->scheduler) return;
  const auto pods = client_->list_all(kPods, ns_);
  const auto nodes = client_->list_all(kube::resources::kNodes, "");
  if (!pods || !nodes || nodes->empty()) return;
  for (const auto& pod : *pods) {
    if (pod["spec"]["schedulerName"].string() != "default-scheduler") continue;
    if (!pod["spec"]["nodeName"].string().empty() || pod["spec"]["schedulingGates"].size() > 0) continue;
    if (!pod.path("metadata.deletionTimestamp").is_null()) continue;
    (void)client_->bind(ns_, kube::name_of(pod), kube::uid_of(pod), kube::name_of(nodes->front()));
  }
}

bool Adoption::comes(const std::function<bool()>& condition, std::chrono::milliseconds timeout) {
  auto next = std::chrono::steady_clock::now();
  return testing::wait_until(
      [&] {
        if (std::chrono::steady_clock::now() < next) return false;
        schedule();
        if (condition()) return true;
        next = std::chrono::steady_clock::now() + 100ms;
        return false;
      },
      timeout);
}

bool Adoption::has_event(const std::string& reason, const std::string& words) {
  const auto events = client_->list_all(kube::resources::kEvents, ns_);
  if (!events) return false;
  return std::any_of(events->begin(), events->end(), [&](const Json& event) {
    return event["reason"].string() == reason && event["message"].string().find(words) != std::string::npos;
  });
}

}  // namespace qm::adoption
