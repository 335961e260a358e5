// Shared code of the cases. Named as a test so that it is built into both binaries.
#include "adoption.hpp"
#include "qm/base/time.hpp"
#include "qm/config/manifest.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <unistd.h>

namespace qm::adoption {
namespace {

using kube::resources::kJobs;
using kube::resources::kPods;
using namespace std::chrono_literals;

const kube::Resource kNamespaces{"", "v1", "namespaces", false};
const kube::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};

/// The GPUs that a pod of the default scheduler requests.
std::int64_t gpus_of(const Json& pod) {
  std::int64_t sum = 0;
  for (const auto& container : pod["spec"]["containers"].items()) {
    sum += std::atoll(container["resources"]["requests"]["nvidia.com/gpu"].string().c_str());
  }
  return sum;
}

bool fits(const Json& pod, const Json& node, std::int64_t used) {
  if (node["spec"]["unschedulable"].boolean()) return false;
  bool ready = false;
  for (const auto& c : node["status"]["conditions"].items()) {
    if (c["type"].string() == "Ready") ready = c["status"].string() == "True";
  }
  for (const auto& [key, value] : pod["spec"]["nodeSelector"].members()) {
    if (kube::label(node, key) != value.string()) return false;
  }
  const auto there = std::atoll(node["status"]["allocatable"]["nvidia.com/gpu"].string().c_str());
  return ready && used + gpus_of(pod) <= there;
}

Json containers(int gpus) {
  const Json amounts = Json::object({{"cpu", "1"}, {"memory", "1Gi"}, {"nvidia.com/gpu", std::to_string(gpus)}});
  return Json::array({Json::object({{"name", "main"},
                                    {"image", "example/none:1"},
                                    {"resources", Json::object({{"requests", amounts}, {"limits", amounts}})}})});
}

}  // namespace

