// Pods with requirements for a GPU: the resources that are requested for them, and which pods are refused.
// S-123
#include "qm/kube/client.hpp"
#include "subjects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace needs_test {

constexpr const char* kMemory = R"("quartermaster.dev/gpu-memory":"10Gi")";
constexpr const char* kH100 = R"("nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3")";

/// A pod that breaks no rule except by its requirements.
Json pod_of(std::string_view annotations, std::string_view selector = kH100, std::string_view resources = "{}") {
  return parsed(fmt::format(
      R"({{"metadata":{{"name":"a","annotations":{{{}}}}},"spec":{{"nodeSelector":{{{}}},
      "tolerations":[{{"key":"nvidia.com/gpu","operator":"Exists"}}],
      "containers":[{{"name":"main","resources":{}}},{{"name":"side"}}]}}}})",
      annotations, selector, resources));
}
Json job_of(const Json& pod) {
  auto job = parsed(R"({"metadata":{"name":"j"},"spec":{"template":{}}})");
  job.set("spec").set("template", pod);
  return job;
}
std::string resources_of(const Json& pod, std::size_t container = 0) {
  return pod["spec"]["containers"].at(container)["resources"].dump();
}
std::string mutated(const Json& pod) { return resources_of(mutate(created(pod), {}, {})); }

TEST(Needs, MainContainerRequestsConvertedGpus) {
  EXPECT_EQ(mutated(pod_of(kMemory)),
            R"({"requests":{"nvidia.com/mig-1g.10gb":"1"},"limits":{"nvidia.com/mig-1g.10gb":"1"}})");
  EXPECT_EQ(mutated(pod_of(R"("quartermaster.dev/gpu-sms":"26")")),
            R"({"requests":{"nvidia.com/mig-1g.20gb":"1"},"limits":{"nvidia.com/mig-1g.20gb":"1"}})");
  EXPECT_EQ(mutated(pod_of(kMemory, R"("nvidia.com/gpu.product":"NVIDIA-A10G")")),
            R"({"requests":{"quartermaster.dev/gpu-milli":"448"},"limits":{"quartermaster.dev/gpu-milli":"448"}})");
  EXPECT_EQ(
      mutated(pod_of(kMemory, kH100, R"({"requests":{"cpu":"4"},"limits":{"memory":"1Gi"}})")),
      R"({"requests":{"cpu":"4","nvidia.com/mig-1g.10gb":"1"},"limits":{"memory":"1Gi","nvidia.com/mig-1g.10gb":"1"}})")
      << "in addition to its own requests";
  EXPECT_EQ(mutated(pod_of("")), "{}");
}

TEST(Needs, DefaultContainerAnnotationSelectsContainer) {
  const auto pod = pod_of(fmt::format(R"({},"kubectl.kubernetes.io/default-container":"side")", kMemory));
  const auto out = mutate(created(pod), {}, {});
  EXPECT_EQ(resources_of(out, 0), "{}");
  EXPECT_EQ(resources_of(out, 1),
            R"({"requests":{"nvidia.com/mig-1g.10gb":"1"},"limits":{"nvidia.com/mig-1g.10gb":"1"}})");
}

TEST(Needs, ApplyToJobTemplate) {
  const auto out = mutate(created(job_of(pod_of(kMemory)), "Job"), {}, {});
  EXPECT_EQ(resources_of(out["spec"]["template"]),
            R"({"requests":{"nvidia.com/mig-1g.10gb":"1"},"limits":{"nvidia.com/mig-1g.10gb":"1"}})");
}

TEST(Needs, ConversionIsIdempotent) {
  const auto once = mutate(created(pod_of(kMemory)), {}, {});
  EXPECT_EQ(mutate(created(once), {}, {}), once);
  EXPECT_EQ(resources_of(once), mutated(once));
}

/// The namespace's share of CPU and memory follows from the chosen GPU, and no rule refuses the result.
TEST(Needs, ConvertedRequestsAreDefaultedAndChecked) {
  Settings settings;
  settings.mode = Mode::kMutate;
  View view;
  view.namespaces["team"].annotations = {{std::string(kCpuPerGpu), "8"}, {std::string(kMemoryPerGpu), "64Gi"}};
  const auto out = mutate(created(pod_of(kMemory)), settings, view);
  EXPECT_EQ(out["spec"]["containers"].at(0)["resources"]["requests"].dump(),
            R"({"nvidia.com/mig-1g.10gb":"1","cpu":"8","memory":"64Gi"})");
  const auto verdict = validate(created(out), settings, view);
  EXPECT_TRUE(verdict.allowed()) << verdict.refusals.front().to_string();
  EXPECT_TRUE(verdict.warnings.empty());
  EXPECT_EQ(kube::label(mutate_and_mark(created(pod_of(kMemory)), settings, view), kJudged), "true");
}

