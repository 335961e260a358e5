// Pods that specify a GPU need are parsed as if they requested the resources that it results in.
// S-123
#include "qm/config/needs.hpp"

#include "qm/config/manifest.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::config {
namespace needs_test {

constexpr const char* kH100 = R"("nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3"},)";

Json pod_of(std::string_view annotations, std::string_view placed, std::string_view limits = "") {
  return *Json::parse(fmt::format(R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","annotations":{{{}}}}},
      "spec":{{{}"containers":[{{"name":"side"}},{{"name":"main","resources":{{"limits":{{{}}}}}}}]}}}})",
                                  annotations, placed, limits));
}
/// "1 x 1g.10gb", "milli 250", "2 GPUs", or the refusal.
std::string shown(const GpuShape& gpu) {
  if (gpu.mig_count > 0) return fmt::format("{} x {}", gpu.mig_count, gpu.mig_profile);
  if (gpu.milli > 0) return fmt::format("milli {}", gpu.milli);
  return fmt::format("{} GPUs", gpu.whole);
}
std::string read(const Json& pod) {
  const auto set = pod_set_from_pod(pod, "main");
  return set ? shown(set->shape.gpu) : fmt::format("{}; {}", set.error().message, set.error().remedy);
}

TEST(PodNeeds, AreWhatTheShapeAsksFor) {
  EXPECT_EQ(read(pod_of(R"("quartermaster.dev/gpu-memory":"10Gi")", kH100)), "1 x 1g.10gb");
  EXPECT_EQ(read(pod_of(R"("quartermaster.dev/gpu-sms":"61")", kH100)), "1 x 4g.40gb");
  EXPECT_EQ(read(pod_of(R"("quartermaster.dev/gpu-memory":"5Gi","quartermaster.dev/gpu-sms":"30")", kH100)),
            "1 x 2g.20gb");
  EXPECT_EQ(read(pod_of("", kH100)), "0 GPUs") << "nothing is set";
  EXPECT_EQ(read(pod_of(R"("quartermaster.dev/gpu-memory":"4Gi")",
                        R"("nodeSelector":{"nvidia.com/gpu.product":"Tesla-T4"},)")),
            "milli 250");
  EXPECT_EQ(
      read(pod_of(
          R"("quartermaster.dev/gpu-memory":"20Gi")",
          R"("nodeSelector":{"node.kubernetes.io/instance-type":"p5.48xlarge","nvidia.com/mig.config":"all-disabled"},)")),
      "milli 250");
}

TEST(PodNeeds, CountForTheModelsOfTheAffinity) {
  const auto set = pod_set_from_pod(
      pod_of(
          R"("quartermaster.dev/gpu-memory":"10Gi")",
          R"("affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[
             {"key":"nvidia.com/gpu.product","operator":"In","values":["NVIDIA-H100-80GB-HBM3","NVIDIA-A100-SXM4-80GB"]}]}]}}},)"),
      "main");
  ASSERT_TRUE(set);
  EXPECT_EQ(shown(set->shape.gpu), "1 x 1g.10gb");
  EXPECT_EQ(set->shape.gpu.models, (std::vector<std::string>{"NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"}));
}

TEST(PodNeeds, OnceAskedForByTheWebhookTheyCountOnce) {
  const char* need = R"("quartermaster.dev/gpu-memory":"10Gi")";
  EXPECT_EQ(read(pod_of(need, kH100, R"("nvidia.com/mig-1g.10gb":"1")")), "1 x 1g.10gb");
  for (const char* other : {R"("nvidia.com/mig-1g.20gb":"1")", R"("nvidia.com/mig-1g.10gb":"2")",
                            R"("nvidia.com/gpu":"1")", R"("quartermaster.dev/gpu-milli":"125")"}) {
    EXPECT_EQ(read(pod_of(need, kH100, other)),
              "metadata.annotations.quartermaster.dev/gpu-memory is 1 nvidia.com/mig-1g.10gb, and the containers "
              "request other GPUs; remove one of the two")
        << other;
  }
}

