#include "qm/store/lease.hpp"

#include <gtest/gtest.h>

namespace qm::store {
namespace lease_judge_test {

using namespace std::chrono_literals;

/// A leader with beats, and a standby that reads every 200 ms of a manual clock.
class Judged : public ::testing::Test {
 protected:
  bool look() { return judge_.free(view_, now_); }
  /// Reads for this long; true as soon as the lead is free.
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
  LeaseView view_{.holder = "a", .address = "a:1", .beat = 7, .terms = 1, .released = false, .session = true};
};

TEST_F(Judged, NoReplicaHasLedYet) {
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

TEST_F(Judged, ALeaderWithoutASessionHasTimeToConnectAgain) {
  EXPECT_FALSE(look());
  view_.session = false;
  EXPECT_FALSE(within(1600ms));
  EXPECT_FALSE(judge_.served());
  EXPECT_TRUE(within(400ms));
}

// A standby that starts, or whose first read fails, does not know the age of the beat.
TEST_F(Judged, TheFirstLookClaimsNothingFromAHolderWithoutASession) {
  view_.session = false;
  EXPECT_FALSE(look());
  EXPECT_FALSE(within(1600ms));
}

/// A proof expires before any standby may claim, wherever the beat is between the reads.
TEST_F(Judged, NoClaimWhileAProofIsValid) {
  for (auto beat = 0ms; beat < 400ms; beat += 20ms) {
    for (const bool session : {false, true}) {
      LeaseJudge judge(timing_);
      LeaseView view = view_;
      SteadyInstant proven{}, now{1000s};
      for (auto at = 0ms;; at += 1ms, now += 1ms) {
        if (at == beat) proven = now, ++view.beat, view.session = session;
        if (at % 200 != 0ms) continue;
        if (!judge.free(view, now)) continue;
        EXPECT_GE(now - proven, timing_.proof) << beat.count() << " " << session;
        break;
      }
    }
  }
}

TEST_F(Judged, AFailedReadIsNotSilence) {
  EXPECT_FALSE(look());
  now_ += 60s;  // it was suspended, or the database was
  EXPECT_FALSE(look());
  EXPECT_FALSE(within(2800ms));
  EXPECT_TRUE(within(600ms));
}

TEST_F(Judged, OneThatDoesNotServeYetLeadsAllTheSame) {
  view_.address.clear();
  EXPECT_FALSE(look());
  EXPECT_FALSE(judge_.served());
}

TEST(LeaseState, AProofCountsFromTheMomentBeforeItsRenewal) {
  const LeaseTiming timing;
  LeaseState state(timing);
  const SteadyInstant start{1000s};
  ASSERT_TRUE(state.looked(LeaseView{}, start));
  EXPECT_FALSE(state.leads(start));
  state.claimed("a", start, start + 100ms);
  EXPECT_TRUE(state.leads(start + 1499ms));
  EXPECT_FALSE(state.leads(start + 1500ms));
  state.renewed(Renewal{.holds = true}, start + 1s, start + 1700ms);
  EXPECT_TRUE(state.leads(start + 2499ms));
  EXPECT_FALSE(state.leads(start + 2500ms)) << "the answer took 0.7 s, which the proof does not count";
  EXPECT_FALSE(state.may_answer(start + 2500ms));
  state.renewed(fail(Code::kUnavailable, "away"), start + 2500ms, start + 2600ms);
  EXPECT_TRUE(state.may_answer(start + 11'599ms)) << "while the database is away nothing can have changed";
  EXPECT_FALSE(state.may_answer(start + 11'600ms));
  state.renewed(Renewal{}, start + 12s, start + 12s);
  EXPECT_TRUE(state.lost());
  EXPECT_FALSE(state.leads(start + 12s));
  EXPECT_FALSE(state.release()) << "there is no lead to end";
}

// A standby claimed while the leader was disconnected, and the database was restored to a copy from before that
// claim.
TEST(LeaseState, ALeaderThatHadNoProofWaitsUntilTheProofOfAnotherHasEnded) {
  const LeaseTiming timing;
  LeaseState state(timing);
  const SteadyInstant start{1000s};
  ASSERT_TRUE(state.looked(LeaseView{}, start));
  state.claimed("a", start, start);
  state.renewed(fail(Code::kUnavailable, "cut off"), start + 1s, start + 5s);
  state.renewed(Renewal{.holds = true}, start + 5s, start + 5s);
  EXPECT_FALSE(state.leads(start + 5s)) << "the other's proof of 5 s ago may be valid";
  state.renewed(Renewal{.holds = true}, start + 6500ms, start + 6500ms);
  EXPECT_FALSE(state.leads(start + 5s + timing.proof));
  EXPECT_TRUE(state.leads(start + 5s + timing.without_session));
  state.renewed(Renewal{.holds = true}, start + 8s, start + 8s);
  EXPECT_TRUE(state.leads(start + 8s)) << "no standby may claim after 1.5 s without a beat";
}

/// A lead that no standby watches and nothing needs: a beat in two seconds is enough.
TEST(LeaseState, AloneItBeatsRarelyAndItsProofRests) {
  const LeaseTiming timing;
  LeaseState state(timing);
  const SteadyInstant start{1000s};
  ASSERT_TRUE(state.looked(LeaseView{}, start));
  state.claimed("a", start, start);
  EXPECT_TRUE(state.due(start + timing.renew, false)) << "a standby may exist";
  const Renewal alone{.holds = true, .watched = false, .same_session = true};
  state.renewed(alone, start + 1s, start + 1s);
  EXPECT_FALSE(state.due(start + 1s + timing.renew, false));
  EXPECT_EQ(state.tick(), 2 * timing.renew);
  EXPECT_TRUE(state.due(start + 1s + timing.renew, true)) << "the proof is in use";
  EXPECT_FALSE(state.rests(start + 2s)) << "it is proven";
  EXPECT_TRUE(state.rests(start + 1s + timing.proof));
  EXPECT_FALSE(state.leads(start + 1s + timing.proof)) << "a proof is not longer than otherwise";
  EXPECT_TRUE(state.holds(start + 1s + timing.proof));
  EXPECT_FALSE(state.due(start + 2999ms, false));
  EXPECT_TRUE(state.due(start + 3s, false));
  EXPECT_FALSE(state.rests(start + 1s + timing.renew_alone + timing.proof)) << "the process was suspended";
  state.renewed(alone, start + 3s, start + 3s);
  EXPECT_TRUE(state.leads(start + 3s)) << "on the same session the database is the same";
  state.renewed(Renewal{.holds = true, .watched = false}, start + 5s, start + 5s);
  EXPECT_FALSE(state.leads(start + 5s)) << "the database may have been restored meanwhile";
  state.renewed(Renewal{.holds = true, .same_session = true}, start + 6s, start + 6s);
  EXPECT_TRUE(state.due(start + 6s + timing.renew, false)) << "a standby counts now";
  EXPECT_FALSE(state.rests(start + 6s + timing.proof));
}

TEST(LeaseState, AClaimFromALivingHolderActsWhenTheLastProofHasEnded) {
  LeaseState state{LeaseTiming{}};
  const SteadyInstant start{1000s};
  const LeaseView view{.holder = "b", .address = "b:1", .beat = 7, .terms = 4, .released = false, .session = true};
  EXPECT_FALSE(state.looked(view, start));
  EXPECT_TRUE(state.served(start + 1999ms));
  EXPECT_FALSE(state.served(start + 2s)) << "an old look";
  EXPECT_TRUE(state.looked(view, start, true));
  state.claimed("a", start, start + 100ms);
  EXPECT_EQ(state.view().holder, "a");
  EXPECT_EQ(state.view().terms, 5U);
  state.renewed(Renewal{.holds = true}, start + 1s, start + 1s);
  EXPECT_FALSE(state.leads(start + 1599ms));
  EXPECT_TRUE(state.leads(start + 1600ms));
  EXPECT_TRUE(state.release());
  EXPECT_FALSE(state.leads(start + 1600ms));
}

}  // namespace lease_judge_test
}  // namespace qm::store
