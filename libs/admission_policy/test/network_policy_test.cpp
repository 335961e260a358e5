// Connections that a NetworkPolicy allows, and what its author may not have intended.
// S-367 S-368
#include "network_policy.hpp"

#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"
#include "subjects.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace qm::admission_policy {
namespace network_policy_test {

NetworkPolicy policy_of(const std::string& spec, const char* ns = "a") {
  auto read = NetworkPolicy::read(
      parsed(R"({"metadata":{"name":"p","namespace":")" + std::string(ns) + R"("},"spec":)" + spec + "}"));
  EXPECT_TRUE(read) << spec;
  return read ? *read : NetworkPolicy{};
}
Endpoint pod(const std::string& ns, Labels labels = {}, Labels ns_labels = {}) {
  ns_labels["kubernetes.io/metadata.name"] = ns;
  return {ns, std::move(ns_labels), std::move(labels)};
}
Endpoint outside(const std::string& ip) { return {{}, {}, {}, ip}; }
bool may(const std::vector<NetworkPolicy>& policies, Endpoint from, Endpoint to, std::int64_t port,
         const char* protocol = "TCP") {
  return passes(policies, {std::move(from), std::move(to), port, protocol});
}
/// The codes at the start of the messages.
std::string codes(const NetworkPolicy& policy) {
  std::string out;
  for (const auto& finding : lint(policy)) out += finding.message.substr(0, finding.message.find(':')) + " ";
  return out;
}

TEST(NetworkPolicies, WithoutPolicyAllTrafficPasses) {
  EXPECT_TRUE(may({}, pod("a"), pod("b"), 80));
  EXPECT_TRUE(may({policy_of(R"({"podSelector":{"matchLabels":{"app":"x"}}})")}, pod("b"), pod("a"), 80))
      << "selects others";
  EXPECT_FALSE(may({policy_of(R"({"podSelector":{}})")}, pod("b"), pod("a"), 80)) << "selects all, allows none";
  EXPECT_TRUE(may({policy_of(R"({"podSelector":{}})")}, pod("a"), pod("b"), 80)) << "does not restrict egress";
}

TEST(NetworkPolicies, BothEndsMustAllow) {
  const auto out =
      policy_of(R"({"podSelector":{},"policyTypes":["Egress"],"egress":[{"to":[{"namespaceSelector":{}}]}]})", "a");
  const auto in = policy_of(R"({"podSelector":{},"ingress":[{"from":[{"podSelector":{}}]}]})", "b");
  EXPECT_TRUE(may({out}, pod("a"), pod("b"), 80));
  EXPECT_FALSE(may({out, in}, pod("a"), pod("b"), 80));
  EXPECT_TRUE(may({out, in}, pod("b"), pod("b"), 80));
}

TEST(NetworkPolicies, PoliciesAreAdditive) {
  const auto one = policy_of(R"({"podSelector":{},"ingress":[{"from":[{"podSelector":{}}],"ports":[{"port":80}]}]})");
  const auto two = policy_of(
      R"({"podSelector":{},"ingress":[{"ports":[{"port":8000,"endPort":8010},{"protocol":"UDP","port":53}]}]})");
  EXPECT_TRUE(may({one, two}, pod("a"), pod("a"), 80));
  EXPECT_FALSE(may({one, two}, pod("b"), pod("a"), 80));
  EXPECT_TRUE(may({one, two}, pod("b"), pod("a"), 8010));
  EXPECT_FALSE(may({one, two}, pod("b"), pod("a"), 8011));
  EXPECT_FALSE(may({one, two}, pod("b"), pod("a"), 53)) << "TCP is another protocol";
  EXPECT_TRUE(may({one, two}, pod("b"), pod("a"), 53, "UDP"));
}

TEST(NetworkPolicies, PeersOfOneEntryAreCombined) {
  const auto both = policy_of(R"({"podSelector":{},"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"t":"x"}},
      "podSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["web"]}]}}]}]})");
  EXPECT_TRUE(may({both}, pod("b", {{"app", "web"}}, {{"t", "x"}}), pod("a"), 80));
  EXPECT_FALSE(may({both}, pod("b", {{"app", "web"}}), pod("a"), 80));
  EXPECT_FALSE(may({both}, pod("b", {}, {{"t", "x"}}), pod("a"), 80));
}

TEST(NetworkPolicies, IpBlocksMatchAddresses) {
  const auto policy = policy_of(R"({"podSelector":{},"policyTypes":["Egress"],"egress":[{"to":[{"ipBlock":
      {"cidr":"0.0.0.0/0","except":["10.0.0.0/8"]}}],"ports":[{"port":443}]}]})");
  EXPECT_TRUE(may({policy}, pod("a"), outside("93.184.216.34"), 443));
  EXPECT_FALSE(may({policy}, pod("a"), outside("10.1.2.3"), 443));
  EXPECT_FALSE(may({policy}, pod("a"), outside("93.184.216.34"), 80));
  const auto wrong =
      NetworkPolicy::read(parsed(R"({"spec":{"egress":[{"to":[{"ipBlock":{"cidr":"10.0.0.0/40"}}]}]}})"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().field, "spec.egress[0].to.ipBlock.cidr");
}

