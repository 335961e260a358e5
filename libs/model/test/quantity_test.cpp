#include "qm/model/quantity.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace qm {
namespace quantity_test {

struct Row {
  const char* text;
  const char* canonical;
  std::int64_t units;
  std::int64_t milli;
};
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kGi = 1LL << 30;

class QuantityTable : public testing::TestWithParam<Row> {};

TEST_P(QuantityTable, ParsesAndPrintsAsKubernetes) {
  const Row& row = GetParam();
  const auto parsed = Quantity::parse(row.text);
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  EXPECT_EQ(parsed->to_string(), row.canonical) << row.text;
  EXPECT_EQ(parsed->units(), row.units) << row.text;
  EXPECT_EQ(parsed->milli(), row.milli) << row.text;
  const auto again = Quantity::parse(parsed->to_string());
  ASSERT_TRUE(again) << parsed->to_string();
  EXPECT_EQ(*again, *parsed) << row.text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, QuantityTable,
    testing::Values(
        // plain numbers and zero, whatever its suffix
        Row{"0", "0", 0, 0}, Row{"0Gi", "0", 0, 0}, Row{"-0m", "0", 0, 0}, Row{"0e99999", "0", 0, 0},
        Row{"1", "1", 1, 1000}, Row{"+7", "7", 7, 7000}, Row{"-8", "-8", -8, -8000}, Row{"007", "7", 7, 7000},
        Row{"1.", "1", 1, 1000}, Row{".5", "500m", 1, 500}, Row{"1.G", "1G", 1'000'000'000, 1'000'000'000'000},
        // decimal suffixes, and the largest one that keeps the number whole
        Row{"100m", "100m", 1, 100}, Row{"1500m", "1500m", 2, 1500}, Row{"1.5", "1500m", 2, 1500},
        Row{"2000m", "2", 2, 2000}, Row{"-1500m", "-1500m", -2, -1500}, Row{"5u", "5u", 1, 1}, Row{"5n", "5n", 1, 1},
        Row{"1000u", "1m", 1, 1}, Row{"1000n", "1u", 1, 1}, Row{"8k", "8k", 8000, 8'000'000},
        Row{"1000k", "1M", 1'000'000, 1'000'000'000}, Row{"100.035k", "100035", 100'035, 100'035'000},
        Row{"2.5P", "2500T", 2'500'000'000'000'000, 2'500'000'000'000'000'000},
        Row{"1E", "1E", 1'000'000'000'000'000'000, kMax}, Row{"12E", "12E", kMax, kMax},
        Row{"0.1k", "100", 100, 100'000}, Row{"1000E", "1000E", kMax, kMax},
        // binary suffixes
        Row{"8Gi", "8Gi", 8 * kGi, 8000 * kGi}, Row{"1024Mi", "1Gi", kGi, 1000 * kGi},
        Row{"1536Mi", "1536Mi", 3 * kGi / 2, 1500 * kGi}, Row{"1.5Gi", "1536Mi", 3 * kGi / 2, 1500 * kGi},
        Row{"8000Gi", "8000Gi", 8000 * kGi, 8'000'000 * kGi}, Row{"0.5Ki", "512", 512, 512'000},
        Row{"1Ki", "1Ki", 1024, 1'024'000}, Row{"-2Ki", "-2Ki", -2048, -2'048'000},
        Row{"3Ei", "3Ei", 3 * (1LL << 60), kMax}, Row{"0.05Gi", "53687091200m", 53'687'092, 53'687'091'200},
        // capped, and fractions that have no binary form
        Row{"9Ei", "9223372036854775807", kMax, kMax}, Row{"9223372036854775807Ki", "9223372036854775807", kMax, kMax},
        Row{"99999999999999999999999999999999999999999999Ei", "9223372036854775807", kMax, kMax},
        Row{"0.0001Ki", "102400u", 1, 103}, Row{"0.000000000001Ki", "2n", 1, 1},
        // exponents
        Row{"1e3", "1e3", 1000, 1'000'000}, Row{"1E3", "1e3", 1000, 1'000'000}, Row{"12e2", "1200", 1200, 1'200'000},
        Row{"1e-3", "1e-3", 1, 1}, Row{"0.5e0", "500e-3", 1, 500}, Row{"1.3E+6", "1300e3", 1'300'000, 1'300'000'000},
        Row{"1e28", "10e27", kMax, kMax},
        // finer than nano rounds up, away from zero
        Row{"3.001n", "4n", 1, 1}, Row{"-3.001n", "-4n", -1, -1}, Row{"0.00000012345", "124n", 1, 1},
        Row{"1e-30", "1e-9", 1, 1}, Row{"-1e-9999999", "-1e-9", -1, -1}, Row{"0.9999999999", "1", 1, 1000}));

TEST(Quantity, RefusesWhatIsNoQuantity) {
  for (const char* text : {"",
                           " ",
                           "1 ",
                           " 1",
                           ".",
                           "-",
                           "+",
                           "m",
                           "Gi",
                           "1.1.M",
                           "1+1.0M",
                           "0.1mi",
                           "0.1am",
                           "aoeu",
                           ".5i",
                           "1i",
                           "-3.01i",
                           "-3.01e-",
                           "1e",
                           "1e+",
                           "1e1.5",
                           "--1",
                           "1KiB",
                           "1GB",
                           "1,5",
                           "0x10",
                           "1e29m",
                           "1e30",
                           "1000000000000E",
                           "inf",
                           "NaN"}) {
    const auto parsed = Quantity::parse(text);
    ASSERT_FALSE(parsed) << text << " was read as " << parsed->to_string();
    EXPECT_EQ(parsed.error().code, Code::kInvalid);
    EXPECT_FALSE(parsed.error().remedy.empty());
  }
  EXPECT_EQ(Quantity::parse("5GB").error().message, "\"5GB\" is not a valid quantity: \"GB\" is not a valid suffix");
  EXPECT_EQ(Quantity::parse(std::string(500, '1')).error().message,
            "\"1111111111111111111111111111111111111111...\" is not a valid quantity: it is too long");
}

TEST(Quantity, SumsKeepTheFormatUnlessTheyStartFromZero) {
  const auto q = [](const char* text) { return *Quantity::parse(text); };
  EXPECT_EQ((q("1Gi") + q("1G")).to_string(), "2073741824");
  EXPECT_EQ((q("1Gi") + q("1Gi")).to_string(), "2Gi");
  EXPECT_EQ((q("0") + q("1Gi")).to_string(), "1Gi");
  EXPECT_EQ((q("0") - q("1Gi")).to_string(), "-1Gi");
  EXPECT_EQ((q("1Gi") - q("1Gi")).to_string(), "0");
  EXPECT_EQ((q("2") - q("100m")).to_string(), "1900m");
  EXPECT_TRUE((q("1") - q("2")).negative());
  EXPECT_GT(q("10000T"), q("100Gi"));
  EXPECT_EQ(q("1024Mi"), q("1Gi"));
  EXPECT_EQ(Quantity::of(8, Quantity::Format::kBinarySi).to_string(), "8");
  EXPECT_EQ(Quantity::of(kGi, Quantity::Format::kBinarySi).to_string(), "1Gi");
  EXPECT_EQ(Quantity::of_milli(1500).to_string(), "1500m");
  EXPECT_EQ(Quantity::of_milli(std::numeric_limits<std::int64_t>::min()).milli(),
            std::numeric_limits<std::int64_t>::min());
}

TEST(QuantityDeathTest, ASumBeyondTheRangeIsABrokenLaw) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Quantity large = *Quantity::parse("1e29");
  EXPECT_DEATH((void)(large + large), "exceeds the range of a quantity");
}

}  // namespace quantity_test
}  // namespace qm
