#include "qm/testing/testing.hpp"
#include "wire.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace qm::cost::test {
namespace manifest_test {

Result<PricePlan> plan_of(const std::string& yaml) {
  const testing::TempDir dir;
  const std::string path = dir.path() + "/prices.yaml";
  std::ofstream(path) << yaml;
  QM_ASSIGN(const auto plans, plans_from_manifests(std::vector<std::string>{path}));
  return joined(plans);
}

TEST(Manifests, APricePlanReplacesTheBuiltInOne) {
  const auto plan = plan_of(R"(
apiVersion: quartermaster.dev/v1alpha1
kind: PricePlan
metadata:
  name: negotiated-2026-11
spec:
  prices:
  - instanceType: p5.48xlarge
    capacityType: on-demand
    usdPerHour: "40.5"
)");
  ASSERT_TRUE(plan) << plan.error().to_string();
  EXPECT_EQ(plan->name, "negotiated-2026-11");
  EXPECT_EQ(planned_rate(*plan, "p5.48xlarge", "on-demand", "z")->per_hour.to_usd(2), "40.50");
  EXPECT_FALSE(planned_rate(*plan, "g5.xlarge", "on-demand", "z"));
  EXPECT_EQ(joined({}), builtin_prices());
}

TEST(Manifests, AnErrorNamesFileAndField) {
  const auto plan = plan_of(R"(
apiVersion: quartermaster.dev/v1alpha1
kind: PricePlan
metadata:
  name: broken
spec:
  prices:
  - instanceType: p5.48xlarge
    usdPerHour: lots
)");
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("prices.yaml"), std::string::npos) << plan.error().message;
  EXPECT_NE(plan.error().message.find("usdPerHour"), std::string::npos) << plan.error().message;
}

}  // namespace manifest_test
}  // namespace qm::cost::test
