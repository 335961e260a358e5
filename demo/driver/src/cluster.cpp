#include "cluster.hpp"

#include "qm/base/log.hpp"
#include "qm/clock/clock.hpp"
#include "qm/config/manifest.hpp"
#include "qm/kube/connect.hpp"
#include "qm/testing/testing.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace qm::demo {
namespace {

using namespace std::chrono_literals;
using kube::resources::kJobs;
using kube::resources::kNodeClaims;
using kube::resources::kNodes;
using kube::resources::kPods;
const kube::Resource kNamespaces{"", "v1", "namespaces", false};
const kube::Resource kAccounts{"", "v1", "serviceaccounts", true};
const kube::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};
constexpr const char* kKinds = "deploy/helm/quartermaster/files/crds/ecosystem/karpenter.yaml";

Instant wall() { return SystemClock().now(); }

/// The command that stops the control plane that this process started; empty if it started none.
std::mutex own_mutex;
std::string own_end;

// One host runs all programs, so low client limits would only measure themselves. A cluster that a user names by these
// variables is not changed: ours has its own folder and ports.
void prepare_environment(const std::string& dir) {
  const char* port = std::getenv("QM_CLUSTER_PORT");
  const auto set = [](const char* name, const std::string& value, bool always) {
    ::setenv(name, value.c_str(), always ? 1 : 0);
  };
  set("QM_KUBE_RUN", dir + "/kube", true);
  set("QM_KUBE_PORT", port == nullptr ? "27443" : port, true);
  set("QM_KUBE_PARTS", "etcd api controllers kwok", true);
  set("QM_KUBE_ARGS_CONTROLLERS", "--kube-api-qps=2000 --kube-api-burst=4000 --concurrent-job-syncs=30", false);
}

bool is_ready(const Json& node) {
  for (const auto& c : node.path("status.conditions").items()) {
    if (c["type"].string() == "Ready") return c["status"].string() == "True";
  }
  return false;
}

// The Node as the kubelet would register it; kwok adds the rest.
Json as_registered(const Json& source_node) {
  Json node = Json::object({{"apiVersion", "v1"}, {"kind", "Node"}});
  node.set("metadata")
      .set("name", kube::name_of(source_node))
      .set("labels", source_node["metadata"]["labels"])
      .set("annotations", Json::object({{"kwok.x-k8s.io/node", "fake"}}));
  node.set("spec").set("providerID", source_node["spec"]["providerID"]);
  if (source_node["spec"]["taints"].size() > 0) node.set("spec").set("taints", source_node["spec"]["taints"]);
  node.set("status")
      .set("capacity", source_node["status"]["capacity"])
      .set("allocatable", source_node["status"]["allocatable"]);
  return node;
}

}  // namespace

Result<std::string> output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return fail(Code::kUnavailable, "cannot run {}", command);
  std::string text;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  if (::pclose(pipe) != 0) return fail(Code::kUnavailable, "{} failed: {}", command, text);
  return text;
}

Result<std::unique_ptr<RealCluster>> RealCluster::open(const std::string& setting, const std::string& dir) {
  std::unique_ptr<RealCluster> cluster(new RealCluster);
  cluster->setting_ = setting;
  if (setting == "peer") {
    cluster->script_ = "tools/peers/kubernetes.sh";
    prepare_environment(dir);
    {
      const std::lock_guard lock(own_mutex);
      own_end = cluster->script_ + " stop 2>&1";
    }
    QM_TRY(output_of(cluster->script_ + " clean 2>&1 && " + cluster->script_ + " start 2>&1"));
    cluster->own_ = true;
    cluster->setting_ = fmt::format("kubeconfig:{}/kubeconfig", std::getenv("QM_KUBE_RUN"));
  } else if (const char* peer = std::getenv("QM_KUBE_PEER")) {
    cluster->script_ = peer;
  }
  QM_ASSIGN(cluster->options_, kube::find_server(cluster->setting_));
  cluster->client_ = std::make_unique<kube::Client>(cluster->options_);
  cluster->history_file_ = dir + "/fleet/cluster.jsonl";
  cluster->history_out_.open(cluster->history_file_, std::ios::trunc);
  auto* raw = cluster.get();
  cluster->witness_ = std::make_unique<witness::Witness>(
      [raw](const std::string& line) {
        const std::lock_guard lock(raw->history_mutex_);
        raw->history_out_ << line << "\n";
      },
      [raw](const std::string& ns, const std::string& name) {
        auto job = raw->client_->get(kJobs, ns, name);
        return job ? std::move(*job) : Json();
      });
  QM_TRY(cluster->install_kinds());
  return cluster;
}

RealCluster::~RealCluster() { stop(); }

Status RealCluster::install_kinds() {
  if (client_->find_kind(kNodeClaims.group, kNodeClaims.plural, {kNodeClaims.version})) return {};
  const auto loaded = config::load_text(testing::read_file(kKinds), kKinds);
  for (const auto& object : loaded.objects) {
    if (object.document.kind != "CustomResourceDefinition") continue;
    auto made = client_->create(kDefinitions, "", object.document.content);
    if (!made && made.error().code != Code::kAlreadyExists)
      return fail(made.error().with_context(object.document.name));
  }
  const bool served = testing::wait_until([&] { return client_->list(kNodeClaims, "").has_value(); }, 60s);
  if (!served) return fail(Code::kUnavailable, "the API server does not serve {} from {}", kNodeClaims.plural, kKinds);
  return {};
}

