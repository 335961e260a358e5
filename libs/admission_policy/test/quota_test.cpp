// ResourceQuotas: which pods they count, what they charge, and which pods bypass them.
// S-149 S-304 S-362 S-363 S-381
#include "qm/admission_policy/policy.hpp"
#include "qm/admission_policy/resource_quota.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"
#include "subjects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace quota_test {

Json spec_of(const char* resource, int amount, const char* priority = "", const char* more = "") {
  return parsed(fmt::format(
      R"({{{}"containers":[{{"name":"m","resources":{{"requests":{{"memory":"1Gi"}},"limits":{{"{}":{}}}}}}}]{}}})",
      *priority == 0 ? "" : fmt::format(R"("priorityClassName":"{}",)", priority), resource, amount, more));
}

std::vector<ResourceQuota> quotas_in(const std::string& path) {
  std::vector<ResourceQuota> out;
  for (const auto& object : config::load_path(path).objects) {
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

TEST(Quotas, SeventeenthGpuOfTeamIsRefused) {  // S-362
  struct Case {
    std::string file;
    int most, gang;  ///< GPUs of the team, and the number of pods with four GPUs that these suffice for
    const char *outside, *inside;
  };
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(Case{"resourcequota-imaging.yaml", 12, 3, "realtime", "bulk"},
                                  Case{"001-resourcequota-team-a.yaml", 16, 4, "system-cluster-critical", "batch"});
    auto quotas = quotas_in(manifests.dir + c.file);
    ASSERT_EQ(quotas.size(), 1U);
    EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", c.most)), "");
    const auto over = beyond(quotas, spec_of("nvidia.com/gpu", c.most + 1));
    EXPECT_NE(over.find(fmt::format("{} of limits.nvidia.com/gpu", c.most)), std::string::npos) << over;
    EXPECT_NE(over.find(fmt::format("{} of requests.nvidia.com/gpu", c.most)), std::string::npos)
        << "both prefixes: " << over;
    quotas[0].used["requests.nvidia.com/gpu"] = Quantity::of(c.most);
    EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", 1)), "");
    EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", 1, c.outside)), "") << "is none of its scope";
    EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", 1, c.inside)), "");
    quotas[0].used.clear();
    EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", 4), c.gang), "");
    EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", 4), c.gang + 1), "") << "a gang of one more";
  }
}

TEST(Quotas, ReadsUnquotedNumbersAndClasses) {  // S-363
  struct Case {
    std::string file;
    int most;
    const char *one, *two, *other;
  };
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(Case{"resourcequota-speech.yaml", 6, "gold", "silver", "bronze"},
                                  Case{"003-resourcequota-ml-team.yaml", 10, "high", "medium", "low"});
    const auto quotas = quotas_in(manifests.dir + c.file);
    ASSERT_EQ(quotas.size(), 1U);
    EXPECT_EQ(quotas[0].hard.at("requests.nvidia.com/gpu"), Quantity::of(c.most));
    EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", c.most, c.one)), "");
    EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", c.most + 1, c.one)), "");
    EXPECT_NE(beyond(quotas, spec_of("nvidia.com/gpu", c.most + 1, c.two)), "");
    EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", c.most + 1, c.other)), "");
    const auto bare = Json::object({{"priorityClassName", c.one}, {"containers", Json::array({Json::object()})}});
    EXPECT_NE(beyond(quotas, bare).find("which the pod does not set"), std::string::npos)
        << "memory is counted, so it has to be given";
  }
}

TEST(Quotas, GpusOfScopedClassesAreCounted) {  // S-304
  struct Case {
    std::string file, one, two;
    int most;
  };
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c =
        manifests.pick(Case{"resourcequota-genomics.yaml", "bulk", "bulk", 20},
                       Case{"001-resourcequota-team-research.yaml", "research-training", "research-inference", 32});
    auto quotas = quotas_in(manifests.dir + c.file);
    ASSERT_EQ(quotas.size(), 1U);
    auto& quota = quotas[0];
    int admitted = 0;
    for (int pod = 0; pod <= c.most; ++pod) {
      const auto spec = parsed(fmt::format(
          R"({{"priorityClassName":"{}","containers":[{{"name":"m","resources":{{
              "requests":{{"cpu":"1","memory":"1Gi"}},"limits":{{"nvidia.com/gpu":1}}}}}}]}})",
          pod % 2 == 0 ? c.one : c.two));
      const auto refusal = beyond(quotas, spec);
      if (pod == c.most) {
        EXPECT_NE(refusal.find(fmt::format("{} of requests.nvidia.com/gpu", c.most)), std::string::npos) << refusal;
        continue;
      }
      EXPECT_EQ(refusal, "") << pod;
      quota.used["requests.nvidia.com/gpu"] = Quantity::of(++admitted);
    }
    EXPECT_EQ(admitted, c.most);
    EXPECT_EQ(beyond(quotas, spec_of("nvidia.com/gpu", 1, "of-another-class")), "") << "is not counted";
  }
}

TEST(Quotas, EachTeamHasItsOwnMigInstances) {  // S-149 S-120
  struct Case {
    std::string file;
    const char* resource;
    int most;
  };
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(Case{"resourcequota-slices.yaml", "nvidia.com/mig-2g.20gb", 3},
                                  Case{"001-resourcequota-mig-tenants.yaml", "nvidia.com/mig-1g.10gb", 7});
    auto quotas = quotas_in(manifests.dir + c.file);
    ASSERT_EQ(quotas.size(), 2U);
    EXPECT_NE(quotas[0].ns, quotas[1].ns);
    const auto counted = fmt::format("requests.{}", c.resource);
    quotas[0].used[counted] = Quantity::of(c.most);
    quotas[1].used[counted] = Quantity::of(c.most - 1);
    EXPECT_NE(beyond({quotas[0]}, spec_of(c.resource, 1)), "") << "one more than it has";
    EXPECT_EQ(beyond({quotas[1]}, spec_of(c.resource, 1)), "") << "the last of the other's";
  }
}

