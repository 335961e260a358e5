#include "qm/catalog/catalog.hpp"

#include "qm/catalog/hardware.hpp"
#include "qm/model/money.hpp"

#include <gtest/gtest.h>

namespace qm::catalog {
namespace catalog_test {

TEST(Catalog, HasTheInstanceTypesWithEightGpus) {
  const Type* p5 = find("p5.48xlarge");
  ASSERT_NE(p5, nullptr);
  EXPECT_EQ(p5->gpus, 8);
  EXPECT_EQ(p5->vcpu, 192);
  EXPECT_EQ(p5->memory_mib, 2048 * 1024);
  EXPECT_EQ(find("p5.49xlarge"), nullptr);
  EXPECT_EQ(find(""), nullptr);
}

TEST(Catalog, AFractionOfAGpuIsNone) {
  for (const char* name : {"g6f.large", "g6f.4xlarge", "gr6f.4xlarge"}) {
    ASSERT_NE(find(name), nullptr) << name;
    EXPECT_EQ(find(name)->gpus, 0);
    EXPECT_FALSE(find(name)->usd_hour.empty());
  }
}

TEST(Catalog, EveryRowIsUsable) {
  for (const Type& t : types()) {
    EXPECT_EQ(find(t.name), &t);
    EXPECT_GT(t.vcpu, 0) << t.name;
    EXPECT_GT(t.memory_mib, 0) << t.name;
    EXPECT_EQ(t.gpus > 0, !t.gpu_product.empty()) << t.name;
    if (t.usd_hour.empty()) continue;
    EXPECT_TRUE(Money::parse_usd(t.usd_hour)) << t.name;
  }
}

TEST(Catalog, EveryTypeHasItsHardware) {
  for (const Type& t : types()) {
    const Hardware* hardware = hardware_of(t.name);
    ASSERT_NE(hardware, nullptr) << t.name;
    EXPECT_TRUE(hardware->arch == "amd64" || hardware->arch == "arm64") << t.name;
    EXPECT_GT(hardware->network_mbps, 0) << t.name;
    const bool nvidia = hardware->gpu.manufacturer == "nvidia";
    EXPECT_EQ(nvidia ? hardware->gpu.count : 0, t.gpus) << t.name;
    EXPECT_EQ(hardware->gpu.count > 0, !hardware->gpu.name.empty()) << t.name;
  }
  EXPECT_EQ(hardware_of("p5.49xlarge"), nullptr);
}

TEST(Catalog, HardwareOfKnownTypes) {
  const Hardware* g5 = hardware_of("g5.xlarge");
  ASSERT_NE(g5, nullptr);
  EXPECT_EQ(g5->gpu.name, "a10g");
  EXPECT_EQ(g5->gpu.memory_mib, 22888);
  EXPECT_EQ(g5->local_nvme_gb, 250);
  EXPECT_EQ(g5->pods, 58);  // 4 interfaces of 15 addresses
  EXPECT_EQ(g5->network_mbps, 2500);
  EXPECT_EQ(hardware_of("g5g.xlarge")->arch, "arm64");
  EXPECT_EQ(hardware_of("inf2.48xlarge")->accelerator.count, 12);
  EXPECT_EQ(hardware_of("p5.48xlarge")->efa, 32);
}

}  // namespace catalog_test
}  // namespace qm::catalog
