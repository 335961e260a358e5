// ResourceQuotas: which pods they count, what those cost, and who slips by.
// S-149 S-362 S-363 S-381
#include "qm/admission/webhook/policy.hpp"
#include "qm/admission/webhook/resource_quota.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"
#include "reviews.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission::webhook {
namespace {

Json spec_of(const char* resource, int amount, const char* priority = "", const char* more = "") {
  return parsed(fmt::format(
      R"({{{}"containers":[{{"name":"m","resources":{{"requests":{{"memory":"1Gi"}},"limits":{{"{}":{}}}}}}}]{}}})",
      *priority == 0 ? "" : fmt::format(R"("priorityClassName":"{}",)", priority), resource, amount, more));
}

std::vector<ResourceQuota> reference(const char* file) {
  std::vector<ResourceQuota> out;
  for (const auto& object : config::load_path(*testing::shared_dir() + "/manifests/" + file).objects) {
    out.push_back(*ResourceQuota::read(object.document.content));
  }
  return out;
}

std::string beyond(const std::vector<ResourceQuota>& quotas, const Json& spec, std::int64_t pods = 1) {
  std::string out;
  for (const auto& finding : beyond_quota(quotas, spec, pods)) out += finding.message + "; ";
  return out;
}
bool passed(const std::vector<ResourceQuota>& quotas, const Json& spec) { return !past_quota(quotas, spec).empty(); }

TEST(Quotas, TheTeamsSeventeenthGpuIsRefused) {  // S-362
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  auto quotas = reference("001-resourcequota-team-a.yaml");
  ASSERT_EQ(quotas.size(), 1U);
  EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", 16)), "");
  const auto over = beyond(quotas, spec_of("nvidia.com/gpu", 17));
  EXPECT_NE(over.find("16 of limits.nvidia.com/gpu"), std::string::npos) << over;
  EXPECT_NE(over.find("16 of requests.nvidia.com/gpu"), std::string::npos) << "both prefixes: " << over;
  quotas[0].used["requests.nvidia.com/gpu"] = Quantity::of(16);
  EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", 1)), "");
  EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", 1, "system-cluster-critical")), "") << "is none of its scope";
  EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", 1, "batch")), "");
  quotas[0].used.clear();
  EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", 4), 4), "");
  EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", 4), 5), "") << "a gang of five";
}

TEST(Quotas, UnquotedNumbersAndClasses) {  // S-363
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  const auto quotas = reference("003-resourcequota-ml-team.yaml");
  ASSERT_EQ(quotas.size(), 1U);
  EXPECT_EQ(quotas[0].hard.at("requests.nvidia.com/gpu"), Quantity::of(10));
  EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", 10, "high")), "");
  EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", 11, "high")), "");
  EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", 11, "medium")), "");
  EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", 11, "low")), "");
  EXPECT_NE(
      beyond(quotas, parsed(R"({"priorityClassName":"high","containers":[{}]})")).find("of which the pod says nothing"),
      std::string::npos)
      << "memory is counted, so it has to be given";
}

TEST(Quotas, EachTeamHasItsOwnSlices) {  // S-149 S-120
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  auto quotas = reference("001-resourcequota-mig-tenants.yaml");
  ASSERT_EQ(quotas.size(), 2U);
  EXPECT_NE(quotas[0].ns, quotas[1].ns);
  for (auto& quota : quotas) quota.used["requests.nvidia.com/mig-1g.10gb"] = Quantity::of(6);
  quotas[0].used["requests.nvidia.com/mig-1g.10gb"] = Quantity::of(7);
  EXPECT_NE(beyond({quotas[0]}, spec_of("nvidia.com/mig-1g.10gb", 1)), "") << "the eighth";
  EXPECT_EQ(beyond({quotas[1]}, spec_of("nvidia.com/mig-1g.10gb", 1)), "") << "the other's seventh";
}

TEST(Quotas, WhoNamesNoClassPassesAQuotaOfClasses) {  // S-381
  if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
  for (const auto* file : {"001-resourcequota-team-research.yaml", "003-resourcequota-ml-team.yaml"}) {
    const auto quotas = reference(file);
    const auto found = past_quota(quotas, spec_of("nvidia.com/gpu", 64));
    ASSERT_EQ(found.size(), 1U) << file;
    EXPECT_EQ(found[0].message.substr(0, 13), "QUOTA_BYPASS:");
    EXPECT_TRUE(passed(quotas, spec_of("nvidia.com/gpu", 1, "of-another-class")));
    EXPECT_FALSE(passed(quotas, spec_of("nvidia.com/gpu", 1, quotas[0].scopes[0].values[0].c_str())));
    EXPECT_FALSE(passed(quotas, parsed(R"({"containers":[{"resources":{"limits":{"cpu":1}}}]})"))) << "GPUs are meant";
    auto both = quotas;
    both.emplace_back(quotas[0]).scopes.clear();
    EXPECT_FALSE(passed(both, spec_of("nvidia.com/gpu", 64))) << "another quota counts all";
  }
  // NotIn holds for a pod that names none, so that one is counted.
  EXPECT_FALSE(passed(reference("001-resourcequota-team-a.yaml"), spec_of("nvidia.com/gpu", 1)));
  EXPECT_TRUE(
      passed(reference("001-resourcequota-team-a.yaml"), spec_of("nvidia.com/gpu", 1, "system-cluster-critical")));
}

TEST(Quotas, TheDoorWarnsOfABypassAndRefusesItWhereToldTo) {  // S-381
  const auto quota = *ResourceQuota::read(parsed(R"({"metadata":{"namespace":"team","name":"q"},"spec":{"hard":
      {"requests.nvidia.com/gpu":32},"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In",
      "values":["research"]}]}}})"));
  View view;
  view.quotas["team"] = {quota};
  auto pod = parsed(R"({"metadata":{"name":"p"}})");
  pod.set("spec", spec_of("nvidia.com/gpu", 1));
  const auto said = [&](const std::vector<Finding>& all) {
    return std::ranges::any_of(all, [](const Finding& f) { return f.rule == "quota-scope"; });
  };
  auto verdict = judge(created(pod), {}, view);
  EXPECT_TRUE(said(verdict.warnings));
  EXPECT_FALSE(said(verdict.refusals));
  view.namespaces["team"].labels["policy.quartermaster.dev/mode"] = "enforce";
  EXPECT_FALSE(said(judge(created(pod), {}, view).refusals)) << "not by a word that is for all rules";
  view.namespaces["team"].labels["policy.quartermaster.dev/quota-scope"] = "enforce";
  EXPECT_TRUE(said(judge(created(pod), {}, view).refusals));
  Settings set;
  set.rules["quota-scope"] = Mode::kEnforce;
  view.namespaces.clear();
  EXPECT_TRUE(said(judge(created(pod), set, view).refusals));
  set.rules["quota-scope"] = Mode::kOff;
  EXPECT_FALSE(said(judge(created(pod), set, view).warnings));
}