// Called only by the informer's thread. The server may be down for a while: missing objects are retried.
void RealCluster::carry(const Json& source_node, bool deleted) {
  const std::string name = kube::name_of(source_node);
  const std::string capacity = source_node["status"]["allocatable"].dump();
  const auto known = carried_.find(name);
  if (!deleted && known != carried_.end() && known->second == capacity) return;
  const auto once = [&]() -> Status {
    if (deleted) return client_->remove(kNodes, "", name, {});
    if (known != carried_.end()) {
      const Json patch =
          Json::object({{"status", Json::object({{"allocatable", source_node["status"]["allocatable"]}})}});
      auto patched = client_->merge_patch(kNodes, "", name, patch, "status");
      return patched ? Status() : fail(patched.error());
    }
    auto made = client_->create(kNodes, "", as_registered(source_node));
    return made || made.error().code == Code::kAlreadyExists ? Status() : fail(made.error());
  };
  for (;;) {
    const Status done = once();
    if (done || done.error().code == Code::kNotFound) break;
    log::warn("node is not carried over yet", {{"node", name}, {"error", done.error().to_string()}});
    for (int i = 0; i < 10 && !stopping_; ++i) std::this_thread::sleep_for(50ms);
    if (stopping_) return;
  }
  if (deleted) {
    carried_.erase(name);
  } else {
    carried_[name] = capacity;
  }
}

void RealCluster::watch(bool judged) {
  const auto add = [&](kube::Client& client, const kube::Resource& kind, kube::Informer::Callbacks callbacks) {
    informers_.push_back(std::make_unique<kube::Informer>(client, kind, "", std::move(callbacks)));
  };
  const auto of_the_run = [this](const Json& object) {
    const std::lock_guard lock(names_mutex_);
    return std::ranges::find(namespaces_, kube::namespace_of(object)) != namespaces_.end();
  };
  auto ready = std::make_shared<std::set<std::string>>();
  add(*client_, kNodes,
      {[this, ready](const Json& node, bool deleted) {
         witness_->see_node(node, deleted);
         if (!deleted && is_ready(node)) {
           ready->insert(kube::name_of(node));
         } else {
           ready->erase(kube::name_of(node));
         }
         ready_ = ready->size();
       },
       {},
       [](const Json& node) { return kube::annotation(node, "kwok.x-k8s.io/node") == "fake"; }});
  if (judged) {
    add(*client_, kJobs,
        {[this](const Json& job, bool deleted) { witness_->see_job(job, deleted, wall()); }, {}, of_the_run});
    add(*client_, kPods,
        {[this](const Json& pod, bool deleted) { witness_->see_pod(pod, deleted, wall()); }, {}, of_the_run});
    add(*client_, kNodeClaims,
        {[this](const Json& claim, bool deleted) { witness_->see_claim(claim, deleted, wall()); }, {}, {}});
  }
  add(*fleet_, kNodes, {[this](const Json& node, bool deleted) { carry(node, deleted); }, {}, {}});
  for (auto& informer : informers_) informer->start();
}

Status RealCluster::begin(const std::string& fleet_kube, std::size_t nodes, bool judged) {
  kube::ClientOptions options;
  options.server = fleet_kube;
  fleet_ = std::make_unique<kube::Client>(options);
  watch(judged);
  if (!testing::wait_until([&] { return ready_ >= nodes; }, std::chrono::seconds(60 + nodes / 5))) {
    return fail(Code::kDeadlineExceeded, "{} of {} nodes are Ready", ready_.load(), nodes);
  }
  return {};
}

Status RealCluster::make_namespace(const std::string& name) {
  {
    const std::lock_guard lock(names_mutex_);
    namespaces_.push_back(name);
  }
  auto made = client_->create(
      kNamespaces, "",
      Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", Json::object({{"name", name}})}}));
  if (!made && made.error().code != Code::kAlreadyExists) return fail(made.error());
  // No pod is accepted before its namespace has a ServiceAccount.
  if (!testing::wait_until([&] { return client_->get(kAccounts, name, "default").has_value(); }, 60s)) {
    return fail(Code::kDeadlineExceeded, "namespace {} gets no account; does the controller-manager run?", name);
  }
  return {};
}

Status RealCluster::kill_api() {
  QM_TRY(output_of(script_ + " kill9 api 2>&1"));
  return {};
}

Status RealCluster::restart_api() {
  QM_TRY(output_of(script_ + " restart api 2>&1"));
  return {};
}

std::string RealCluster::history() const {
  const std::lock_guard lock(history_mutex_);
  history_out_.flush();
  return testing::read_file(history_file_);
}

void RealCluster::clean() {
  if (own_ || !client_) return;
  for (const auto& name : namespaces_) (void)client_->remove(kNamespaces, "", name, {});
  for (const auto& [name, capacity] : carried_) (void)client_->remove(kNodes, "", name, {});
}

void RealCluster::end_own() {
  const std::lock_guard lock(own_mutex);
  if (!own_end.empty()) (void)output_of(own_end);
  own_end.clear();
}

void RealCluster::stop() {
  stopping_ = true;
  for (auto& informer : informers_) informer->stop();
  informers_.clear();
  if (own_) {
    end_own();
    own_ = false;
  } else {
    clean();
  }
  client_.reset();
}

}  // namespace qm::demo
