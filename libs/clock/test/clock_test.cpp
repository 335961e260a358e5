#include "qm/clock/clock.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace qm {
namespace clock_test {

using namespace std::chrono_literals;
const Instant kStart = from_micros(1'700'000'000'000'000);

TEST(SystemClock, NeverGoesBackAndBoundsItsWaits) {
  const SystemClock clock;
  Instant last = clock.now();
  for (int i = 0; i < 10'000; ++i) {
    const Instant t = clock.now();
    ASSERT_GE(t, last);
    last = t;
  }
  EXPECT_EQ(clock.until(last - 1s), SteadyDuration::zero());
  EXPECT_LE(clock.until(clock.now() + 5s), 5s);
  EXPECT_GT(clock.until(clock.now() + 5s), 4s);
  EXPECT_EQ(clock.until(Instant::max()), SteadyDuration(24h));
}

TEST(ManualClock, MovesOnlyWhenAdvanced) {
  ManualClock clock(kStart);
  EXPECT_EQ(clock.now(), kStart);
  EXPECT_GT(clock.until(kStart + 1us), SteadyDuration::zero());
  clock.advance(1us);
  EXPECT_EQ(clock.now(), kStart + 1us);
  EXPECT_EQ(clock.until(kStart + 1us), SteadyDuration::zero());
  clock.set(kStart + 1us);
  EXPECT_EQ(clock.now(), kStart + 1us);
}

TEST(ManualClockDeathTest, SettingBackIsABrokenLaw) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  ManualClock clock(kStart);
  EXPECT_DEATH(clock.set(kStart - 1us), "manual clock set back");
}

class ScaledClockTest : public ::testing::Test {
 protected:
  std::unique_ptr<ScaledClockWriter> writer(double factor) {
    auto made = ScaledClockWriter::create(path_, kStart, factor);
    EXPECT_TRUE(made) << made.error().to_string();
    return std::move(*made);
  }
  std::unique_ptr<ScaledClock> reader() {
    auto opened = ScaledClock::open(path_);
    EXPECT_TRUE(opened) << opened.error().to_string();
    return std::move(*opened);
  }

  testing::TempDir dir_;
  const std::string path_ = dir_.path() + "/clock";
};

TEST_F(ScaledClockTest, RunsAsFastAsItsFactor) {
  const auto write = writer(1000);
  const auto read = reader();
  EXPECT_EQ(read->factor(), 1000);
  const auto steady = std::chrono::steady_clock::now();
  const Instant before = read->now();
  ASSERT_TRUE(testing::wait_until([&] { return read->now() - before >= 20s; }));
  const Duration domain = read->now() - before;
  const auto wall = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - steady);
  EXPECT_LE(domain, (wall + 1us) * 1000);
  EXPECT_GE(domain, 20s);
}

TEST_F(ScaledClockTest, ZeroStopsTime) {
  const auto write = writer(50);
  const auto read = reader();
  write->set_factor(0);
  const Instant stopped = read->now();
  const auto steady = std::chrono::steady_clock::now();
  ASSERT_TRUE(testing::wait_until([&] { return std::chrono::steady_clock::now() - steady > 5ms; }));
  EXPECT_EQ(read->now(), stopped);
  EXPECT_EQ(write->now(), stopped);
  EXPECT_EQ(read->until(stopped), SteadyDuration::zero());
  EXPECT_EQ(read->until(stopped + 1us), SteadyDuration(24h));
  write->set_factor(1000);
  EXPECT_TRUE(testing::wait_until([&] { return read->now() > stopped; }));
}

// A change of the rate is seen within a slice. At the rate of steady time programs read the clock less often.
TEST_F(ScaledClockTest, IsReadLessOftenAtTheRateOfSteadyTime) {
  const auto write = writer(1);
  const auto read = reader();
  EXPECT_EQ(read->slice(), 250ms);
  for (const double factor : {0.0, 0.5, 60.0}) {
    write->set_factor(factor);
    EXPECT_EQ(read->slice(), 20ms) << factor;
  }
}

TEST_F(ScaledClockTest, UntilIsSteadyTime) {
  const auto write = writer(0);
  const auto read = reader();
  // The factor is set while stopped, so that the remaining time is known within the duration of two statements.
  const Instant target = read->now() + 100s;
  write->set_factor(10);
  const SteadyDuration wait = read->until(target);
  EXPECT_LE(wait, 10s);
  EXPECT_GT(wait, 8s);
}

