// Behavior of a real API server that the fleet does not simulate: authentication, field ownership, schema validation,
// expired watch positions.
#include "qm/http/http.hpp"
#include "qm/kube/connect.hpp"
#include "real_kube.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

namespace qm::kube {
namespace server_k8s_test {

using namespace resources;
const Resource kConfigMaps{"", "v1", "configmaps", true};

TEST_F(RealKube, OnlyItsOwnCaIsTrusted) {
  auto options = server().options();
  ASSERT_TRUE(options.server.starts_with("https://")) << options.server;
  options.ca_file.clear();
  const auto refused = Client(options).get(kNamespaces, "", ns());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnauthenticated) << refused.error().to_string();
  options.insecure = true;
  EXPECT_TRUE(Client(options).get(kNamespaces, "", ns()));
}

TEST_F(RealKube, AForbiddenCallerGetsTheReason) {
  auto options = server().options();
  const auto as = [&](const std::string& token) {
    options.token = token;
    return Client(options).list(kPods, ns());
  };
  const auto user = as(real_setting("QM_KUBE_USER_TOKEN"));
  ASSERT_FALSE(user);
  EXPECT_EQ(user.error().code, Code::kPermissionDenied);
  EXPECT_NE(user.error().message.find("cannot list resource"), std::string::npos) << user.error().message;
  EXPECT_EQ(as("").error().code, Code::kPermissionDenied);
  EXPECT_EQ(as("no such token").error().code, Code::kUnavailable) << "401: a token may be renewed";
}

/// The text of this server matters: 403 has five causes, and only the text distinguishes them.
TEST_F(RealKube, RefusalsAreDistinguishedByTheirCause) {
  Client client(server().options());
  int made = 0;
  const auto create = [&](const Resource& kind, const std::string& in, const char* text) {
    auto object = *Json::parse(text);
    if (object.path("metadata.name").is_null()) object.set("metadata").set("name", fmt::format("n{}", ++made));
    return client.create(kind, in, object);
  };
  // The server's plugins see an object shortly after it was written.
  const auto refusal = [&](const Resource& kind, const std::string& in, const char* text) {
    Error out;
    EXPECT_TRUE(testing::wait_until([&] {
      const auto answer = create(kind, in, text);
      if (!answer) out = answer.error();
      return !answer.has_value();
    })) << text;
    return out;
  };
  ASSERT_TRUE(create({"", "v1", "resourcequotas", true}, ns(), R"({"spec":{"hard":{"count/configmaps":"0"}}})"));
  const auto quota = refusal(kConfigMaps, ns(), "{}");
  EXPECT_EQ(quota.code, Code::kExhausted) << quota.to_string();

  ASSERT_TRUE(create({"", "v1", "limitranges", true}, ns(),
                     R"({"spec":{"limits":[{"type":"Container","max":{"cpu":"1"},"default":{"cpu":"1"}}]}})"));
  const auto limit =
      refusal(kPods, ns(), R"({"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"2"}}}]}})");
  EXPECT_EQ(limit.code, Code::kInvalid) << limit.to_string();

  ASSERT_TRUE(client.merge_patch(
      kNamespaces, "", ns(),
      *Json::parse(R"({"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}})")));
  const auto security =
      refusal(kPods, ns(), R"({"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}})");
  EXPECT_EQ(security.code, Code::kInvalid) << security.to_string();
  EXPECT_NE(security.message.find("violates PodSecurity"), std::string::npos) << security.message;

  // A finalizer keeps the namespace in its deletion.
  const auto going = ns() + "-going";
  ASSERT_TRUE(client.create(kNamespaces, "", Json::object({{"metadata", Json::object({{"name", going}})}})));
  ASSERT_TRUE(create(kConfigMaps, going, R"({"metadata":{"name":"held","finalizers":["quartermaster.dev/test"]}})"));
  ASSERT_TRUE(client.remove(kNamespaces, "", going, {}));
  const auto terminating = refusal(kConfigMaps, going, "{}");
  EXPECT_EQ(terminating.code, Code::kFailedPrecondition) << terminating.to_string();
  ASSERT_TRUE(client.merge_patch(kConfigMaps, going, "held", *Json::parse(R"({"metadata":{"finalizers":null}})")));
}

TEST_F(RealKube, AKubeconfigLeadsThere) {
  const auto file = real_setting("KUBECONFIG");
  if (file.empty()) GTEST_SKIP() << "KUBECONFIG is not set";
  // The peer's kubeconfig has a context for each authentication method.
  for (const char* context : {"", "#token", "#certificate"}) {
    const auto options = find_server("kubeconfig:" + file + context);
    ASSERT_TRUE(options) << options.error().to_string();
    const auto got = Client(*options).get(kNamespaces, "", ns());
    EXPECT_TRUE(got) << context << ": " << got.error().to_string();
  }
}

