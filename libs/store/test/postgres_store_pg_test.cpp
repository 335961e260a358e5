#include "pg_store.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/pg/connection.hpp"
#include "qm/store/lease.hpp"
#include "qm/testing/fault_proxy.hpp"
#include "qm/testing/testing.hpp"
#include "store_contract_body.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <sstream>
#include <sys/wait.h>
#include <thread>

namespace qm::store {
namespace postgres_store_pg_test {

using namespace std::chrono_literals;
using testing::FaultProxy;

Open postgres_place(std::string* why_not) {
  auto* server = testing::Postgres::shared(why_not);
  if (server == nullptr) return {};
  return [conninfo = server->fresh_database()] { return open_at(conninfo); };
}

INSTANTIATE_TEST_SUITE_P(Postgres, StoreContract, ::testing::Values(Place{"postgres", &postgres_place}));

/// The whole message, so that "read committed" does not match: its length, the statement, its end.
const std::string kCommit(
    "\x0b"
    "commit\0",
    8);

/// The relay asks ten times a second whether there are rows.
TEST_F(PgStoreTest, ARelayWithoutRowsSendsNoStatementAndSeesTheEndOfItsSession) {
  const auto store = open_at(conninfo_);
  ASSERT_TRUE(store->acquire("a"));
  ASSERT_TRUE(store->read_outbox(0, 10));
  const auto last = [&] {
    return ask(
        "select backend_start || ' ' || query_start from pg_stat_activity where application_name like 'qm relay%'");
  };
  const auto before = last();
  EXPECT_NE(before, "");
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(store->read_outbox(0, 10));
  EXPECT_EQ(last(), before);
  ask("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name like 'qm relay%'");
  EXPECT_TRUE(testing::wait_until([&] { return store->read_outbox(0, 10) && last() != before && !last().empty(); }));
  server_->kill9();
  EXPECT_TRUE(testing::wait_until([&] { return !store->read_outbox(0, 10); })) << "an unavailable store is an error";
  ASSERT_TRUE(server_->restart());
}

// ---- migrations

TEST_F(PgStoreTest, AppliedMigrationsMayNotChange) {
  const Migration one{1, "ledger", "create table {schema}.ledger (a bigint)"};
  ASSERT_TRUE(open_at(conninfo_, {one}));
  auto changed = one;
  changed.sql += " ";
  const auto refused = open_postgres({.conninfo = conninfo_, .service = "admission", .migrations = {changed}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message,
              ::testing::ContainsRegex("migration admission 1 \\(ledger\\) .*[0-9a-f]{64}.*[0-9a-f]{64}"));
  EXPECT_TRUE(open_at(conninfo_, {one, {2, "more", "alter table {schema}.ledger add b bigint"}}));
  const auto older = open_postgres({.conninfo = conninfo_, .service = "admission", .migrations = {one}});
  ASSERT_FALSE(older.has_value());
  EXPECT_EQ(older.error().code, Code::kFailedPrecondition);
  EXPECT_NE(older.error().message.find("migration admission 2 (more)"), std::string::npos);
}

TEST_F(PgStoreTest, ABrokenMigrationNamesItselfAndLeavesNothing) {
  const auto broken = open_postgres(
      {.conninfo = conninfo_,
       .service = "admission",
       .migrations = {{1, "bad", "create table {schema}.half (a bigint); create tble {schema}.x (a bigint)"}}});
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().code, Code::kInvalid);
  EXPECT_NE(broken.error().message.find("migration admission 1 (bad)"), std::string::npos) << broken.error().message;
  EXPECT_EQ(ask("select to_regclass('admission.half') is null"), "t");
  const auto gap =
      open_postgres({.conninfo = conninfo_, .service = "admission", .migrations = {{2, "two", "select 1"}}});
  ASSERT_FALSE(gap.has_value());
  EXPECT_EQ(gap.error().code, Code::kInvalid);
}

TEST_F(PgStoreTest, ManyProcessesMayOpenAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> opened{0};
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      if (open_at(conninfo_, {{1, "slow", "create table {schema}.t (a bigint); select pg_sleep(0.02)"}})) ++opened;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(opened, 6);
  EXPECT_EQ(ask("select count(*) from admission.migration"), "8");
}

TEST_F(PgStoreTest, ShardsHaveSchemasOfTheirOwn) {
  auto other = open_postgres({.conninfo = conninfo_, .service = "admission", .shard = "eu-1"});
  ASSERT_TRUE(other.has_value()) << other.error().to_string();
  ASSERT_TRUE((*other)->acquire("test"));
  EXPECT_EQ((*other)->commit(batch(1)), CommitOutcome::kCommitted);
  EXPECT_EQ(ask("select count(*) from \"admission_eu-1\".state"), "1");
  const auto bad = open_postgres({.conninfo = conninfo_, .service = "admission", .shard = "A b"});
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, Code::kInvalid);
  EXPECT_EQ(bad.error().field, "shard");
}

// ---- appends of a batch

TEST_F(PgStoreTest, AppendedTextsBecomeTheColumnsTypes) {
  auto store = open_at(conninfo_, {{1, "ledger",
                                    "create table {schema}.ledger (n bigint not null, t timestamptz, s text default "
                                    "'unset')"}});
  ASSERT_TRUE(store->acquire("test"));
  Commit batch;
  batch.appends = {{"ledger", {"n", "t", "s"}, {"9223372036854775807", "2026-11-21T09:00:00Z", "a\"\\'\n"}},
                   {"ledger", {"n", "t", "s"}, {"-1", std::nullopt, std::nullopt}},
                   {"ledger", {"n"}, {"2"}}};
  ASSERT_EQ(store->commit(batch), CommitOutcome::kCommitted);
  EXPECT_EQ(ask("select s from admission.ledger where n = 9223372036854775807"), "a\"\\'\n");
  EXPECT_EQ(ask("select t is null and s is null from admission.ledger where n = -1"), "t");
  EXPECT_EQ(ask("select s from admission.ledger where n = 2"), "unset");

  batch.state = {{"job", "a", "x"}};
  batch.appends = {{"ledger", {"n"}, {"no number"}}};
  const auto refused = store->commit(batch);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid) << refused.error().to_string();
  EXPECT_EQ(ask("select count(*) from admission.state"), "0");
  batch.appends.clear();
  EXPECT_EQ(store->commit(batch), CommitOutcome::kCommitted);
}

