#include "workers.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace qm::agent {
namespace workers_test {

using qm::testing::wait_until;
using std::chrono::seconds;

class PacerTest : public ::testing::Test {
 protected:
  Pacer::Task counting(bool again = true) {
    return [this, again] {
      ++runs;
      return again;
    };
  }
  bool reaches(int n) {
    return wait_until([&] { return runs >= n; });
  }
  ManualClock clock{from_micros(1'000'000'000)};
  std::atomic<int> runs = 0;
};

TEST_F(PacerTest, AtOnceAndThenOnceAPeriod) {
  Pacer pacer(clock, 2);
  pacer.add("a", seconds(60), counting());
  ASSERT_TRUE(reaches(1));
  for (int n = 2; n < 6; ++n) {
    ASSERT_TRUE(wait_until([&] { return pacer.idle() == 1; }));  // its run is scheduled
    // The phase of a name is somewhere in the period, so from the second run on one period means one run.
    clock.advance(seconds(60));
    ASSERT_TRUE(reaches(n));
  }
  EXPECT_EQ(runs, 5);
}

TEST_F(PacerTest, MissedPeriodsAreNotMadeUp) {
  Pacer pacer(clock, 1);
  pacer.add("a", seconds(1), counting());
  ASSERT_TRUE(reaches(1));
  ASSERT_TRUE(wait_until([&] { return pacer.idle() == 1; }));
  clock.advance(seconds(1000));
  ASSERT_TRUE(reaches(2));
  std::atomic<int> marks = 0;
  pacer.add("mark", seconds(1), [&] { return ++marks, false; });  // earlier due tasks have run by then
  ASSERT_TRUE(wait_until([&] { return marks == 1; }));
  EXPECT_EQ(runs, 2);
}

TEST_F(PacerTest, NeverAgain) {
  Pacer pacer(clock, 1);
  pacer.add("a", seconds(1), counting(false));
  ASSERT_TRUE(reaches(1));
  EXPECT_TRUE(wait_until([&] { return pacer.size() == 0; }));
}

TEST_F(PacerTest, RemovedTasksDoNotRun) {
  Pacer pacer(clock, 1);
  pacer.add("a", seconds(1), counting());
  ASSERT_TRUE(reaches(1));
  pacer.remove("a");
  pacer.remove("unknown");
  std::atomic<int> marks = 0;
  pacer.add("mark", seconds(1), [&] { return ++marks, true; });
  ASSERT_TRUE(wait_until([&] { return marks == 1 && pacer.idle() == 1; }));
  clock.advance(seconds(5));
  ASSERT_TRUE(wait_until([&] { return marks == 2; }));
  EXPECT_EQ(runs, 1);
}

TEST_F(PacerTest, OneThatIsReplacedWhileItRunsRunsAsTheNewOne) {
  Pacer pacer(clock, 2);
  std::atomic<bool> go = false, started = false, second = false;
  pacer.add("a", seconds(1), [&] {
    started = true;
    wait_until([&] { return go.load(); });
    return false;  // ends the old entry only
  });
  ASSERT_TRUE(wait_until([&] { return started.load(); }));
  pacer.add("a", seconds(1), [&] { return second = true, true; });
  ASSERT_TRUE(wait_until([&] { return second.load(); }));
  go = true;
  second = false;
  // The first run may not be scheduled yet, so a single step of the clock could come too early.
  EXPECT_TRUE(wait_until([&] {
    clock.advance(seconds(1));
    return second.load();
  }));
  EXPECT_EQ(pacer.size(), 1U);
}

TEST_F(PacerTest, StopsWhileTheClockIsPaused) {
  Pacer pacer(clock, 4);
  pacer.add("a", seconds(1), counting());
  ASSERT_TRUE(reaches(1));
  pacer.stop();
  clock.advance(seconds(10));
  EXPECT_EQ(runs, 1);
}

TEST(WorkersTest, StopDropsWhatWaits) {
  std::atomic<bool> go = false, started = false;
  std::atomic<int> ran = 0;
  Workers workers(1);
  workers.post([&] {
    started = true;
    wait_until([&] { return go.load(); });
  });
  for (int i = 0; i < 10; ++i) workers.post([&] { ++ran; });
  ASSERT_TRUE(wait_until([&] { return started.load(); }));
  std::thread stopper([&] { workers.stop(); });
  // The stop drops the queue before it waits for the running task.
  std::thread releaser([&] { go = true; });
  stopper.join();
  releaser.join();
  workers.post([&] { ++ran; });
  EXPECT_LE(ran, 10);
}

}  // namespace workers_test
}  // namespace qm::agent
