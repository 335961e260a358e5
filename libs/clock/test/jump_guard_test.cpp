#include "src/jump_guard.hpp"

#include "qm/clock/clock.hpp"

#include <gtest/gtest.h>

namespace qm {
namespace jump_guard_test {

using namespace std::chrono_literals;

constexpr std::int64_t kSecond = 1'000'000, kHour = 3600 * kSecond;

/// A host: its UTC time, and the time since boot.
struct Machine {
  std::int64_t system = 1000 * kHour, boot = 5 * kHour;
  void pass(std::int64_t us) {
    system += us;
    boot += us;
  }
};

struct Guarded : Machine {
  JumpGuard guard{SystemClock::kMaxJump};
  std::int64_t now() { return guard.now(system, boot); }
  void confirm(std::int64_t reference) { guard.confirm(system, boot, reference); }
};

TEST(JumpGuard, AcceptsEverythingBeforeTheFirstReference) {
  Guarded m;
  EXPECT_EQ(m.now(), m.system);
  m.system += 24 * kHour;
  EXPECT_EQ(m.now(), m.system);
  EXPECT_EQ(m.guard.rejected(), Duration::zero());
}

TEST(JumpGuard, AJumpIsRejectedAndTimeGoesOnAtThePaceOfBootTime) {
  Guarded m;
  m.confirm(m.system);
  const auto start = m.now();
  m.pass(kSecond);
  m.system += 24 * kHour;
  EXPECT_EQ(m.now(), start + kSecond);
  EXPECT_EQ(m.guard.rejected(), 24h);
  m.pass(5 * kSecond);
  EXPECT_EQ(m.now(), start + 6 * kSecond);
  m.system -= 24 * kHour;
  EXPECT_EQ(m.now(), start + 6 * kSecond) << "corrected";
  EXPECT_EQ(m.guard.rejected(), Duration::zero());
}

TEST(JumpGuard, SmallStepsAndSuspensionAreAccepted) {
  Guarded m;
  m.confirm(m.system);
  m.system += 9 * kSecond;
  EXPECT_EQ(m.now(), m.system) << "a step of NTP";
  m.pass(12 * kHour);
  EXPECT_EQ(m.now(), m.system) << "boot time counts while the host is suspended";
}

TEST(JumpGuard, ManySmallStepsAreOneJump) {
  Guarded m;
  m.confirm(m.system);
  const auto start = m.system;
  for (int i = 0; i < 100; ++i) {
    m.pass(1000);
    m.system += 5 * kSecond;
    (void)m.now();
  }
  EXPECT_LE(m.now(), start + 11 * kSecond);
  EXPECT_GT(m.guard.rejected(), 400s);
}

TEST(JumpGuard, SmallStepsWithAReferenceBetweenThemAreOneJump) {
  Guarded m;
  const auto start = m.system;
  m.confirm(start);
  for (int i = 0; i < 100; ++i) {
    m.system += 9 * kSecond;
    (void)m.now();
    m.confirm(start);  // a takeover, or after a rejection; the database's clock did not move
    ASSERT_LE(m.now(), start + 10 * kSecond) << "step " << i;
  }
  EXPECT_EQ(m.guard.rejected(), 900s - 9s);
  m.system = start + kSecond;
  EXPECT_EQ(m.now(), m.system) << "corrected";
  EXPECT_EQ(m.guard.rejected(), Duration::zero());
}

TEST(JumpGuard, AReferenceThatIsBehindDoesNotHoldBackACorrectedHost) {
  Guarded m;
  m.confirm(m.system);
  m.system += kHour;
  (void)m.now();
  m.confirm(m.system - 3 * kHour);
  EXPECT_EQ(m.guard.rejected(), 1h);
  m.system -= kHour;
  EXPECT_EQ(m.now(), m.system);
  EXPECT_EQ(m.guard.rejected(), Duration::zero());
}

TEST(JumpGuard, ASlowDriftIsFollowedForEver) {
  Guarded m;
  m.confirm(m.system);
  for (int i = 0; i < 100'000; ++i) {
    m.pass(100'000);
    m.system += 50;  // 500 ppm, the fastest slew rate of a clock
    ASSERT_EQ(m.now(), m.system) << i;
  }
}

TEST(JumpGuard, TheReferenceDecides) {
  Guarded m;
  m.confirm(m.system);
  (void)m.now();
  m.system += kHour;
  (void)m.now();
  EXPECT_EQ(m.guard.rejected(), 1h);
  m.confirm(m.system - 3 * kSecond);
  EXPECT_EQ(m.now(), m.system) << "the clock of the database confirms it: a resumed VM";
  EXPECT_EQ(m.guard.rejected(), Duration::zero());
  const auto before = m.now();
  m.system += 10 * kHour;
  (void)m.now();
  m.confirm(before + kHour);
  EXPECT_EQ(m.now(), before + kHour) << "as far as the reference, and no farther";
  EXPECT_EQ(m.guard.rejected(), 9h);
}

TEST(JumpGuard, AHostThatIsAheadFromTheStartIsBoundToTheReference) {
  Guarded m;
  const auto wrong = m.now();
  m.confirm(m.system - 24 * kHour);
  EXPECT_EQ(m.now(), wrong - 24 * kHour);
  EXPECT_EQ(m.guard.rejected(), 24h);
}

TEST(SystemClock, FollowsTheHostClockWithinTheBound) {
  Machine machine;
  const SystemClock clock({[&] { return machine.system; }, [&] { return machine.boot; }});
  clock.confirm(from_micros(machine.system));
  const auto start = clock.now();
  EXPECT_EQ(micros(start), machine.system);
  machine.pass(kSecond);
  machine.system += kHour;
  EXPECT_EQ(clock.now(), start + 1s);
  EXPECT_EQ(clock.rejected(), 1h);
  EXPECT_EQ(ManualClock(start).rejected(), Duration::zero());
}

}  // namespace jump_guard_test
}  // namespace qm