/// "FIELD: what (rule): remedy" of the only refusal.
std::string refused(const Json& pod, bool job = false) {
  const auto object = job ? job_of(pod) : pod;
  const auto subject = created(object, job ? "Job" : "Pod");
  const auto asked = mutate(subject, {}, {});
  const auto verdict = validate(created(asked, job ? "Job" : "Pod"), {}, {});
  if (verdict.refusals.size() != 1) return fmt::format("{} refusals", verdict.refusals.size());
  return fmt::format("{}: {}", verdict.refusals[0].field, verdict.refusals[0].to_string());
}

TEST(Needs, UnsatisfiableNeedsAreRefusedByField) {
  EXPECT_EQ(
      refused(pod_of(R"("quartermaster.dev/gpu-memory":"ten")")),
      "metadata.annotations[quartermaster.dev/gpu-memory]: the GPU need of the pod: \"ten\" is not a valid amount of GPU "
      "memory (gpu-share): write it as 10Gi");
  EXPECT_EQ(
      refused(pod_of(R"("quartermaster.dev/gpu-memory":"81Gi")")),
      "metadata.annotations[quartermaster.dev/gpu-memory]: the GPU need of the pod: 81Gi of GPU memory are needed, "
      "and the largest MIG profile of H100-80GB is 7g.80gb (gpu-share): need less, or choose a larger model");
  EXPECT_EQ(
      refused(pod_of(R"("quartermaster.dev/gpu-sms":"133")"), true),
      "spec.template.metadata.annotations[quartermaster.dev/gpu-sms]: the GPU need of the pod: 133 SMs are needed, "
      "and the largest MIG profile of H100-80GB is 7g.80gb (gpu-share): need less, or choose a larger model");
  EXPECT_EQ(
      refused(pod_of(kMemory, R"("nvidia.com/gpu.product":"GeForce")")),
      "metadata.annotations[quartermaster.dev/gpu-memory]: the GPU need of the pod: 10Gi of GPU memory are requested "
      "of GeForce, which is not in the GPU catalog (gpu-share): use a value of the node label "
      "nvidia.com/gpu.product, or request a resource by its name");
  EXPECT_EQ(
      refused(pod_of(kMemory, R"("node-type":"gpu")")),
      "metadata.annotations[quartermaster.dev/gpu-memory]: the GPU need of the pod: 10Gi of GPU memory are requested "
      "without a GPU model (gpu-share): choose a model with the node selector nvidia.com/gpu.product");
  EXPECT_EQ(refused(pod_of(R"("quartermaster.dev/gpu-memroy":"10Gi")")),
            "metadata.annotations[quartermaster.dev/gpu-memroy]: the GPU need of the pod: is not a known requirement "
            "of a GPU (gpu-share): use quartermaster.dev/gpu-memory or quartermaster.dev/gpu-sms");
}

TEST(Needs, RefusedTogetherWithOtherGpus) {
  for (const char* gpu :
       {R"("nvidia.com/gpu":"1")", R"("nvidia.com/mig-1g.20gb":"1")", R"("nvidia.com/mig-1g.10gb":"2")"}) {
    const auto resources = fmt::format(R"({{"requests":{{"cpu":"1","memory":"1Gi"}},"limits":{{{}}}}})", gpu);
    EXPECT_EQ(refused(pod_of(kMemory, kH100, resources)),
              "metadata.annotations[quartermaster.dev/gpu-memory]: the GPU need of the pod: is 1 "
              "nvidia.com/mig-1g.10gb, and the containers request other GPUs (gpu-share): remove one of the two")
        << gpu;
  }
  EXPECT_EQ(refused(pod_of(kMemory, kH100,
                           R"({"requests":{"cpu":"1","memory":"1Gi"},"limits":{"nvidia.com/mig-1g.10gb":"1"}})")),
            "0 refusals")
      << "the same need, given twice";
}

/// A pod with requirements for a GPU is a GPU pod for every rule, even where no share was chosen for it.
TEST(Needs, ArePodsWithGpus) {
  auto pod = pod_of(R"("quartermaster.dev/gpu-memory":"ten")");
  pod.set("spec").erase("tolerations");
  const auto verdict = validate(created(pod), {}, {});
  ASSERT_EQ(verdict.refusals.size(), 2U);
  EXPECT_EQ(verdict.refusals[1].rule, "gpu-toleration");
}

/// Fields that cannot be parsed are left as they are.
TEST(Needs, UnparsablePodsAreNotConverted) {
  for (const char* spec :
       {"{}", R"({"containers":[]})", R"({"containers":"a"})", R"({"containers":["a"]})",
        R"({"containers":[{"resources":"a"}]})", R"({"containers":[{"resources":{"limits":[]}}]})"}) {
    auto pod = pod_of(kMemory);
    pod.set("spec", parsed(spec));
    pod.set("spec").set("nodeSelector", parsed(fmt::format("{{{}}}", kH100)));
    auto expected = pod;
    EXPECT_EQ(mutate(created(pod), {}, {}), expected) << spec;
  }
}

}  // namespace needs_test
}  // namespace qm::admission_policy
