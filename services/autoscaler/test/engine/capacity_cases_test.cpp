// The policy of capacity types in the engine, as text tables: see script.hpp for the commands.
#include "qm/testing/testing.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <map>

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

// S-205: four classes of work, and what the engine launches for each: first, and after a refusal.
TEST(CapacityTypes, FourClassesOfWorkHaveFourDecisions) {
  struct Class {
    std::string capacity, table;
  };
  const std::map<std::string, Class> classes{{"inference (stateless)", {"spot first, on-demand fallback", R"(
    want web/1 1x8 type=inference
    => launch p-00001 a8 spot z1
    => promise web/1 by=240 p-00001
    ice p-00001
    => claim p-00001 Failed
    => launch p-00002 a8 on-demand
    => promise web/1 by=240 p-00002
  )"}},
                                             {"fine-tuning (short)", {"spot", R"(
    workload tune type=fine-tuning saves hours=2
    want tune/1 1x8
    => launch p-00001 a8 spot z1
    => promise tune/1 by=240 p-00001
  )"}},
                                             {"large training (long)", {"on-demand + reserved", R"(
    workload train type=training saves hours=72
    want train/1 1x8
    => launch p-00001 a8 on-demand
    => promise train/1 by=240 p-00001
  )"}},
                                             {"batch processing", {"spot only", R"(
    want nightly/1 1x8 type=batch
    => launch p-00001 a8 spot z1
    => promise nightly/1 by=240 p-00001
    ice p-00001
    => claim p-00001 Failed
    => withdrawn nightly/1
  )"}}};
  for (const auto& [name, row] : classes) {
    SCOPED_TRACE(name);
    expect_under(Reliability::kSpotFirst, kPool + row.table);
  }
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto table = qm::testing::read_file(*shared + "/tables/decision-spot-ondemand.csv");
  for (const auto& [name, row] : classes) {
    const bool quoted = row.capacity.find(',') != std::string::npos;
    const std::string line = fmt::format("\n{},{}{}{},", name, quoted ? "\"" : "", row.capacity, quoted ? "\"" : "");
    EXPECT_NE(table.find(line), std::string::npos) << line;
  }
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
