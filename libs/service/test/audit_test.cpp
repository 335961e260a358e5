// The audit trail: a row for each request, in the transaction of its batch.
#include "sums.hpp"

#include <gtest/gtest.h>

namespace qm::service {
namespace audit_test {

Input asked(const std::string& bytes, const std::string& id, const std::string& caller = "olga") {
  Input in;
  in.source = Source::kRequest;
  in.name = "add";
  in.id = id;
  in.bytes = bytes;
  in.caller = caller;
  in.roles = "operator";
  in.object = "sum/" + bytes.substr(0, bytes.find('='));
  return in;
}

/// "caller roles method object request-id outcome decision" of each row.
std::vector<std::string> trail(store::MemoryDisk& disk) {
  std::vector<std::string> out;
  for (const auto& row : appended(disk)) {
    EXPECT_EQ(row.table, "audit");
    std::string line;
    for (const auto& column : row.columns) line += (line.empty() ? "" : " ") + column.value_or("null");
    out.push_back(line);
  }
  return out;
}

TEST(Audit, EachChangeHasOneRowWhateverIsSentAgain) {
  World world("audit-1");
  world.boot();
  ASSERT_TRUE(world.host->submit(asked("a=1", "r1")));
  ASSERT_TRUE(world.host->submit(asked("a=1", "r1")));  // in the same batch
  world.settle();
  ASSERT_TRUE(world.host->submit(asked("a=1", "r1")));  // from the stored reply
  ASSERT_TRUE(world.host->submit(asked("b=2", "")));
  world.settle();
  EXPECT_EQ(trail(*world.disk), (std::vector<std::string>{"olga operator add sum/a r1 ok test/default/1",
                                                          "olga operator add sum/b  ok test/default/3"}));
}

TEST(Audit, ARefusalIsRecordedToo) {
  World world("audit-2");
  world.boot();
  ASSERT_TRUE(world.host->submit(asked("nonsense", "r1")));
  world.settle();
  const auto rows = trail(*world.disk);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_NE(rows[0].find("no key=n"), std::string::npos) << rows[0];
}

TEST(Audit, ADeniedCallChangesNothingButTheTrail) {
  World world("audit-3");
  world.boot();
  world.host->note_denied(asked("a=1", "r1", "mallory"),
                          {Code::kPermissionDenied, "the call needs an operator", {}, {}});
  world.settle();
  const auto rows = trail(*world.disk);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_TRUE(rows[0].starts_with("mallory operator add sum/a r1 ")) << rows[0];
  EXPECT_NE(rows[0].find("the call needs an operator"), std::string::npos) << rows[0];
  EXPECT_EQ(world.sums->sum("a"), 0);
  // The id was not used: an authorized caller may use it.
  ASSERT_TRUE(world.host->submit(asked("a=1", "r1")));
  world.settle();
  EXPECT_EQ(world.sums->sum("a"), 1);
}

TEST(Audit, ABatchThatDidNotHappenLeavesNoRow) {
  World world("audit-4");
  world.boot();
  plant_outcome(*world.disk, store::CommitOutcome::kNotCommitted);
  ASSERT_TRUE(world.host->submit(asked("a=1", "r1")));
  world.host->note_denied(asked("b=1", "r2", "mallory"), {Code::kPermissionDenied, "no", {}, {}});
  world.host->pump();
  EXPECT_TRUE(trail(*world.disk).empty());
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (trail(*world.disk).size() < 2 && std::chrono::steady_clock::now() < until) world.host->pump();
  EXPECT_EQ(trail(*world.disk).size(), 2U);
  EXPECT_EQ(world.sums->sum("a"), 1);
}

TEST(Audit, WhatIsNoTextIsMadeText) {
  World world("audit-5");
  world.boot();
  ASSERT_TRUE(world.host->submit(asked("a=1", "r1", std::string("a\0b\n", 4))));
  world.settle();
  EXPECT_TRUE(trail(*world.disk).at(0).starts_with("a?b? "));
}

TEST(Audit, WhatNoCallerRequestedHasNoRow) {
  World world("audit-6");
  world.boot();
  ASSERT_TRUE(world.add("a=1", "r1"));
  world.settle();
  EXPECT_TRUE(trail(*world.disk).empty());
}

}  // namespace audit_test
}  // namespace qm::service
