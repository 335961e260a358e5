// The victims of a workload that is pending for MIG instances: they free instances of the requested
// profile, or a node that is then repartitioned.
#include "test/engine/layout_words.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace qm::placement::testing {
namespace mig_preemption_test {

using std::chrono::seconds;

Options preemption(bool cutting) {
  Options options;
  options.preemption.on = true;
  options.preemption.after = seconds(0);
  options.mig_repartition.on = cutting;
  options.mig_repartition.after = seconds(0);
  return options;
}

class MigPreemption : public ::testing::Test {
 protected:
  MigPreemption() = default;
  explicit MigPreemption(const Options& options) : script(options) {}

  void play(const std::string& line) { (void)script.run(spelled(line + "\n")); }
  /// A node of one GPU, partitioned into seven instances; `more` as in Script.
  void sevens(const std::string& node, const std::string& more = "") {
    play(fmt::format("node {0} gpus=1 sevens=7 label=host={0} cut=all-1g.10gb/success {1} H100", node, more));
  }
  void threes(const std::string& node) {
    play(fmt::format("node {0} gpus=1 allocatable=0 has=3g.40gb:2 label=host={0} cut=all-3g.40gb/success H100", node));
  }
  /// A job that runs on the node: its pods exist there.
  void run_on(const std::string& job, const std::string& node, const std::string& what) {
    play(fmt::format("want {}/1 {} select=host={}", job, what, node));
    play(fmt::format("phase {}/1 admitted", job));
    const Assignment& row = *script.engine().tables().assignments.find({WorkloadUid(job), 1});
    for (const Member& member : row.members) play(fmt::format("pod {}/1#{}", job, member.index));
    for (const Member& member : row.members)
      play(fmt::format("pod {}/1#{} on={} running", job, member.index, member.node));
  }
  /// Its pod terminates, as ordered by admission. Returns the resulting decisions.
  std::string terminate(const std::string& job) {
    play(fmt::format("phase {}/1 evicting deadline=30", job));
    return came(fmt::format("pod-gone {}/1#0", job));
  }
  [[nodiscard]] std::string victims_of(const std::string& uid) {
    std::string out;
    const Proposal* proposal = row(uid);
    if (proposal == nullptr) return out;
    for (const auto& victim : proposal->victims) out += (out.empty() ? "" : " ") + victim.id.uid.value();
    for (const auto& [node, layout] : proposal->repartitions) out += fmt::format("; {} to {}", node, layout);
    return out;
  }
  /// Everything that a line produces.
  [[nodiscard]] std::string came(const std::string& line) {
    std::stringstream seen(script.run(spelled(line + "\n")));
    std::string out;
    for (std::string text; std::getline(seen, text);) {
      const auto at = text.find("=> ");
      if (at == std::string::npos) continue;
      out += (out.empty() ? "" : "\n") + text.substr(at + 3, text.find("     <-") - at - 3);
    }
    return out;
  }
  [[nodiscard]] const Proposal* row(const std::string& uid) {
    return script.engine().tables().proposals.find(WorkloadUid(uid));
  }
  [[nodiscard]] std::string last(const std::string& uid) { return row(uid) == nullptr ? "" : row(uid)->last; }
  [[nodiscard]] AssignmentState state_of(const std::string& uid) {
    return script.engine().tables().assignments.find({WorkloadUid(uid), 1})->state;
  }
  [[nodiscard]] std::string words(const std::string& uid) {
    return script.engine().repartition_status(WorkloadUid(uid));
  }

