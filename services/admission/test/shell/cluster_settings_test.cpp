// Values of --set for the cluster and the rules.
#include "qm/admission/cluster.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace cluster_settings_test {

TEST(ClusterSettings, DefaultIsContinuousWithoutFairSharing) {
  const auto read = ClusterSettings::parse({});
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->rules.exact);
  EXPECT_FALSE(read->rules.fair_sharing);
  EXPECT_EQ(read->rules.rest, std::chrono::minutes(10));
}

TEST(ClusterSettings, SelectRules) {
  const auto read = ClusterSettings::parse({{"rules", "exact"}, {"fair-sharing", "true"}, {"rest", "90s"}});
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->rules.exact);
  EXPECT_TRUE(read->rules.fair_sharing);
  EXPECT_EQ(read->rules.rest, std::chrono::seconds(90));
}

TEST(ClusterSettings, UsageHalfLifeDefaultsToOneWeek) {
  const auto plain = ClusterSettings::parse({});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->rules.usage.half_life, std::chrono::hours(168));
  EXPECT_EQ(plain->rules.usage.sampling, std::chrono::minutes(5));
  const auto said = ClusterSettings::parse({{"usage-half-life-time", "24h"},
                                            {"usage-sampling-interval", "30s"},
                                            {"resource-weights", "nvidia.com/gpu:2,memory:0"}});
  ASSERT_TRUE(said) << said.error().to_string();
  EXPECT_EQ(said->rules.usage.half_life, std::chrono::hours(24));
  EXPECT_EQ(said->rules.usage.sampling, std::chrono::seconds(30));
  EXPECT_EQ(said->rules.usage.weights, (std::map<std::string, double>{{"memory", 0}, {"nvidia.com/gpu", 2}}));
}

TEST(ClusterSettings, DefaultIsEverySuspendableKind) {
  const auto all = ClusterSettings::parse({});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->kinds, (std::set<std::string>{"JAXJob", "Job", "JobSet", "MPIJob", "PaddleJob", "PyTorchJob",
                                               "RayCluster", "RayJob", "TFJob", "XGBoostJob"}));
  const auto some = ClusterSettings::parse({{"kinds", "Job,PyTorchJob"}});
  ASSERT_TRUE(some);
  EXPECT_EQ(some->kinds, (std::set<std::string>{"Job", "PyTorchJob"}));
}

TEST(ClusterSettings, UnknownValueIsNamedWithValidOnes) {
  const auto refused = [](const char* name, const char* value) {
    const auto read = ClusterSettings::parse({{name, value}});
    EXPECT_FALSE(read) << name << "=" << value;
    return read ? std::string() : read.error().to_string();
  };
  EXPECT_NE(refused("rules", "kueue").find("use continuous, or exact"), std::string::npos);
  EXPECT_NE(refused("fair-sharing", "yes").find("use true or false"), std::string::npos);
  EXPECT_NE(refused("rest", "long").find("use a duration of 0s or more, such as 10m"), std::string::npos);
  EXPECT_NE(refused("kinds", "Job,Deployment").find("use some of JAXJob, Job, JobSet"), std::string::npos);
  EXPECT_NE(refused("usage-sampling-interval", "0s").find("use a duration of 1s or more, such as 5m"),
            std::string::npos);
  EXPECT_NE(refused("resource-weights", "cpu").find("nvidia.com/gpu:1"), std::string::npos);
  EXPECT_NE(refused("rest", "-5m").find("use a duration of 0s or more, such as 10m"), std::string::npos);
}

}  // namespace cluster_settings_test
}  // namespace qm::admission
