// Batches that the database rejects, and the clock of the database.
#include "pg_store.hpp"

#include <gtest/gtest.h>

namespace qm::store {
namespace rejects_pg_test {

class PgRejects : public PgStoreTest {
 protected:
  std::unique_ptr<Store> open(std::vector<Migration> migrations = {}) const {
    return open_at(conninfo_, std::move(migrations));
  }
};

// Each at the statement, or, if the constraint is deferred, at the commit.
TEST_F(PgRejects, ABatchThatViolatesAConstraintIsInvalidAndTheNextOneIsWritten) {
  auto store = open({{1, "ledger",
                      "create table {schema}.ledger (n bigint not null check (n < 100), u bigint unique, "
                      "d bigint unique deferrable initially deferred, r bigint references {schema}.ledger (u))"}});
  ASSERT_TRUE(store->acquire("test"));
  std::uint64_t journal = 0;
  const auto add = [&](std::vector<std::string> names, std::vector<std::optional<std::string>> values) {
    Commit next;
    next.journal_sequence = journal + 1;
    next.appends = {{"ledger", std::move(names), std::move(values)}};
    auto outcome = store->commit(next);
    if (outcome && *outcome == CommitOutcome::kCommitted) ++journal;
    return outcome;
  };
  ASSERT_EQ(add({"n", "u", "d"}, {"1", "1", "1"}), CommitOutcome::kCommitted);
  const std::pair<std::vector<std::string>, std::vector<std::optional<std::string>>> wrong[] = {
      {{"n"}, {std::nullopt}},
      {{"n"}, {"100"}},
      {{"n", "u"}, {"2", "1"}},
      {{"n", "d"}, {"2", "1"}},
      {{"n", "r"}, {"2", "7"}}};
  for (const auto& [names, values] : wrong) {
    const auto refused = add(names, values);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalid) << refused.error().to_string();
    EXPECT_NE(refused.error().message.find("constraint"), std::string::npos) << refused.error().message;
    EXPECT_EQ(add({"n"}, {"3"}), CommitOutcome::kCommitted);
  }
  EXPECT_EQ(ask("select count(*) from admission.ledger"), "6");
}

TEST_F(PgRejects, ShowsTheClockOfTheDatabaseHost) {
  auto store = open();
  const auto clock = [&] {
    return std::stoll(ask("select (extract(epoch from clock_timestamp()) * 1000000)::bigint"));
  };
  EXPECT_FALSE(store->server_now()) << "without a session of its own";
  const auto before = clock();
  const auto loaded = store->acquire("test");
  ASSERT_TRUE(loaded);
  const auto later = store->server_now();
  const auto after = clock();
  ASSERT_TRUE(loaded->server_now && later);
  EXPECT_LE(before, micros(*loaded->server_now));
  EXPECT_LE(*loaded->server_now, *later);
  EXPECT_LE(micros(*later), after);
}

}  // namespace rejects_pg_test
}  // namespace qm::store
