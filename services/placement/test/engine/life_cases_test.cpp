// From the first pod to the last, as text tables: see script.hpp for the words.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace life_cases_test {

void expect(const std::string& table) { EXPECT_EQ(Script().run(table), ""); }

TEST(Life, BindsEachPodOnceThenBoundThenReleased) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 2x4
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    pod w/1#1
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => bind w/1#1 -> a [4,5,6,7]
    pod w/1#1
    pod w/1#0
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3]
    bind-done w/1#0
    pod w/1#0 on=a
    => reserved w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]
    pod w/1#1 on=a
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*
    pod w/1#1 on=a running
    -- a rank that succeeded releases its devices, the others continue
    pod w/1#1 on=a succeeded
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*-
    want v/1 1x4
    => reserved v/1 0:a[4,5,6,7]
    phase w/1 finished
    pod w/1#0 on=a succeeded
    => released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]*-
    pod-gone w/1#0
    pod-gone w/1#1
    tick 600
    => forget released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]*-
    => expired v/1 0:a[4,5,6,7]-
  )");
}

// A work queue: five pods, two at a time.
TEST(Life, WorkQueueJobReusesThePlaceOfASucceededPod) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 2x4 of=5
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    pod w/1#0 | pod w/1#1
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3]
    => bind w/1#1 -> a [4,5,6,7]
    pod w/1#0 on=a | pod w/1#1 on=a
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*
    -- its GPUs are held for the next pod, which has no rank
    pod w/1#1 on=a succeeded
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*
    want v/1 1x4
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 4; 1 have fewer than the 4 free GPUs that a pod requests
    => demand v/1
    pod w/1#2
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*
    => bind w/1#2 -> a [4,5,6,7]
    pod w/1#2 on=a
    pod-gone w/1#1
    pod w/1#0 on=a succeeded
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*
    pod w/1#3
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*
    => bind w/1#3 -> a [0,1,2,3]
    pod w/1#3 on=a
    -- one pod remains for the two places
    pod w/1#2 on=a succeeded | pod w/1#3 on=a succeeded
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*
    phase w/1 admitted ended=1
    => reserved v/1 0:a[4,5,6,7]
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*-
    => demand
    pod w/1#4
    => bound w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]*-
    => bind w/1#4 -> a [0,1,2,3]
    pod w/1#4 on=a
    phase w/1 finished
    pod w/1#4 on=a succeeded
    => released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]*-
  )");
}

// A rank that succeeded on a node that was deleted before its pod was observed: the Job knows, and so does admission.
TEST(Life, RankThatSucceededUnseenIsNotAwaited) {
  expect(R"(
    node a gpus=8
    synced
    want w/2 2x4
    => reserved w/2 0:a[0,1,2,3] 1:a[4,5,6,7]
    phase w/2 admitted ended=1
    => reserved w/2 0:a[0,1,2,3] 1:a[4,5,6,7]
    pod w/2#1
    => reserved w/2 0:a[0,1,2,3]*- 1:a[4,5,6,7]
    => bind w/2#1 -> a [4,5,6,7]
    pod w/2#1 on=a
    => bound w/2 0:a[0,1,2,3]*- 1:a[4,5,6,7]*
  )");
}

// Of five pods four had succeeded before the eviction: the next attempt needs only one of its two places.
TEST(Life, LaterAttemptExpectsRemainingPodsOnly) {
  expect(R"(
    node a gpus=8
    synced
    want w/2 2x4 of=5
    => reserved w/2 0:a[0,1,2,3] 1:a[4,5,6,7]
    phase w/2 admitted ended=1
    => reserved w/2 0:a[0,1,2,3] 1:a[4,5,6,7]*-
    pod w/2#4
    => reserved w/2 0:a[0,1,2,3] 1:a[4,5,6,7]*-
    => bind w/2#4 -> a [0,1,2,3]
    pod w/2#4 on=a
    => bound w/2 0:a[0,1,2,3]* 1:a[4,5,6,7]*-
  )");
}

TEST(Life, PodsWithoutIndexGetOnePlaceEach) {
  expect(R"(
    node a gpus=8
    node b gpus=8
    synced
    want w/1 2x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    pod w/1#-1 again=x | pod w/1#-1 again=y
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    => bind w/1#-1.x -> a [0,1,2,3,4,5,6,7]
    => bind w/1#-1.y -> b [0,1,2,3,4,5,6,7]
    -- each is matched by its node
    pod w/1#-1 again=y on=b running | pod w/1#-1 again=x on=a running
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    -- a third has no rank while both places are in use
    pod w/1#-1 again=z
    -- and gets the place of one that failed
    pod w/1#-1 again=x on=a failed
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    => bind w/1#-1.z -> a [0,1,2,3,4,5,6,7]
    pod w/1#-1 again=y on=b succeeded
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*-
  )");
}

TEST(Life, PodsSeenBeforeTheWorkloadAreBoundLater) {
  expect(R"(
    pod w/1#0
    node a gpus=1
    want w/1 1x1
    synced
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=a running
    => bound w/1 0:a[0]*
  )");
}

