// Headroom for the SLO of a NodePool, as text tables: see script.hpp for the commands.
#include "qm/autoscaler/headroom/headroom.hpp"
#include "test/engine/script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace headroom_slo_cases_test {

using ::testing::Contains;
using ::testing::HasSubstr;

/// Bursts of two nodes each hour for six hours; the nodes are free again after ten minutes, and terminated.
std::string bursts(const std::string& pool) {
  std::string out = pool + "\n";
  for (int i = 0; i < 6; ++i) {
    const int first = 2 * i + 1;
    out += fmt::format(
        "want b{0}/1 2x8\n"
        "up p-{1:05} i-{1} n{1} | up p-{2:05} i-{2} n{2}\n"
        "node n{1} i-{1} pods=1 | node n{2} i-{2} pods=1 | unwant b{0}\n"
        "tick 600\n"
        "node n{1} i-{1} | node n{2} i-{2}\n"
        "tick 60\n"
        "node n{1} i-{1} cordoned | node n{2} i-{2} cordoned\n"
        "node-gone n{1} | node-gone n{2} | cloud-lost i-{1} | cloud-lost i-{2}\n"
        "tick 2880\n",
        i, first, first + 1);
  }
  return out + "tick 400\n";  // six hours after the start: the first plan
}

/// Runs the history, whose output other tests cover.
void run(Script& script, const std::string& table) {
  (void)script.run(table);
  ASSERT_EQ(script.complaint(), "");
}

TEST(HeadroomSlo, AfterRepeatedBurstsNodesAreKeptFree) {
  Script script;
  run(script, bursts("pool p types=a8 after=30 slo=60"));
  const auto& row = *script.engine().tables().headroom.pools.find("p");
  EXPECT_EQ(row.total.arrivals, 6);
  ASSERT_TRUE(row.levels.contains("a8")) << "the plan is six hours after the start";
  EXPECT_EQ(row.levels.at("a8")[headroom::band_of(2, std::chrono::minutes(57))], 2) << "an hour after the last burst";
  const auto buffers = script.engine().buffers();
  ASSERT_TRUE(buffers.contains("NodePool p/a8"));
  EXPECT_EQ(buffers.at("NodePool p/a8").pods, 2);
  EXPECT_EQ(buffers.at("NodePool p/a8").nodes, 2);
  EXPECT_EQ(buffers.at("NodePool p/a8").per_hour, *Money::parse_usd("80"));
  const auto why = script.engine().explain(script.now());
  EXPECT_THAT(why, Contains(HasSubstr("headroom of NodePool p for a8 has capacity for 2 of 2 pods: 2 node(s) at 80.00 "
                                      "USD/h")));
  EXPECT_THAT(why, Contains(HasSubstr("NodePool p has the SLO that 95.00 % of the workloads that need nodes are "
                                      "pending for at most 60 s: 0 of 6 were")));
}

// Bursts came an hour after one another: two hours after the last one, no further burst is expected.
TEST(HeadroomSlo, HeldNodesAreNotRemovedAsEmptyAndEndWhenNoBurstIsRecent) {
  Script script;
  run(script, bursts("pool p types=a8 after=30 slo=60/50"));
  run(script, "up p-00013 i-13 n13 | up p-00014 i-14 n14\ntick 600\ntick 600");
  EXPECT_EQ(script.engine().tables().claims.find(ClaimName("p-00013"))->state, ClaimState::kReady);
  run(script, "tick 3600\ntick 600\ntick 60");
  EXPECT_EQ(script.engine().tables().claims.find(ClaimName("p-00013"))->state, ClaimState::kDraining);
}

TEST(HeadroomSlo, ABurstUsesThemAtOnceAndTheyAreRefilled) {
  Script script;
  run(script, bursts("pool p types=a8 after=30 slo=60"));
  run(script, "up p-00013 i-13 n13 | up p-00014 i-14 n14\ntick 60");
  EXPECT_EQ(script.run(R"(
    node n13 i-13 pods=1 | node n14 i-14 pods=1
    => launch p-00015 a8 on-demand
    => launch p-00016 a8 on-demand
  )"),
            "");
  EXPECT_EQ(script.engine().tables().headroom.pools.find("p")->total.covered, 1);
}

TEST(HeadroomSlo, NeverBeyondTheLimits) {
  Script script;
  run(script, bursts("pool p types=a8 after=30 slo=60 gpus=16"));
  std::int64_t alive = 0;
  for (const auto& [name, c] : script.engine().tables().claims)
    alive += c.state != ClaimState::kGone && c.state != ClaimState::kFailed ? 1 : 0;
  EXPECT_EQ(alive, 2);
}

// The free nodes of a8 fill the limit; a gang that needs h8 gets it once they are gone.
TEST(HeadroomSlo, APendingGangHasPrecedenceWhereFreeNodesFillTheLimit) {
  Script script;
  run(script, bursts("pool p types=a8,h8 after=30 slo=60 nodes=2"));
  run(script, "up p-00013 i-13 n13 | up p-00014 i-14 n14\ntick 60");
  ASSERT_EQ(script.engine().buffers().at("NodePool p/a8").nodes, 2);
  run(script, "want g/1 1x8 model=H100\ntick 60");
  EXPECT_TRUE(script.engine().buffers().empty());
  EXPECT_THAT(script.engine().explain(script.now()),
              Contains(HasSubstr("none are kept, because a pending gang needs")));
  EXPECT_EQ(script.engine().tables().claims.find(ClaimName("p-00013"))->state, ClaimState::kDraining);
}

TEST(HeadroomSlo, WithoutTheSloTheHistoryEnds) {
  Script script;
  run(script, bursts("pool p types=a8 after=30 slo=60") + "pool p types=a8 after=30");
  EXPECT_EQ(script.engine().tables().headroom.pools.size(), 0U);
  EXPECT_EQ(script.engine().tables().headroom.days.size(), 0U);
  EXPECT_TRUE(script.engine().buffers().empty());
}

// Two engines with the same inputs have the same plan: time is an input.
TEST(HeadroomSlo, TheSameHistoryGivesTheSameState) {
  Script one, two;
  run(one, bursts("pool p types=a8 after=30 slo=60"));
  run(two, bursts("pool p types=a8 after=30 slo=60"));
  EXPECT_EQ(one.engine().digest(), two.engine().digest());
}

}  // namespace headroom_slo_cases_test
}  // namespace qm::autoscaler::testing
