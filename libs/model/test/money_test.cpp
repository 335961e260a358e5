#include "qm/model/money.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace qm {
namespace money_test {

using namespace std::chrono_literals;
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::vector<std::int64_t> nanos(const std::vector<Money>& parts) {
  std::vector<std::int64_t> out;
  for (const Money part : parts) out.push_back(part.nano());
  return out;
}

TEST(Money, ReadsDecimalsExactly) {
  EXPECT_EQ(Money::parse_usd("98.32")->nano(), 98'320'000'000);
  EXPECT_EQ(Money::parse_usd("-0.000000001")->nano(), -1);
  EXPECT_EQ(Money::parse_usd("+3")->nano(), 3'000'000'000);
  EXPECT_EQ(Money::parse_usd(".5")->nano(), 500'000'000);
  EXPECT_EQ(Money::parse_usd("1.")->nano(), 1'000'000'000);
  EXPECT_EQ(Money::parse_usd("1.0000000000000")->nano(), 1'000'000'000);
  EXPECT_EQ(Money::parse_usd("9223372036.854775807")->nano(), kMax);
  EXPECT_EQ(Money::parse_usd("-9223372036.854775808")->nano(), kMin);
}

TEST(Money, RefusesWhatItCannotHoldExactly) {
  for (const char* text : {"", "-", ".", "1.2.3", "1e3", "$5", "1,000", " 1", "0.0000000001", "9223372036.854775808",
                           "99999999999999999999", "1.000000000x"}) {
    const auto parsed = Money::parse_usd(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalid);
    EXPECT_FALSE(parsed.error().remedy.empty());
  }
}

TEST(Money, PrintsWithHalfEvenRounding) {
  EXPECT_EQ(Money::nano(98'320'000'000).to_usd(), "98.320000000");
  EXPECT_EQ(Money::nano(98'320'000'000).to_usd(2), "98.32");
  EXPECT_EQ(Money::nano(125'000'000).to_usd(2), "0.12");
  EXPECT_EQ(Money::nano(135'000'000).to_usd(2), "0.14");
  EXPECT_EQ(Money::nano(-135'000'000).to_usd(2), "-0.14");
  EXPECT_EQ(Money::nano(-4'000'000).to_usd(2), "0.00");
  EXPECT_EQ(Money::nano(1'500'000'000).to_usd(0), "2");
  EXPECT_EQ(Money::nano(2'500'000'000).to_usd(0), "2");
  EXPECT_EQ(Money::nano(999'999'999).to_usd(2), "1.00");
  EXPECT_EQ(Money::nano(kMin).to_usd(), "-9223372036.854775808");
}

TEST(MoneyDeathTest, OverflowIsABrokenLaw) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH((void)(Money::nano(kMax) + Money::nano(1)), "overflows");
  EXPECT_DEATH((void)(Money::nano(kMin) - Money::nano(1)), "overflows");
  EXPECT_DEATH((void)-Money::nano(kMin), "overflows");
  EXPECT_DEATH((void)(HourlyRate{Money::nano(kMax)}.accrued(Instant{}, from_micros(7'200'000'000))), "overflows");
}

TEST(HourlyRate, AccruesByTheFloorOnBothSidesOfTheOrigin) {
  const HourlyRate rate{Money::nano(1)};
  EXPECT_EQ(rate.accrued(Instant{}, Instant{} + 1h).nano(), 1);
  EXPECT_EQ(rate.accrued(Instant{}, Instant{} + 59min).nano(), 0);
  EXPECT_EQ(rate.accrued(Instant{}, Instant{} - 1us).nano(), -1);
  EXPECT_EQ(rate.accrued(Instant{} + 1h, Instant{} + 1h).nano(), 0);
  // A product that does not fit 64 bits: $98.32 an hour for ten years.
  const HourlyRate p5{*Money::parse_usd("98.32")};
  EXPECT_EQ(p5.accrued(Instant{}, Instant{} + 87'600h).to_usd(2), "8612832.00");
}

TEST(Split, GivesTheRemainderToTheLargestThenTheFirst) {
  const std::vector<std::int64_t> thirds{1, 1, 1};
  EXPECT_EQ(nanos(split(Money::nano(10), thirds)), (std::vector<std::int64_t>{4, 3, 3}));
  EXPECT_EQ(nanos(split(Money::nano(-10), thirds)), (std::vector<std::int64_t>{-4, -3, -3}));
  EXPECT_EQ(nanos(split(Money::nano(10), std::vector<std::int64_t>{1, 2, 3})), (std::vector<std::int64_t>{2, 3, 5}));
  EXPECT_EQ(nanos(split(Money::nano(7), std::vector<std::int64_t>{0, 0})), (std::vector<std::int64_t>{7, 0}));
  EXPECT_EQ(nanos(split(Money::nano(7), std::vector<std::int64_t>{0, 5})), (std::vector<std::int64_t>{0, 7}));
  EXPECT_EQ(nanos(split(Money(), thirds)), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_TRUE(split(Money::nano(7), {}).empty());
  EXPECT_EQ(nanos(split(Money::nano(kMin), std::vector<std::int64_t>{kMax})), (std::vector<std::int64_t>{kMin}));
  EXPECT_EQ(nanos(split(Money::nano(kMax), std::vector<std::int64_t>{kMax, kMax})),
            (std::vector<std::int64_t>{kMax / 2 + 1, kMax / 2}));
}

}  // namespace money_test
}  // namespace qm
