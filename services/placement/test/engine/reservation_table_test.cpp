#include "src/engine/disruption/reservation_table.hpp"

#include <gtest/gtest.h>

namespace qm::placement {
namespace reservation_table_test {

const WorkloadUid kPreemptor("preemptor"), kVictim("victim");
const NodeName kHere("n1"), kTarget("n2"), kOther("n3");

Proposal proposal() {
  Proposal row;
  row.state = ProposalState::kAccepted;
  row.places = {{0, 0, kHere, {}}, {0, 1, kHere, {}}};
  row.victims.push_back({{kVictim, 1}, 0, {{0, 0, kTarget, {}}}});
  return row;
}

TEST(ReservationTable, AProposalHoldsItsPlacesAndTheTargetsOfItsVictims) {
  ReservationTable table;
  put_reservations(table, kPreemptor, proposal());
  EXPECT_EQ(table.nodes(HoldSource::kProposal, kPreemptor), (std::set<NodeName>{kHere, kTarget}));
  const auto& here = table.on(kHere).at({HoldSource::kProposal, kPreemptor});
  ASSERT_EQ(here.size(), 1u);
  EXPECT_EQ(here.front().holder, kPreemptor);
  EXPECT_EQ(here.front().places.size(), 2u);
  EXPECT_EQ(here.front().used_by, (std::set<AttemptId>{{kVictim, 1}}));
  EXPECT_FALSE(here.front().drains);
  EXPECT_EQ(here.front().until, Instant::max());
  const auto& target = table.on(kTarget).at({HoldSource::kProposal, kPreemptor});
  ASSERT_EQ(target.size(), 1u);
  EXPECT_EQ(target.front().holder, kVictim);
  EXPECT_TRUE(target.front().used_by.empty());
  EXPECT_TRUE(table.on(kOther).empty());
}

TEST(ReservationTable, ARecoveryEndsAndARepartitionDrainsItsNode) {
  Proposal row = proposal();
  row.state = ProposalState::kRecovering;
  row.until = Instant(std::chrono::seconds(300));
  row.repartitions[kHere] = "all-1g.10gb";
  ReservationTable table;
  put_reservations(table, kPreemptor, row);
  const auto& here = table.on(kHere).at({HoldSource::kProposal, kPreemptor});
  EXPECT_EQ(here.front().until, row.until);
  EXPECT_TRUE(here.front().drains);
}

TEST(ReservationTable, ARowThatIsErasedLeavesNothing) {
  ReservationTable table;
  put_reservations(table, kPreemptor, proposal());
  table.erase(HoldSource::kProposal, kPreemptor, kOther);  // holds nothing there
  table.erase(HoldSource::kRepartition, kPreemptor);       // another source
  EXPECT_EQ(table.rows_on(HoldSource::kProposal, kHere), (std::set<WorkloadUid>{kPreemptor}));
  table.erase(HoldSource::kProposal, kPreemptor);
  EXPECT_EQ(table, ReservationTable());
}

TEST(ReservationTable, OnANodeProposalsAreFirstThenDefragmentation) {
  ReservationTable table;
  table.put(HoldSource::kRepartition, kVictim, kHere, {});
  DefragRun run;
  run.steps.push_back({{kHere}, 8, {{{kVictim, 1}, {{0, 0, kTarget, {}}}, 0, 0}}});
  put_reservations(table, run);
  put_reservations(table, kPreemptor, proposal());
  std::vector<HoldSource> order;
  for (const auto& [row, held] : table.on(kHere)) order.push_back(row.first);
  EXPECT_EQ(order, (std::vector{HoldSource::kProposal, HoldSource::kDefragmentation, HoldSource::kRepartition}));
  EXPECT_TRUE(table.on(kHere).at({HoldSource::kDefragmentation, {}}).front().drains);
  EXPECT_FALSE(table.on(kTarget).at({HoldSource::kDefragmentation, {}}).front().drains);
  put_reservations(table, DefragRun{});
  EXPECT_TRUE(table.rows(HoldSource::kDefragmentation).empty());
  EXPECT_TRUE(table.holds(HoldSource::kProposal, kHere));
}

}  // namespace reservation_table_test
}  // namespace qm::placement