TEST_F(RealKube, ACertificateMayComeFromMemory) {
  const auto file = real_setting("KUBECONFIG");
  if (file.empty()) GTEST_SKIP() << "KUBECONFIG is not set";
  auto options = from_kubeconfig(file, "certificate");
  ASSERT_TRUE(options) << options.error().to_string();
  options->certificate_pem = testing::read_file(options->certificate);
  options->key_pem = testing::read_file(options->key);
  options->ca = testing::read_file(options->ca_file);
  options->certificate = options->key = options->ca_file = "";
  const auto got = Client(*options).get(kNamespaces, "", ns());
  EXPECT_TRUE(got) << got.error().to_string();
}

TEST_F(RealKube, APodFindsItAndItsTokenMayBeReplaced) {
  const testing::TempDir folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() + "/" + name) << text;
  };
  write("ca.crt", testing::read_file(server().options().ca_file));
  write("token", real_setting("QM_KUBE_USER_TOKEN"));
  const auto origin = server().options().server;
  const auto colon = origin.rfind(':');
  ::setenv("KUBERNETES_SERVICE_HOST", origin.substr(8, colon - 8).c_str(), 1);
  ::setenv("KUBERNETES_SERVICE_PORT", origin.substr(colon + 1).c_str(), 1);
  const auto options = in_cluster(folder.path());
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  ::unsetenv("KUBERNETES_SERVICE_PORT");
  ASSERT_TRUE(options) << options.error().to_string();
  Client inside(*options);
  EXPECT_EQ(inside.get(kNamespaces, "", ns()).error().code, Code::kPermissionDenied);
  write("token", real_setting("QM_KUBE_TOKEN") + "\n");
  const auto got = inside.get(kNamespaces, "", ns());
  EXPECT_TRUE(got) << got.error().to_string();
}

TEST_F(RealKube, AnAppliedFieldHasItsOwner) {
  const auto map = [](Json data) {
    return Json::object({{"apiVersion", "v1"},
                         {"kind", "ConfigMap"},
                         {"metadata", Json::object({{"name", "a"}})},
                         {"data", std::move(data)}});
  };
  const auto apply = [&](const std::string& manager, bool force, Json data) {
    Client::ApplyOptions options;
    options.field_manager = manager;
    options.force = force;
    return client().apply(kConfigMaps, ns(), "a", map(std::move(data)), options);
  };
  ASSERT_TRUE(apply("one", false, Json::object({{"k", "1"}, {"only", "one"}})));
  const auto conflict = apply("two", false, Json::object({{"k", "2"}}));
  ASSERT_FALSE(conflict);
  EXPECT_EQ(conflict.error().code, Code::kAborted) << conflict.error().to_string();
  EXPECT_NE(conflict.error().message.find("conflict with \"one\""), std::string::npos) << conflict.error().message;
  const auto taken = apply("two", true, Json::object({{"k", "2"}}));
  ASSERT_TRUE(taken) << taken.error().to_string();
  EXPECT_EQ(taken->path("data.k").string(), "2");
  // A field that the first manager applied and now omits is removed; a field that it no longer owns remains.
  const auto less = apply("one", false, Json::object({}));
  ASSERT_TRUE(less) << less.error().to_string();
  EXPECT_EQ(less->path("data.k").string(), "2");
  EXPECT_TRUE(less->path("data.only").is_null());
}