NetworkPolicy policy_in(const std::string& path) {
  const auto loaded = config::load_path(path);
  EXPECT_EQ(loaded.objects.size(), 1U);
  return *NetworkPolicy::read(loaded.objects.at(0).document.content);
}

TEST(NetworkPolicies, ReferenceTenantIsIsolated) {  // S-367
  struct Case {
    std::string file, ns, key, value;
    std::int64_t outward;  ///< the port of the rule that is intended for destinations outside of the cluster
  };
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(Case{"networkpolicy-tenant.yaml", "genomics-lab", "lab", "genomics", 8443},
                                  Case{"001-networkpolicy-deny-cross-tenant.yaml", "team-a", "tenant", "team-a", 443});
    const auto policy = policy_in(manifests.dir + c.file);
    const auto a = pod(c.ns, {}, {{c.key, c.value}}), b = pod("team-b", {}, {{c.key, "team-b"}});
    EXPECT_FALSE(may({policy}, b, a, 80)) << "another tenant";
    EXPECT_FALSE(may({policy}, a, b, c.outward));
    EXPECT_TRUE(may({policy}, a, a, 29500));
    EXPECT_FALSE(may({policy}, a, outside("93.184.216.34"), c.outward))
        << "its rule for what is outside reaches its own namespace only";
    EXPECT_FALSE(may({policy}, a, pod("kube-system", {{"k8s-app", "kube-dns"}}), 53, "UDP"));
    EXPECT_EQ(codes(policy), "NO_DNS ONLY_OWN_NAMESPACE UNTRUSTED_NAMESPACE_LABEL ");
  }
}

/// The corrected variant in the repository.
TEST(NetworkPolicies, ShippedTenantMayDownloadAndResolveNames) {  // S-367
  const auto loaded = config::load_path(std::string(QM_SOURCE_DIR) + "/deploy/policies/tenant-network-policy.yaml");
  ASSERT_EQ(loaded.objects.size(), 1U);
  const auto policy = *NetworkPolicy::read(loaded.objects[0].document.content);
  const auto a = pod("team-a"), b = pod("team-b");
  EXPECT_FALSE(may({policy}, b, a, 80));
  EXPECT_FALSE(may({policy}, a, b, 443));
  EXPECT_TRUE(may({policy}, a, a, 29500));
  EXPECT_TRUE(may({policy}, a, outside("93.184.216.34"), 443));
  EXPECT_FALSE(may({policy}, a, outside("169.254.169.254"), 443))
      << "the metadata service of the cloud has credentials";
  EXPECT_TRUE(may({policy}, a, pod("kube-system"), 53, "UDP"));
  EXPECT_EQ(codes(policy), "");
}

TEST(NetworkPolicies, ReferenceServingPolicyAllowsGateway) {  // S-368
  struct Case {
    std::string file, ns, served, gateway, behind;
    std::int64_t in, out;
  };
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(
        Case{"networkpolicy-serving.yaml", "edge-serving", "transcriber", "gateway", "dictionary", 9000, 5432},
        Case{"003-networkpolicy-model-serving.yaml", "ml-production", "model-serving", "api-gateway", "feature-store",
             8080, 6379});
    const auto policy = policy_in(manifests.dir + c.file);
    const auto of = [&](const std::string& app) { return pod(c.ns, {{"app", app}}); };
    const auto serving = of(c.served);
    EXPECT_TRUE(may({policy}, of(c.gateway), serving, c.in));
    EXPECT_FALSE(may({policy}, of(c.gateway), serving, 9090));
    EXPECT_FALSE(may({policy}, of("other"), serving, c.in));
    EXPECT_TRUE(may({policy}, serving, of(c.behind), c.out));
    EXPECT_FALSE(may({policy}, serving, pod("kube-system", {{"k8s-app", "kube-dns"}}), 53, "UDP"));
    EXPECT_TRUE(may({policy}, of("other"), of(c.behind), c.out)) << "it selects the serving pods alone";
    EXPECT_EQ(codes(policy), "NO_DNS ");
  }
}

TEST(NetworkPolicies, OpenEgressIsReported) {
  EXPECT_EQ(codes(policy_of(R"({"podSelector":{}})")), "EGRESS_OPEN ");
  EXPECT_EQ(codes(policy_of(R"({"podSelector":{},"policyTypes":["Egress"]})")), "NO_DNS ");
  EXPECT_EQ(codes(policy_of(R"({"podSelector":{},"policyTypes":["Egress"],"egress":[{}]})")), "");
}

}  // namespace network_policy_test
}  // namespace qm::admission_policy
