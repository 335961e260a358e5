// Pods that name a workload that they do not belong to: one of another tenant, or one whose
// controller did not create them. See script.hpp for the words.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace foreign_pods_test {

void expect(const std::string& table) { EXPECT_EQ(Script().run(table), ""); }

TEST(ForeignPods, AnotherNamespaceGetsNoReservation) {
  expect(R"(
    node a gpus=2
    synced
    want w/1 1x2
    => reserved w/1 0:a[0,1]
    -- by annotation, and by a forged owner reference
    pod w/1#0 again=x in=other by=none
    => refuse w/1#0.x
    => foreign other/w/1#0.x w OtherNamespace
    pod w/1#0 again=y in=other
    => refuse w/1#0.y
    => foreign other/w/1#0.y w OtherNamespace
    -- reported once, however often it changes
    pod w/1#0 again=y in=other deleting
    pod w/1#0
    => reserved w/1 0:a[0,1]
    => bind w/1#0 -> a [0,1]
  )");
}

TEST(ForeignPods, AnotherNamespaceDoesNotCompleteARank) {
  expect(R"(
    node a gpus=4
    synced
    want w/1 2x1 | pod w/1#0 | pod w/1#1
    => reserved w/1 0:a[0] 1:a[1]
    => bind w/1#0 -> a [0]
    => bind w/1#1 -> a [1]
    pod w/1#0 on=a running | pod w/1#1 on=a running | phase w/1 admitted
    => bound w/1 0:a[0]* 1:a[1]*
    pod w/1#1 again=x in=other on=a succeeded
    -- the rank is not done: its successor gets the same place
    pod w/1#1 on=a failed
    => bound w/1 0:a[0]* 1:a[1]*
    pod w/1#1 again=2
    => bound w/1 0:a[0]* 1:a[1]*
    => bind w/1#1.2 -> a [1]
  )");
}

TEST(ForeignPods, AnotherNamespaceIsNotAdopted) {
  expect(R"(
    node a gpus=2
    synced
    want w/1 1x1
    => reserved w/1 0:a[0]
    -- it runs on the node already, like a bound pod of Quartermaster
    pod w/1#0 again=x in=other on=a running
    => foreign other/w/1#0.x w OtherNamespace
    pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=a running
    => bound w/1 0:a[0]*
  )");
}

TEST(ForeignPods, AnotherNamespaceIsNotAVictim) {
  expect(R"(
    node a gpus=4
    synced
    want w/1 1x1 | pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=a running | phase w/1 admitted
    => bound w/1 0:a[0]*
    pod w/1#0 again=x in=other on=a running
    => foreign other/w/1#0.x w OtherNamespace
    phase w/1 evicting deadline=60
    => delete w/1#0 grace=60
    -- and it does not keep the attempt from its end
    pod-gone w/1#0
    => released w/1 0:a[0]*-
  )");
}

TEST(ForeignPods, OfTheSameNamespaceWithAnotherController) {
  expect(R"(
    node a gpus=2
    synced
    want w/1 1x1
    => reserved w/1 0:a[0]
    -- a pod that names the Job and has no controller, and one of a ReplicaSet
    pod w/1#0 again=x by=none
    => refuse w/1#0.x
    => foreign ns/w/1#0.x w OtherController
    pod w/1#0 again=y by=rs kind=ReplicaSet
    => refuse w/1#0.y
    => foreign ns/w/1#0.y w OtherController
    pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
  )");
}

TEST(ForeignPods, AnnotationDoesNotChangeTheController) {
  expect(R"(
    node a gpus=2
    synced
    want v/1 1x1
    => reserved v/1 0:a[0]
    want w/1 1x1 kind=JobSet
    => reserved w/1 0:a[1]
    -- it names w, and v is its controller: it is the pod of v
    pod w/1#0 by=v
    => reserved v/1 0:a[0]
    => bind w/1#0 -> a [0]
    => foreign ns/w/1#0 w OtherController
    -- the Job of a JobSet is not a workload
    pod w/1#0 again=2 by=child
    => reserved w/1 0:a[1]
    => bind w/1#0.2 -> a [1]
  )");
}

TEST(ForeignPods, SeenBeforeTheWorkload) {
  expect(R"(
    node a gpus=1
    synced
    pod w/1#0 again=x in=other
    want w/1 1x1
    => reserved w/1 0:a[0]
    => refuse w/1#0.x
    => foreign other/w/1#0.x w OtherNamespace
    pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
  )");
}

// The state after the step decides: the order of the facts in it does not matter.
TEST(ForeignPods, FinishedInStepOfTheWorkloadAreNotReported) {
  for (const char* step : {"want w/1 1x1 | pod w/1#0 in=other failed", "pod w/1#0 in=other failed | want w/1 1x1"}) {
    expect(fmt::format(R"(
    node a gpus=1
    synced
    pod w/1#0 in=other
    {}
    => reserved w/1 0:a[0]
  )",
                       step));
  }
}

TEST(ForeignPods, DoNotKeepFinishedWorkload) {
  Script script;
  EXPECT_EQ(script.run(R"(
    node a gpus=1
    synced
    want w/1 1x1
    => reserved w/1 0:a[0]
    pod w/1#0 again=x in=other
    => refuse w/1#0.x
    => foreign other/w/1#0.x w OtherNamespace
    phase w/1 finished
    => released w/1 0:a[0]-
    tick 600
    => forget released w/1 0:a[0]-
  )"),
            "");
  EXPECT_EQ(script.engine().tables().workloads.size(), 0U);
}

// The devices of pods are known from placement's own rows and from the kubelet: the annotation of a pod is not read.
TEST(ForeignPods, BoundPodsAreKnownFromRows) {
  expect(R"(
    node a gpus=4
    synced
    want w/1 1x1 | pod w/1#0
    => reserved w/1 0:a[0]
    => bind w/1#0 -> a [0]
    pod w/1#0 on=a running
    => bound w/1 0:a[0]*
    node-gone a
    => bound w/1 0:a[0]*-
    => evict w/1 NodeFailure a lost
    -- the node comes back with the pod on it: it has the device that it was bound with
    node a gpus=4
    want v/1 1x3
    => reserved v/1 0:a[1,2,3]
  )");
}

}  // namespace foreign_pods_test
}  // namespace qm::placement::testing
