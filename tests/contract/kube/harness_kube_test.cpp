// The server under test and what its cases share. Named as a test so that it is built into the suite's binary.
#include "kube_under_test.hpp"
#include "qm/http/http.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace qm::kube {
namespace {

using namespace std::chrono_literals;

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Unique per run, as a real server keeps what an earlier run left.
std::string unique(const std::string& stem) {
  static const auto run = std::chrono::system_clock::now().time_since_epoch().count() % 1'000'000'000;
  static int count = 0;
  return stem + "-" + std::to_string(run) + "-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

/// The kinds of Karpenter as a bare server needs them told.
Json definition(const std::string& plural, const std::string& kind) {
  const auto open = Json::object({{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}});
  const auto schema =
      Json::object({{"type", "object"}, {"properties", Json::object({{"spec", open}, {"status", open}})}});
  const auto version = Json::object({{"name", "v1"},
                                     {"served", true},
                                     {"storage", true},
                                     {"schema", Json::object({{"openAPIV3Schema", schema}})},
                                     {"subresources", Json::object({{"status", Json::object()}})}});
  return Json::object({{"apiVersion", "apiextensions.k8s.io/v1"},
                       {"kind", "CustomResourceDefinition"},
                       {"metadata", Json::object({{"name", plural + ".karpenter.sh"}})},
                       {"spec", Json::object({{"group", "karpenter.sh"},
                                              {"scope", "Cluster"},
                                              {"names", Json::object({{"plural", plural}, {"kind", kind}})},
                                              {"versions", Json::array({version})}})}});
}

Status ensure_custom_kinds(Client& client) {
  for (const auto& [resource, kind] :
       {std::pair(resources::kNodePools, "NodePool"), std::pair(resources::kNodeClaims, "NodeClaim")}) {
    if (client.list(resource, "")) continue;
    auto made = client.create(resources::kDefinitions, "", definition(resource.plural, kind));
    if (!made && made.error().code != Code::kAlreadyExists) return fail(made.error());
    if (!testing::wait_until([&] { return client.list(resource, "").has_value(); })) {
      return fail(Code::kDeadlineExceeded, "{} are not served after their definition", resource.plural);
    }
  }
  return {};
}

}  // namespace

KubeUnderTest* KubeUnderTest::shared(std::string* why_not) {
  static std::string reason;
  static const std::unique_ptr<KubeUnderTest> server = make(&reason);
  *why_not = reason;
  return server.get();
}

std::unique_ptr<KubeUnderTest> KubeUnderTest::make(std::string* why_not) {
  std::unique_ptr<KubeUnderTest> made(new KubeUnderTest);
  made->options_.server = env("QM_KUBE_SERVER");
  if (!made->options_.server.empty()) {
    made->options_.token = env("QM_KUBE_TOKEN");
    made->options_.ca_file = env("QM_KUBE_CA");
    made->controllers_ = env("QM_KUBE_CONTROLLERS") == "1";
  } else {
    const auto bin = env("QM_BIN_DIR").empty() ? std::string(QM_BIN_DIR) : env("QM_BIN_DIR");
    const auto program = bin + "/qm-fleet";
    if (!std::filesystem::exists(program)) {
      *why_not = "no API server: QM_KUBE_SERVER is not set and " + program + " is not built";
      return nullptr;
    }
    made->folder_ = std::make_unique<testing::TempDir>();
    const auto& folder = made->folder_->path();
    testing::Process::Options options;
    options.argv = {program, "--dir", folder, "--nodes", "2", "--kubelet-differs", "0"};
    options.output = folder + "/fleet.log";
    auto fleet = testing::Process::start(options);
    if (!fleet) {
      *why_not = "qm-fleet does not start: " + fleet.error().to_string();
      return nullptr;
    }
    made->fleet_ = std::move(*fleet);
    Json ports;
    const bool up = testing::wait_until([&] {
      std::ifstream in(folder + "/fleet.json");
      std::stringstream text;
      text << in.rdbuf();
      auto parsed = Json::parse(text.str());
      if (parsed) ports = std::move(*parsed);
      return ports.contains("kube") || !made->fleet_->running();
    });
    if (!up || !ports.contains("kube")) {
      ADD_FAILURE() << "qm-fleet did not come up:\n" << testing::read_file(options.output);
      return nullptr;
    }
    made->options_.server = "http://127.0.0.1:" + std::to_string(ports["kube"].integer());
    made->control_ = "http://127.0.0.1:" + std::to_string(ports["node"].integer());
    made->controllers_ = true;
  }
  Client client(made->options_);
  if (auto ready = ensure_custom_kinds(client); !ready) {
    ADD_FAILURE() << made->options_.server << ": " << ready.error().to_string();
    return nullptr;
  }
  return made;
}

void KubeUnderTest::expire_watches() {
  if (control_.empty()) return;
  http::Request request;
  request.method = "POST";
  request.target = "/fleet/faults";
  request.body = R"({"kind":"watch_cut","compact":true})";
  const auto answer = http::Client(control_).send(request);
  ASSERT_TRUE(answer) << answer.error().to_string();
  ASSERT_EQ(answer->status, 200) << answer->body;
}

void KubeContract::SetUp() {
  std::string why_not;
  server_ = KubeUnderTest::shared(&why_not);
  if (server_ == nullptr) GTEST_SKIP() << why_not;
  client_ = std::make_unique<Client>(server_->options());
  ns_ = unique("contract");
  must_create(resources::kNamespaces,
              Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", Json::object({{"name", ns_}})}}));
}

void KubeContract::TearDown() {
  if (!client_) return;
  for (const auto& resource : {resources::kJobs, resources::kPods, resources::kBudgets, resources::kLeases}) {
    const auto left = client_->list_all(resource, ns_);
    if (!left) continue;
    for (const auto& object : *left) (void)client_->remove(resource, ns_, name_of(object), {{}, 0, "Background"});
  }
  for (const auto& [resource, name] : cluster_objects_) (void)client_->remove(resource, "", name, {});
  (void)client_->remove(resources::kNamespaces, "", ns_, {});
}

std::string KubeContract::cluster_name(const Resource& r, const std::string& stem) {
  cluster_objects_.emplace_back(r, unique(stem));
  return cluster_objects_.back().second;
}

Json KubeContract::pod(const std::string& name, const Json& labels) const {
  auto metadata = Json::object({{"name", name}});
  if (labels.is_object()) metadata.set("labels", labels);
  return Json::object(
      {{"apiVersion", "v1"},
       {"kind", "Pod"},
       {"metadata", std::move(metadata)},
       {"spec",
        Json::object({{"schedulerName", "contract"},
                      {"containers", Json::array({Json::object({{"name", "main"}, {"image", "example/none:1"}})})}})}});
}

Json KubeContract::must_create(const Resource& r, const Json& object) {
  auto made = client_->create(r, r.namespaced ? ns_ : "", object);
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? std::move(*made) : Json();
}

Json KubeContract::must_get(const Resource& r, const std::string& name) {
  auto got = client_->get(r, r.namespaced ? ns_ : "", name);
  EXPECT_TRUE(got) << got.error().to_string();
  return got ? std::move(*got) : Json();
}

std::vector<std::string> KubeContract::two_nodes() {
  std::vector<std::string> names;
  const auto nodes = client_->list_all(resources::kNodes, "");
  EXPECT_TRUE(nodes) << nodes.error().to_string();
  for (const auto& node : *nodes) names.push_back(name_of(node));
  while (names.size() < 2) {
    names.push_back(cluster_name(resources::kNodes, "contract-node"));
    must_create(
        resources::kNodes,
        Json::object({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", Json::object({{"name", names.back()}})}}));
  }
  names.resize(2);
  return names;
}

Status KubeContract::watch(const Resource& r, const std::string& from, std::vector<Seen>& seen,
                           const std::function<bool()>& enough, int timeout_seconds) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  return client_->watch(
      r, r.namespaced ? ns_ : "", from,
      [&](const std::string& type, const Json& object) {
        seen.push_back({type, name_of(object), resource_version_of(object), object});
      },
      [&] { return enough() || std::chrono::steady_clock::now() > until; }, timeout_seconds);
}

}  // namespace qm::kube
