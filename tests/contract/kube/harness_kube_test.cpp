// Shared code of the cases. Named as a test so that it is built into the suite's binaries.
#include "kube_under_test.hpp"

#include <chrono>
#include <unistd.h>

namespace qm::kube {
namespace {

using namespace std::chrono_literals;

/// Unique per run, because a real server keeps the objects of earlier runs.
std::string unique(const std::string& stem) {
  static const auto run = std::chrono::system_clock::now().time_since_epoch().count() % 1'000'000'000;
  static int count = 0;
  return stem + "-" + std::to_string(run) + "-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

/// The definitions of Karpenter's kinds, for a server without them.
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
  static const std::unique_ptr<KubeUnderTest> server = [] {
    auto made = make(&reason);
    if (!made) return made;
    Client client(made->options_);
    if (auto ready = ensure_custom_kinds(client); !ready) {
      ADD_FAILURE() << made->options_.server << ": " << ready.error().to_string();
      made.reset();
    }
    return made;
  }();
  *why_not = reason;
  return server.get();
}

void KubeContract::SetUp() {
  std::string why_not;
  server_ = KubeUnderTest::shared(&why_not);
  if (server_ == nullptr) GTEST_SKIP() << why_not;
  client_ = std::make_unique<Client>(server_->options());
  ns_ = unique("contract");
  must_create(resources::kNamespaces,
              Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", Json::object({{"name", ns_}})}}));
  ASSERT_TRUE(testing::wait_until([&] { return server_->has_settled(*client_, ns_); }));
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
                           const std::function<bool()>& enough, int timeout_seconds, const std::string& fields) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  return client_->watch(
      r, Scope(r.namespaced ? ns_ : "", fields), from,
      [&](const std::string& type, const Json& object) {
        seen.push_back({type, name_of(object), resource_version_of(object), object});
      },
      [&] { return enough() || std::chrono::steady_clock::now() > until; }, timeout_seconds);
}

}  // namespace qm::kube
