// The ledger table on a real PostgreSQL: it accepts the entries of the engine, and nothing else.
#include "qm/pg/connection.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"
#include "wire.hpp"

#include <gtest/gtest.h>

namespace qm::cost::test {
namespace ledger_pg_test {

class LedgerTable : public testing::PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    auto opened = store::open_postgres({conninfo_, "cost", "default", migrations()});
    ASSERT_TRUE(opened) << opened.error().to_string();
    store_ = std::move(*opened);
    auto connected = pg::Connection::open(conninfo_, {"test"});
    ASSERT_TRUE(connected) << connected.error().to_string();
    sql_ = std::move(*connected);
  }

  Status insert(const std::string& rows) {
    auto done = sql_->exec(
        "insert into cost.ledger (entry_id, line, at_us, valid_from, valid_to, account, team, "
        "namespace, workload, instance, node, nano, gpu_micros, kind) values " +
        rows);
    if (!done) return tl::unexpected<Error>(done.error());
    return {};
  }
  static std::string row(const std::string& entry, int line, std::int64_t nano, std::int64_t gpu_micros) {
    return fmt::format("('{}', {}, 1, 1, 2, 'a', 't', '', '', 'i', 'n', {}, {}, 'charge')", entry, line, nano,
                       gpu_micros);
  }
  std::int64_t number(const std::string& query) {
    const auto rows = sql_->exec(query);
    EXPECT_TRUE(rows) << rows.error().to_string();
    return rows ? std::stoll(rows->str(0, 0)) : -1;
  }

  std::unique_ptr<store::Store> store_;
  std::unique_ptr<pg::Connection> sql_;
};

TEST_F(LedgerTable, TakesBalancedEntriesOnly) {
  EXPECT_TRUE(insert(row("e1", 1, 5, 7) + "," + row("e1", 2, -5, -7)));
  const auto money = insert(row("e2", 1, 5, 7) + "," + row("e2", 2, -4, -7));
  ASSERT_FALSE(money);
  EXPECT_NE(money.error().message.find("does not balance"), std::string::npos) << money.error().message;
  EXPECT_FALSE(insert(row("e3", 1, 5, 7) + "," + row("e3", 2, -5, -6)));
  EXPECT_FALSE(insert(row("e4", 1, 5, 0)));
  EXPECT_EQ(number("select count(*) from cost.ledger"), 2);
}

TEST_F(LedgerTable, AnEntryIsPostedOnceAndIsClosed) {
  ASSERT_TRUE(insert(row("e1", 1, 5, 7) + "," + row("e1", 2, -5, -7)));
  EXPECT_FALSE(insert(row("e1", 1, 5, 7) + "," + row("e1", 2, -5, -7)));
  const auto more = insert(row("e1", 3, 1, 0) + "," + row("e1", 4, -1, 0));
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message.find("is closed"), std::string::npos) << more.error().message;
}

TEST_F(LedgerTable, NothingIsEverChanged) {
  ASSERT_TRUE(insert(row("e1", 1, 5, 7) + "," + row("e1", 2, -5, -7)));
  for (const char* attempt : {"update cost.ledger set nano = 0", "delete from cost.ledger", "truncate cost.ledger"}) {
    const auto done = sql_->exec(attempt);
    ASSERT_FALSE(done) << attempt;
    EXPECT_NE(done.error().message.find("append-only"), std::string::npos) << done.error().message;
  }
  EXPECT_EQ(number("select count(*) from cost.ledger"), 2);
}

