#include "qm/placement/disruption/hold_lifecycle.hpp"

#include <gtest/gtest.h>

namespace qm::placement::disruption {
namespace {

using namespace std::chrono_literals;
using relayout::Phase;

constexpr Instant kOrdered{1000s};
const MigRepartitionOptions kHold{.held = 900s};

HoldStep at(Phase phase, HoldObserved seen, Duration after = 1s) {
  relayout::Row order;
  order.phase = phase;
  order.since = kOrdered;
  return advance_hold({WorkloadUid("w"), {}}, order, seen, kOrdered + after, kHold);
}

TEST(HoldLifecycle, LastsAsLongAsTheOrderIsInProgressForAPendingWorkload) {
  for (const Phase phase : {Phase::kWaiting, Phase::kEmptying, Phase::kSwitching, Phase::kVerifying}) {
    const HoldStep step = at(phase, {.occupied = false, .pending = true});
    EXPECT_TRUE(step.hold.waits) << name_of(phase);
    EXPECT_FALSE(step.order.withdrawn) << name_of(phase);
    EXPECT_EQ(step.wake_at, Instant::max()) << name_of(phase);
  }
}

TEST(HoldLifecycle, AfterTheOrderTheInstancesAreHeldForSomeTime) {
  EXPECT_EQ(at(Phase::kDone, {.pending = true}, 899s).wake_at, kOrdered + 900s);
  EXPECT_TRUE(at(Phase::kDone, {.pending = true}, 899s).hold.waits);
  EXPECT_FALSE(at(Phase::kDone, {.pending = true}, 900s).hold.waits);
  EXPECT_FALSE(at(Phase::kFailed, {.pending = true}).hold.waits);
}

TEST(HoldLifecycle, AnOrderWithoutAWorkloadIsWithdrawnUntilItsLabelIsWritten) {
  for (const Phase phase : {Phase::kWaiting, Phase::kEmptying}) {
    EXPECT_FALSE(at(phase, {}).hold.waits) << name_of(phase);
    EXPECT_TRUE(at(phase, {}).order.withdrawn) << name_of(phase);
  }
  EXPECT_FALSE(at(Phase::kSwitching, {}).hold.waits);
  EXPECT_FALSE(at(Phase::kSwitching, {}).order.withdrawn);
}

TEST(HoldLifecycle, APodThatUsesTheGpusFirstWithdrawsTheOrder) {
  const HoldStep step = at(Phase::kWaiting, {.occupied = true, .pending = true});
  EXPECT_TRUE(step.order.withdrawn);
  EXPECT_FALSE(step.hold.waits);
  EXPECT_TRUE(at(Phase::kEmptying, {.occupied = true, .pending = true}).hold.waits) << "relayout handles it";
}

}  // namespace
}  // namespace qm::placement::disruption
