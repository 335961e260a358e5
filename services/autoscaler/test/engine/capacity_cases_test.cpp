// The policy of capacity types in the engine, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace capacity_cases_test {

void expect_under(Reliability reliability, const std::string& table) {
  Options options;
  options.reliability = reliability;
  Script script(options);
  EXPECT_EQ(script.run(table), "");
}

const std::string kPool = R"(
    pool p types=a8 markets=od,spot
    price a8 z1 12
    => price a8 z1 12.00
)";

// S-192: the workload's type decides, and not the price.
TEST(CapacityTypes, FollowThePolicyTable) {
  expect_under(Reliability::kOnDemand, kPool + R"(
    want web/1 1x8 type=inference
    => launch p-00001 a8 on-demand
    => promise web/1 by=240 p-00001
  )");
  expect_under(Reliability::kSpotFirst, kPool + R"(
    want web/1 1x8 type=inference
    => launch p-00001 a8 spot z1
    => promise web/1 by=240 p-00001
    ice p-00001
    => claim p-00001 Failed
    => launch p-00002 a8 on-demand
    => promise web/1 by=240 p-00002
  )");
  expect_under(Reliability::kSpotFirst, kPool + R"(
    workload long type=training saves hours=48 | workload short type=training saves | workload naive type=training
    want long/1 1x8
    => launch p-00001 a8 on-demand
    => promise long/1 by=240 p-00001
    want short/1 1x8
    => launch p-00002 a8 spot z1
    => promise short/1 by=240 p-00002
    want naive/1 1x8
    => launch p-00003 a8 on-demand
    => promise naive/1 by=240 p-00003
  )");
}

TEST(CapacityTypes, PodsThatSelectOneKeepIt) {
  expect_under(Reliability::kOnDemand, kPool + R"(
    want web/1 1x8 type=inference select=karpenter.sh/capacity-type=spot
    => launch p-00001 a8 spot z1
    => promise web/1 by=240 p-00001
  )");
}

TEST(CapacityTypes, StartingInstancesAreSharedOnlyIfTheyHaveTheType) {
  expect_under(Reliability::kOnDemand, kPool + R"(
    want batch/1 1x4 type=batch
    => launch p-00001 a8 spot z1
    => promise batch/1 by=240 p-00001
    want web/1 1x4 type=inference
    => launch p-00002 a8 on-demand
    => promise web/1 by=240 p-00002
    want more/1 1x4 type=batch
    => promise more/1 by=240 p-00001
  )");
}

TEST(CapacityTypes, WithoutAProfileThePriceDecides) {
  expect_under(Reliability::kByPrice, kPool + R"(
    want web/1 1x8 type=inference
    => launch p-00001 a8 spot z1
    => promise web/1 by=240 p-00001
  )");
}

}  // namespace capacity_cases_test
}  // namespace qm::autoscaler::testing