TEST_F(PgStoreTest, OldJournalRowsAreDeletedAndTheNumbersGoOn) {
  for (const auto keep : {std::chrono::seconds(3600), std::chrono::seconds(0)}) {
    auto store = open_postgres({.conninfo = conninfo_, .service = "admission", .journal_keep = keep});
    ASSERT_TRUE(store.has_value());
    const auto loaded = (*store)->acquire("test").value();
    ASSERT_EQ((*store)->commit(batch(loaded.journal_sequence + 1)), CommitOutcome::kCommitted);
    ASSERT_TRUE((*store)->published(loaded.outbox_sequence + 1, loaded.term));
    EXPECT_EQ((*store)->read_journal(0, 10).value().size(), keep.count() == 0 ? 0U : 1U);
  }
  auto store = open_at(conninfo_);
  EXPECT_EQ(store->acquire("test").value().journal_sequence, 2U);
  EXPECT_EQ(store->commit(batch(3)), CommitOutcome::kCommitted);
}

// ---- retries and their bound

class Stumbling : public PgStoreTest {
 protected:
  /// A table whose first `failures` inserts raise `state`.
  std::unique_ptr<Store> stumbling(int failures, const std::string& state) {
    auto store = open_at(
        conninfo_, {{1, "stumble",
                     fmt::format("create sequence {{schema}}.tries; create table {{schema}}.log (a text); "
                                 "create function {{schema}}.stumble() returns trigger language plpgsql as $$ begin "
                                 "if nextval('{{schema}}.tries') <= {} then raise exception 'planted' using errcode = "
                                 "'{}'; end if; return new; end $$; create trigger t before insert on {{schema}}.log "
                                 "for each row execute function {{schema}}.stumble()",
                                 failures, state)}});
    EXPECT_TRUE(store->acquire("test"));
    return store;
  }
  Commit with_append() {
    auto out = batch(1);
    out.appends = {{"log", {"a"}, {"1"}}};
    return out;
  }
  std::string tries() { return ask("select last_value from admission.tries"); }
};

