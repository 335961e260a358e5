#include "qm/base/option_range.hpp"

#include <gtest/gtest.h>

namespace qm {
namespace option_range_test {

TEST(OptionRange, IsWrittenWithThousandsSeparators) {
  EXPECT_EQ(OptionRange<int>(1, 48, "hours").text(), "1 to 48 hours");
  EXPECT_EQ(OptionRange<std::int64_t>(1, 1'000'000).text(), "1 to 1,000,000");
  EXPECT_EQ(OptionRange<double>(0.01, 10).text(), "0.01 to 10");
  EXPECT_EQ(at_least<std::int64_t>(1).text(), "1 or more") << "not 1 to 9223372036854775807";
  EXPECT_EQ(at_least<double>(0, "USD").text(), "0 or more USD");
}

TEST(OptionRange, AnErrorNamesTheValueAndTheRange) {
  const OptionRange<int> range(0, 86'400, "seconds");
  for (const auto* good : {"0", "86400", "7"}) EXPECT_EQ(range(good), "") << good;
  EXPECT_EQ(range("-1"), "-1 is out of range; use 0 to 86,400 seconds");
  EXPECT_EQ(range("99999999999999999999"), "99999999999999999999 is out of range; use 0 to 86,400 seconds");
  for (const auto* bad : {"", "soon", "7s", "1.5"})
    EXPECT_EQ(range(bad), std::string("'") + bad + "' is not a number; use 0 to 86,400 seconds");
  EXPECT_EQ(OptionRange<double>(0, 1)("nan"), "nan is out of range; use 0 to 1");
}

}  // namespace option_range_test
}  // namespace qm
