#include "qm/cost/settings.hpp"

#include <gtest/gtest.h>

namespace qm::cost {
namespace settings_test {

TEST(CostSettings, EachSetsItsOption) {
  const auto read = settings_table().read({{"observe", "cluster"}, {"posting-delay", "30s"}});
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->alone);
  EXPECT_EQ(read->engine.settle_after, std::chrono::seconds(30));
  EXPECT_FALSE(settings_table().read({{"observe", "bus"}})->alone);
  EXPECT_EQ(settings_table().read({{"posting-delay", "600"}}).error().to_string(),
            "INVALID_ARGUMENT: --set posting-delay: '600' is not valid; use a duration of 0s to 24h, such as 5m");
  EXPECT_EQ(settings_table().read({{"observe", "all"}}).error().field, "observe");
}

}  // namespace settings_test
}  // namespace qm::cost
