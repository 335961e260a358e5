#include "qm/catalog/catalog.hpp"

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

}  // namespace catalog_test
}  // namespace qm::catalog
