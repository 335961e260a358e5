// The settings of the service, and the errors for invalid ones.
#include "qm/placement/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::placement {
namespace settings_test {

using std::chrono::seconds;
using ::testing::HasSubstr;

Settings taken(const settings::Values& given) {
  auto read = settings_table().read(given);
  EXPECT_TRUE(read) << read.error().to_string();
  return read ? *read : Settings{};
}
std::string refused(const std::string& name, const std::string& value) {
  const auto read = settings_table().read({{name, value}});
  if (read) return "accepted";
  EXPECT_EQ(read.error().field, name);
  return read.error().to_string();
}

TEST(PlacementSettings, EachSetsItsOption) {
  const auto all = taken({{"hold", "7s"},
                          {"node-timeout", "8s"},
                          {"health-grace", "10s"},
                          {"gang-recovery-hold", "11s"},
                          {"launch-hold", "12s"},
                          {"policy", "bestfit"},
                          {"topology", "block,rack"},
                          {"isolate-workload-types", "a,b"},
                          {"gpu-pools", "a:whole,b:slices"},
                          {"mig-window", "Sat,Sun 02:00-06:00;Wed 01:00-02:00"},
                          {"preemption", "migrate"},
                          {"preemption-after", "13s"},
                          {"max-lost-gpu-seconds", "60"},
                          {"mig-repartition", "p,q"},
                          {"mig-repartition-after", "15s"},
                          {"mig-repartition-cooldown", "16s"},
                          {"defragmentation", "on"},
                          {"quota", "kueue"}});
  const Options& engine = all.engine;
  EXPECT_EQ(std::tie(engine.hold, engine.node_timeout, engine.health_grace, engine.returning, engine.launch_hold),
            std::tuple(seconds(7), seconds(8), seconds(10), seconds(11), seconds(12)));
  EXPECT_EQ(engine.policy, "bestfit");
  EXPECT_EQ(engine.topology, (TopologyLevels{"block", "rack"}));
  EXPECT_EQ(engine.apart, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(engine.pools, (std::map<std::string, GpuPool>{{"a", GpuPool::kWhole}, {"b", GpuPool::kSlices}}));
  EXPECT_EQ(engine.layout_windows.size(), 2U);
  EXPECT_TRUE(engine.preemption.on && engine.preemption.moving && !engine.preemption.evicting);
  EXPECT_EQ(engine.preemption.after, seconds(13));
  EXPECT_TRUE(engine.mig_repartition.on);
  EXPECT_EQ(engine.mig_repartition.pools, (std::set<std::string>{"p", "q"}));
  EXPECT_EQ(std::tie(engine.mig_repartition.after, engine.mig_repartition.pause), std::tuple(seconds(15), seconds(16)));
  EXPECT_TRUE(engine.defrag.on);
  EXPECT_EQ(all.quota, "kueue");
  EXPECT_EQ(all.binding, "auto");
}

// One limit of lost work; defragmentation has a third of it.
TEST(PlacementSettings, OneLimitOfLostWork) {
  const auto given = taken({{"max-lost-gpu-seconds", "60"}}).engine;
  EXPECT_EQ(std::tie(given.preemption.max_lost_gpu_seconds, given.defrag.max_lost_gpu_seconds), std::tuple(60, 20));
  const auto standard = taken({}).engine;
  EXPECT_EQ(standard.defrag.max_lost_gpu_seconds,
            taken({{"max-lost-gpu-seconds", "900"}}).engine.defrag.max_lost_gpu_seconds);
}

TEST(PlacementSettings, FourSwitchesAreOffByDefault) {
  const auto standard = taken({}).engine;
  EXPECT_FALSE(standard.preemption.on || standard.mig_repartition.on || standard.defrag.on);
  EXPECT_EQ(standard.returning, Duration::zero());
  const auto off = taken({{"isolate-workload-types", "none"},
                          {"gpu-pools", "none"},
                          {"preemption", "off"},
                          {"mig-repartition", "off"},
                          {"gang-recovery-hold", "0s"},
                          {"defragmentation", "off"}})
                       .engine;
  EXPECT_TRUE(off.apart.empty() && off.pools.empty());
  EXPECT_FALSE(off.preemption.on || off.mig_repartition.on || off.defrag.on);
  const auto on = taken({{"preemption", "on"}, {"mig-repartition", "true"}}).engine;
  EXPECT_TRUE(on.preemption.moving && on.preemption.evicting);
  EXPECT_TRUE(on.mig_repartition.on && on.mig_repartition.pools.empty());
}

TEST(PlacementSettings, TheDefaultsAreTheirTexts) {
  for (const auto& row : settings_table().rows()) {
    const auto& text = row.setting.default_value;
    Settings options;
    EXPECT_TRUE(text.empty() || row.apply(text, options)) << row.setting.name;
  }
  EXPECT_EQ(taken({{"gpu-pools", "training:whole,inference:slices"}}).engine.pools, Options{}.pools);
}

TEST(PlacementSettings, InvalidValuesAreRefusedWithValidOnes) {
  EXPECT_THAT(refused("holds", "7s"), HasSubstr("--set holds: unknown setting; did you mean hold?"));
  for (const char* value : {"", "0s", "25h", "300", "-1s"})
    EXPECT_THAT(refused("hold", value), HasSubstr("is not valid; use a duration of 1s to 24h")) << value;
  EXPECT_THAT(refused("policy", "random"), HasSubstr("fgd, bestfit"));
  for (const char* value : {"a,a", ",a", "kubernetes.io/hostname"})
    EXPECT_THAT(refused("topology", value), HasSubstr("is not valid; use ")) << value;
  EXPECT_THAT(refused("isolate-workload-types", "a,,b"), HasSubstr("is not valid; use "));
  EXPECT_THAT(refused("gpu-pools", "training"), HasSubstr("training:whole"));
  EXPECT_THAT(refused("gpu-pools", ":whole"), HasSubstr("is not valid; use "));
  EXPECT_THAT(refused("mig-window", "Sat 02:00"), HasSubstr("HH:MM"));
  EXPECT_THAT(refused("preemption", "yes"),
              HasSubstr("use off, evict (only evictions), migrate (only migrations) or on"));
  EXPECT_THAT(refused("mig-repartition", ""), HasSubstr("is not valid; use off, on, or names of node pools"));
  EXPECT_THAT(refused("defragmentation", "yes"), HasSubstr("is not valid; use on or off"));
  EXPECT_THAT(refused("max-lost-gpu-seconds", "0"), HasSubstr("use 1 to 1,000,000 GPU-seconds"));
}

}  // namespace settings_test
}  // namespace qm::placement
