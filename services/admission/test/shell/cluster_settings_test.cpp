// Settings of the engine and of the cluster.
#include "qm/admission/cluster_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace qm::admission {
namespace cluster_settings_test {

using ::testing::HasSubstr;

ClusterSettings taken(const settings::Values& given) {
  const auto read = cluster_table().read(given);
  EXPECT_TRUE(read) << read.error().to_string();
  return read ? *read : ClusterSettings{};
}
std::string refused(const char* name, const char* value) {
  const auto read = cluster_table().read({{name, value}});
  EXPECT_FALSE(read) << name << "=" << value;
  return read ? std::string() : read.error().to_string();
}

TEST(ClusterSettings, DefaultIsContinuousWithoutFairSharing) {
  const auto plain = taken({});
  EXPECT_FALSE(plain.engine.rules.kueue_cycles);
  EXPECT_FALSE(plain.engine.rules.fair_sharing);
  EXPECT_EQ(plain.engine.rules.preemption_cooldown, std::chrono::minutes(10));
  EXPECT_EQ(plain.engine.disruptions_per_hour, 100);
  EXPECT_TRUE(plain.engine.places);
  EXPECT_FALSE(plain.engine.wait_for_pods_ready);
}

TEST(ClusterSettings, SelectRules) {
  const auto engine = taken({{"rules", "kueue"},
                             {"fair-sharing", "true"},
                             {"preemption-cooldown", "90s"},
                             {"disruptions-per-hour", "7"},
                             {"start-window", "64"},
                             {"placement", "none"}})
                          .engine;
  EXPECT_TRUE(engine.rules.kueue_cycles);
  EXPECT_TRUE(engine.rules.fair_sharing);
  EXPECT_EQ(engine.rules.preemption_cooldown, std::chrono::seconds(90));
  EXPECT_EQ(engine.disruptions_per_hour, 7);
  EXPECT_EQ(engine.start_window, 64);
  EXPECT_FALSE(engine.places);
}

TEST(ClusterSettings, UsageHalfLifeDefaultsToOneWeek) {
  const auto plain = taken({}).engine.rules.usage;
  EXPECT_EQ(plain.half_life, std::chrono::hours(168));
  EXPECT_EQ(plain.sampling, std::chrono::minutes(5));
  const auto usage = taken({{"usage-half-life-time", "24h"},
                            {"usage-sampling-interval", "30s"},
                            {"resource-weights", "nvidia.com/gpu:2,memory:0"}})
                         .engine.rules.usage;
  EXPECT_EQ(usage.half_life, std::chrono::hours(24));
  EXPECT_EQ(usage.sampling, std::chrono::seconds(30));
  EXPECT_EQ(usage.weights, (std::map<std::string, double>{{"memory", 0}, {"nvidia.com/gpu", 2}}));
}

TEST(ClusterSettings, DefaultIsEverySuspendableKind) {
  EXPECT_EQ(taken({}).kinds, (std::set<std::string>{"JAXJob", "Job", "JobSet", "MPIJob", "PaddleJob", "PyTorchJob",
                                                    "RayCluster", "RayJob", "TFJob", "XGBoostJob"}));
  EXPECT_EQ(taken({{"kinds", "Job,PyTorchJob"}}).kinds, (std::set<std::string>{"Job", "PyTorchJob"}));
}

TEST(ClusterSettings, AFileOfKueueSetsWaitForPodsReady) {
  const auto path = ::testing::TempDir() + "/kueue.yaml";
  std::ofstream(path) << "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
                         "waitForPodsReady: {timeout: 3m}\n";
  const auto ready = taken({{"kueue-configuration", path}}).engine.wait_for_pods_ready;
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->timeout, std::chrono::minutes(3));
  EXPECT_THAT(refused("kueue-configuration", "/nowhere"), HasSubstr("/nowhere cannot be read"));
}

TEST(ClusterSettings, UnknownValueIsNamedWithValidOnes) {
  EXPECT_THAT(refused("rules", "exact"), HasSubstr("use continuous, or kueue"));
  EXPECT_THAT(refused("fair-sharing", "yes"), HasSubstr("use true or false"));
  EXPECT_THAT(refused("preemption-cooldown", "long"), HasSubstr("use a duration of 0s or more, such as 5m"));
  EXPECT_THAT(refused("preemption-cooldown", "-5m"), HasSubstr("use a duration of 0s or more, such as 5m"));
  EXPECT_THAT(refused("kinds", "Job,Deployment"), HasSubstr("use some of JAXJob, Job, JobSet"));
  EXPECT_THAT(refused("usage-sampling-interval", "0s"), HasSubstr("use a duration of 1s or more, such as 5m"));
  EXPECT_THAT(refused("resource-weights", "cpu"), HasSubstr("nvidia.com/gpu:1"));
  EXPECT_THAT(refused("disruptions-per-hour", "-1"), HasSubstr("use 0 or more workloads in an hour"));
}

}  // namespace cluster_settings_test
}  // namespace qm::admission
