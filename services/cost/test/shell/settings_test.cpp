#include "qm/cost/settings.hpp"

#include <gtest/gtest.h>

namespace qm::cost {
namespace settings_test {

TEST(CostSettings, AreReadOrRefusedWithWhatIsAllowed) {
  const auto read = settings_of({{"observe", "cluster"}, {"settle", "30"}});
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->alone);
  EXPECT_EQ(read->engine.settle_after, std::chrono::seconds(30));
  EXPECT_FALSE(settings_of({{"observe", "bus"}})->alone);
  EXPECT_EQ(settings_of({{"settle", "10m"}}).error().to_string(),
            "INVALID_ARGUMENT: --set settle: '10m' is not valid; use 0 to 86,400 seconds");
  EXPECT_EQ(settings_of({{"observe", "all"}}).error().field, "observe");
  EXPECT_EQ(settings_of({{"setle", "1"}}).error().to_string(),
            "INVALID_ARGUMENT: --set setle: unknown setting; did you mean settle?; the settings are observe, settle");
}

}  // namespace settings_test
}  // namespace qm::cost
