#include "qm/base/wake.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <thread>

namespace qm {
namespace wake_test {

bool readable(const Wake& wake, int timeout_ms) {
  pollfd entry{wake.descriptor(), POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

TEST(Wake, IsReadableUntilItIsTaken) {
  const Wake wake;
  EXPECT_FALSE(readable(wake, 0));
  EXPECT_FALSE(wake.take());
  wake.notify();
  wake.notify();
  EXPECT_TRUE(readable(wake, 0));
  EXPECT_TRUE(wake.take());
  EXPECT_FALSE(wake.take()) << "two notifications are one";
  EXPECT_FALSE(readable(wake, 0));
}

TEST(Wake, WaitsUntilItIsNotifiedOrTheTimeIsOver) {
  const Wake wake;
  wake.wait(std::chrono::milliseconds(1));
  wake.wait(SteadyDuration(-1));
  EXPECT_FALSE(wake.take());
  std::thread other([&] { wake.notify(); });
  wake.wait(std::chrono::hours(1));
  other.join();
  EXPECT_TRUE(wake.take());
}

TEST(Wake, EndsAWaitOfAnotherThread) {
  const Wake wake;
  std::thread other([&] { wake.notify(); });
  EXPECT_TRUE(readable(wake, 60'000));
  other.join();
}

TEST(SleepUnlessStopped, EndsWhenAStopIsRequested) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const std::jthread thread([](const std::stop_token& stop) { sleep_unless_stopped(std::chrono::hours(1), stop); });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  sleep_unless_stopped(std::chrono::milliseconds(1), {});
}

}  // namespace wake_test
}  // namespace qm