TEST(Life, SuccessorOfFailedPodGetsSamePlace) {
  expect(R"(
    node a gpus=8
    node b gpus=8
    synced
    want w/1 2x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    pod w/1#0 | pod w/1#1
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3,4,5,6,7]
    => bind w/1#1 -> b [0,1,2,3,4,5,6,7]
    pod w/1#0 on=a running | pod w/1#1 on=b running
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    pod w/1#1 on=b failed
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    pod w/1#1 again=1
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    => bind w/1#1.1 -> b [0,1,2,3,4,5,6,7]
    -- a successor waits while its predecessor still has the devices
    pod w/1#0 on=a running deleting
    pod w/1#0 again=1
    pod-gone w/1#0
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    => bind w/1#0.1 -> a [0,1,2,3,4,5,6,7]
  )");
}

TEST(Life, SucceededRankIsNotAwaitedInLaterAttempt) {
  expect(R"(
    node a gpus=8
    node b gpus=8
    synced
    want w/1 2x8 | phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    pod w/1#0 on=a running | pod w/1#1 on=b running
    => bound w/1 0:a[0,1,2,3,4,5,6,7]* 1:b[0,1,2,3,4,5,6,7]*
    pod w/1#0 on=a succeeded
    => bound w/1 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]*
    -- the succeeded pod is deleted with the node, and the other rank has to start again
    pod-gone w/1#0
    phase w/1 evicting deadline=30
    => delete w/1#1 grace=30
    pod-gone w/1#1
    => released w/1 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]*-
    want w/2 2x8
    => reserved w/2 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]
    pod w/2#1
    => reserved w/2 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]
    => bind w/2#1 -> b [0,1,2,3,4,5,6,7]
    pod w/2#1 on=b running
    => bound w/2 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]*
    tick 300
  )");
}

// The place of the rank is free in the step that releases it, and a workload that was short in the same step gets it.
TEST(Life, PlaceOfSucceededRankIsFreeInTheSameStep) {
  expect(R"(
    node a gpus=8
    node b gpus=8
    synced
    want w/1 2x8 | phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3,4,5,6,7] 1:b[0,1,2,3,4,5,6,7]
    pod w/1#0 on=a succeeded | pod w/1#1 on=b running
    => bound w/1 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]*
    pod-gone w/1#0
    phase w/1 evicting deadline=30
    => delete w/1#1 grace=30
    pod-gone w/1#1
    => released w/1 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]*-
    want w/2 2x8 | want z/1 1x8
    => reserved w/2 0:a[0,1,2,3,4,5,6,7]*- 1:b[0,1,2,3,4,5,6,7]
    => reserved z/1 0:a[0,1,2,3,4,5,6,7]
    => demand
  )");
}

TEST(Life, PodsAreMatchedToTheirSetByName) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x0 1x4
    => reserved w/1 0:a[] 0:a[0,1,2,3]
    pod w/1#0 set=set1
    => reserved w/1 0:a[] 0:a[0,1,2,3]
    => bind w/1#0 -> a [0,1,2,3]
    pod w/1#0 again=launcher
    => reserved w/1 0:a[] 0:a[0,1,2,3]
    => bind w/1#0.launcher -> a []
  )");
}

// S-091: every pod of the gang terminates, and its place is free only after that.
TEST(Evict, DeletesWithGraceThenReleases) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 2x4 | phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    pod w/1#0 | pod w/1#1
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3]
    => bind w/1#1 -> a [4,5,6,7]
    pod w/1#0 on=a running
    => reserved w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]
    -- the second bind is under way: its devices are held until its pod is gone
    phase w/1 evicting deadline=90
    => reserved w/1 0:a[0,1,2,3]* 1:a[4,5,6,7]
    => delete w/1#0 grace=90
    => delete w/1#1 grace=90
    phase w/1 evicting deadline=90
    want v/1 1x1
    => short v/1 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 1; 1 have fewer than the 1 free GPUs that a pod requests
    => demand v/1
    pod w/1#0 on=a running deleting
    pod-gone w/1#0
    => reserved v/1 0:a[0]
    => reserved w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]
    => demand
    pod-gone w/1#1
    => released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]-
    phase w/1 evicting
    => released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]-
    -- a pod that the controller created meanwhile is not bound and is deleted too
    pod w/1#0 again=1
    => delete w/1#0.1 grace=-1
    phase w/2 pending
    tick 600
    => expired v/1 0:a[0]-
    pod-gone w/1#0.1
    => forget released w/1 0:a[0,1,2,3]*- 1:a[4,5,6,7]-
  )");
}

TEST(Evict, ReservationWithoutPodsIsReleasedAtOnce) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    phase w/1 evicting deadline=60
    => released w/1 0:a[0,1,2,3,4,5,6,7]-
  )");
}

