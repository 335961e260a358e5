// When slices are posted, and how many in one step.
#include "script.hpp"

#include <gtest/gtest.h>

namespace qm::cost::test {
namespace posting_test {

void check(Script& script, std::string_view text) { EXPECT_EQ(script.run(text), trimmed(text)); }

TEST(Posting, WaitsTenMinutesBeforeItPosts) {
  Script script;
  check(script, R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    step 4199
    statement 4199
    > (idle) 4.199000000 4199.000s
    > total 4.199000000 bill 4.199000000 imbalance 0 open 1
    step 4200
    > charge n1 0-3600 idle-capacity/(idle):3600000000 provider-payable:-3600000000
    statement 4200
    > (idle) 4.200000000 4200.000s
    > total 4.200000000 bill 4.200000000 imbalance 0 open 1
  )");
}

// The hour ends on all instances at once: 300 nodes with 6,000 pods in it took 208 MiB when one step posted it all.
TEST(Posting, AnHourIsPostedInStepsOfBoundedSize) {
  const Options few{.max_due = 2};
  Script bounded(few);
  const std::string_view facts = R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    launch i-2 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    node n2 i-2 ready at=0
    bind a/1 red ns n1 0 at=600
    release a/1 at=1200
    step 1
  )";
  check(bounded, facts);
  check(bounded, R"(
    step 4200
    > charge n1 0-600 idle-capacity/(idle):600000000 provider-payable:-600000000
    > charge n1 600-1200 team-expense/red:600000000 provider-payable:-600000000
    statement 4200
    > (idle) 7.800000000 7800.000s
    > red 0.600000000 600.000s
    > total 8.400000000 bill 8.400000000 imbalance 0 open 2
    step 4200
    > charge n1 1200-3600 idle-capacity/(idle):2400000000 provider-payable:-2400000000
    > charge n2 0-3600 idle-capacity/(idle):3600000000 provider-payable:-3600000000
    step 4200
    statement 4200
    > (idle) 7.800000000 7800.000s
    > red 0.600000000 600.000s
    > total 8.400000000 bill 8.400000000 imbalance 0 open 2
  )");
  Script once;
  once.run(facts);
  once.run("step 4200");
  EXPECT_EQ(bounded.engine.digest(), once.engine.digest());
}

TEST(Posting, AnUnfinishedHourIsContinuedAtOnce) {
  Engine engine(Options{.max_due = 1});
  std::vector<Engine::Command> facts{PriceApplied{builtin_prices(), {}}};
  for (const char* id : {"i-1", "i-2"}) {
    facts.push_back(InstanceUpdated{InstanceId(id), ClaimName(id), 1, "p5.48xlarge", "z", "on-demand", NodeName(id), 8,
                                    at_second(0), {}});
  }
  engine.step(facts, at_second(1));
  const std::vector<Engine::Command> tick{Tick{}};
  const auto first = engine.step(tick, at_second(4200));
  EXPECT_EQ(first.entries.size(), 1U);
  EXPECT_LE(first.wake_at, at_second(4200));
  const auto second = engine.step(tick, at_second(4200));
  EXPECT_EQ(second.entries.size(), 1U);
  EXPECT_EQ(second.wake_at, at_second(7800));
}

}  // namespace posting_test
}  // namespace qm::cost::test