TEST_F(Stumbling, SerializationFailuresAreRepeated) {
  for (const std::string state : {"40001", "40P01"}) {
    auto store = stumbling(2, state);
    EXPECT_EQ(store->commit(with_append()), CommitOutcome::kCommitted);
    EXPECT_EQ(tries(), "3");
    EXPECT_EQ(ask("select count(*) from admission.journal"), "1");
    conninfo_ = server_->fresh_database();
  }
}

TEST_F(Stumbling, RepeatingHasABound) {
  auto store = stumbling(1000, "40001");
  const auto outcome = store->commit(with_append());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, Code::kAborted);
  EXPECT_TRUE(outcome.error().retryable());
  EXPECT_EQ(tries(), "5");
  EXPECT_EQ(ask("select count(*) from admission.journal"), "0");
}

TEST_F(Stumbling, ARefusalIsNotRepeated) {
  auto store = stumbling(1000, "23514");
  const auto outcome = store->commit(with_append());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, Code::kInvalid);
  EXPECT_EQ(tries(), "1");
}

TEST_F(PgStoreTest, ALostSessionBeforeCommitIsReplaced) {
  auto store = open_at(conninfo_);
  const auto term = store->acquire("test").value().term;
  ASSERT_EQ(store->commit(batch(1)), CommitOutcome::kCommitted);
  EXPECT_EQ(ask("select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = "
                "'qm engine admission'"),
            "1");
  EXPECT_EQ(store->commit(batch(2)), CommitOutcome::kTermEnded)
      << "another may have led since, in a database that is gone";
  const auto next = store->term();
  EXPECT_NE(next.id, term);
  EXPECT_EQ(next.ancestors.front().term, term);
  EXPECT_EQ(next.ancestors.front().end, 1U);
  EXPECT_EQ(ask("select term from admission.leader"), std::to_string(next.id));
  EXPECT_EQ(store->commit(batch(2)), CommitOutcome::kCommitted);
  ASSERT_TRUE(store->published(0, next.id));
  EXPECT_EQ(ask("select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = "
                "'qm relay admission'"),
            "1");
  EXPECT_TRUE(store->published(1, next.id));
  EXPECT_EQ(ask("select count(*) from admission.outbox"), "1");
}

// ---- takeover

/// A leader that lost its lease while it could not reach the database must not raise the epoch of its successor.
TEST_F(PgStoreTest, OnlyTheHolderOfTheLeaseAcquires) {
  PgOptions options{.conninfo = conninfo_, .service = "admission"};
  ASSERT_TRUE(open_postgres(options));
  options.fenced = true;
  const auto store = open_postgres(options).value(), other = open_postgres(options).value();
  const auto refused = store->acquire("a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition) << refused.error().to_string();
  EXPECT_EQ(ask("select epoch from admission.leader"), "0") << "nothing is changed";

  const auto lease = open_lease(options).value();
  ASSERT_EQ(lease->claim(0, "a"), true);
  EXPECT_EQ(store->acquire("a").value().epoch, 1U);
  EXPECT_EQ(store->acquire("a").value().epoch, 2U) << "the holder reloads as often as it must";
  ASSERT_EQ(store->commit(batch(1)), CommitOutcome::kCommitted);

  ASSERT_EQ(lease->claim(1, "b"), true);
  const auto deposed = store->acquire("a");
  ASSERT_FALSE(deposed);
  EXPECT_THAT(deposed.error().message, ::testing::HasSubstr("a does not have the lease of admission, \"b\" has it"));
  EXPECT_EQ(other->acquire("b").value().epoch, 3U);
  ASSERT_TRUE(lease->release("b"));
  EXPECT_FALSE(other->acquire("b")) << "released";
  EXPECT_EQ(ask("select epoch from admission.leader"), "3");
}

/// The lease changes while the state is read, which may take minutes.
TEST_F(PgStoreTest, ALeaseThatIsLostWhileTheStateIsReadIsNoticed) {
  PgOptions options{.conninfo = conninfo_, .service = "admission", .fenced = true};
  const auto store = open_postgres(options).value();
  static std::unique_ptr<Lease> lease;
  lease = open_lease(options).value();
  ASSERT_EQ(lease->claim(0, "a"), true);
  arm_crash_point("store.in_acquire", 1, [](std::string_view) { ASSERT_EQ(lease->claim(1, "b"), true); });
  const auto late = store->acquire("a");
  disarm_crash_points();
  lease.reset();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kFailedPrecondition) << late.error().to_string();
  EXPECT_EQ(ask("select epoch from admission.leader"), "0") << "rolled back";
}

