// The memory against outages of a known length: it learns the length, and its bounds hold.
#include "qm/autoscaler/gang_launch/capacity_memory.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <random>

namespace qm::autoscaler {
namespace capacity_memory_prop_test {

constexpr Instant kStart = from_micros(1'800'000'000'000'000);

TEST(CapacityMemory, HoldsAreBoundedAndNeverBeforeNow) {
  EXPECT_TRUE(rc::check("bounds", [] {
    const MemoryOptions options;
    Outage row;
    Instant now = kStart;
    const auto steps = *rc::gen::container<std::vector<std::pair<bool, int>>>(
        rc::gen::pair(rc::gen::arbitrary<bool>(), rc::gen::inRange(0, 5000)));
    for (const auto& [refused, seconds] : steps) {
      now += std::chrono::seconds(seconds);
      row = refused ? after_refusal(row, now, options) : after_launch(row, now, options);
      RC_ASSERT(row.until <= now + options.most);
      if (refused) RC_ASSERT(row.until >= now + options.least && row.since.has_value() && row.last == now);
      if (!refused) RC_ASSERT(row.until <= now && !row.since);
      RC_ASSERT(row.out_us >= 0 && row.ends_milli >= 0);
      const auto p = still_out_milli(row, now + std::chrono::seconds(7), options);
      RC_ASSERT(p >= 0 && p <= 1000);
    }
  }));
}

// Requests at the end of each hold, outages of a mean of 20 s to 20 min.
TEST(CapacityMemory, LearnsTheLengthOfOutages) {
  const MemoryOptions options;
  for (const int mean_s : {20, 60, 300, 1200}) {
    std::mt19937 random(7);
    std::exponential_distribution<double> length(1.0 / mean_s);
    Outage row;
    Instant now = kStart;
    double known = 0;
    for (int n = 0; n < 60; ++n) {
      const Instant over = now + std::chrono::milliseconds(static_cast<std::int64_t>(length(random) * 1000));
      while (now < over) {
        row = after_refusal(row, now, options);
        now = row.until;
      }
      row = after_launch(row, now, options);
      now += std::chrono::minutes(5);
      known = static_cast<double>(expected_outage(row, options).count()) / 1e6;
    }
    EXPECT_GT(known, mean_s * 0.5) << mean_s;
    EXPECT_LT(known, mean_s * 2 + 60) << mean_s;
  }
}

}  // namespace capacity_memory_prop_test
}  // namespace qm::autoscaler
