#include "qm/store/lease.hpp"

#include <gtest/gtest.h>

namespace qm::store {
namespace lease_judge_test {

using namespace std::chrono_literals;

/// A leader that beats, and who waits and looks every 200 ms of a clock that the test moves.
class Judged : public ::testing::Test {
 protected:
  bool look() { return judge_.free(view_, now_); }
  /// Looks on for so long; true as soon as the lead is free.
  bool within(std::chrono::milliseconds time, bool beats = false) {
    for (auto end = now_ + time; now_ < end; now_ += timing_.look) {
      if (beats) ++view_.beat;
      if (look()) return true;
    }
    return false;
  }

  LeaseTiming timing_;
  LeaseJudge judge_{timing_};
  SteadyInstant now_{1000s};
  LeaseView view_{
      .holder = "a", .address = "a:1", .beat = 7, .terms = 1, .released = false, .session = true, .age = 0ms};
};

TEST_F(Judged, NobodyEverLed) {
  view_ = {};
  EXPECT_TRUE(look());
  EXPECT_FALSE(judge_.served());
}

TEST_F(Judged, ALeaderThatBeatsKeepsTheLead) {
  EXPECT_FALSE(within(60s, true));
  EXPECT_TRUE(judge_.served());
}

TEST_F(Judged, ASilentOneLosesItAfterALeaseAndNotBefore) {
  EXPECT_FALSE(within(3s));
  EXPECT_TRUE(within(400ms));
}

TEST_F(Judged, ReleasedIsFreeAtOnce) {
  EXPECT_FALSE(look());
  view_.released = true;
  EXPECT_TRUE(look());
  EXPECT_FALSE(judge_.served());
}

TEST_F(Judged, ALeaderWithoutASessionHasASecondToComeBack) {
  EXPECT_FALSE(look());
  view_.session = false;
  view_.age = 900ms;
  EXPECT_FALSE(look());
  EXPECT_FALSE(judge_.served());
  view_.age = 1000ms;
  EXPECT_TRUE(look());
}

TEST_F(Judged, WhoCouldNotLookHasNotSeenSilence) {
  EXPECT_FALSE(look());
  now_ += 60s;  // it stood still, or the database did
  EXPECT_FALSE(look());
  EXPECT_FALSE(within(2800ms));
  EXPECT_TRUE(within(600ms));
}

TEST_F(Judged, OneThatDoesNotServeYetLeadsAllTheSame) {
  view_.address.clear();
  EXPECT_FALSE(look());
  EXPECT_FALSE(judge_.served());
}

}  // namespace lease_judge_test
}  // namespace qm::store
