// The settings of --set, the errors for invalid ones, and the check that the service's page documents every setting.
#include "qm/placement/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace qm::placement {
namespace settings_test {

using std::chrono::seconds;
using ::testing::HasSubstr;

Settings taken(const std::map<std::string, std::string>& given) {
  auto read = settings_of(given);
  EXPECT_TRUE(read) << read.error().to_string();
  return read ? *read : Settings{};
}
std::string published(const std::string& name, const std::string& value) {
  const auto read = settings_of({{name, value}});
  if (read) return "nothing";
  EXPECT_EQ(read.error().field, name);
  return read.error().to_string();
}

TEST(PlacementSettings, EachSetsItsOption) {
  const auto all = taken({{"hold", "7"},
                          {"node-timeout", "8"},
                          {"ended-retention", "9"},
                          {"health-grace", "10"},
                          {"gang-recovery-hold", "11"},
                          {"policy", "bestfit"},
                          {"topology", "block,rack"},
                          {"isolate-workload-types", "a,b"},
                          {"gpu-pools", "a:whole,b:slices"},
                          {"gap-period", "12"},
                          {"mig-window", "Sat,Sun 02:00-06:00;Wed 01:00-02:00"},
                          {"preemption", "migrate"},
                          {"preemption-after", "13"},
                          {"max-lost-gpu-seconds", "14"},
                          {"mig-repartition", "p,q"},
                          {"mig-repartition-after", "15"},
                          {"mig-repartition-cooldown", "16"},
                          {"mig-repartition-nodes-per-hour", "17"},
                          {"defragmentation", "on"},
                          {"defragmentation-period", "18"},
                          {"defragmentation-migrations-per-hour", "19"},
                          {"defragmentation-min-gpus", "20"},
                          {"defragmentation-max-lost-gpu-seconds", "21"},
                          {"quota", "kueue"},
                          {"binding", ""}});
  const Options& engine = all.engine;
  EXPECT_EQ(std::tie(engine.hold, engine.node_timeout, engine.keep_ended, engine.health_grace, engine.returning),
            std::tuple(seconds(7), seconds(8), seconds(9), seconds(10), seconds(11)));
  EXPECT_EQ(engine.policy, "bestfit");
  EXPECT_EQ(engine.topology, (TopologyLevels{"block", "rack"}));
  EXPECT_EQ(engine.apart, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(engine.pools, (std::map<std::string, GpuPool>{{"a", GpuPool::kWhole}, {"b", GpuPool::kSlices}}));
  EXPECT_EQ(engine.layout_windows.size(), 2U);
  EXPECT_TRUE(engine.preemption.on && engine.preemption.moving && !engine.preemption.evicting);
  EXPECT_EQ(engine.preemption.after, seconds(13));
  EXPECT_EQ(engine.preemption.max_lost_gpu_seconds, 14);
  EXPECT_TRUE(engine.mig_repartition.on);
  EXPECT_EQ(engine.mig_repartition.pools, (std::set<std::string>{"p", "q"}));
  EXPECT_EQ(std::tie(engine.mig_repartition.after, engine.mig_repartition.pause), std::tuple(seconds(15), seconds(16)));
  EXPECT_EQ(engine.mig_repartition.most_orders, 17U);
  EXPECT_TRUE(engine.defrag.on);
  EXPECT_EQ(engine.defrag.every, seconds(18));
  EXPECT_EQ(std::tie(engine.defrag.hourly, engine.defrag.least_gpus, engine.defrag.max_lost_gpu_seconds),
            std::tuple(19, 20, 21));
  EXPECT_EQ(all.gap_period, seconds(12));
  EXPECT_EQ(all.quota, "kueue");
  EXPECT_EQ(all.binding, "auto");
}

TEST(PlacementSettings, ValuesThatDisable) {
  const auto off = taken({{"isolate-workload-types", "none"},
                          {"gpu-pools", "none"},
                          {"preemption", "off"},
                          {"mig-repartition", "off"},
                          {"defragmentation", "off"}});
  EXPECT_TRUE(off.engine.apart.empty() && off.engine.pools.empty());
  EXPECT_FALSE(off.engine.preemption.on || off.engine.mig_repartition.on || off.engine.defrag.on);
  const auto on = taken({{"preemption", "on"}, {"mig-repartition", "on"}});
  EXPECT_TRUE(on.engine.preemption.moving && on.engine.preemption.evicting);
  EXPECT_TRUE(on.engine.mig_repartition.on && on.engine.mig_repartition.pools.empty());
}

TEST(PlacementSettings, InvalidValuesAreRefusedWithValidOnes) {
  EXPECT_THAT(published("holds", "7"), HasSubstr("--set holds: unknown setting; did you mean hold?"));
  EXPECT_THAT(published("holds", "7"), HasSubstr("hold, node-timeout"));
  for (const char* value : {"", "0", "86401", "5m", "-1"}) {
    EXPECT_THAT(published("hold", value), HasSubstr("is not valid; use ")) << value;
  }
  EXPECT_THAT(published("hold", "5m"), HasSubstr("--set hold: '5m' is not valid; use 1 to 86,400 seconds"));
  EXPECT_THAT(published("mig-repartition-nodes-per-hour", "1001"), HasSubstr("use 1 to 1,000 nodes"));
  EXPECT_THAT(published("policy", "random"), HasSubstr("fgd, bestfit"));
  for (const char* value : {"a,a", ",a", "kubernetes.io/hostname"}) {
    EXPECT_THAT(published("topology", value), HasSubstr("is not valid; use ")) << value;
  }
  EXPECT_THAT(published("isolate-workload-types", "a,,b"), HasSubstr("is not valid; use "));
  EXPECT_THAT(published("gpu-pools", "training"), HasSubstr("training:whole"));
  EXPECT_THAT(published("gpu-pools", ":whole"), HasSubstr("is not valid; use "));
  EXPECT_THAT(published("mig-window", "Sat 02:00"), HasSubstr("HH:MM"));
  EXPECT_THAT(published("preemption", "yes"), HasSubstr("is not valid; use "));
  EXPECT_THAT(published("mig-repartition", ""), HasSubstr("is not valid; use "));
  EXPECT_THAT(published("defragmentation", "yes"), HasSubstr("is not valid; use "));
}

TEST(PlacementSettings, EachIsDocumented) {
  std::stringstream page;
  page << std::ifstream(std::string(QM_SOURCE_DIR) + "/services/placement/README.md").rdbuf();
  for (const auto name : setting_names()) EXPECT_THAT(page.str(), HasSubstr(fmt::format("`{}`", name)));
}

}  // namespace settings_test
}  // namespace qm::placement