TEST(Evict, LaterAttemptEndsFormerAndUsesFreeCapacity) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x8 | pod w/1#0
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3,4,5,6,7]
    pod w/1#0 on=a running
    => bound w/1 0:a[0,1,2,3,4,5,6,7]*
    want w/2 1x8
    => short w/2 0 of 1 pods fit: 1 eligible nodes have 0 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests
    => demand w/2
    => delete w/1#0 grace=-1
    pod-gone w/1#0
    => released w/1 0:a[0,1,2,3,4,5,6,7]*-
    => reserved w/2 0:a[0,1,2,3,4,5,6,7]
    => demand
    pod w/1#0 again=1
    => delete w/1#0.1 grace=-1
    => stale 1
  )");
}

// S-100: a reservation is held for a limited time.
TEST(Expiry, UnusedReservationExpires) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    tick 200
    phase w/1 admitted
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    tick 299
    tick 1
    => expired w/1 0:a[0,1,2,3,4,5,6,7]-
    -- too late: the pod is not bound, and a repeated request gets the same answer
    pod w/1#0
    phase w/1 admitted
    => expired w/1 0:a[0,1,2,3,4,5,6,7]-
    phase w/1 evicting deadline=30
    => delete w/1#0 grace=30
    pod-gone w/1#0
    => released w/1 0:a[0,1,2,3,4,5,6,7]-
  )");
}

TEST(Expiry, IncompleteGangRequestsEviction) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 2x4
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    pod w/1#0
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => bind w/1#0 -> a [0,1,2,3]
    tick 300
    => reserved w/1 0:a[0,1,2,3] 1:a[4,5,6,7]
    => evict w/1 GangIncomplete
  )");
}

TEST(Bind, UnexplainedFailureRequestsEviction) {
  expect(R"(
    node a gpus=1
    synced
    want w/1 1x1 | pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    bind-failed w/1#0 not-found
    bind-failed w/1#0 invalid
    => reserved w/1 0:a[0]
    => evict w/1 BindFailed a
  )");
}

TEST(Bind, PodOnAnotherNodeRequestsEvictionAndCountsThere) {
  expect(R"(
    node a gpus=1
    node b gpus=1
    synced
    want w/1 1x1 | pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=b running
    => reserved w/1 0:a[0]
    => evict w/1 Misplaced b
    want v/1 1x1
    => short v/1 0 of 1 pods fit: 2 eligible nodes have 0 free GPUs, needs 1; 2 have fewer than the 1 free GPUs that a pod requests
    => demand v/1
    phase w/1 evicting deadline=0
    => released w/1 0:a[0]-
    => reserved v/1 0:a[0]
    => demand
    => delete w/1#0 grace=0
  )");
}

TEST(Restart, FirstListFreesDeletedPods) {
  Script script;
  EXPECT_EQ(script.run(R"(
    node a gpus=2
    synced
    want w/1 2x1 | pod w/1#0 | pod w/1#1
    => reserved w/1 0:a[0] 1:a[1]
    => bind w/1#0 -> a [0]
    => bind w/1#1 -> a [1]
    pod w/1#0 on=a running | pod w/1#1 on=a running
    => bound w/1 0:a[0]* 1:a[1]*
    phase w/1 evicting
    => delete w/1#0 grace=-1
    => delete w/1#1 grace=-1
    restart
    want v/1 1x1
    nodes-listed a
    pods-listed w/1#1
    => reserved v/1 0:a[0]
    => bound w/1 0:a[0]*- 1:a[1]*
  )"),
            "");
}

TEST(Engine, ReturnsNextWakeUp) {
  Script script;
  EXPECT_EQ(script.run("node a gpus=1\nsynced\n"), "");
  EXPECT_FALSE(script.step({Tick{}}).wake_at);
  EXPECT_EQ(script.run("want w/1 1x1\n=> reserved w/1 0:a[0]\n"), "");
  EXPECT_EQ(script.step({Tick{}}).wake_at, script.now() + Options{}.hold);
  EXPECT_EQ(script.run("node b gpus=1 ready=no\n"), "");
  EXPECT_EQ(script.step({Tick{}}).wake_at, script.now() + Options{}.hold) << "it has no pods";
  EXPECT_EQ(script.run("node a gpus=1 ready=no\n"), "");
  EXPECT_EQ(script.step({Tick{}}).wake_at, script.now() + Options{}.node_timeout);
}

TEST(Engine, DryRunStoresNothing) {
  Script script;
  EXPECT_EQ(script.run("node a gpus=8\nsynced\n"), "");
  const auto digest = script.engine().digest();
  EXPECT_TRUE(script.engine().dry_run({pod_set(2, 4)}).plan);
  EXPECT_EQ(script.engine().dry_run({pod_set(3, 4)}).shortfall.reason,
            "2 of 3 pods fit: 1 eligible nodes have 8 free GPUs, needs 12");
  EXPECT_EQ(script.engine().digest(), digest);
}

TEST(Engine, StopsWhenTimeGoesBack) {
  Engine engine;
  (void)engine.step({}, from_micros(5));
  EXPECT_DEATH((void)engine.step({}, from_micros(4)), "time went back");
}

}  // namespace life_cases_test
}  // namespace qm::placement::testing
