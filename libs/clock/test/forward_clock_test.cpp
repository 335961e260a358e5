#include "src/forward_clock.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace qm {
namespace forward_clock_test {

using namespace std::chrono_literals;

TEST(ForwardClock, RunsAtHalfThePaceWhileTheHostClockIsBehind) {
  ForwardClock clock;
  SteadyInstant steady{1h};
  const auto now = [&](std::int64_t system) { return clock.now(system, [&] { return steady; }); };
  EXPECT_EQ(now(5'000'000), 5'000'000);
  EXPECT_EQ(now(5'000'000), 5'000'000);
  // Set back by four seconds.
  EXPECT_EQ(now(1'000'000), 5'000'000);
  steady += 2s;
  EXPECT_EQ(now(3'000'000), 6'000'000);
  // The rate does not depend on the number of calls.
  for (int i = 0; i < 1'000'000; ++i) {
    steady += 1us;
    (void)now(3'000'001 + i);
  }
  EXPECT_EQ(now(4'000'000), 6'500'000);
  steady += 5s;
  EXPECT_EQ(now(9'000'000), 9'000'000) << "the host clock has caught up";
  steady += 1h;
  EXPECT_EQ(now(3'609'000'000), 3'609'000'000);
  // Set back again: the first setback has no further effect.
  EXPECT_EQ(now(9'000'000), 3'609'000'000);
  steady += 2s;
  EXPECT_EQ(now(11'000'000), 3'610'000'000);
}

TEST(ForwardClock, NeverGoesBackForAnyThread) {
  ForwardClock clock;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&clock, t] {
      std::int64_t last = INT64_MIN;
      for (std::int64_t i = 0; i < 20'000; ++i) {
        const auto system = i % 100 < 50 ? i * 10 : i * 10 - 5000 - t;
        const auto next = clock.now(system, [] { return std::chrono::steady_clock::now(); });
        ASSERT_GE(next, last);
        last = next;
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace forward_clock_test
}  // namespace qm