Service::Service(const std::string& name, const Cluster& cluster, const std::string& database,
                 const std::vector<std::string>& sets, const std::vector<std::string>& flags) {
  testing::Process::Options options;
  options.env = {{"AWS_ACCESS_KEY_ID", "test"}, {"AWS_SECRET_ACCESS_KEY", "test"}};
  options.argv = {std::string(QM_BIN_DIR) + "/qm-" + name,
                  "--grpc",
                  grpc(),
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
  options.argv.insert(options.argv.end(), flags.begin(), flags.end());
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

std::string Service::page(const std::string& path) {
  http::Client pages("http://127.0.0.1:" + std::to_string(http_));
  http::Request ask;
  ask.target = path;
  const auto answer = pages.send(ask);
  return answer ? answer->body : std::string();
}

Json Service::state() { return Json::parse(page("/debug/state")).value_or(Json()); }

std::optional<double> Service::metric(const std::string& series) {
  const std::string text = "\n" + page("/metrics");
  const auto at = text.find("\n" + series + " ");
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(text.c_str() + at + series.size() + 2, nullptr);
}

std::shared_ptr<Fleet> Fleet::start(std::vector<std::string> flags, std::string* why_not) {
  auto made = std::make_shared<Fleet>();
  testing::Process::Options options;
  options.argv = {std::string(QM_BIN_DIR) + "/qm-fleet", "--dir", made->dir.path()};
  options.argv.insert(options.argv.end(), flags.begin(), flags.end());
  options.output = made->dir.path() + "/fleet.log";
  if (!std::filesystem::exists(options.argv[0])) {
    *why_not = options.argv[0] + " is not built";
    return nullptr;
  }
  auto process = testing::Process::start(options);
  if (!process) {
    *why_not = process.error().to_string();
    return nullptr;
  }
  made->process = std::move(*process);
  (void)testing::wait_until([&] {
    if (!std::filesystem::exists(made->dir.path() + "/fleet.json")) return false;
    auto read = Json::parse(testing::read_file(made->dir.path() + "/fleet.json"));
    if (read) made->ports = std::move(*read);
    return made->ports.contains("kube");
  });
  return made;
}

void Adoption::SetUp() {
  std::string why_not;
  cluster_ = Cluster::shared(&why_not);
  if (cluster_ == nullptr) GTEST_SKIP() << why_not;
  if (testing::Postgres::shared(&why_not) == nullptr) GTEST_SKIP() << why_not;
  client_ = std::make_unique<kube::Client>(cluster_->options);
  cloud::AwsOptions cloud;
  cloud.endpoint = cluster_->aws;
  cloud.access_key = cloud.secret_key = "test";
  aws_ = std::make_unique<cloud::Aws>(cloud);
  static int serial = 0;
  ns_ = fmt::format("adopt-{}-{}", ::getpid(), ++serial);
  create(kNamespaces,
         Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", Json::object({{"name", ns_}})}}));
  // A real server creates a ServiceAccount in each namespace, and accepts no pods before that.
  const kube::Resource accounts{"", "v1", "serviceaccounts", true};
  if (cluster_->scheduler) {
    ASSERT_TRUE(testing::wait_until([&] { return client_->get(accounts, ns_, "default").has_value(); }));
  }
  definitions("kueue.yaml");
  for (const auto& [plural, into] :
       {std::pair("resourceflavors", &flavors_), std::pair("clusterqueues", &cluster_queues_),
        std::pair("localqueues", &local_queues_)}) {
    auto found = client_->find_kind("kueue.x-k8s.io", plural, {"v1beta2", "v1beta1"});
    ASSERT_TRUE(found) << plural;
    *into = std::move(*found);
  }
}

void Adoption::definitions(const std::string& file) {
  const std::string path = std::string(QM_SOURCE_DIR) + "/deploy/crds/" + file;
  const std::string ecosystem = std::string(QM_SOURCE_DIR) + "/deploy/crds/ecosystem/" + file;
  const auto loaded = config::load_path(std::filesystem::exists(path) ? path : ecosystem);
  ASSERT_FALSE(loaded.objects.empty()) << file;
  for (const auto& object : loaded.objects) {
    const auto& spec = object.document.content["spec"];
    const auto group = spec["group"].string(), plural = spec["names"]["plural"].string();
    if (!client_->find_kind(group, plural, {})) {
      if (!cluster_->scheduler) continue;  // the fleet does not need the definitions
      (void)client_->create(kDefinitions, "", object.document.content);
    }
    ASSERT_TRUE(testing::wait_until([&] {
      const auto found = client_->find_kind(group, plural, {});
      return found && client_->list(*found, "").has_value();
    })) << plural;
  }
}

void Adoption::lease(const std::string& name, const std::string& holder) {
  const auto now = from_micros(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  std::string renewed = to_rfc3339(now);
  if (renewed.find('.') == std::string::npos) renewed.insert(renewed.size() - 1, ".000000");
  create(kube::resources::kLeases,
         Json::object(
             {{"apiVersion", "coordination.k8s.io/v1"},
              {"kind", "Lease"},
              {"metadata", Json::object({{"name", name}, {"namespace", ns_}})},
              {"spec",
               Json::object({{"holderIdentity", holder}, {"leaseDurationSeconds", 3600}, {"renewTime", renewed}})}}));
}

void Adoption::TearDown() {
  if (!client_) return;
  for (const auto& resource : {kJobs, kPods, local_queues_, kube::resources::kLeases}) {
    const auto left = client_->list_all(resource, ns_);
    if (!left) continue;
    for (const auto& object : *left) {
      (void)client_->remove(resource, ns_, kube::name_of(object), {{}, 0, "Background"});
    }
  }
  for (const auto& [resource, name] : cluster_wide_) (void)client_->remove(resource, "", name, {});
}

std::unique_ptr<Service> Adoption::service(const std::string& name, const std::vector<std::string>& sets,
                                           const std::vector<std::string>& flags) {
  std::string why_not;
  return std::make_unique<Service>(name, *cluster_, testing::Postgres::shared(&why_not)->fresh_database(), sets, flags);
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

Json Adoption::node_pool(const std::string& node_class, const Json& annotations) {
  const auto only = [](const char* key, const char* value) {
    return Json::object({{"key", key}, {"operator", "In"}, {"values", Json::array({value})}});
  };
  const auto requirements =
      Json::array({only("node.kubernetes.io/instance-type", kType), only("karpenter.sh/capacity-type", "on-demand")});
  const auto reference = Json::object({{"group", "karpenter.k8s.aws"}, {"kind", "EC2NodeClass"}, {"name", node_class}});
  return Json::object(
      {{"apiVersion", "karpenter.sh/v1"},
       {"kind", "NodePool"},
       {"metadata", Json::object({{"name", own("pool")}, {"annotations", annotations}})},
       {"spec",
        Json::object(
            {{"template",
              Json::object({{"spec", Json::object({{"requirements", requirements}, {"nodeClassRef", reference}})}})},
             {"disruption", Json::object({{"consolidationPolicy", "WhenEmpty"}, {"consolidateAfter", "1s"}})}})}});
}

void Adoption::schedule() {
  if (cluster_->scheduler) return;
  const auto pods = client_->list_all(kPods, "");
  const auto nodes = client_->list_all(kube::resources::kNodes, "");
  if (!pods || !nodes) return;
  std::map<std::string, std::int64_t> used;
  for (const auto& pod : *pods) {
    const auto& phase = pod["status"]["phase"].string();
    if (phase != "Succeeded" && phase != "Failed") used[pod["spec"]["nodeName"].string()] += gpus_of(pod);
  }
  for (const auto& pod : *pods) {
    if (kube::namespace_of(pod) != ns_ || pod["spec"]["schedulerName"].string() != "default-scheduler") continue;
    if (!pod["spec"]["nodeName"].string().empty() || pod["spec"]["schedulingGates"].size() > 0) continue;
    if (!pod.path("metadata.deletionTimestamp").is_null()) continue;
    const auto node =
        std::find_if(nodes->begin(), nodes->end(), [&](const Json& n) { return fits(pod, n, used[kube::name_of(n)]); });
    if (node == nodes->end()) {
      set_no_capacity(pod);
      continue;
    }
    const auto name = kube::name_of(*node);
    if (client_->bind(ns_, kube::name_of(pod), kube::uid_of(pod), name)) used[name] += gpus_of(pod);
  }
}

void Adoption::set_no_capacity(const Json& pod) {
  for (const auto& c : pod["status"]["conditions"].items()) {
    if (c["reason"].string() == "Unschedulable") return;
  }
  const auto condition = Json::object({{"type", "PodScheduled"},
                                       {"status", "False"},
                                       {"reason", "Unschedulable"},
                                       {"message", "0 nodes are available"}});
  (void)client_->merge_patch(kPods, ns_, kube::name_of(pod),
                             Json::object({{"status", Json::object({{"conditions", Json::array({condition})}})}}),
                             "status");
}

Adoption::Machine Adoption::create_instance(const std::string& name) {
  if (!cluster_->machines) {
    make_node(name, "i-" + name);
    return {"i-" + name, name};
  }
  cloud::InstanceRequest request;
  request.client_token = name;
  request.image_id = "ami-00000000";
  request.instance_type = kType;
  request.zone = "us-east-1a";
  request.tags = {{kPool, own("pool")}};
  const auto made = aws_->run_instances(request);
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? Machine{made->front().id, made->front().private_dns} : Machine{};
}

void Adoption::terminate_instance(const Machine& machine) {
  if (cluster_->machines) {
    (void)aws_->terminate_instances({machine.instance});
  } else {
    (void)client_->remove(kube::resources::kNodes, "", machine.node, {});
  }
}

void Adoption::make_node(const std::string& name, const std::string& instance) {
  const auto room = Json::object({{"cpu", "96"}, {"memory", "1Ti"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}});
  const auto labels = Json::object({{"kubernetes.io/hostname", name},
                                    {"node.kubernetes.io/instance-type", kType},
                                    {"karpenter.sh/capacity-type", "on-demand"},
                                    {kPool, own("pool")}});
  (void)client_->create(
      kube::resources::kNodes, "",
      Json::object({{"apiVersion", "v1"},
                    {"kind", "Node"},
                    {"metadata", Json::object({{"name", name},
                                               {"annotations", Json::object({{"kwok.x-k8s.io/node", "fake"}})},
                                               {"labels", labels}})},
                    {"spec", Json::object({{"providerID", "aws:///us-east-1a/" + instance}})},
                    {"status", Json::object({{"capacity", room}, {"allocatable", room}})}}));
}

bool Adoption::comes(const std::function<bool()>& condition, std::chrono::milliseconds timeout) {
  auto next = std::chrono::steady_clock::now();
  return testing::wait_until(
      [&] {
        if (std::chrono::steady_clock::now() < next) return false;
        schedule();
        others();
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
