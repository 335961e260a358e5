#include "script.hpp"

#include <gtest/gtest.h>

namespace qm::cost::test {
namespace forgotten_test {

void check(std::string_view text) { EXPECT_EQ(Script().run(text), trimmed(text)); }

// A producer lost them with its database, or has removed their tombstones: open usage ends when that is detected.
TEST(Forgotten, AnInstanceThatItsOwnerForgotEndsThen) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    bind a/1 red ns n1 0 at=0
    step 1800
    forget i-1
    step 2700
    step 86400
    > charge n1 0-2700 team-expense/red:2700000000 provider-payable:-2700000000
    statement 86400
    > red 2.700000000 2700.000s
    > total 2.700000000 bill 2.700000000 imbalance 0 open 0
  )");
}

TEST(Forgotten, AForgottenInstanceThatIsFoundAgainUnderAnyKeyRunsOn) {
  for (const auto& [claim, version] : {std::pair("i-1", 1), std::pair("claim-x", 1)}) {
    Engine engine;
    const InstanceUpdated first{InstanceId("i-1"),
                                ClaimName("claim-x"),
                                7,
                                "t",
                                "z",
                                "on-demand",
                                NodeName("n"),
                                1,
                                from_micros(1'000'000),
                                {}};
    std::vector<Engine::Command> batch{
        PriceApplied{PricePlan{"p", {{"t", "", "", HourlyRate{Money::nano(3'600'000'000'000)}}}}, {}}, first};
    engine.step(batch, from_micros(20'000'000));
    engine.commit();
    batch = {InstanceForgotten{ClaimName("claim-x")}};
    engine.step(batch, from_micros(31'000'000));
    engine.commit();
    EXPECT_EQ(engine.statement("", from_micros(61'000'000))->total.nano, Money::nano(30'000'000'000)) << claim;
    InstanceUpdated again = first;
    again.claim = ClaimName(claim);
    again.version = static_cast<std::uint64_t>(version);
    batch = {again};
    engine.step(batch, from_micros(41'000'000));
    engine.commit();
    EXPECT_EQ(engine.statement("", from_micros(61'000'000))->total.nano, Money::nano(60'000'000'000)) << claim;
  }
}

TEST(Forgotten, AnAttemptThatItsOwnerForgotIsReleasedThen) {
  check(R"(
    price t on-demand 3.6
    launch i-1 t z on-demand gpus=1 at=0
    node n1 i-1 ready at=0
    bind a/1 red ns n1 0 at=600
    step 900
    forget a/1
    step 1200
    stop i-1 at=1800
    step 86400
    > charge n1 0-600 idle-capacity/(idle):600000000 provider-payable:-600000000
    > charge n1 600-1200 team-expense/red:600000000 provider-payable:-600000000
    > charge n1 1200-1800 idle-capacity/(idle):600000000 provider-payable:-600000000
  )");
}

}  // namespace forgotten_test
}  // namespace qm::cost::test
