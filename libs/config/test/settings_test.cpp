#include "qm/config/settings.hpp"

#include <gtest/gtest.h>

namespace qm::config {
namespace settings_test {

TEST(Settings, AWrongValueIsNamedWithItsOptionAndWhatIsAllowed) {
  const auto error = wrong_setting("hold", "5m", "1 to 86,400 seconds");
  EXPECT_EQ(error.to_string(), "INVALID_ARGUMENT: --set hold: '5m' is not valid; use 1 to 86,400 seconds");
  EXPECT_EQ(error.field, "hold");
}

TEST(Settings, AnUnknownNameIsNamedWithTheNearestOne) {
  EXPECT_TRUE(check_setting_names({{"hold", "1"}}, {"hold", "rest"}));
  EXPECT_EQ(check_setting_names({{"hold", "1"}, {"holds", "1"}}, {"hold", "rest"}).error().to_string(),
            "INVALID_ARGUMENT: --set holds: unknown setting; did you mean hold?; the settings are hold, rest");
  EXPECT_EQ(check_setting_names({{"zone", "a"}}, {"hold", "rest"}).error().to_string(),
            "INVALID_ARGUMENT: --set zone: unknown setting; the settings are hold, rest");
  EXPECT_EQ(
      check_setting_names({{"zone", "a"}}, {}).error().to_string(),
      "INVALID_ARGUMENT: --set zone: unknown setting; this program has no settings of its own; remove the option");
}

}  // namespace settings_test
}  // namespace qm::config