/// The last statement of a takeover locks the lease. A process that stops right after it must not prevent claims.
TEST_F(PgStoreTest, ATakeoverThatStopsBeforeItsCommitReleasesTheLease) {
  PgOptions options{.conninfo = conninfo_, .service = "admission"};
  ASSERT_TRUE(open_postgres(options));
  const auto lease = open_lease(options).value();
  ASSERT_EQ(lease->claim(0, "a"), true);
  FaultProxy proxy(std::stoi(ask("show port")));
  options.conninfo += " host=127.0.0.1 port=" + std::to_string(proxy.port());
  options.fenced = true;
  const auto store = open_postgres(options).value();
  proxy.arm({FaultProxy::Side::kBeforeRequest, FaultProxy::Effect::kStall, kCommit});
  std::thread takeover([&] { EXPECT_FALSE(store->acquire("a")); });
  EXPECT_TRUE(testing::wait_until([&] { return proxy.has_struck(); }));
  EXPECT_TRUE(testing::wait_until(
      [&] {
        const auto claimed = lease->claim(1, "b");
        return claimed && *claimed;
      },
      30s));
  proxy.heal();
  takeover.join();
  EXPECT_EQ(ask("select epoch from admission.leader"), "0");
}

TEST_F(PgStoreTest, TakeoverEndsAnOldSessionInTheMiddleOfATransaction) {
  auto store = open_at(conninfo_);
  ASSERT_TRUE(store->acquire("old"));
  auto hung = pg::Connection::open(conninfo_, {"qm engine admission", 60s, 60s});
  ASSERT_TRUE(hung.has_value());
  ASSERT_TRUE((*hung)->exec("begin; update admission.leader set holder = 'hung'"));
  auto next = open_at(conninfo_);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(next->acquire("new"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_FALSE((*hung)->exec("commit"));
  EXPECT_TRUE((*hung)->broken());
  EXPECT_EQ(ask("select holder from admission.leader"), "new");
}

// ---- commits with a lost result

class LostAnswer : public PgStoreTest {
 protected:
  void SetUp() override {
    PgStoreTest::SetUp();
    if (IsSkipped()) return;
    proxy_ = std::make_unique<FaultProxy>(std::stoi(ask("show port")));
    // The last value of a setting counts.
    const auto through = conninfo_ + " host=127.0.0.1 port=" + std::to_string(proxy_->port());
    auto store = open_postgres({.conninfo = through, .service = "admission", .in_doubt_lookup = 300ms});
    ASSERT_TRUE(store.has_value()) << store.error().to_string();
    store_ = std::move(*store);
    ASSERT_TRUE(store_->acquire("test"));
    ASSERT_EQ(store_->commit(batch(1)), CommitOutcome::kCommitted);
  }
  void TearDown() override { store_.reset(); }

  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<Store> store_;
};

TEST_F(LostAnswer, ACommitThatHappenedIsFound) {
  proxy_->arm({FaultProxy::Side::kBeforeAnswer, FaultProxy::Effect::kCutOne, kCommit});
  EXPECT_EQ(store_->commit(batch(2)), CommitOutcome::kCommitted);
  EXPECT_TRUE(proxy_->has_struck());
  EXPECT_EQ(ask("select commits from admission.leader"), "2");
  EXPECT_EQ(store_->commit(batch(3)), CommitOutcome::kTermEnded);
  EXPECT_EQ(store_->commit(batch(3)), CommitOutcome::kCommitted);
  EXPECT_EQ(store_->read_outbox(0, 10).value().size(), 3U);
}

TEST_F(LostAnswer, ACommitThatDidNotHappenIsOfANewTerm) {
  proxy_->arm({FaultProxy::Side::kBeforeRequest, FaultProxy::Effect::kCutOne, kCommit});
  EXPECT_EQ(store_->commit(batch(2)), CommitOutcome::kTermEnded);
  EXPECT_TRUE(proxy_->has_struck());
  EXPECT_EQ(store_->commit(batch(2)), CommitOutcome::kCommitted);
  EXPECT_EQ(ask("select commits from admission.leader"), "2");
  EXPECT_EQ(ask("select count(*) from admission.journal"), "2");
}

/// The transaction that began the term happened, and its result was lost: the store continues in the term after it.
TEST_F(LostAnswer, ANewTermWhoseAnswerIsLostIsThatOfTheStore) {
  EXPECT_EQ(ask("select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = "
                "'qm engine admission'"),
            "1");
  proxy_->arm({FaultProxy::Side::kBeforeAnswer, FaultProxy::Effect::kCutOne, kCommit});
  EXPECT_EQ(store_->commit(batch(2)), CommitOutcome::kTermEnded);
  EXPECT_TRUE(proxy_->has_struck());
  EXPECT_EQ(ask("select term from admission.leader"), std::to_string(store_->term().id));
  EXPECT_EQ(store_->commit(batch(2)), CommitOutcome::kCommitted);
}

TEST_F(LostAnswer, WithoutAServerItStaysInDoubt) {
  for (const auto side : {FaultProxy::Side::kBeforeAnswer, FaultProxy::Side::kBeforeRequest}) {
    const auto next = std::stoull(ask("select commits + 1 from admission.leader"));
    proxy_->arm({side, FaultProxy::Effect::kCut, kCommit});
    EXPECT_EQ(store_->commit(batch(next)), CommitOutcome::kInDoubt);
    EXPECT_EQ(store_->commit(batch(next)), CommitOutcome::kEpochLost);
    proxy_->heal();
    const auto found = store_->acquire("test");
    ASSERT_TRUE(found.has_value()) << found.error().to_string();
    EXPECT_EQ(found->journal_sequence, side == FaultProxy::Side::kBeforeAnswer ? next : next - 1);
    EXPECT_EQ(store_->commit(batch(found->journal_sequence + 1)), CommitOutcome::kCommitted);
  }
}

TEST_F(LostAnswer, ANewLeaderInTheMeantimeIsSeen) {
  proxy_->arm({FaultProxy::Side::kBeforeRequest, FaultProxy::Effect::kCutOne, kCommit});
  // Takes over the lead between the write and the commit.
  static std::string conninfo;
  conninfo = conninfo_;
  arm_crash_point("store.in_commit", 1, [](std::string_view) { ASSERT_TRUE(open_at(conninfo)->acquire("new")); });
  EXPECT_EQ(store_->commit(batch(2)), CommitOutcome::kEpochLost);
  disarm_crash_points();
  EXPECT_EQ(ask("select count(*) from admission.journal"), "1");
}

// ---- death of either side

TEST_F(PgStoreTest, TheServerMayDieAndComeBack) {
  auto store = open_at(conninfo_);
  const auto term = store->acquire("test").value().term;
  ASSERT_EQ(store->commit(batch(1)), CommitOutcome::kCommitted);
  server_->kill9();
  const auto away = store->commit(batch(2));
  ASSERT_FALSE(away.has_value());
  EXPECT_EQ(away.error().code, Code::kUnavailable) << away.error().to_string();
  EXPECT_EQ(store->published(1, term).error().code, Code::kUnavailable);
  EXPECT_TRUE(testing::wait_until([&] {
    const auto newer = store->read_outbox(1, 10);
    return !newer && newer.error().code == Code::kUnavailable;
  })) << "a request for a missing schema gets kUnavailable";
  EXPECT_EQ(open_postgres({.conninfo = conninfo_, .service = "admission"}).error().code, Code::kUnavailable);
  ASSERT_TRUE(server_->restart());
  EXPECT_EQ(store->commit(batch(2)), CommitOutcome::kTermEnded);
  EXPECT_EQ(store->commit(batch(2)), CommitOutcome::kCommitted);
  EXPECT_EQ(store->read_outbox(0, 10).value().size(), 2U);
}

TEST_F(PgStoreTest, ADeathAtAnyCrashPointLeavesAllOrNothing) {
  const std::vector<std::pair<std::string, std::uint64_t>> expected{
      {"store.before_commit", 1}, {"store.in_commit", 1}, {"store.after_commit", 2}};
  for (const auto& [point, found] : expected) {
    conninfo_ = server_->fresh_database();
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = open_at(conninfo_);
      if (!store->acquire("child") || store->commit(batch(1)) != CommitOutcome::kCommitted) ::_exit(2);
      arm_crash_point(point, 1);
      (void)store->commit(batch(2));
      ::_exit(3);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << point << " status " << status;
    auto store = open_at(conninfo_);
    const auto loaded = store->acquire("parent").value();
    EXPECT_EQ(loaded.journal_sequence, found) << point;
    EXPECT_EQ(loaded.state.size(), found) << point;
    EXPECT_EQ(loaded.outbox_sequence, found) << point;
    EXPECT_EQ(store->read_outbox(0, 10).value().size(), found) << point;
  }
}

/// The relay reads the rows of this process from memory, and those of another process from the table.
TEST_F(PgStoreTest, TheOutboxOfAnotherProcessIsReadToo) {
  auto old = open_at(conninfo_);
  ASSERT_TRUE(old->acquire("old"));
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(old->commit(batch(i)), CommitOutcome::kCommitted);
  auto store = open_at(conninfo_);
  ASSERT_TRUE(store->acquire("new"));
  for (std::uint64_t i = 4; i <= 6; ++i) ASSERT_EQ(store->commit(batch(i)), CommitOutcome::kCommitted);
  std::vector<std::uint64_t> sent;
  while (true) {
    const auto rows = store->read_outbox(sent.empty() ? 0 : sent.back(), 2).value();
    if (rows.empty()) break;
    for (const auto& row : rows) sent.push_back(row.sequence);
  }
  EXPECT_EQ(sent, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6}));
}

