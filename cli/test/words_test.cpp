#include "src/words.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace qm::cli {
namespace words_test {

TEST(Words, AgesAreKubectls) {
  const auto shown = [](std::int64_t seconds) { return age(std::chrono::seconds(seconds)); };
  EXPECT_EQ(shown(-5), "0s");
  EXPECT_EQ(shown(0), "0s");
  EXPECT_EQ(shown(119), "119s");
  EXPECT_EQ(shown(120), "2m");
  EXPECT_EQ(shown(330), "5m30s");
  EXPECT_EQ(shown(600), "10m");
  EXPECT_EQ(shown(3 * 3600 - 1), "179m");
  EXPECT_EQ(shown(3 * 3600 + 600), "3h10m");
  EXPECT_EQ(shown(8 * 3600 + 600), "8h");
  EXPECT_EQ(shown(2 * 86400 + 4 * 3600), "2d4h");
  EXPECT_EQ(shown(12 * 86400 + 4 * 3600), "12d");
  EXPECT_EQ(age(0, from_micros(1)), "");
}

TEST(Words, AmountsHaveTheUnitOfTheirResource) {
  EXPECT_EQ(amount("nvidia.com/gpu", 8'000), "8");
  EXPECT_EQ(amount("cpu", 250), "0.25");
  EXPECT_EQ(amount("cpu", -1'250), "-1.25");
  EXPECT_EQ(amount("memory", std::int64_t{96} << 30), "96Gi");
  EXPECT_EQ(amount("memory", (std::int64_t{3} << 30) / 2), "1.5Gi");
  EXPECT_EQ(amount("memory", 200 << 20), "200Mi");
  EXPECT_EQ(amount("memory", 5), "5");
  EXPECT_EQ(amount("pods", 12), "12");
  EXPECT_EQ(amount("nvidia.com/mig-1g.10gb", 7), "7");
  EXPECT_EQ(amount("cpu", std::numeric_limits<std::int64_t>::max()), "unlimited");
  EXPECT_EQ(percent(0.876), "88%");
  EXPECT_EQ(percent(-1), "");
}

TEST(Words, GpuHoursRoundHalfUpAtTheThousandth) {
  EXPECT_EQ(gpu_hours(0), "0.000");
  EXPECT_EQ(gpu_hours(3'600'000'000), "1.000");
  EXPECT_EQ(gpu_hours(1'800'000), "0.001");
  EXPECT_EQ(gpu_hours(1'799'999), "0.000");
  EXPECT_EQ(gpu_hours(-3'600'000'000), "-1.000");
  EXPECT_EQ(gpu_hours(std::numeric_limits<std::int64_t>::max()), "2562047788.015");
}

}  // namespace words_test
}  // namespace qm::cli
