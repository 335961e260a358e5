#include "sharing.hpp"

#include "devices.hpp"
#include "kubelet.hpp"
#include "qm/testing/manifests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::agent {
namespace sharing_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::whole_gpus;

constexpr const char* kGpu = "nvidia.com/gpu";

Sharing manifest(const std::string& path) {
  const auto read = sharing_of(qm::testing::read_file(path), path);
  EXPECT_TRUE(read) << read.error().to_string();
  return read.value_or(Sharing{});
}
std::string refused(std::string_view text) {
  const auto read = sharing_of(text, "x.yaml");
  return read ? "" : read.error().to_string();
}

// S-013: one GPU counts as several. S-132: a map without a list of resources applies to GPUs, with a warning.
TEST(SharingTest, TimeSlicingMultipliesWhatIsCounted) {
  struct Case {
    std::string plain, bare, listed;
    std::size_t of_plain, of_bare, of_listed;  ///< shares of a GPU
  };
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(
        Case{"device-plugin-listed.yaml", "device-plugin-bare-replicas.yaml", "device-plugin-configmap.yaml", 3, 5, 7},
        Case{"000-device-plugin-timeslicing.yaml", "001-device-plugin-timeslicing.yaml",
             "003-gpu-sharing-timeslicing.yaml", 4, 4, 4});
    const auto plain = manifest(manifests.dir + c.plain);
    EXPECT_THAT(plain.warnings, IsEmpty());
    EXPECT_THAT(units_of(whole_gpus(1), {}).at(kGpu), SizeIs(1));
    EXPECT_THAT(units_of(whole_gpus(1), plain).at(kGpu), SizeIs(c.of_plain));
    const auto bare = manifest(manifests.dir + c.bare);
    ASSERT_THAT(bare.warnings, SizeIs(1));
    EXPECT_THAT(bare.warnings[0], HasSubstr("applies to nvidia.com/gpu"));
    EXPECT_THAT(units_of(whole_gpus(2), bare).at(kGpu), SizeIs(2 * c.of_bare));
    EXPECT_THAT(units_of(whole_gpus(2), manifest(manifests.dir + c.listed)).at(kGpu), SizeIs(2 * c.of_listed));
  }
}

// S-143: MIG instances in shares.
TEST(SharingTest, InstancesMayBeSharedToo) {
  Device h100{0, "GPU-0", -1, true, {}};
  for (int i = 0; i < 7; ++i) h100.slices.push_back({fmt::format("MIG-{}", i), "1g.10gb"});
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto units =
        units_of({h100}, manifest(manifests.dir + manifests.pick("device-plugin-mig-shares.yaml",
                                                                 "001-device-plugin-mig-timeslicing.yaml")));
    EXPECT_THAT(units, SizeIs(1));
    const std::size_t shares = manifests.pick(14, 28);
    ASSERT_THAT(units.at(kGpu), SizeIs(shares));
    EXPECT_EQ(units.at(kGpu)[shares - 1].assigned_as, 6) << "instances that count as GPUs are assigned by their number";
    EXPECT_EQ(units.at(kGpu)[shares - 1].gpu, 0);
  }
}

// S-138: the GPU Operator's values for MPS: the number of shares of each GPU.
TEST(SharingTest, MpsMultipliesWhatIsCountedToo) {
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto values =
        manifest(manifests.dir + manifests.pick("gpu-operator-values-mps.yaml", "001-gpu-operator-mps-values.yaml"));
    EXPECT_TRUE(values.mps);
    EXPECT_THAT(units_of(whole_gpus(1), values).at(kGpu), SizeIs(manifests.pick(6, 8)));
  }
  const auto listed = sharing_of("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}", "x");
  ASSERT_TRUE(listed) << listed.error().to_string();
  EXPECT_TRUE(listed->mps);
  EXPECT_THAT(units_of(whole_gpus(2), *listed).at(kGpu), SizeIs(8));
  EXPECT_FALSE(sharing_of("mps: {enabled: false, replicas: 8}", "x")->mps);
}

TEST(SharingTest, SharesMayHaveANameOfTheirOwn) {
  const auto read = sharing_of(
      "sharing:\n  timeSlicing:\n    renameByDefault: true\n    resources:\n    - {name: nvidia.com/gpu, replicas: 2}\n",
      "x");
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_THAT(units_of(whole_gpus(2), *read).at("nvidia.com/gpu.shared"), SizeIs(4));
}

TEST(SharingTest, WhatCannotBeIsRefusedByItsField) {
  EXPECT_THAT(refused("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 0}]}}"),
              HasSubstr("0 is not a valid number"));
  EXPECT_THAT(refused("sharing: {timeSlicing: {replicas: many}}"), HasSubstr("is not a valid number"));
  EXPECT_THAT(refused("sharing: {timeSlicing: {resources: [{replicas: 2}]}}"), HasSubstr("has no name"));
  EXPECT_THAT(refused("sharing: {mps: {replicas: 2}, timeSlicing: {replicas: 2}}"), HasSubstr("not by both"));
  EXPECT_THAT(refused("sharing: {mps: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}}"),
              HasSubstr("cannot be shared by MPS"));
  EXPECT_THAT(refused("mps: {enabled: true}"), HasSubstr("is not a valid number"));
  EXPECT_THAT(refused("a: [1"), HasSubstr("x.yaml"));
  EXPECT_THAT(refused("a: 1\n---\nb: 2\n"), HasSubstr("2 documents"));
  EXPECT_THAT(refused("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 'x: 1', b: 'y: 1'}\n"),
              HasSubstr("several configurations"));
}

}  // namespace sharing_test
}  // namespace qm::agent
