#include "qm/admission/workload.hpp"

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

}  // namespace workload_table_test
}  // namespace qm::admission
