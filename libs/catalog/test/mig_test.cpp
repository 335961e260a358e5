// MIG-capable GPUs, the names of their profiles, and the smallest sufficient profile.
#include "qm/catalog/mig.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace qm::catalog::mig {
namespace mig_test {

const Model& model(std::string_view product) {
  const Model* found = model_of(product);
  EXPECT_NE(found, nullptr) << product;
  return found == nullptr ? models()[0] : *found;
}

std::string shape_of(const Model& of, std::string_view name) {
  const auto profile = profile_of(of, name);
  return profile ? std::string(geometry_of(of.family).profiles[*profile].shape) : "none";
}

TEST(MigModels, AreFoundByTheLabelOfTheNode) {
  const std::map<std::string, std::string> known{
      {"NVIDIA-A100-SXM4-40GB", "A100-40GB"},
      {"A100-SXM4-40GB", "A100-40GB"},
      {"NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-40GB"},
      {"NVIDIA-A100-SXM4-80GB", "A100-80GB"},
      {"NVIDIA-A100-80GB-PCIe", "A100-80GB"},
      {"NVIDIA-H100-80GB-HBM3", "H100-80GB"},
      {"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED", "H100-80GB"},
      {"NVIDIA-H100-NVL", "H100-94GB"},
      {"NVIDIA-H100-PCIe", "H100-PCIe-80GB"},
      {"NVIDIA-H200", "H200-141GB"},
      {"NVIDIA-H200-SHARED", "H200-141GB"},
      {"NVIDIA-B200", "B200-180GB"},
      {"NVIDIA-GB200", "GB200-186GB"},
      {"NVIDIA-B300", "B300-269GB"},
      {"NVIDIA-A30", "A30-24GB"},
      {"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000"},
      {"NVIDIA-RTX-PRO-Server-6000", "RTX-PRO-6000"},
      {"H100-80GB", "H100-80GB"},
  };
  for (const auto& [product, name] : known) EXPECT_EQ(model(product).name, name) << product;
}

TEST(MigModels, ThoseWithoutMigAreNone) {
  for (const char* product : {"Tesla-T4", "NVIDIA-T4g", "NVIDIA-A10G", "NVIDIA-L4", "NVIDIA-L40S",
                              "Tesla-V100-SXM2-16GB", "NVIDIA-RTX-PRO-4500", "", "NVIDIA-", "NVIDIA-A100"}) {
    EXPECT_EQ(model_of(product), nullptr) << product;
  }
}

TEST(MigModels, EachHasANameForEachProfileOrNone) {
  for (const Model& each : models()) {
    const Geometry& geometry = geometry_of(each.family);
    ASSERT_EQ(each.profiles.size(), geometry.profiles.size()) << each.name;
    for (ProfileId id = 0; id < each.profiles.size(); ++id) {
      const ModelProfile& profile = each.profiles[id];
      if (profile.name.empty()) continue;
      const Profile& cut = geometry.profiles[id];
      EXPECT_EQ(profile.name, fmt::format("{}g.{}gb{}", cut.compute, profile.memory_gb, cut.media ? "+me" : ""));
      EXPECT_EQ(profile_of(each, profile.name), id) << each.name;
      EXPECT_EQ(profile_of(each, resource_of(each, id)), id) << each.name;
    }
  }
}

TEST(MigNames, AreThoseOfKubernetesResources) {
  const Model& a100 = model("NVIDIA-A100-SXM4-40GB");
  EXPECT_EQ(resource_of(a100, seven::k1g), "nvidia.com/mig-1g.5gb");
  EXPECT_EQ(resource_of(a100, seven::k1gMedia), "nvidia.com/mig-1g.5gb.me");
  EXPECT_EQ(profile_of(a100, "1g.5gb.me"), seven::k1gMedia);
  EXPECT_EQ(profile_of(a100, "1g.5gb+me"), seven::k1gMedia);
  EXPECT_EQ(shape_of(a100, "nvidia.com/mig-1g.10gb"), "1g.2m");
  EXPECT_EQ(shape_of(model("NVIDIA-A100-SXM4-80GB"), "nvidia.com/mig-1g.10gb"), "1g") << "the same name, half as much";
  EXPECT_EQ(shape_of(a100, "7g.80gb"), "none");
  EXPECT_EQ(shape_of(a100, "nvidia.com/mig-"), "none");
  EXPECT_EQ(shape_of(a100, "nvidia.com/gpu"), "none");
  EXPECT_EQ(shape_of(a100, ""), "none");
  EXPECT_EQ(shape_of(model("NVIDIA-RTX-PRO-Server-6000"), "1g.24gb.me"), "none");
}

/// S-123: the smallest profile that is sufficient by memory alone, by SMs alone, or by both.
TEST(MigNames, TheSmallestThatHasWhatIsNeeded) {
  const auto name = [](std::string_view product, int memory_gb, int sms) {
    const auto found = smallest_with(model(product), memory_gb, sms);
    return found ? std::string(model(product).profiles[*found].name) : "none";
  };
  EXPECT_EQ(name("H100-80GB", 0, 0), "1g.10gb");
  EXPECT_EQ(name("H100-80GB", 10, 0), "1g.10gb");
  EXPECT_EQ(name("H100-80GB", 11, 0), "1g.20gb");
  EXPECT_EQ(name("H100-80GB", 40, 0), "3g.40gb");
  EXPECT_EQ(name("H100-80GB", 41, 0), "7g.80gb");
  EXPECT_EQ(name("H100-80GB", 0, 16), "1g.10gb");
  EXPECT_EQ(name("H100-80GB", 0, 26), "1g.20gb");
  EXPECT_EQ(name("H100-80GB", 0, 61), "4g.40gb");
  EXPECT_EQ(name("H100-80GB", 5, 30), "2g.20gb");
  EXPECT_EQ(name("H100-80GB", 30, 30), "3g.40gb");
  EXPECT_EQ(name("H100-80GB", 81, 0), "none");
  EXPECT_EQ(name("H100-80GB", 0, 133), "none");
  EXPECT_EQ(name("A100-80GB", 0, 15), "2g.20gb");
  EXPECT_EQ(name("A30-24GB", 7, 14), "2g.12gb");
  EXPECT_EQ(name("B200-180GB", 24, 0), "1g.45gb");
  EXPECT_EQ(name("B200-180GB", 0, 1), "none") << "its SM counts are not known";
}

}  // namespace mig_test
}  // namespace qm::catalog::mig
