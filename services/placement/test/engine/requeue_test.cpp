// Pending workloads that were short: which change of capacity puts them on the requeue list, and when they leave it.
#include "qm/kube_rules/text.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace requeue_test {

void expect(const std::string& table) { EXPECT_EQ(Script().run(table), ""); }

/// Expects that a workload that does not fit on the node as it is, and returns to pending, is on
/// the list after the change.
void expect_wake(const std::string& before, const std::string& request, const std::string& change) {
  Script script;
  for (const std::string& line : {before, std::string("synced"), "want w/1 " + request, std::string("tick 5")}) {
    const auto out = script.run(line);  // the output is checked by other tests
    ASSERT_EQ(out.find("reserved w/1"), std::string::npos) << out;
  }
  const auto pending = script.run("phase w/2 pending no-room");
  ASSERT_EQ(pending.find("requeue"), std::string::npos) << pending;
  ASSERT_NE(script.run(change).find("requeue w/2"), std::string::npos) << change;
}

TEST(Requeue, EachChangeOfCapacityWakesThePendingWorkloadThatFits) {
  const struct {
    const char *before, *request, *change;
  } cases[] = {
      {"node a gpus=8 external", "1x8", "node a gpus=8"},                                        // uncordoned
      {"node a gpus=8 ready=no", "1x8", "node a gpus=8"},                                        // Ready
      {"node a gpus=8", "1x8 select=pool=x", "node a gpus=8 label=pool=x"},                      // relabeled
      {"node a gpus=8 taint=team:NoSchedule", "1x8", "node a gpus=8"},                           // untainted
      {"node a gpus=4", "1x8", "node a gpus=8"},                                                 // more GPUs
      {"node a gpus=8 cpu=1", "1x8 cpu=4", "node a gpus=8 cpu=8"},                               // more CPUs
      {"node a gpus=8 mem=1", "1x8 mem=4", "node a gpus=8 mem=8"},                               // more memory
      {"node a gpus=8 | unmanaged p on=a gpus=1", "1x8", "unmanaged p on=a gpus=1 succeeded"},   // of other owners
      {"node a gpus=8 | unmanaged p on=a gpus=1", "1x8", "unmanaged-gone p"},                    //
      {"node a gpus=8 cpu=8 | unmanaged m on=a cpu=8 daemon", "1x8 cpu=4", "unmanaged-gone m"},  // a mirror pod
      {"node a gpus=8 | health a gpu=3", "1x8", "health a ok"},                                  // repaired
      {"node a gpus=8 | drain a", "1x8", "undrain a"},                                           // no drain any more
      {"node b gpus=2", "1x8", "node a gpus=8"},                                                 // a new node
  };
  for (const auto& one : cases) expect_wake(one.before, one.request, one.change);
}

TEST(Requeue, BoundClaimWakesThePendingWorkloadThatUsesIt) {
  Script script;
  script.run("node a gpus=8");
  script.run("synced");
  script.step({StorageSynced{"class", {}}, StorageSynced{"volume", {}}, StorageSynced{"claim", {}},
               StorageUpdated{"claim/default/data", Claim{"", "slow", "", false}}});
  rules::PodTemplate like{Namespace("default"), {}, {}};
  like.rules.claims = {"data"};
  WorkloadUpdated latest = gang_of("w", 1, like);
  script.step({latest});
  latest.attempt = 2;
  latest.phase = WorkloadPhase::kPending;
  latest.no_free_capacity = true;
  script.step({latest});
  EXPECT_TRUE(script.engine().requeue().empty());
  script.step(
      {StorageUpdated{"volume/pv", Volume{}}, StorageUpdated{"claim/default/data", Claim{"pv", "slow", "", false}}});
  ASSERT_EQ(script.engine().requeue().size(), 1U);
  EXPECT_EQ(script.engine().requeue()[0].id, attempt_id("w/2"));
}

/// Two workloads are pending for a cordoned node, which is then uncordoned: the first is offered its capacity.
const std::string kOffered = R"(
    node a gpus=8 external
    synced
    want v/1 1x8 prio=1 | want w/1 1x8
    => short v/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned manually (a)
    => short w/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned manually (a)
    => demand v/1 w/1
    phase v/2 pending no-room | phase w/2 pending no-room
    => forget short v/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned manually (a)
    => forget short w/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned manually (a)
    => demand v/2 w/2
    node a gpus=8
    => demand w/2
    => requeue v/2
)";