TEST(Quotas, PodWithoutClassBypassesScopedQuota) {  // S-381
  struct Case {
    std::vector<std::string> of_classes;
    std::string of_all_but;
    const char* but;
  };
  for (const auto& manifests : testing::manifest_folders()) {
    const auto c = manifests.pick(
        Case{{"resourcequota-genomics.yaml", "resourcequota-speech.yaml"}, "resourcequota-imaging.yaml", "realtime"},
        Case{{"001-resourcequota-team-research.yaml", "003-resourcequota-ml-team.yaml"},
             "001-resourcequota-team-a.yaml",
             "system-cluster-critical"});
    for (const auto& file : c.of_classes) {
      SCOPED_TRACE(file);
      const auto quotas = quotas_in(manifests.dir + file);
      const auto found = past_quota(quotas, spec_of("nvidia.com/gpu", 64));
      ASSERT_EQ(found.size(), 1U);
      EXPECT_EQ(found[0].message.substr(0, 13), "QUOTA_BYPASS:");
      EXPECT_TRUE(passed(quotas, spec_of("nvidia.com/gpu", 1, "of-another-class")));
      EXPECT_FALSE(passed(quotas, spec_of("nvidia.com/gpu", 1, quotas[0].scopes[0].values[0].c_str())));
      EXPECT_FALSE(passed(quotas, parsed(R"({"containers":[{"resources":{"limits":{"cpu":1}}}]})")))
          << "GPUs are counted";
      auto both = quotas;
      both.emplace_back(quotas[0]).scopes.clear();
      EXPECT_FALSE(passed(both, spec_of("nvidia.com/gpu", 64))) << "another quota counts all";
    }
    // NotIn matches a pod without a class, so that pod is counted.
    const auto all_but = quotas_in(manifests.dir + c.of_all_but);
    EXPECT_FALSE(passed(all_but, spec_of("nvidia.com/gpu", 1)));
    EXPECT_TRUE(passed(all_but, spec_of("nvidia.com/gpu", 1, c.but)));
  }
}

TEST(Quotas, BypassIsWarnedOrRefusedBySetting) {  // S-381
  const auto quota = *ResourceQuota::read(parsed(R"({"metadata":{"namespace":"team","name":"q"},"spec":{"hard":
      {"requests.nvidia.com/gpu":32},"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In",
      "values":["research"]}]}}})"));
  View view;
  view.quotas["team"] = {quota};
  auto pod = parsed(R"({"metadata":{"name":"p"}})");
  pod.set("spec", spec_of("nvidia.com/gpu", 1));
  const auto reported = [&](const std::vector<Finding>& all) {
    return std::ranges::any_of(all, [](const Finding& f) { return f.rule == "quota-scope"; });
  };
  auto verdict = validate(created(pod), {}, view);
  EXPECT_TRUE(reported(verdict.warnings));
  EXPECT_FALSE(reported(verdict.refusals));
  view.namespaces["team"].labels["policy.quartermaster.dev/mode"] = "enforce";
  EXPECT_FALSE(reported(validate(created(pod), {}, view).refusals)) << "not by a mode for all rules";
  view.namespaces["team"].labels["policy.quartermaster.dev/quota-scope"] = "enforce";
  EXPECT_TRUE(reported(validate(created(pod), {}, view).refusals));
  Settings set;
  set.rules["quota-scope"] = Mode::kEnforce;
  view.namespaces.clear();
  EXPECT_TRUE(reported(validate(created(pod), set, view).refusals));
  set.rules["quota-scope"] = Mode::kOff;
  EXPECT_FALSE(reported(validate(created(pod), set, view).warnings));
}

TEST(Quotas, CountLikeApiServer) {
  const auto charge = charge_of(parsed(R"({"overhead":{"cpu":"100m"},
      "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":1}}},{"resources":{"requests":{"cpu":4}}}],
      "containers":[{"resources":{"requests":{"cpu":1},"limits":{"cpu":2,"nvidia.com/gpu":1}}},{"resources":{"limits":{"cpu":1}}}]})"));
  EXPECT_EQ(charge.at("requests.cpu").to_string(), "5100m") << "the init container with the sidecar is the peak";
  EXPECT_EQ(charge.at("cpu"), charge.at("requests.cpu"));
  EXPECT_EQ(charge.at("limits.cpu").to_string(), "3100m");
  EXPECT_EQ(charge.at("requests.nvidia.com/gpu"), Quantity::of(1)) << "a limit stands for a request";
  EXPECT_EQ(charge.at("pods"), Quantity::of(1));
  const auto as_a_whole =
      charge_of(parsed(R"({"overhead":{"cpu":"100m","memory":"1Gi"},"resources":{"limits":{"cpu":20}},
      "containers":[{"resources":{"limits":{"nvidia.com/gpu":1}}}]})"));
  EXPECT_EQ(as_a_whole.at("requests.cpu").to_string(), "20100m") << "the limit of the pod as a whole is its request";
  EXPECT_EQ(as_a_whole.at("limits.cpu").to_string(), "20100m");
  EXPECT_EQ(as_a_whole.at("requests.memory").to_string(), "1Gi");
  EXPECT_FALSE(as_a_whole.contains("limits.memory")) << "overhead alone is no limit";
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

}  // namespace quota_test
}  // namespace qm::admission_policy