  Script script{preemption(true)};
};

class MigPreemptionWithoutRepartition : public MigPreemption {
 protected:
  MigPreemptionWithoutRepartition() : MigPreemption(preemption(false)) {}
};

constexpr const char* kWantsThree = "want big/1 1x1 mig=1 profile=3g.40gb prio=10 preempt=own";
constexpr const char* kWantsOne = "want big/1 1x1 mig=1 prio=10 preempt=own";

// ---- instances that victims free ----

TEST_F(MigPreemptionWithoutRepartition, CheapestHolderOfProfileIsVictimAndItsInstanceReserved) {
  sevens("a");
  play("synced");
  for (const char* job : {"l1", "l2", "l3"}) run_on(job, "a", "1x1 mig=2"), play("tick 100");
  run_on("l4", "a", "1x1 mig=1");
  play("tick 100");
  EXPECT_EQ(came(kWantsOne),
            "propose 1 big/1 $0.11: l4/1\n"
            "short big/1 0 of 1 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances\n"
            "demand big/1");
  EXPECT_EQ(words("big"), "preemption requested: ns/l4; it gets their instances");
  EXPECT_EQ(came("answer big/1 accepted"),
            "short big/1 0 of 1 pods fit: 1 eligible nodes; 1 have too few free 1g.10gb instances\n"
            "demand");
  EXPECT_EQ(words("big"), "being preempted: ns/l4; it gets their instances");
  // Other workloads get only instances that are not reserved.
  play("want next/1 1x1 mig=2");
  EXPECT_EQ(terminate("l4"), "withdraw 1 big/1\nreleased l4/1 0:a[0=]*-\nreserved big/1 0:a[0=]\ndemand next/1");
  EXPECT_EQ(row("big"), nullptr);
}

TEST_F(MigPreemptionWithoutRepartition, CheapestSetOfVictimsIsChosen) {
  sevens("a");
  play("synced");
  run_on("old", "a", "1x1 mig=3");
  play("tick 600");
  for (const char* job : {"s1", "s2", "s3"}) run_on(job, "a", "1x1 mig=1");
  play("tick 10");
  play("want big/1 1x1 mig=4 prio=10 preempt=own");
  EXPECT_EQ(victims_of("big"), "s1 s2 s3") << "one is idle";
  play("phase big/1 cancelled");
  play("tick 1");
  play("want more/1 1x1 mig=5 prio=10 preempt=own");
  EXPECT_EQ(victims_of("more"), "old s1") << "three of the one and one of the others are enough";
}

TEST_F(MigPreemptionWithoutRepartition, OtherProfilesAndWholeGpusAreNotVictims) {
  threes("a");
  play("node b gpus=2 allocatable=1 ext=7 label=host=b H100");
  play("synced");
  run_on("three", "a", "1x1 mig=1 profile=3g.40gb");
  run_on("whole", "b", "1x1");
  play("tick 10");
  play("unmanaged p on=b mig=7");
  play(kWantsOne);
  EXPECT_EQ(victims_of("big"), "");
  EXPECT_EQ(last("big"), "NoSufficientVictims");
}

TEST_F(MigPreemptionWithoutRepartition, NoVictimsWhereRepartitionIsNotAllowed) {
  sevens("a");
  play("synced");
  for (const char* job : {"l1", "l2"}) run_on(job, "a", "1x1 mig=1");
  play("tick 100");
  play(kWantsThree);
  EXPECT_EQ(victims_of("big"), "") << "GPUs are repartitioned only if that is enabled";
  EXPECT_EQ(last("big"), "NoSufficientVictims");
}

// As for whole GPUs: holders of MIG instances are not victims for a workload that requests whole GPUs.
TEST_F(MigPreemption, WholeGpuRequestHasNoVictimsWithInstances) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=1");
  play("want big/1 1x1 prio=10 preempt=own");
  EXPECT_EQ(victims_of("big"), "");
}

TEST_F(MigPreemption, OnlyCandidatesAreVictims) {
  sevens("a");
  play("synced");
  run_on("same", "a", "1x1 mig=3 prio=10");
  run_on("other", "a", "1x1 mig=2 queue=other");
  run_on("fresh", "a", "1x1 mig=2");
  play("phase fresh/1 admitted min-runtime=60");
  play(kWantsOne);
  EXPECT_EQ(victims_of("big"), "") << "same priority; another queue; within the minimum run time";
  EXPECT_EQ(last("big"), "NoPreemptionCandidates");
  play("tick 60");
  EXPECT_EQ(victims_of("big"), "fresh");
}

TEST_F(MigPreemption, RefusedVictimIsNotProposedAgain) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=6");
  run_on("l2", "a", "1x1 mig=1");
  play(kWantsOne);
  ASSERT_EQ(victims_of("big"), "l2");
  play("answer big/1 MinimumRunTime refused=l2");
  EXPECT_EQ(victims_of("big"), "");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "l1");
}

TEST_F(MigPreemption, GangUsesSeveralNodes) {
  sevens("a");
  sevens("b");
  play("synced");
  run_on("l1", "a", "1x1 mig=7");
  run_on("l2", "b", "1x1 mig=4");
  run_on("l3", "b", "1x1 mig=3");
  play("want big/1 2x1 mig=7 prio=10 preempt=own");
  EXPECT_EQ(victims_of("big"), "l1 l2 l3");
}