TEST(PodNeeds, ThatCannotBeMetAreRefusedByTheAnnotation) {
  EXPECT_EQ(read(pod_of(R"("quartermaster.dev/gpu-memory":"10Gi")", "")),
            "metadata.annotations.quartermaster.dev/gpu-memory 10Gi of GPU memory are requested "
            "without a GPU model; choose a model with the node selector nvidia.com/gpu.product");
  EXPECT_EQ(
      read(pod_of(R"("quartermaster.dev/gpu-sms":"few")", kH100)),
      "metadata.annotations.quartermaster.dev/gpu-sms \"few\" is not a valid number of SMs; give a whole number from 1 on");
}

TEST(PodNeeds, AreReadInJobsAndInEveryOrder) {
  const char* metadata = R"("metadata":{"annotations":{"quartermaster.dev/gpu-memory":"10Gi"}})";
  const std::string spec = fmt::format(R"("spec":{{{}"containers":[]}})", kH100);
  for (const auto& body : {fmt::format("{},{}", metadata, spec), fmt::format("{},{}", spec, metadata)}) {
    const auto job = workload_from_job(*Json::parse(fmt::format(
        R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"a"}},"spec":{{"template":{{{}}}}}}})", body)));
    ASSERT_TRUE(job) << job.error().to_string();
    EXPECT_EQ(shown(job->pod_sets[0].shape.gpu), "1 x 1g.10gb");
  }
}

TEST(PodNeeds, TheShareIsReturnedToTheCaller) {
  const auto result_of = [](const Json& pod) {
    const auto share = share_of_pod(pod);
    if (!share) return fmt::format("{}: {}", share.error().field, share.error().message);
    return *share ? fmt::format("{} {}", (*share)->amount, (*share)->resource) : std::string("none");
  };
  EXPECT_EQ(result_of(pod_of("", kH100, R"("nvidia.com/gpu":"1")")), "none");
  EXPECT_EQ(result_of(pod_of(R"("quartermaster.dev/gpu-sms":"26")", kH100)), "1 nvidia.com/mig-1g.20gb");
  EXPECT_EQ(result_of(pod_of(R"("quartermaster.dev/gpu-memroy":"10Gi")", kH100)),
            "metadata.annotations[quartermaster.dev/gpu-memroy]: is not a known requirement of a GPU");
  Json blanket = pod_of(R"("quartermaster.dev/gpu-sms":"26")", kH100);
  blanket.set("spec").set("tolerations", *Json::parse(R"([{"key":"","operator":"Exists"}])"));
  EXPECT_EQ(result_of(blanket), "1 nvidia.com/mig-1g.20gb") << "whatever else is set";
}

TEST(PodNeeds, OfOnePodAreInItsShape) {
  EXPECT_EQ(shown(shape_from_pod(pod_of(R"("quartermaster.dev/gpu-sms":"26")", kH100)).value().gpu), "1 x 1g.20gb");
  EXPECT_EQ(shown(shape_from_pod(pod_of("", kH100, R"("nvidia.com/gpu":"2")")).value().gpu), "2 GPUs");
  const auto odd = shape_from_pod(pod_of("", kH100, R"("nvidia.com/gpu":"500m")"));
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().field, "spec.containers[1].resources.limits.nvidia.com/gpu");
}

/// Otherwise GPUs in use would be allocated a second time.
TEST(PodNeeds, ThatComeToNothingTakeNothingAway) {
  const Json pod = pod_of(R"("quartermaster.dev/gpu-sms":"few")", kH100, R"("nvidia.com/gpu":"2")");
  EXPECT_FALSE(shape_from_pod(pod));
  EXPECT_EQ(shown(shape_held_by(pod).value().gpu), "2 GPUs");
  EXPECT_EQ(shown(shape_held_by(pod_of(R"("quartermaster.dev/gpu-sms":"26")", kH100)).value().gpu), "1 x 1g.20gb");
}

}  // namespace needs_test
}  // namespace qm::config