TEST_F(ScaledClockTest, ChangesOfFactorLeaveTimeContinuousForEveryReader) {
  const auto write = writer(1);
  const auto read = reader();
  std::atomic<bool> done{false};
  std::atomic<int> backward{0};
  std::jthread watcher([&] {
    // A second mapping: its guard against going back has no readings of the main thread.
    const auto mine = reader();
    Instant last = mine->now();
    while (!done) {
      const Instant t = mine->now();
      if (t < last) ++backward;
      last = t;
    }
  });
  const Instant begin = write->now();
  const auto steady = std::chrono::steady_clock::now();
  // More changes than the ring holds, between extremes: a jump would show as a step far beyond the largest slope.
  for (int i = 0; i < 3000; ++i) {
    const Instant before = write->now();
    write->set_factor(i % 2 == 0 ? 0.25 : 40);
    const Instant after = write->now();
    ASSERT_GE(after, before);
  }
  done = true;
  watcher.join();
  const auto wall = std::chrono::steady_clock::now() - steady;
  EXPECT_EQ(backward, 0);
  EXPECT_LE(read->now() - begin, std::chrono::duration_cast<Duration>(wall) * 40 + 1s);
  EXPECT_EQ(read->factor(), 40);
}

TEST_F(ScaledClockTest, AnotherProcessSeesTheSameTime) {
  const auto write = writer(100);
  write->set_factor(0);
  const Instant expected = write->now();
  int stopped[2];
  ASSERT_EQ(::pipe(stopped), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto clock = ScaledClock::open(path_);
    const bool same = clock && (*clock)->now() == expected && (*clock)->factor() == 0;
    if (!same || ::write(stopped[1], "s", 1) != 1) ::_exit(1);
    // Then the writer restarts time, and the child must observe it through its mapping alone.
    ::_exit(testing::wait_until([&] { return (*clock)->now() > expected; }) ? 0 : 2);
  }
  ::close(stopped[1]);
  char byte = 0;
  EXPECT_EQ(::read(stopped[0], &byte, 1), 1) << "the child did not see the stopped time";
  ::close(stopped[0]);
  write->set_factor(1000);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the child did not see the change of factor";
}

TEST_F(ScaledClockTest, ANewWriterLeavesOlderMappingsWhole) {
  const auto first = writer(0);
  const auto old_reader = reader();
  auto second = ScaledClockWriter::create(path_, kStart + 3600s, 0);
  ASSERT_TRUE(second);
  EXPECT_EQ(old_reader->now(), kStart);
  EXPECT_EQ(reader()->now(), kStart + 3600s);
}

TEST_F(ScaledClockTest, RefusesWhatIsNoClockFile) {
  EXPECT_EQ(ScaledClock::open(path_).error().code, Code::kNotFound);
  std::ofstream(path_) << "hello";
  auto small = ScaledClock::open(path_);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, Code::kInvalid);
  EXPECT_NE(small.error().message.find(path_), std::string::npos);
  { const auto real = writer(1); }
  const auto size = std::filesystem::file_size(path_);
  std::ofstream(path_, std::ios::trunc) << std::string(size, 'x');
  auto wrong = ScaledClock::open(path_);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kInvalid);
  EXPECT_FALSE(ScaledClock::open(dir_.path()));
  EXPECT_FALSE(ScaledClockWriter::create(dir_.path() + "/none/clock", kStart, 1));
}

TEST_F(ScaledClockTest, MakeClockReadsTheSetting) {
  const auto write = writer(0);
  auto scaled = make_clock("scaled:" + path_);
  ASSERT_TRUE(scaled);
  EXPECT_EQ((*scaled)->now(), kStart);
  EXPECT_TRUE(make_clock("system"));
  for (const char* bad : {"", "scaled:", "sundial", "scaled"}) {
    auto refused = make_clock(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_FALSE(refused.error().remedy.empty());
  }
  EXPECT_EQ(make_clock("scaled:" + dir_.path() + "/none").error().code, Code::kNotFound);
}

TEST(ScaledClockDeathTest, NegativeFactorIsABrokenLaw) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const testing::TempDir dir;
  auto writer = ScaledClockWriter::create(dir.path() + "/clock", kStart, 1);
  ASSERT_TRUE(writer);
  EXPECT_DEATH((*writer)->set_factor(-1), "clock factor -1");
}

}  // namespace clock_test
}  // namespace qm