// ---- repartition ----

TEST_F(MigPreemption, TwoSmallInstancesBecomeALargeOne) {
  sevens("a");
  play("synced");
  for (const char* job : {"l1", "l2"}) run_on(job, "a", "1x1 mig=1");
  play("tick 100");
  EXPECT_EQ(came(kWantsThree),
            "propose 1 big/1 $0.21: l1/1 l2/1\n"
            "short big/1 0 of 1 pods fit: 1 eligible nodes; 1 have too few free 3g.40gb instances\n"
            "demand big/1");
  EXPECT_EQ(victims_of("big"), "l1 l2; a to all-3g.40gb");
  EXPECT_EQ(row("big")->micro_usd - row("big")->lost_micro_usd, 90'000) << "seven destroyed, two made";
  EXPECT_EQ(words("big"), "preemption requested: ns/l1, ns/l2; then node a is repartitioned to all-3g.40gb for it");
  play("answer big/1 accepted");
  EXPECT_EQ(words("big"), "being preempted: ns/l1, ns/l2; then node a is repartitioned to all-3g.40gb for it");
  EXPECT_EQ(terminate("l1"), "released l1/1 0:a[0=]*-");
  // A workload that is submitted now does not get the free instances there.
  EXPECT_EQ(came("want next/1 1x1 mig=1"),
            "short next/1 0 of 1 pods fit: 0 eligible nodes; 1 being drained for a MIG repartition\ndemand next/1");
  EXPECT_EQ(terminate("l2"), "withdraw 1 big/1\nreleased l2/1 0:a[0=]*-\ndemand next/1\ncordon a layout");
  EXPECT_EQ(words("big"), "node a is being repartitioned to all-3g.40gb for it: the node is being cordoned");
  EXPECT_EQ(last("big"), "MigRepartitioned");
  EXPECT_EQ(script.run(spelled(R"(
    node a gpus=1 sevens=7 off label=host=a cut=all-1g.10gb/success H100
    => label a all-3g.40gb
    node a gpus=1 allocatable=0 has=3g.40gb:2 off label=host=a cut=all-3g.40gb/success H100
    => uncordon a
    node a gpus=1 allocatable=0 has=3g.40gb:2 label=host=a cut=all-3g.40gb/success H100
    => reserved big/1 0:a[0=]
    => demand next/1
  )")),
            "");
}

TEST_F(MigPreemption, AllHoldersOfTheNodeAreVictims) {
  play("node a gpus=2 label=host=a H100");
  play("synced");
  run_on("whole", "a", "1x1");
  run_on("share", "a", "1x500m");
  play(kWantsOne);
  EXPECT_EQ(victims_of("big"), "share whole; a to all-balanced");
}

TEST_F(MigPreemption, NodeWithAProtectedPodIsNotRepartitioned) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=1");
  play("unmanaged p on=a mig=1");
  play(kWantsThree);
  EXPECT_EQ(victims_of("big"), "");
  play("unmanaged-gone p");
  run_on("peer", "a", "1x1 mig=1 prio=10");
  play("tick 30");
  EXPECT_EQ(victims_of("big"), "");
  play("phase peer/1 finished");
  play("pod-gone peer/1#0");
  play("tick 30");
  EXPECT_EQ(victims_of("big"), "l1; a to all-3g.40gb");
}

TEST_F(MigPreemption, CheaperAlternativeIsProposed) {
  threes("a");
  sevens("b");
  play("synced");
  run_on("t1", "a", "1x1 mig=1 profile=3g.40gb");
  run_on("t2", "a", "1x1 mig=1 profile=3g.40gb");
  play("tick 1000");
  run_on("l1", "b", "1x1 mig=1");
  run_on("l2", "b", "1x1 mig=1");
  play(kWantsThree);
  EXPECT_EQ(victims_of("big"), "l1 l2; b to all-3g.40gb")
      << "two short runs and new instances cost less than a long run";
  play("phase big/1 cancelled");
  play("phase t2/1 finished");
  play("pod-gone t2/1#0");
  play("tick 100");
  run_on("t3", "a", "1x1 mig=1 profile=3g.40gb");
  play("want other/1 1x1 mig=1 profile=3g.40gb prio=10 preempt=own");
  EXPECT_EQ(victims_of("other"), "t3");
}

TEST_F(MigPreemption, NodeWithLeastLostWorkIsChosen) {
  sevens("a");
  sevens("b");
  play("synced");
  run_on("a1", "a", "1x1 mig=1");
  play("tick 300");
  run_on("b1", "b", "1x1 mig=1");
  run_on("b2", "b", "1x1 mig=1");
  play(kWantsThree);
  EXPECT_EQ(victims_of("big"), "b1 b2; b to all-3g.40gb");
}

TEST_F(MigPreemption, IdleGpusAreRepartitionedBeforePreemption) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=1");
  play("tick 100");
  play("node b gpus=1 H100 | " + std::string(kWantsThree));
  EXPECT_EQ(victims_of("big"), "");
  EXPECT_EQ(words("big"), "node b is being repartitioned to all-3g.40gb for it: the node is being cordoned");
}

