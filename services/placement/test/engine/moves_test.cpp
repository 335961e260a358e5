// Defragmentation: the moves that are requested, one after the other, and the outcomes of the plan.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace qm::placement::testing {
namespace moves_test {

Options tidying() {
  Options options;
  options.hold = std::chrono::hours(1'000);  // no controller creates pods here
  options.tidying.on = true;
  options.tidying.every = std::chrono::seconds(250);
  options.tidying.most_lost = 10'000;
  return options;
}

class Moves : public ::testing::Test {
 protected:
  Moves() : Moves(tidying()) {}
  explicit Moves(const Options& options) : script(options) {
    for (const char* node : {"a", "b", "c", "d"}) play(fmt::format("node {0} gpus=8 label=host={0}", node));
    play("synced");
  }
  void play(const std::string& line) { (void)script.run(line); }
  /// The proposal events that a line produces.
  [[nodiscard]] std::string said(const std::string& line) {
    std::stringstream seen(script.run(line));
    std::string out;
    for (std::string text; std::getline(seen, text);) {
      const auto at = text.find("=> ");
      if (at == std::string::npos) continue;
      text = text.substr(at + 3, text.find("     <-") - at - 3);
      if (text.starts_with("propose ") || text.starts_with("withdraw ")) out += (out.empty() ? "" : "\n") + text;
    }
    return out;
  }
  /// Places a job of four GPUs on each of two nodes, each next to a finished one; the job on a runs 100 s longer.
  void half_empty() {
    play("want a1/1 1x4 | want a2/1 1x4");
    play("phase a1/1 admitted | phase a2/1 admitted");
    play("tick 100");
    play("want b1/1 1x4 | want b2/1 1x4");
    play("phase b1/1 admitted | phase b2/1 admitted");
    play("tick 100");
    play("phase a2/1 finished | phase b2/1 finished");
  }
  /// Two jobs of two GPUs on a, and one of four on b that must stay.
  void two_on_a() {
    play("want a1/1 1x2 | want a2/1 1x2 | want a3/1 1x4");
    play("phase a1/1 admitted | phase a2/1 admitted | phase a3/1 admitted");
    play("want b1/1 1x4");
    play("phase b1/1 admitted kept=100000");
    play("tick 200");
    play("phase a3/1 finished");
  }
  /// Admission evicts the job, and it is retried at once.
  void goes(const std::string& job) {
    play(fmt::format("answer {}/1 accepted evicting", job));
    play(fmt::format("phase {}/2 pending", job));
    play(fmt::format("phase {}/2 quota-reserved", job));
  }
  [[nodiscard]] std::string nodes_of(const std::string& uid, int attempt) const {
    const Assignment* row = engine.tables().assignments.find({WorkloadUid(uid), attempt});
    if (row == nullptr) return "none";
    std::string out(name_of(row->state));
    for (const Member& member : row->members) out += " " + member.node.value();
    return out;
  }
  [[nodiscard]] const TidyRun& run() const { return *engine.tables().tidy.find(0); }

  Script script;
  const Engine& engine = script.engine();
};

TEST_F(Moves, TheGainIsKnownBeforeAnybodyIsAskedAndIsWhatComesOut) {
  half_empty();
  EXPECT_EQ(said("tick 49"), "");
  EXPECT_EQ(said("tick 1"), "propose 1 b1/1 $3.67: b1/1")
      << "150 s of work and two minutes to be there again, of four GPUs";
  EXPECT_EQ(run().nodes, 1);
  EXPECT_EQ(run().gpus, 8);
  EXPECT_EQ(run().moves, 1);
  EXPECT_EQ(run().gpu_ms, 4 * 270'000);
  EXPECT_EQ(run().lost_micro_usd, 4 * 270 * 3'400);
  goes("b1");
  EXPECT_EQ(nodes_of("b1", 1), "released b");
  EXPECT_EQ(nodes_of("b1", 2), "reserved a") << "and not back to b";
  EXPECT_EQ(run().won, 1);
  EXPECT_EQ(run().last, "Done");
  EXPECT_FALSE(run().stands());
  EXPECT_EQ(engine.tables().proposals.size(), 0U);
  EXPECT_EQ(said("tick 250"), "") << "there is nothing more to win";
  EXPECT_EQ(run().last, "Done");
}

TEST_F(Moves, TheNextIsAskedWhenTheOneBeforeHasItsPlace) {
  two_on_a();
  EXPECT_EQ(said("tick 50"), "propose 1 a1/1 $2.52: a1/1");
  EXPECT_EQ(run().moves, 2);
  EXPECT_EQ(said("answer a1/1 accepted evicting"), "");
  EXPECT_EQ(said("phase a1/2 pending"), "");
  EXPECT_EQ(said("tick 60"), "");
  EXPECT_EQ(said("phase a1/2 quota-reserved"), "withdraw 1 a1/1\npropose 2 a2/1 $2.92: a2/1");
  EXPECT_EQ(nodes_of("a1", 2), "reserved b");
  goes("a2");
  EXPECT_EQ(nodes_of("a2", 2), "reserved b");
  EXPECT_EQ(run().won, 1);
  EXPECT_EQ(run().last, "Done");
}

TEST_F(Moves, WhoEndsByItselfNeedNotMove) {
  two_on_a();
  play("tick 50");
  play("phase a2/1 finished");
  goes("a1");
  EXPECT_EQ(run().won, 1);
  EXPECT_EQ(run().last, "Done");
}

TEST_F(Moves, WhomAdmissionKeepsIsLeftAlone) {
  half_empty();
  play("tick 50");
  EXPECT_EQ(said("answer b1/1 OthersWait admitted"), "withdraw 1 b1/1");
  EXPECT_EQ(run().last, "OthersWait");
  EXPECT_EQ(said("tick 250"), "propose 2 a1/1 $8.43: a1/1") << "a is won, and b1 stays where it is";
}

TEST_F(Moves, RoomThatIsKeptForItIsNotForOthers) {
  half_empty();
  play("tick 50");
  play("want c1/1 1x2");
  EXPECT_EQ(nodes_of("c1", 1).substr(0, 10), "reserved c") << "neither where b1 goes, nor on the node that it empties";
}

TEST_F(Moves, NobodyWaitsForTheSakeOfAPlan) {
  half_empty();
  play("tick 50");
  play("want c1/1 1x8 | want c2/1 1x8");
  EXPECT_EQ(said("want b3/1 1x2"), "withdraw 1 b1/1");
  EXPECT_EQ(nodes_of("b3", 1).substr(0, 8), "reserved");
  EXPECT_EQ(run().last, "NeededByOthers");
}

TEST_F(Moves, WhoHasBeenToldToGoKeepsItsRoom) {
  half_empty();
  play("tick 50");
  play("answer b1/1 accepted evicting");
  play("want c1/1 1x8 | want c2/1 1x8");
  play("want all/1 1x8");
  EXPECT_EQ(nodes_of("all", 1), "reserved b") << "b is free now";
  play("want half/1 1x4");
  EXPECT_EQ(nodes_of("half", 1), "short");
  play("phase b1/2 pending | phase b1/2 quota-reserved");
  EXPECT_EQ(nodes_of("b1", 2), "reserved a");
}

TEST_F(Moves, WithoutAnAnswerItIsSaidThriceAndThePlanEnds) {
  half_empty();
  EXPECT_EQ(said("tick 50"), "propose 1 b1/1 $3.67: b1/1");
  EXPECT_EQ(said("tick 30"), "propose 1 b1/1 $3.67: b1/1");
  EXPECT_EQ(said("tick 30"), "propose 1 b1/1 $3.67: b1/1");
  EXPECT_EQ(said("tick 30"), "withdraw 1 b1/1");
  EXPECT_EQ(run().last, "Unanswered");
}

TEST_F(Moves, WhatDoesNotHoldAnyMoreIsNotAskedFor) {
  two_on_a();
  play("tick 50");
  play("answer a1/1 accepted evicting");
  play("drain b");
  EXPECT_EQ(said("phase a1/2 pending | phase a1/2 quota-reserved"), "withdraw 1 a1/1");
  EXPECT_EQ(nodes_of("a1", 2).substr(0, 8), "reserved") << "elsewhere";
  EXPECT_EQ(run().last, "Elsewhere");
}

TEST_F(Moves, WhoIsNotBackInTimeLosesTheRoom) {
  half_empty();
  play("tick 50");
  play("answer b1/1 accepted evicting");
  play("phase b1/2 pending");
  EXPECT_EQ(said("tick 599"), "");
  EXPECT_EQ(said("tick 1"), "withdraw 1 b1/1");
  EXPECT_EQ(run().last, "Late");
}

TEST_F(Moves, ACancelledMoverEndsThePlan) {
  half_empty();
  play("tick 50");
  EXPECT_EQ(said("phase b1/1 cancelled"), "withdraw 1 b1/1");
  EXPECT_EQ(run().last, "Over");
}

TEST_F(Moves, AnAnswerMayBeOvertakenByTheNextAttempt) {
  half_empty();
  play("tick 50");
  play("phase b1/2 pending");
  play("phase b1/2 quota-reserved");
  EXPECT_EQ(nodes_of("b1", 2), "reserved a");
  EXPECT_EQ(run().last, "Done");
}

TEST_F(Moves, ARestartGoesOnAndOneThatIsTurnedOffDropsThePlan) {
  half_empty();
  play("tick 50");
  const auto same = read_back(engine, tidying());
  EXPECT_EQ(same->digest(), engine.digest());
  same->audit();
  const auto off = read_back(engine, Options());
  const auto output = off->step(std::vector<Command>{Tick{}}, script.now());
  EXPECT_EQ(render(output, false), std::vector<std::string>{"withdraw 1 b1/1"});
  EXPECT_EQ(off->tables().tidy.find(0)->last, "TurnedOff");
  off->audit();
}

class MuchForEach : public Moves {
 protected:
  MuchForEach() : Moves(much()) {}
  static Options much() {
    Options options = tidying();
    options.tidying.least_gpus = 5;
    return options;
  }
};

TEST_F(MuchForEach, TooLittleIsWon) {
  two_on_a();
  EXPECT_EQ(said("tick 50"), "") << "eight GPUs for two that move";
  EXPECT_EQ(run().last, "NothingToWin");
}

class TooDear : public Moves {
 protected:
  TooDear() : Moves(dear()) {}
  static Options dear() {
    Options options = tidying();
    options.tidying.most_lost = 4 * 270 / 8 - 1;
    return options;
  }
};

TEST_F(TooDear, MoreIsLostThanItIsWorth) {
  half_empty();
  EXPECT_EQ(said("tick 50"), "");
  EXPECT_EQ(run().last, "NothingToWin");
}

class OneAnHour : public Moves {
 protected:
  OneAnHour() : Moves(one()) {}
  static Options one() {
    Options options = tidying();
    options.tidying.hourly = 1;
    return options;
  }
};

TEST_F(OneAnHour, AStepThatTakesMoreIsNotBegun) {
  two_on_a();
  EXPECT_EQ(said("tick 50"), "");
  play("phase a2/1 finished");
  EXPECT_EQ(said("tick 250"), "propose 1 a1/1 $4.22: a1/1");
  goes("a1");
  EXPECT_EQ(run().won, 1);
  // Another half-empty pair; the budget of one move for this hour is used.
  play("want c1/1 1x6 | phase c1/1 admitted");
  play("want c2/1 1x2 | phase c2/1 admitted");
  play("phase c1/1 finished");
  EXPECT_EQ(said("tick 250"), "");
}

TEST(MovesOff, NobodyMovesUnlessThatIsAskedFor) {
  Script script;
  for (const char* line : {"node a gpus=8", "node b gpus=8", "synced", "want a1/1 1x4 | want a2/1 1x4",
                           "phase a1/1 admitted | phase a2/1 admitted", "want b1/1 1x4", "phase b1/1 admitted",
                           "phase a2/1 finished", "tick 100000"})
    (void)script.run(line);
  EXPECT_EQ(script.engine().tables().tidy.size(), 0U);
  EXPECT_EQ(script.engine().tables().proposals.size(), 0U);
}

}  // namespace moves_test
}  // namespace qm::placement::testing