TEST(Quotas, CountAsTheApiServerDoes) {
  const auto charge = charge_of(parsed(R"({"overhead":{"cpu":"100m"},
      "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":1}}},{"resources":{"requests":{"cpu":4}}}],
      "containers":[{"resources":{"requests":{"cpu":1},"limits":{"cpu":2,"nvidia.com/gpu":1}}},{"resources":{"limits":{"cpu":1}}}]})"));
  EXPECT_EQ(charge.at("requests.cpu").to_string(), "5100m") << "the init container beside the sidecar is the peak";
  EXPECT_EQ(charge.at("cpu"), charge.at("requests.cpu"));
  EXPECT_EQ(charge.at("limits.cpu").to_string(), "3100m");
  EXPECT_EQ(charge.at("requests.nvidia.com/gpu"), Quantity::of(1)) << "a limit stands for a request";
  EXPECT_EQ(charge.at("pods"), Quantity::of(1));
  const auto scoped = [](const char* scope) {
    return *ResourceQuota::read(parsed(fmt::format(R"({{"spec":{{"hard":{{"pods":1}},"scopes":["{}"]}}}})", scope)));
  };
  const auto ends = parsed(R"({"activeDeadlineSeconds":5,"containers":[{}]})"), runs = parsed(R"({"containers":[{}]})");
  EXPECT_TRUE(scoped("Terminating").counts(ends));
  EXPECT_FALSE(scoped("Terminating").counts(runs));
  EXPECT_TRUE(scoped("NotTerminating").counts(runs));
  EXPECT_TRUE(scoped("BestEffort").counts(runs));
  EXPECT_FALSE(scoped("NotBestEffort").counts(runs));
  EXPECT_EQ(ResourceQuota::read(parsed(R"({"spec":{"hard":{"pods":"many"}}})")).error().field, "spec.hard.pods");
}

}  // namespace
}  // namespace qm::admission::webhook