// As many workloads as fit together are offered at once; the capacity that they leave free, since
// they have no quota, is offered to the next ones a moment later.
TEST(Requeue, CapacityUnusedByTheFirstIsOfferedToTheNext) {
  Options options;
  options.requeue_pause = std::chrono::seconds(1);
  EXPECT_EQ(Script(options).run(kOffered + R"(
    tick 1
    => demand
    => requeue v/2 w/2
    -- nothing is left to offer
    tick 1
    tick 60
    -- it leaves the list when it gets quota
    want w/2 1x8
    => reserved w/2 0:a[0,1,2,3,4,5,6,7]
    => requeue v/2
    phase v/2 cancelled
    => requeue
  )"),
            "");
}

TEST(Requeue, WorkloadThatGetsQuotaUsesTheCapacity) {
  Options options;
  options.requeue_pause = std::chrono::seconds(1);
  EXPECT_EQ(Script(options).run(kOffered + R"(
    want v/2 1x8 prio=1
    => reserved v/2 0:a[0,1,2,3,4,5,6,7]
    => requeue
    tick 1
    tick 60
  )"),
            "");
}

/// The given number of pending workloads of 8 GPUs, and one node of 8 that is cordoned.
void fall_back(Script& script, int workloads) {
  script.run("node a gpus=8 external | synced");
  for (int i = 0; i < workloads; ++i) {
    script.run(fmt::format("want w{}/1 1x8", i));
    script.run(fmt::format("phase w{}/2 pending no-room", i));
  }
  ASSERT_TRUE(script.engine().requeue().empty());
}

// None has quota. However many there are, each is offered the capacity.
TEST(Requeue, FreeCapacityIsOfferedToAllWithinASecond) {
  Script script;
  fall_back(script, 700);
  script.run("node a gpus=8");
  EXPECT_EQ(script.engine().requeue().size(), 1U);
  for (const std::size_t offered : {9U, 73U, 700U}) {
    script.advance(std::chrono::milliseconds(250));
    script.run("tick 0");
    EXPECT_EQ(script.engine().requeue().size(), offered);
  }
  script.advance(std::chrono::milliseconds(250));
  script.run("tick 0");
  EXPECT_EQ(script.engine().tables().meta.find(0)->requeue_at, Instant{}) << "nothing is left to offer";
  EXPECT_EQ(script.engine().tables().meta.find(0)->requeue_round, 0) << "the next capacity is offered to few first";
}

TEST(Requeue, TheRoundsEndWhereAWorkloadUsesTheCapacity) {
  Script script;
  fall_back(script, 20);
  script.run("node a gpus=8");
  script.run("tick 1");
  EXPECT_EQ(script.engine().requeue().size(), 9U);
  script.run("want w10/2 1x8");
  script.run("tick 1");
  EXPECT_EQ(script.engine().requeue().size(), 8U);
  script.run("tick 60");
  EXPECT_EQ(script.engine().requeue().size(), 8U);
}

// Admission stopped waiting before it received the decision. The nodes of the late decision are
// free again, and the next attempt is tried.
TEST(Requeue, LateAnswerIsRetriedAtOnce) {
  expect(R"(
    node a gpus=8 external
    synced
    want w/1 1x8
    => short w/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 8; 1 cordoned manually (a)
    => demand w/1
    node a gpus=8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    => demand
    phase w/2 pending no-room
    => released w/1 0:a[0,1,2,3,4,5,6,7]-
    => demand
    => requeue w/2
    -- received again, as after a restore of admission, which may have lost the list
    phase w/2 pending no-room
    => requeue w/2
  )");
}

// A workload that was preempted backs off for another reason than a lack of nodes: nothing is
// offered, and no instance is launched for it.
TEST(Requeue, WorkloadPendingForOtherReasonsIsNotListed) {
  expect(R"(
    node a gpus=8
    synced
    want w/1 1x8
    => reserved w/1 0:a[0,1,2,3,4,5,6,7]
    phase w/2 pending
    => released w/1 0:a[0,1,2,3,4,5,6,7]-
    node b gpus=8
  )");
}

}  // namespace requeue_test
}  // namespace qm::placement::testing