/// A hundred thousand events are processed, and the table is as large after the last ten thousand as after the
/// first: sent rows are deleted, and a vacuum (autovacuum is configured for every ten thousand rows; here it is
/// called) frees their space for the next rows.
TEST_F(PgStoreTest, TheOutboxTableDoesNotGrowWithWhatPassedThrough) {
  auto store = open_at(conninfo_);
  const auto term = store->acquire("test").value().term;
  EXPECT_EQ(ask("select count(*) from pg_class where oid = 'admission.outbox'::regclass and reloptions @> "
                "'{autovacuum_vacuum_scale_factor=0,autovacuum_vacuum_threshold=10000}'"),
            "1");
  std::vector<std::int64_t> sizes;
  std::uint64_t sequence = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 20; ++i) {
      Commit commit;
      for (int n = 0; n < 500; ++n) {
        ++sequence;
        commit.outbox.push_back({sequence, "qm.test", "k" + std::to_string(n), sequence, false, std::string(200, 'v')});
      }
      ASSERT_EQ(store->commit(commit), CommitOutcome::kCommitted);
      ASSERT_TRUE(store->published(sequence, term));
    }
    EXPECT_EQ(ask("select count(*) from admission.outbox"), "0");
    ASSERT_TRUE(raw()->exec("vacuum admission.outbox"));
    sizes.push_back(std::stoll(ask("select pg_total_relation_size('admission.outbox')")));
  }
  EXPECT_LE(sizes.back(), 8 << 20) << "ten thousand rows of 200 bytes are 3 MB";
  EXPECT_LE(sizes.back(), sizes.front() + (1 << 20));
}

TEST_F(PgStoreTest, AConnectionStringThatCannotBeReadIsRefused) {
  const auto refused = open_postgres({.conninfo = "host=/tmp prot=1", .service = "admission"});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().field, "conninfo");
  EXPECT_NE(refused.error().message.find("invalid connection option"), std::string::npos) << refused.error().message;
}

}  // namespace postgres_store_pg_test
}  // namespace qm::store
