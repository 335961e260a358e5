// The request that a need of memory and SMs results in, and the errors for invalid needs.
// S-123, S-167
#include "qm/catalog/share.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace qm::catalog {
namespace share_test {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr const char* kH100 = "NVIDIA-H100-80GB-HBM3";

/// "1 nvidia.com/mig-1g.10gb", or the refusal with its field and remedy.
std::string shown(const Result<Share>& share) {
  if (share) return fmt::format("{} {}", share->amount, share->resource);
  const Error& error = share.error();
  return fmt::format("{}: {}; {}", error.field, error.message, error.remedy);
}
std::string of(const std::string& product, const Need& need, bool uncut = false) {
  return shown(share_of(need, {{product}, uncut}));
}

TEST(NeedShare, TheSmallestProfileByMemoryOnly) {
  const auto gib = [](const char* product, std::int64_t memory) { return of(product, {memory * kGiB, 0}); };
  EXPECT_EQ(gib(kH100, 1), "1 nvidia.com/mig-1g.10gb");
  EXPECT_EQ(gib(kH100, 10), "1 nvidia.com/mig-1g.10gb");
  EXPECT_EQ(of(kH100, {10 * kGiB + 1, 0}), "1 nvidia.com/mig-1g.20gb");
  EXPECT_EQ(gib(kH100, 21), "1 nvidia.com/mig-3g.40gb");
  EXPECT_EQ(gib(kH100, 80), "1 nvidia.com/mig-7g.80gb");
  EXPECT_EQ(gib("NVIDIA-A100-SXM4-40GB", 10), "1 nvidia.com/mig-1g.10gb");
  EXPECT_EQ(gib("NVIDIA-A30", 7), "1 nvidia.com/mig-2g.12gb");
  EXPECT_EQ(gib("NVIDIA-B200", 24), "1 nvidia.com/mig-1g.45gb");
}

TEST(NeedShare, TheSmallestProfileBySmsOnly) {
  EXPECT_EQ(of(kH100, {0, 1}), "1 nvidia.com/mig-1g.10gb");
  EXPECT_EQ(of(kH100, {0, 16}), "1 nvidia.com/mig-1g.10gb");
  EXPECT_EQ(of(kH100, {0, 17}), "1 nvidia.com/mig-1g.20gb") << "26 SMs, and smaller than 2g";
  EXPECT_EQ(of(kH100, {0, 61}), "1 nvidia.com/mig-4g.40gb");
  EXPECT_EQ(of("NVIDIA-A100-SXM4-80GB", {0, 15}), "1 nvidia.com/mig-2g.20gb");
}

TEST(NeedShare, TheSmallestProfileThatHasBoth) {
  EXPECT_EQ(of(kH100, {5 * kGiB, 30}), "1 nvidia.com/mig-2g.20gb");
  EXPECT_EQ(of(kH100, {30 * kGiB, 16}), "1 nvidia.com/mig-3g.40gb");
  EXPECT_EQ(of(kH100, {30 * kGiB, 100}), "1 nvidia.com/mig-7g.80gb");
}

TEST(NeedShare, OfGpusThatAreWholeItIsAShareInThousandths) {
  EXPECT_EQ(of(kH100, {8 * kGiB, 0}, true), "100 quartermaster.dev/gpu-milli");
  EXPECT_EQ(of(kH100, {8 * kGiB + 1, 0}, true), "101 quartermaster.dev/gpu-milli") << "rounded up";
  EXPECT_EQ(of(kH100, {0, 66}, true), "500 quartermaster.dev/gpu-milli");
  EXPECT_EQ(of(kH100, {8 * kGiB, 66}, true), "500 quartermaster.dev/gpu-milli") << "the larger of the two";
  EXPECT_EQ(of(kH100, {60 * kGiB, 66}, true), "750 quartermaster.dev/gpu-milli");
  EXPECT_EQ(of(kH100, {80 * kGiB, 0}, true), "1 nvidia.com/gpu") << "all of it";
  EXPECT_EQ(of("Tesla-T4", {4 * kGiB, 0}), "250 quartermaster.dev/gpu-milli") << "it cannot be cut";
  EXPECT_EQ(of("Tesla-T4-SHARED", {4 * kGiB, 0}), "250 quartermaster.dev/gpu-milli");
}

TEST(NeedShare, OfNodesWhoseInstancesStandForGpusItIsOne) {
  EXPECT_EQ(of("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", {10 * kGiB, 16}), "1 nvidia.com/gpu");
  EXPECT_EQ(of("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", {11 * kGiB, 0}),
            "quartermaster.dev/gpu-memory: 11Gi of GPU memory are needed, and NVIDIA-H100-80GB-HBM3-MIG-1g.10gb has "
            "10Gi of GPU memory and 16 SMs; need less, or choose a larger model");
}

TEST(NeedShare, AnImpossibleRequestIsReportedWithFieldAndRemedy) {
  EXPECT_EQ(of(kH100, {81 * kGiB, 0}),
            "quartermaster.dev/gpu-memory: 81Gi of GPU memory are needed, and the largest MIG profile of H100-80GB is "
            "7g.80gb; need less, or choose a larger model");
  EXPECT_EQ(of(kH100, {kGiB, 133}),
            "quartermaster.dev/gpu-sms: 1Gi of GPU memory and 133 SMs are needed, and the largest MIG profile of "
            "H100-80GB is 7g.80gb; need less, or choose a larger model");
  EXPECT_EQ(of(kH100, {std::int64_t{1} << 62, 0}).substr(0, 30), "quartermaster.dev/gpu-memory: ");
  EXPECT_EQ(of(kH100, {0, std::int64_t{1} << 62}).substr(0, 27), "quartermaster.dev/gpu-sms: ");
  EXPECT_EQ(of("NVIDIA-H200", {0, 1}),
            "quartermaster.dev/gpu-sms: the SMs of H200-141GB are not known; set only quartermaster.dev/gpu-memory, "
            "or request a resource by its name");
  EXPECT_EQ(of("NVIDIA-H200", {0, 1}, true).substr(0, 30), of("NVIDIA-H200", {0, 1}).substr(0, 30));
  EXPECT_EQ(of("Tesla-T4", {0, 1}).substr(0, 50), "quartermaster.dev/gpu-sms: the SMs of Tesla-T4 are");
  EXPECT_EQ(of("Tesla-T4", {17 * kGiB, 0}),
            "quartermaster.dev/gpu-memory: 17Gi of GPU memory are needed, and Tesla-T4 has 16Gi of GPU memory; need "
            "less, or choose a larger model");
  EXPECT_EQ(
      of("H100", {kGiB, 0}),
      "quartermaster.dev/gpu-memory: 1Gi of GPU memory are requested of H100, which is not in the GPU catalog; use a "
      "value of the node label nvidia.com/gpu.product, or request a resource by its name");
  EXPECT_EQ(shown(share_of({0, 16}, {})),
            "quartermaster.dev/gpu-sms: 16 SMs are requested without a GPU model; choose a model with the node "
            "selector nvidia.com/gpu.product");
}

TEST(NeedShare, SeveralModelsMustComeToTheSame) {
  const ForGpus alike{{"NVIDIA-A100-SXM4-80GB", kH100}}, unlike{{"NVIDIA-A100-SXM4-40GB", kH100}};
  EXPECT_EQ(shown(share_of({10 * kGiB, 0}, alike)), "1 nvidia.com/mig-1g.10gb");
  EXPECT_EQ(shown(share_of({0, 15}, alike)),
            "quartermaster.dev/gpu-sms: 15 SMs are 1 nvidia.com/mig-2g.20gb of NVIDIA-A100-SXM4-80GB and 1 "
            "nvidia.com/mig-1g.10gb of NVIDIA-H100-80GB-HBM3; set one model, or models with the same result");
  EXPECT_FALSE(share_of({5 * kGiB, 0}, unlike));
}

TEST(NeedText, IsReadOrRefused) {
  const auto read = [](const Labels& annotations) {
    const auto need = need_of(annotations);
    if (!need) return fmt::format("{}: {}; {}", need.error().field, need.error().message, need.error().remedy);
    return *need ? fmt::format("{} {}", (*need)->memory_bytes, (*need)->sms) : std::string("none");
  };
  const std::string memory(kMemoryNeed), sms(kSmsNeed);
  EXPECT_EQ(read({{"quartermaster.dev/devices", "0,3"}}), "none");
  EXPECT_EQ(read({{memory, "1Gi"}}), "1073741824 0");
  EXPECT_EQ(read({{memory, "1G"}, {sms, "26"}}), "1000000000 26");
  for (const char* wrong : {"", "ten", "-1Gi", "0", "10", "10GiB"}) {
    EXPECT_EQ(read({{memory, wrong}}),
              fmt::format("quartermaster.dev/gpu-memory: \"{}\" is not a valid amount of GPU memory; write it as 10Gi",
                          wrong));
  }
  for (const char* wrong : {"", "few", "-1", "0", "1.5", "16 ", "99999999999999999999"}) {
    EXPECT_EQ(
        read({{sms, wrong}}),
        fmt::format("quartermaster.dev/gpu-sms: \"{}\" is not a valid number of SMs; give a whole number from 1 on",
                    wrong));
  }
  EXPECT_EQ(read({{memory, "1Gi"}, {"quartermaster.dev/gpu-memroy", "1Gi"}}),
            "quartermaster.dev/gpu-memroy: is not a known requirement of a GPU; use quartermaster.dev/gpu-memory or "
            "quartermaster.dev/gpu-sms");
  EXPECT_TRUE(states_need({{"quartermaster.dev/gpu-memroy", "1Gi"}}));
  EXPECT_FALSE(states_need({{"quartermaster.dev/gang", "1"}, {"quartermaster.dev/team", "a"}}));
}

TEST(NeedGpus, AreThoseThatThePodIsFor) {
  const auto products = [](const Labels& selector, const std::vector<std::string>& models = {}) {
    return gpus_for(selector, models).products;
  };
  using Products = std::vector<std::string>;
  EXPECT_EQ(products({}), Products{});
  EXPECT_EQ(products({{"nvidia.com/gpu.product", "A"}, {"node.kubernetes.io/instance-type", "p5.48xlarge"}}, {"B"}),
            Products{"A"});
  EXPECT_EQ(products({{"node.kubernetes.io/instance-type", "p5.48xlarge"}}, {"B", "C"}), (Products{"B", "C"}));
  EXPECT_EQ(products({{"node.kubernetes.io/instance-type", "p5.48xlarge"}}), Products{kH100});
  EXPECT_EQ(products({{"node.kubernetes.io/instance-type", "c5.large"}}), Products{});
  EXPECT_EQ(products({{"node.kubernetes.io/instance-type", "p99.large"}}), Products{});
  EXPECT_FALSE(gpus_for({}, {}).uncut);
  EXPECT_FALSE(gpus_for({{"nvidia.com/mig.config", "all-1g.10gb"}}, {}).uncut);
  EXPECT_TRUE(gpus_for({{"nvidia.com/mig.config", "all-disabled"}}, {}).uncut);
  EXPECT_TRUE(gpus_for({{"nvidia.com/mig.capable", "false"}}, {}).uncut);
}

}  // namespace share_test
}  // namespace qm::catalog
