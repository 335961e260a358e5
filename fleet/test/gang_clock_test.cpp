#include "gang_clock.hpp"

#include <gtest/gtest.h>

namespace qm::fleet {
namespace gang_clock_test {

Instant at(std::int64_t s) { return from_micros(s * 1'000'000); }

GangClock::Rank rank(const std::string& pod, std::int64_t index, std::int64_t size, std::int64_t start = 0) {
  return {"job/1", pod, index, size, start, {}};
}

TEST(GangClock, StepsOnlyWhileEveryRankRuns) {
  GangClock clock;
  clock.join(rank("a", 0, 2, 100), at(0));
  EXPECT_FALSE(clock.whole("job/1"));
  EXPECT_EQ(clock.reaches("a", 160, at(5)), std::nullopt);
  clock.join(rank("b", 1, 2, 100), at(10));
  EXPECT_EQ(clock.step("a", at(10)), 100);
  EXPECT_EQ(clock.step("a", at(30)), 120);
  EXPECT_EQ(clock.reaches("b", 160, at(30)), at(70));

  clock.leave("b", false, at(40));
  EXPECT_FALSE(clock.whole("job/1"));
  EXPECT_TRUE(clock.ever_whole("job/1"));
  EXPECT_EQ(clock.step("a", at(90)), 130);
  EXPECT_EQ(clock.step("b", at(90)), 130) << "a rank that left keeps its step";
}

TEST(GangClock, ASucceededRankDelaysNoOtherRank) {
  GangClock clock;
  clock.join(rank("a", 0, 2), at(0));
  clock.join(rank("b", 1, 2), at(0));
  clock.leave("a", true, at(10));
  EXPECT_TRUE(clock.whole("job/1"));
  EXPECT_EQ(clock.step("b", at(20)), 20);
}

TEST(GangClock, ReplacementContinuesTheRest) {
  GangClock clock;
  clock.join(rank("a", 0, 2), at(0));
  clock.join(rank("b", 1, 2), at(0));
  clock.leave("b", false, at(10));
  clock.join(rank("c", 1, 2, 7), at(50));
  EXPECT_EQ(clock.step("a", at(60)), 20);
  EXPECT_EQ(clock.step("c", at(60)), 17);
}

TEST(GangClock, RanksOfEarlierAttemptsCountAsDone) {
  GangClock clock;
  GangClock::Rank left = rank("b", 1, 2);
  left.done_before = {0};
  clock.join(left, at(0));
  EXPECT_TRUE(clock.whole("job/1"));
}

TEST(GangClock, ForgottenGangIsUnknown) {
  GangClock clock;
  clock.join(rank("a", 0, 1), at(0));
  clock.forget("job/1");
  EXPECT_EQ(clock.step("a", at(9)), 0);
  EXPECT_TRUE(clock.members("job/1").empty());
  EXPECT_EQ(clock.running("job/1"), 0u);
}

}  // namespace gang_clock_test
}  // namespace qm::fleet
