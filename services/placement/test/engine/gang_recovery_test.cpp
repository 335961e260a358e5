// Gang recovery after the loss of a node: where the next attempt is placed, and what is reserved for it until then.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace gang_recovery_test {

constexpr const char* kRack = "cloud.provider.com/topology-rack";

class GangRecovery : public ::testing::Test {
 protected:
  explicit GangRecovery(Duration keep = std::chrono::minutes(5)) : script(options(keep)) {}
  static Options options(Duration keep) {
    Options out;
    out.returning = keep;
    out.topology = {kRack};
    return out;
  }

  void play(const std::string& line) { (void)script.run(line); }
  void node(const std::string& name, const std::string& rack, const std::string& rest = "") {
    play(fmt::format("node {} gpus=8 label=host={} label={}={} {}", name, name, kRack, rack, rest));
  }
  /// The attempt's pods are created and run where they were placed.
  void run(const std::string& attempt) {
    play(fmt::format("phase {} admitted", attempt));
    const auto members = row(attempt).members;
    for (const Member& member : members) play(fmt::format("pod {}#{}", attempt, member.index));
    for (const Member& member : members)
      play(fmt::format("pod {}#{} on={} running", attempt, member.index, member.node));
  }
  /// Its pods terminate one after the other, as ordered by admission; those of lost nodes are never reported.
  void terminate(const std::string& attempt, const std::string& lost) {
    play(fmt::format("phase {} evicting deadline=30", attempt));
    const auto members = row(attempt).members;
    for (const Member& member : members) {
      if (member.node != NodeName(lost)) play(fmt::format("pod-gone {}#{}", attempt, member.index));
    }
  }
  /// One gang of four on a, b, c, d, all in rack r1.
  void gang_of_four() {
    for (const char* name : {"a", "b", "c", "d"}) node(name, "r1");
    play("synced");
    play("want w/1 4x8");
    ASSERT_EQ(where("w/1"), "a b c d");
    run("w/1");
  }
  [[nodiscard]] const Assignment& row(const std::string& attempt) {
    return *script.engine().tables().assignments.find(attempt_id(attempt));
  }
  /// Its nodes by rank.
  [[nodiscard]] std::string where(const std::string& attempt) {
    std::string out;
    for (const Member& member : row(attempt).members) out += fmt::format("{}{}", out.empty() ? "" : " ", member.node);
    return out;
  }
  [[nodiscard]] bool kept(const std::string& uid) {
    const Proposal* row = script.engine().tables().proposals.find(WorkloadUid(uid));
    return row != nullptr && row->state == ProposalState::kRecovering;
  }

  Script script;
};

TEST_F(GangRecovery, OnlyLostRankIsPlacedAgain) {
  gang_of_four();
  node("0", "r2");
  node("e", "r1");
  play("node-gone c");
  terminate("w/1", "c");
  EXPECT_TRUE(kept("w"));
  // Other workloads are pending, or are placed on nodes that the gang did not use.
  play("want x/1 2x8");
  EXPECT_EQ(where("x/1"), "0 e");
  play("phase x/1 cancelled");
  play("want y/1 3x8");
  EXPECT_EQ(row("y/1").state, AssignmentState::kShort) << "a, b and d are held";
  play("phase w/2 pending");
  EXPECT_TRUE(kept("w"));
  play("phase w/2 quota-reserved");
  EXPECT_EQ(where("w/2"), "a b e d") << "e is in the same rack, 0 is not";
  EXPECT_FALSE(kept("w"));
}

TEST_F(GangRecovery, SpareOfSameRackBeforeRemoteNode) {
  gang_of_four();
  node("0", "r2");
  node("spare", "r1", fmt::format("label={}=true", kSpareLabel));
  play("want x/1 1x8 select=host=spare");
  EXPECT_EQ(row("x/1").state, AssignmentState::kShort);
  EXPECT_NE(row("x/1").short_reason.find("reserved as a spare"), std::string::npos) << row("x/1").short_reason;
  play("node-gone c");
  terminate("w/1", "c");
  play("phase w/2 quota-reserved");
  EXPECT_EQ(where("w/2"), "a b spare d");
  run("w/2");
  EXPECT_EQ(row("w/2").state, AssignmentState::kBound);
  // The spare is a spare again after the gang has finished, and x is still not placed there.
  play("phase w/2 finished");
  for (int rank = 0; rank < 4; ++rank)
    play(fmt::format("pod w/2#{} on={} succeeded", rank, row("w/2").members[rank].node));
  EXPECT_EQ(row("x/1").state, AssignmentState::kShort);
}

