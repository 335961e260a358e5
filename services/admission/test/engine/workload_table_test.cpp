#include "qm/admission/engine.hpp"
#include "qm/admission/workload.hpp"
#include "test/engine/jobs.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace workload_table_test {

// One MIG instance counts as 142 thousandths, and seven of them are the whole GPU: every sum over a workload rounds
// once for each pod set.
TEST(Workload, SumsOfMigSharesAgree) {
  WorkloadSpec asked;
  asked.pod_sets = {PodSet{.name = "mig", .count = 7, .shape = {.gpu = {.mig_profile = "1g.10gb", .mig_count = 1}}},
                    PodSet{.name = "whole", .count = 2, .shape = {.gpu = {.whole = 4}}}};
  Workload row;
  row.spec = Spec(asked);
  EXPECT_EQ(asked.total_gpu_milli(), 9000);
  EXPECT_EQ(row.spec.total_gpu_milli(), 9000);
  EXPECT_EQ(row.running_gpu_milli(), 9000);
  EXPECT_EQ(row.running().total_gpu_milli(), 9000);
  row.counts = Counts{3, 1};
  EXPECT_EQ(row.running_gpu_milli(), 4428);
  EXPECT_EQ(row.running().total_gpu_milli(), row.running_gpu_milli());
}

// A Job that is replaced within a second has the same creation time as its predecessor, and any uid.
TEST(Engine, FindsTheWorkloadThatReplacedAnotherOneOfTheSameSecond) {
  for (const auto& [first, second] : {std::pair("a", "b"), std::pair("b", "a")}) {
    Engine engine;
    const auto now = from_micros(5'000'000);
    const auto step = [&](Command command) {
      (void)engine.step(std::vector<Command>{std::move(command)}, now);
      engine.commit();
    };
    auto job = testing::job_of(first, 1, now);
    job.spec.name = "train";
    step(job);
    step(JobDeleted{WorkloadUid(first)});
    const auto* found = engine.find(Namespace("team"), "train");
    ASSERT_NE(found, nullptr);
    EXPECT_TRUE(found->ended());
    job = testing::job_of(second, 1, now);
    job.spec.name = "train";
    step(job);
    found = engine.find(Namespace("team"), "train");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->spec.uid, WorkloadUid(second));
    EXPECT_FALSE(found->ended());
  }
}

}  // namespace workload_table_test
}  // namespace qm::admission