TEST_F(RealKube, ASchemaForbidsByExpression) {
  const auto plural = "limits" + std::to_string(::getpid());
  const auto group = "contract.quartermaster.dev";
  const auto integer = Json::object({{"type", "integer"}});
  const auto rules =
      Json::array({Json::object({{"rule", "self.min <= self.max"}, {"message", "min must not exceed max"}}),
                   Json::object({{"rule", "self.kind == oldSelf.kind"}, {"message", "kind is for good"}})});
  const auto spec = Json::object(
      {{"type", "object"},
       {"required", Json::array({"min", "max", "kind"})},
       {"properties", Json::object({{"min", integer}, {"max", integer}, {"kind", Json::object({{"type", "string"}})}})},
       {"x-kubernetes-validations", rules}});
  const auto schema = Json::object({{"type", "object"}, {"properties", Json::object({{"spec", spec}})}});
  const auto name = plural + "." + group;
  const auto version = Json::object(
      {{"name", "v1"}, {"served", true}, {"storage", true}, {"schema", Json::object({{"openAPIV3Schema", schema}})}});
  must_create(kDefinitions,
              Json::object({{"apiVersion", "apiextensions.k8s.io/v1"},
                            {"kind", "CustomResourceDefinition"},
                            {"metadata", Json::object({{"name", name}})},
                            {"spec", Json::object({{"group", group},
                                                   {"scope", "Namespaced"},
                                                   {"names", Json::object({{"plural", plural}, {"kind", "Limit"}})},
                                                   {"versions", Json::array({version})}})}}));
  const Resource limits{group, "v1", plural, true};
  ASSERT_TRUE(testing::wait_until([&] { return client().list(limits, ns()).has_value(); }));
  const auto limit = [&](int min, int max, const std::string& kind) {
    return Json::object({{"apiVersion", std::string(group) + "/v1"},
                         {"kind", "Limit"},
                         {"metadata", Json::object({{"name", "a"}})},
                         {"spec", Json::object({{"min", min}, {"max", max}, {"kind", kind}})}});
  };
  const auto wrong = client().create(limits, ns(), limit(3, 2, "x"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kInvalid);
  EXPECT_NE(wrong.error().message.find("min must not exceed max"), std::string::npos) << wrong.error().message;
  ASSERT_TRUE(client().create(limits, ns(), limit(1, 2, "x")));
  const auto changed = client().merge_patch(limits, ns(), "a", Json::object({{"spec", Json::object({{"kind", "y"}})}}));
  ASSERT_FALSE(changed);
  EXPECT_NE(changed.error().message.find("kind is for good"), std::string::npos) << changed.error().message;
  EXPECT_TRUE(client().remove(kDefinitions, "", name, {}));
}

TEST_F(RealKube, ARefusedEvictionNamesTheBudget) {
  must_create(
      kBudgets,
      Json::object(
          {{"apiVersion", "policy/v1"},
           {"kind", "PodDisruptionBudget"},
           {"metadata", Json::object({{"name", "keep"}})},
           {"spec", Json::object({{"minAvailable", 1},
                                  {"selector", Json::object({{"matchLabels", Json::object({{"a", "b"}})}})}})}}));
  const auto made = must_create(kPods, pod("p", Json::object({{"a", "b"}})));
  ASSERT_TRUE(client().bind(ns(), "p", uid_of(made), two_nodes()[0]));
  // The simulated kubelet may have thousands of pods of an earlier case before this one.
  ASSERT_TRUE(testing::wait_until([&] { return must_get(kPods, "p").path("status.phase").string() == "Running"; },
                                  std::chrono::minutes(2)));
  const auto refused = client().evict(ns(), "p", 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_NE(refused.error().message.find("disruption budget"), std::string::npos) << refused.error().message;
}

TEST_F(RealKube, ABindingToANodeThatIsNotThereIsTaken) {
  const auto made = must_create(kPods, pod("a"));
  // The server does not check the node: the caller must know it.
  const auto bound = client().bind(ns(), "a", uid_of(made), "no-such-node");
  ASSERT_TRUE(bound) << bound.error().to_string();
  EXPECT_EQ(must_get(kPods, "a").path("spec.nodeName").string(), "no-such-node");
}

TEST_F(RealKube, AWatchMayBeginWithTheList) {
  must_create(kPods, pod("a"));
  must_create(kPods, pod("b"));
  http::ClientOptions options;
  options.ca_file = server().options().ca_file;
  http::Request request;
  request.target = kPods.path(ns()) +
                   "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
                   "&timeoutSeconds=20";
  request.headers.set("Authorization", "Bearer " + server().options().token);
  std::string text;
  (void)http::Client(server().options().server, options)
      .stream(request, {},
              [&](std::string_view chunk) {
                text += chunk;
                return text.find("k8s.io/initial-events-end") == std::string::npos;
              },
              {});
  std::vector<std::string> seen;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const auto event = Json::parse(text.substr(at, end - at));
    ASSERT_TRUE(event);
    seen.push_back((*event)["type"].string() + " " + name_of((*event)["object"]));
  }
  if (text.back() != '\n') seen.push_back("BOOKMARK ");  // the truncated line that ended it
  ASSERT_EQ(seen.size(), 3U) << text;
  std::sort(seen.begin(), seen.begin() + 2);
  EXPECT_EQ(seen, (std::vector<std::string>{"ADDED a", "ADDED b", "BOOKMARK "}));
}

TEST_F(RealKube, ACompactedVersionIsGoneAfterARestart) {
  QM_NEEDS_OWN_PEER();
  const auto old = resource_version_of(must_create(kPods, pod("a")));
  must_create(kPods, pod("b"));
  compact();
  // The watch cache still has it.
  std::vector<Seen> seen;
  const auto kept = watch(
      kPods, old, seen, [&] { return !seen.empty(); }, 10);
  ASSERT_FALSE(seen.empty()) << (kept ? "" : kept.error().to_string());
  EXPECT_EQ(seen[0].name, "b");
  peer({"restart", "api"});
  seen.clear();
  const auto gone = watch(
      kPods, old, seen, [&] { return !seen.empty(); }, 10);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::kOutOfRange) << gone.error().to_string();
  EXPECT_TRUE(seen.empty());
}

}  // namespace server_k8s_test
}  // namespace qm::kube
