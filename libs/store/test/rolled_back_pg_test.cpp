// A database that lost commits, and one that assigns an epoch number again.
#include "pg_store.hpp"
#include "qm/base/crash_point.hpp"

#include <fmt/format.h>

#include <functional>
#include <sstream>

namespace qm::store {
namespace rolled_back_pg_test {

/// Copies the store's tables to another schema, and back: the effect of a restore of an older copy on a running
/// service.
class RolledBack : public PgStoreTest {
 protected:
  static constexpr const char* kTables = "leader, state, journal, outbox, published, intent, cursor, seen, request";
  void copy() const {
    ASSERT_TRUE(raw()->exec("drop schema if exists copy cascade; create schema copy"));
    for_each_table("create table copy.{0} as table admission.{0}");
  }
  void restore() const {
    for_each_table("begin; truncate admission.{0}; insert into admission.{0} table copy.{0}; commit");
  }

 private:
  void for_each_table(const std::string& sql) const {
    std::istringstream tables(kTables);
    for (std::string table; std::getline(tables >> std::ws, table, ',');) {
      const auto done = raw()->exec(fmt::format(fmt::runtime(sql), table));
      ASSERT_TRUE(done) << done.error().to_string();
    }
  }
};

TEST_F(RolledBack, TheNextCommitIsNotWritten) {
  const auto store = open_at(conninfo_);
  const auto term = store->acquire("test").value().term;
  ASSERT_EQ(store->commit(batch(1)), CommitOutcome::kCommitted);
  copy();
  for (std::uint64_t i = 2; i <= 6; ++i) ASSERT_EQ(store->commit(batch(i)), CommitOutcome::kCommitted);
  ASSERT_TRUE(store->published(6, term));
  restore();
  EXPECT_EQ(store->commit(batch(7)), CommitOutcome::kRolledBack);
  EXPECT_EQ(store->commit(batch(7)), CommitOutcome::kEpochLost) << "until it acquires";
  EXPECT_EQ(ask("select string_agg(sequence::text, ',' order by sequence) from admission.journal"), "1");

  const auto found = store->acquire("test").value();
  EXPECT_EQ(found.journal_sequence, 1U);
  EXPECT_EQ(found.outbox_sequence, 1U);
  ASSERT_EQ(store->commit(batch(2)), CommitOutcome::kCommitted);
  ASSERT_TRUE(store->published(6, term)) << "of rows that are gone";
  EXPECT_EQ(store->read_outbox(0, 10).value().size(), 2U) << "the new row 2 was not sent yet";
  ASSERT_TRUE(store->published(2, found.term));
  EXPECT_TRUE(store->read_outbox(0, 10).value().empty());
}

/// Before any other write the relay may start a new session and delete the rows that it knows to be sent.
TEST_F(RolledBack, RowsThatWereNotSentInTheOlderDatabaseStay) {
  const auto store = open_at(conninfo_);
  const auto term = store->acquire("test").value().term;
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(store->commit(batch(i)), CommitOutcome::kCommitted);
  copy();
  for (std::uint64_t i = 4; i <= 6; ++i) ASSERT_EQ(store->commit(batch(i)), CommitOutcome::kCommitted);
  ASSERT_TRUE(store->published(6, term));
  restore();
  EXPECT_EQ(ask("select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = "
                "'qm relay admission'"),
            "1");
  EXPECT_TRUE(store->read_outbox(6, 10).value().empty());
  EXPECT_EQ(ask("select count(*) from admission.outbox"), "3") << "the bus may have been restored with it";
}

TEST_F(RolledBack, ACopyOfAnEarlierEpochIsBehindToo) {
  const auto store = open_at(conninfo_);
  ASSERT_TRUE(store->acquire("before"));
  ASSERT_EQ(store->commit(batch(1)), CommitOutcome::kCommitted);
  copy();
  ASSERT_TRUE(store->acquire("test"));
  ASSERT_EQ(store->commit(batch(2)), CommitOutcome::kCommitted);
  restore();
  EXPECT_EQ(store->commit(batch(3)), CommitOutcome::kRolledBack);
}

/// Epoch and number of commits of the next leader equal those of the previous one, which was suspended meanwhile.
TEST_F(RolledBack, AnEpochNumberThatIsGivenAgainIsNotThatOfTheOldLeader) {
  const auto before = open_at(conninfo_), old = open_at(conninfo_);
  ASSERT_TRUE(before->acquire("before"));
  ASSERT_EQ(before->commit(batch(1)), CommitOutcome::kCommitted);
  copy();
  const auto first = old->acquire("old").value();
  const auto next = open_at(conninfo_);
  restore();
  const auto second = next->acquire("next").value();
  ASSERT_EQ(second.epoch, first.epoch);
  EXPECT_EQ(second.last_term, first.last_term);
  EXPECT_NE(second.term, first.term);
  ASSERT_TRUE(old->published(1, first.term));
  EXPECT_EQ(next->read_outbox(0, 10).value().size(), 1U) << "rows that a leader of another history read";
  EXPECT_EQ(old->commit(batch(2)), CommitOutcome::kRolledBack);
  EXPECT_EQ(next->commit(batch(2)), CommitOutcome::kCommitted);
}

TEST_F(RolledBack, ACommitWhoseAnswerIsLostIsNotThatOfALeaderOfTheSameEpoch) {
  const auto old = open_at(conninfo_), next = open_at(conninfo_);
  copy();
  ASSERT_TRUE(old->acquire("old"));
  static std::function<void()> take_over;
  take_over = [&] {
    restore();
    ASSERT_TRUE(next->acquire("next"));
    ASSERT_EQ(next->commit(batch(1)), CommitOutcome::kCommitted);
  };
  arm_crash_point("store.in_commit", 1, [](std::string_view) {
    disarm_crash_points();
    take_over();
  });
  EXPECT_EQ(old->commit(batch(1)), CommitOutcome::kRolledBack);
  disarm_crash_points();
}

TEST_F(RolledBack, ACommitWhoseAnswerIsLostIsLookedUpInTheOlderDatabase) {
  const auto store = open_at(conninfo_);
  ASSERT_TRUE(store->acquire("test"));
  copy();
  for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_EQ(store->commit(batch(i)), CommitOutcome::kCommitted);
  // Between the write and the commit the session is lost and the copy restored.
  static std::function<void()> roll_back;
  roll_back = [this] {
    EXPECT_EQ(ask("select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = "
                  "'qm engine admission'"),
              "1");
    restore();
  };
  arm_crash_point("store.in_commit", 1, [](std::string_view) { roll_back(); });
  EXPECT_EQ(store->commit(batch(6)), CommitOutcome::kRolledBack);
  disarm_crash_points();
}

}  // namespace rolled_back_pg_test
}  // namespace qm::store
