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
std::string said(const std::string& name, const std::string& value) {
  const auto read = settings_of({{name, value}});
  if (read) return "nothing";
  EXPECT_EQ(read.error().field, name);
  return read.error().to_string();
}

TEST(PlacementSettings, EachReachesItsPlace) {
  const auto all = taken({{"hold", "7"},
                          {"node-timeout", "8"},
                          {"keep-ended", "9"},
                          {"health-grace", "10"},
                          {"keep-after-loss", "11"},
                          {"policy", "bestfit"},
                          {"topology", "block,rack"},
                          {"apart", "a,b"},
                          {"gpu-pools", "a:whole,b:slices"},
                          {"gap-period", "12"},
                          {"mig-window", "Sat,Sun 02:00-06:00;Wed 01:00-02:00"},
                          {"propose", "move"},
                          {"propose-after", "13"},
                          {"propose-most-lost", "14"},
                          {"recut", "p,q"},
                          {"recut-after", "15"},
                          {"recut-pause", "16"},
                          {"recut-orders", "17"},
                          {"tidy", "on"},
                          {"tidy-every", "18"},
                          {"tidy-hourly", "19"},
                          {"tidy-least-gpus", "20"},
                          {"tidy-most-lost", "21"},
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
  EXPECT_TRUE(engine.proposing.on && engine.proposing.moving && !engine.proposing.evicting);
  EXPECT_EQ(engine.proposing.after, seconds(13));
  EXPECT_EQ(engine.proposing.most_lost, 14);
  EXPECT_TRUE(engine.recutting.on);
  EXPECT_EQ(engine.recutting.pools, (std::set<std::string>{"p", "q"}));
  EXPECT_EQ(std::tie(engine.recutting.after, engine.recutting.pause), std::tuple(seconds(15), seconds(16)));
  EXPECT_EQ(engine.recutting.most_orders, 17U);
  EXPECT_TRUE(engine.tidying.on);
  EXPECT_EQ(engine.tidying.every, seconds(18));
  EXPECT_EQ(std::tie(engine.tidying.hourly, engine.tidying.least_gpus, engine.tidying.most_lost),
            std::tuple(19, 20, 21));
  EXPECT_EQ(all.gap_period, seconds(12));
  EXPECT_EQ(all.quota, "kueue");
  EXPECT_EQ(all.binding, "auto");
}

TEST(PlacementSettings, WordsThatTurnThingsOff) {
  const auto off =
      taken({{"apart", "none"}, {"gpu-pools", "none"}, {"propose", "off"}, {"recut", "off"}, {"tidy", "off"}});
  EXPECT_TRUE(off.engine.apart.empty() && off.engine.pools.empty());
  EXPECT_FALSE(off.engine.proposing.on || off.engine.recutting.on || off.engine.tidying.on);
  const auto on = taken({{"propose", "on"}, {"recut", "on"}});
  EXPECT_TRUE(on.engine.proposing.moving && on.engine.proposing.evicting);
  EXPECT_TRUE(on.engine.recutting.on && on.engine.recutting.pools.empty());
}

TEST(PlacementSettings, WhatIsNotUnderstoodIsNamedWithWhatIs) {
  EXPECT_THAT(said("holds", "7"), HasSubstr("--set holds: there is no such setting; did you mean hold?"));
  EXPECT_THAT(said("holds", "7"), HasSubstr("hold, node-timeout"));
  for (const char* value : {"", "0", "86401", "5m", "-1"}) {
    EXPECT_THAT(said("hold", value), HasSubstr("is not valid; use ")) << value;
  }
  EXPECT_THAT(said("hold", "5m"), HasSubstr("--set hold: '5m' is not valid; use 1 to 86,400 seconds"));
  EXPECT_THAT(said("recut-orders", "1001"), HasSubstr("use 1 to 1,000 nodes"));
  EXPECT_THAT(said("policy", "random"), HasSubstr("fgd, bestfit"));
  for (const char* value : {"a,a", ",a", "kubernetes.io/hostname"}) {
    EXPECT_THAT(said("topology", value), HasSubstr("is not valid; use ")) << value;
  }
  EXPECT_THAT(said("apart", "a,,b"), HasSubstr("is not valid; use "));
  EXPECT_THAT(said("gpu-pools", "training"), HasSubstr("training:whole"));
  EXPECT_THAT(said("gpu-pools", ":whole"), HasSubstr("is not valid; use "));
  EXPECT_THAT(said("mig-window", "Sat 02:00"), HasSubstr("HH:MM"));
  EXPECT_THAT(said("propose", "yes"), HasSubstr("is not valid; use "));
  EXPECT_THAT(said("recut", ""), HasSubstr("is not valid; use "));
  EXPECT_THAT(said("tidy", "yes"), HasSubstr("is not valid; use "));
}

TEST(PlacementSettings, EachStandsOnTheServicesPage) {
  std::stringstream page;
  page << std::ifstream(std::string(QM_SOURCE_DIR) + "/services/placement/README.md").rdbuf();
  for (const auto name : setting_names()) EXPECT_THAT(page.str(), HasSubstr(fmt::format("`{}`", name)));
}

}  // namespace settings_test
}  // namespace qm::placement