TEST_F(LedgerTable, TheReportsAreOfAllShards) {
  // Like a second and a third cluster that join a database with an existing first one.
  const auto east = store::open_postgres({conninfo_, "cost", "east", migrations()});
  ASSERT_TRUE(east) << east.error().to_string();
  ASSERT_TRUE(insert(row("e1", 1, 5, 7) + "," + row("e1", 2, -5, -7)));
  const auto in_shard = [](const std::string& schema, std::int64_t gpu_micros) {
    return fmt::format(
        "insert into {0}.ledger (entry_id, line, at_us, valid_from, valid_to, account, team, "
        "namespace, workload, instance, node, nano, gpu_micros, kind) values "
        "('e1', 1, 1, 1, 2, 'team-expense', 't', 'n', 'w', 'i', 'n', 0, {1}, 'charge'), "
        "('e1', 2, 1, 1, 2, 'provider-payable', '', '', '', 'i', 'n', 0, -{1}, 'charge')",
        schema, gpu_micros);
  };
  ASSERT_TRUE(sql_->exec(in_shard("cost_east", 3'600'000'000)));
  const std::string hours = "select round(sum(gpu_hours)) from report.chargeback_by_team_month where team = 't'";
  EXPECT_EQ(number(hours), 1);
  const auto west = store::open_postgres({conninfo_, "cost", "west", migrations()});
  ASSERT_TRUE(west) << west.error().to_string();
  ASSERT_TRUE(sql_->exec(in_shard("cost_west", 7'200'000'000)));
  EXPECT_EQ(number(hours), 1 + 2);
  EXPECT_EQ(number("select round(sum(gpu_hours)) from report.cost_by_job where workload = 'w'"), 3);
  EXPECT_EQ(number("select entries from report.ledger_balance"), 3);
  EXPECT_EQ(number("select sum(gpu_micros) / 3600000000 from report.cost_ledger "
                   "where shard = 'east' and account = 'team-expense'"),
            1);
  EXPECT_EQ(number("select count(distinct shard) from report.cost_ledger"), 3);
}

TEST_F(LedgerTable, HoldsWhatTheEnginePostsAndReportsIt) {
  auto bus = *bus::make_bus("memory:cost_pg");
  ManualClock clock(from_micros(us(0)));
  service::Host host(host_options("default"), std::make_unique<Shell>(std::make_unique<Engine>(), Codec{}),
                     std::move(store_), bus, clock, nullptr);
  ASSERT_TRUE(host.open());
  clock.set(from_micros(us(9000)));
  for (auto& input : {prices_input(builtin_prices()), instance("i-1", 0, 7001), node("n1", "i-1", pb::NODE_READY, 60),
                      stay("w", "research", "lab", "n1", 3, 100, 6000)}) {
    ASSERT_TRUE(host.submit(input));
  }
  while (host.pump()) {
  }
  // A late fact: two slices (three lines and two) are reversed, and the whole table still adds up.
  ASSERT_TRUE(host.submit(stay("w", "research", "lab", "n1", 3, 100, 5000, 2)));
  while (host.pump()) {
  }
  EXPECT_EQ(number("select count(*) from cost.ledger where kind = 'reversal'"), 3 + 2);
  EXPECT_EQ(number("select sum(nano) from cost.ledger"), 0);
  EXPECT_EQ(number("select imbalance_nano from report.ledger_balance"), 0);
  EXPECT_EQ(number("select -sum(nano) from cost.ledger where account = 'provider-payable'"),
            55'040'000'000LL * 7001 / 3600);
  EXPECT_EQ(number("select round(gpu_hours * 3600) from report.cost_by_job where workload = 'job-w'"), 3 * 4900);
  EXPECT_EQ(number("select count(*) from report.chargeback_by_team_month where month = '2026-11'"), 3);
  EXPECT_EQ(number("select round(sum(gpu_hours) * 3600) from report.chargeback_by_team_month"), 8 * 7001);
  EXPECT_EQ(number("select round(sum(gpu_hours) * 3600) from report.idle_by_day"), 8 * 7001 - 3 * 4900);
  EXPECT_EQ(number("select round(sum(gpu_hours) * 3600) from report.cost_by_hour"), 8 * 7001);
}

TEST_F(LedgerTable, ReportsByTheLabelsOfTheWorkloadAlsoWhereANameIsUsedAgain) {
  auto bus = *bus::make_bus("memory:cost_pg_labels");
  ManualClock clock(from_micros(us(0)));
  service::Host host(host_options("default"), std::make_unique<Shell>(std::make_unique<Engine>(), Codec{}),
                     std::move(store_), bus, clock, nullptr);
  ASSERT_TRUE(host.open());
  clock.set(from_micros(us(9000)));
  const auto labelled = [](service::Input input, const std::string& uid, const std::string& product) {
    pb::PlacementEvent event;
    EXPECT_TRUE(event.ParseFromString(input.bytes));
    event.mutable_assignment()->set_uid(uid);
    event.mutable_assignment()->set_workload("nightly");
    auto& labels = *event.mutable_assignment()->mutable_labels();
    labels["product"] = product;
    labels["cost-center"] = "CC-7";
    input.bytes = event.SerializeAsString();
    return input;
  };
  for (auto& input : {prices_input(builtin_prices()), instance("i-1", 0, 7001), node("n1", "i-1", pb::NODE_READY, 60),
                      labelled(stay("w1", "research", "lab", "n1", 2, 100, 1100), "w1", "search"),
                      labelled(stay("w2", "research", "lab", "n1", 2, 2000, 2500), "w2", "ads")}) {
    ASSERT_TRUE(host.submit(input));
  }
  while (host.pump()) {
  }
  // The label is corrected while the slices can still be restated: the newest version counts for all of the workload.
  ASSERT_TRUE(host.submit(labelled(stay("w2", "research", "lab", "n1", 2, 2000, 2500, 2), "w2", "maps")));
  while (host.pump()) {
  }
  const auto hours = [&](const std::string& where) {
    return number("select coalesce(round(sum(gpu_hours) * 3600), 0) from report.chargeback where " + where);
  };
  EXPECT_EQ(hours("product = 'search' and cost_center = 'CC-7'"), 2 * 1000);
  EXPECT_EQ(hours("product = 'ads'"), 0);
  EXPECT_EQ(hours("product = 'maps'"), 2 * 500);
  EXPECT_EQ(hours("true"), 8 * 7001);
  EXPECT_EQ(number("select count(*) from report.cost_by_job where workload = 'nightly'"), 2);
  EXPECT_EQ(number("select round(gpu_hours * 3600) from report.cost_by_job where product = 'maps'"), 2 * 500);
  EXPECT_EQ(number("select round(sum(gpu_hours) * 3600) from report.cost_by_hour where product = 'search'"), 2 * 1000);
  EXPECT_EQ(number("select trunc(sum(usd) * 1000000000) from report.chargeback"), 55'040'000'000LL * 7001 / 3600);
}

}  // namespace ledger_pg_test
}  // namespace qm::cost::test