TEST_F(GangRecovery, DemandCoversLostRanksOnly) {
  gang_of_four();
  play("node-gone c");
  terminate("w/1", "c");
  play("phase w/2 quota-reserved");
  ASSERT_EQ(row("w/2").state, AssignmentState::kShort);
  const auto pods = [&] {
    const auto demand = script.engine().demand();
    return demand.size() == 1 && demand[0].pod_sets.size() == 1 ? demand[0].pod_sets[0].count : -1;
  };
  EXPECT_EQ(pods(), 1);
  play("want urgent/1 1x8 prio=10");
  EXPECT_EQ(pods(), 2) << "the higher priority uses one of its places";
  play("tick 330");
  EXPECT_EQ(pods(), 4) << "nothing is held any more";
}

TEST_F(GangRecovery, IdleNodeOfRackBeforeSpare) {
  gang_of_four();
  node("spare", "r1", fmt::format("label={}=true", kSpareLabel));
  node("z", "r1");
  play("node-gone c");
  terminate("w/1", "c");
  play("phase w/2 quota-reserved");
  EXPECT_EQ(where("w/2"), "a b z d");
}

TEST_F(GangRecovery, RequiredLevelIsKept) {
  for (const char* name : {"a", "b", "c"}) node(name, "r1");
  for (const char* name : {"p", "q", "r"}) node(name, "r2");
  play("synced");
  play(fmt::format("want w/1 3x8 required={}", kRack));
  ASSERT_EQ(where("w/1"), "a b c");
  run("w/1");
  play("node-gone b");
  terminate("w/1", "b");
  play("phase w/2 quota-reserved");
  EXPECT_EQ(where("w/2"), "p q r") << "its rack has no other: all of it moves";
  EXPECT_FALSE(kept("w"));
}

TEST_F(GangRecovery, HigherPriorityMayUseHeldPlaces) {
  gang_of_four();
  play("node-gone c");
  terminate("w/1", "c");
  play("want same/1 1x8");
  EXPECT_EQ(row("same/1").state, AssignmentState::kShort);
  play("want urgent/1 1x8 prio=10");
  EXPECT_EQ(where("urgent/1"), "a");
  for (const char* name : {"e", "f", "g"}) node(name, "r1");
  EXPECT_EQ(where("same/1"), "e");
  play("phase w/2 quota-reserved");
  EXPECT_EQ(where("w/2"), "f b g d") << "ranks 1 and 3 are where they were";
}

TEST_F(GangRecovery, HoldExpires) {
  gang_of_four();
  play("node-gone c");
  terminate("w/1", "c");
  play("want x/1 1x8");
  play("tick 329");
  EXPECT_TRUE(kept("w")) << "30 s of grace and five minutes";
  play("tick 1");
  EXPECT_FALSE(kept("w"));
  EXPECT_EQ(where("x/1"), "a");
}

TEST_F(GangRecovery, FinishedWorkloadHoldsNothing) {
  gang_of_four();
  play("node-gone c");
  terminate("w/1", "c");
  play("want x/1 1x8");
  EXPECT_EQ(row("x/1").state, AssignmentState::kShort);
  play("phase w/1 cancelled");
  EXPECT_FALSE(kept("w"));
  EXPECT_EQ(where("x/1"), "a");
}

TEST_F(GangRecovery, EvictionWithHealthyNodesHoldsNothing) {
  gang_of_four();
  terminate("w/1", "");
  EXPECT_FALSE(kept("w"));
}

// A node that is about to be reclaimed, a faulty GPU, a node that does not report: the same.
class GangRecoveryCauses : public GangRecovery, public ::testing::WithParamInterface<const char*> {};
TEST_P(GangRecoveryCauses, OtherPlacesAreHeld) {
  gang_of_four();
  node("e", "r1");
  play(GetParam());
  play("tick 61");
  terminate("w/1", "");
  EXPECT_TRUE(kept("w"));
  play("phase w/2 quota-reserved");
  EXPECT_EQ(where("w/2"), "a b e d");
}
INSTANTIATE_TEST_SUITE_P(How, GangRecoveryCauses,
                         ::testing::Values("drain c", "health c gpu=3 cordon", "node c gpus=8 ready=no"));

class GangRecoveryDisabled : public GangRecovery {
 protected:
  GangRecoveryDisabled() : GangRecovery(Duration{}) {}
};

TEST_F(GangRecoveryDisabled, HoldsNothing) {
  gang_of_four();
  play("node-gone c");
  terminate("w/1", "c");
  EXPECT_FALSE(kept("w"));
}

}  // namespace gang_recovery_test
}  // namespace qm::placement::testing
