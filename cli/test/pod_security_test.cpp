// The Pod Security Standards, as "qmctl admit" applies them to manifests. For the verdicts of a real API server on
// the same pods see pod_security_k8s_test.cpp.
#include "qm/admission_policy/pod_security.hpp"

#include "pod_security_cases.hpp"
#include "qm/cli/run.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace qm::cli {
namespace pod_security_test {

using admission_policy::pod_security_findings;
using admission_policy::PodSecurity;

std::set<std::string> fields(const Json& pod, PodSecurity level) {
  std::set<std::string> out;
  for (const auto& f : pod_security_findings(pod["spec"], level)) out.insert(f.field);
  return out;
}

TEST(PodSecurity, ACompliantPodHasNoFinding) {
  EXPECT_EQ(fields(compliant_pod(), PodSecurity::kRestricted), std::set<std::string>());
}

TEST(PodSecurity, ABarePodLacksFourThings) {
  const auto bare = *Json::parse(R"({"spec":{"containers":[{"name":"m","image":"i"}]}})");
  const std::string at = "spec.containers[0].securityContext.";
  EXPECT_EQ(fields(bare, PodSecurity::kRestricted),
            (std::set<std::string>{at + "allowPrivilegeEscalation", at + "capabilities.drop", at + "runAsNonRoot",
                                   at + "seccompProfile"}));
  EXPECT_EQ(fields(bare, PodSecurity::kBaseline), std::set<std::string>());
}

TEST(PodSecurity, PrivilegedTakesEverything) {
  auto pod = compliant_pod();
  for (const auto& change : pod_changes()) change.apply(pod.set("spec"));
  EXPECT_TRUE(fields(pod, PodSecurity::kPrivileged).empty());
}

TEST(PodSecurity, WhatBaselineRefusesRestrictedRefusesToo) {
  for (const auto& change : pod_changes()) {
    auto pod = compliant_pod();
    change.apply(pod.set("spec"));
    if (!fields(pod, PodSecurity::kBaseline).empty()) {
      EXPECT_FALSE(fields(pod, PodSecurity::kRestricted).empty()) << change.what;
    }
  }
}

TEST(PodSecurity, TheReferenceTrainingPodsLackItInTheirNamespace) {  // S-380
  struct Case {
    std::string file, name;
    std::vector<std::string> workloads;
  };
  const std::set<std::string> four{"allowPrivilegeEscalation", "capabilities.drop", "runAsNonRoot", "seccompProfile"};
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(
        Case{"namespace-restricted.yaml", "genomics-lab", {"pytorchjob-variant-caller.yaml", "pod-annealing.yaml"}},
        Case{"001-namespace-ml-training-psa.yaml",
             "ml-training",
             {"001-pytorchjob-llama2.yaml", "004-pod-long-training-job.yaml"}});
    const std::string ns = manifests.dir + c.file;
    const auto loaded = config::load_path(ns);
    ASSERT_EQ(loaded.objects.size(), 1U);
    ASSERT_EQ(loaded.objects[0].document.content.path("metadata.labels")["pod-security.kubernetes.io/enforce"].string(),
              "restricted");
    const auto admit = [&](const std::vector<std::string>& files, const std::string& text) {
      std::vector<std::string> args{"admit", "-o", "json", "-n", c.name, "--set", "webhook-policy=off"};
      for (const auto& file : files) args.insert(args.end(), {"-f", file});
      std::istringstream in(text);
      std::ostringstream out, err;
      const int code = run(args, {in, out, err}, {});
      std::set<std::string> missing;
      const auto pods = Json::parse(out.str()).value_or(Json());
      for (const auto& pod : pods.items()) {
        for (const auto& finding : pod["refusals"].items()) {
          EXPECT_EQ(finding["rule"].string(), "pod-security");
          const auto& field = finding["field"].string();
          missing.insert(field.substr(field.find("securityContext.") + 16));
        }
      }
      return std::pair(code, missing);
    };
    for (const auto& manifest : c.workloads) {
      const auto [code, missing] = admit({ns, manifests.dir + manifest}, {});
      EXPECT_EQ(code, kFailed) << manifest;
      EXPECT_EQ(missing, four) << manifest;
    }
    EXPECT_EQ(admit({ns, "-"}, compliant_pod().dump()), std::pair(int{kDone}, std::set<std::string>()));
  }
}

}  // namespace pod_security_test
}  // namespace qm::cli