class MigPreemptionDelay : public MigPreemption {
 protected:
  static Options late() {
    Options options = preemption(true);
    options.mig_repartition.after = seconds(120);
    return options;
  }
  MigPreemptionDelay() : MigPreemption(late()) {}
};

// The same waiting time applies as for a repartition; until it is over, no victim is named that an
// idle GPU might spare.
TEST_F(MigPreemptionDelay, NoPreemptionBeforeRepartitionIsAllowed) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=1");
  play(kWantsThree);
  play("tick 119");
  EXPECT_EQ(victims_of("big"), "");
  EXPECT_EQ(last("big"), "MigRepartitionDelayed");
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "l1; a to all-3g.40gb");
}
TEST_F(MigPreemptionDelay, NoPreemptionWhereIdleGpusSuffice) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=7");
  play("node b gpus=1 H100");
  play(kWantsOne);
  play("tick 60");
  EXPECT_EQ(victims_of("big"), "");
  EXPECT_EQ(last("big"), "MigRepartitioned");
  play("tick 60");
  EXPECT_EQ(words("big"), "node b is being repartitioned to all-balanced for it: the node is being cordoned");
}

class MigPreemptionHourlyBudget : public MigPreemption {
 protected:
  static Options one_order() {
    Options options = preemption(true);
    options.mig_repartition.most_orders = 1;
    return options;
  }
  MigPreemptionHourlyBudget() : MigPreemption(one_order()) {}
};

TEST_F(MigPreemptionHourlyBudget, OrderIsReservedOnce) {
  for (const char* node : {"a", "b"}) sevens(node);
  play("synced");
  for (const char* node : {"a", "b"}) run_on(fmt::format("l{}", node), node, "1x1 mig=1");
  play(kWantsThree);
  EXPECT_EQ(victims_of("big"), "la; a to all-3g.40gb");
  play("want more/1 1x1 mig=2 profile=3g.40gb prio=10 preempt=own");
  play("tick 1");
  EXPECT_EQ(victims_of("more"), "");
  EXPECT_EQ(words("more"), "no GPUs are repartitioned for it now: the limit of 1 orders in 60 min is reached");
  play("phase big/1 cancelled");
  play("tick 30");
  EXPECT_EQ(victims_of("more"), "la; a to all-3g.40gb") << "a canceled request does not count";
}

class MigPreemptionPools : public MigPreemption {
 protected:
  static Options pooled() {
    Options options = preemption(true);
    options.mig_repartition.pools = {"shared"};
    return options;
  }
  MigPreemptionPools() : MigPreemption(pooled()) {}
};

TEST_F(MigPreemptionPools, OnlyNodesOfNamedPoolsAreDrained) {
  sevens("a");
  sevens("b", "label=karpenter.sh/nodepool=shared");
  play("synced");
  for (const char* node : {"a", "b"}) run_on(fmt::format("l{}", node), node, "1x1 mig=1");
  play("tick 1000");
  play(kWantsThree);
  EXPECT_EQ(victims_of("big"), "lb; b to all-3g.40gb");
}

// ---- outcomes ----

TEST_F(MigPreemption, NewPodOnTheNodeEndsProposal) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=1");
  play(kWantsThree);
  play("answer big/1 accepted");
  play("unmanaged thief on=a mig=1");
  EXPECT_EQ(last("big"), "Stale");
  EXPECT_EQ(state_of("big"), AssignmentState::kShort);
  play("tick 1");
  EXPECT_EQ(victims_of("big"), "");
}

TEST_F(MigPreemption, HigherPriorityMayUseReservedCapacity) {
  sevens("a");
  play("synced");
  for (const char* job : {"l1", "l2"}) run_on(job, "a", "1x1 mig=1");
  play(kWantsThree);
  play("answer big/1 accepted");
  (void)terminate("l1");
  play("want boss/1 1x1 mig=6 prio=20");
  EXPECT_EQ(state_of("boss"), AssignmentState::kReserved);
  EXPECT_EQ(last("big"), "Stale");
}

// An instance that a victim will free is not subtracted twice from the capacity of others: once as
// still in use, and once as reserved.
TEST_F(MigPreemptionWithoutRepartition, ReservationsDoNotConflict) {
  threes("a");
  threes("b");
  play("synced");
  run_on("l1", "a", "1x1 mig=1 profile=3g.40gb");
  run_on("stays", "b", "1x1 mig=1 profile=3g.40gb prio=20");
  play("tick 100");
  run_on("l2", "b", "1x1 mig=1 profile=3g.40gb");
  play("want big/1 2x1 mig=1 profile=3g.40gb prio=10 preempt=own");
  play("want next/1 1x1 mig=1 profile=3g.40gb prio=10 preempt=own");
  play("tick 11");
  ASSERT_EQ(victims_of("big"), "l2");
  ASSERT_EQ(victims_of("next"), "l1");
  play("answer big/1 accepted");
  EXPECT_EQ(terminate("l2"),
            "withdraw 1 big/1\nreleased l2/1 0:b[0=]*-\nreserved big/1 0:a[0=] 1:b[0=]\ndemand next/1");
  EXPECT_EQ(terminate("l1"), "withdraw 2 next/1\nreleased l1/1 0:a[0=]*-\nreserved next/1 0:a[0=]\ndemand");
}

TEST_F(MigPreemption, WithdrawnRequestFreesReservedCapacity) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=1");
  play(kWantsThree);
  play("want next/1 1x1 mig=1");
  EXPECT_EQ(state_of("next"), AssignmentState::kShort);
  EXPECT_EQ(came("phase big/1 cancelled"),
            "forget short big/1 0 of 1 pods fit: 1 eligible nodes; 1 have too few free 3g.40gb instances\n"
            "withdraw 1 big/1\n"
            "reserved next/1 0:a[0=]\n"
            "demand");
}

TEST_F(MigPreemption, VictimsMayFinishBeforeTheAnswer) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=1");
  play(kWantsThree);
  EXPECT_EQ(terminate("l1"), "withdraw 1 big/1\nreleased l1/1 0:a[0=]*-\ndemand\ncordon a layout");
}

TEST_F(MigPreemption, WithoutAnswerIsPublishedThreeTimesThenWithdrawn) {
  sevens("a");
  play("synced");
  run_on("l1", "a", "1x1 mig=1");
  play("tick 3600");
  play(kWantsThree);
  EXPECT_EQ(came("tick 30"), "propose 1 big/1 $1.80: l1/1");
  EXPECT_EQ(came("tick 30"), "propose 1 big/1 $1.80: l1/1");
  EXPECT_EQ(came("tick 30"), "withdraw 1 big/1");
  EXPECT_EQ(last("big"), "Unanswered");
}

TEST_F(MigPreemption, UnneededProposalIsWithdrawn) {
  sevens("a");
  sevens("b");
  play("synced");
  run_on("l1", "a", "1x1 mig=1");
  run_on("l2", "b", "1x1 mig=1");
  play(kWantsThree);
  ASSERT_EQ(victims_of("big"), "l1; a to all-3g.40gb");
  play("phase l2/1 finished");
  play("pod-gone l2/1#0");
  EXPECT_EQ(came("tick 30"), "withdraw 1 big/1\ndemand\ncordon b layout") << "b is idle";
}

TEST_F(MigPreemption, RestartContinuesProposal) {
  sevens("a");
  play("synced");
  for (const char* job : {"l1", "l2"}) run_on(job, "a", "1x1 mig=1");
  play(kWantsThree);
  play("answer big/1 accepted");
  script.engine().rebuild();
  EXPECT_EQ(terminate("l1"), "released l1/1 0:a[0=]*-");
  script.engine().rebuild();
  EXPECT_EQ(terminate("l2"), "withdraw 1 big/1\nreleased l2/1 0:a[0=]*-\ndemand\ncordon a layout");
}

}  // namespace mig_preemption_test
}  // namespace qm::placement::testing
