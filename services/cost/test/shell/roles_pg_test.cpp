// deploy/postgres/roles.sql on a real server: the permissions of each role.
#include "qm/bus/bus.hpp"
#include "qm/cost/shell.hpp"
#include "qm/pg/connection.hpp"
#include "qm/store/store.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <regex>

namespace qm::cost::test {
namespace roles_pg_test {

class Roles : public testing::PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    apply();
  }
  void apply() {
    auto admin = pg::Connection::open(conninfo_, {"roles"});
    ASSERT_TRUE(admin) << admin.error().to_string();
    const auto done = (*admin)->exec(testing::read_file(std::string(QM_SOURCE_DIR) + "/deploy/postgres/roles.sql"));
    ASSERT_TRUE(done) << done.error().to_string();
  }
  [[nodiscard]] std::string as(const std::string& role) const {
    return std::regex_replace(conninfo_, std::regex("user=\\S+"), "") + " user=" + role;
  }
  /// Empty on success, else the server's message.
  std::string run(const std::string& role, const std::string& sql) {
    auto session = pg::Connection::open(as(role), {"test"});
    if (!session) return session.error().to_string();
    const auto done = (*session)->exec(sql);
    return done ? std::string() : done.error().to_string();
  }
  void denied(const std::string& role, const std::string& sql) {
    EXPECT_NE(run(role, sql).find("permission denied"), std::string::npos)
        << role << ": " << sql << ": " << run(role, sql);
  }
  Status open(const std::string& service, std::vector<store::Migration> migrations = {}) {
    QM_ASSIGN(const auto store, store::open_postgres({as("qm_" + service), service, "default", std::move(migrations)}));
    QM_ASSIGN(const auto loaded, store->acquire("test"));
    store::Commit batch;
    batch.journal_sequence = loaded.journal_sequence + 1;
    batch.now = from_micros(1'800'000'000'000'000);
    batch.appends.push_back({"audit",
                             {"caller", "roles", "method", "object", "request_id", "outcome", "decision"},
                             {"olga", "operator", "Apply", "queues.yaml", "", "ok", service + "/default/1"}});
    QM_ASSIGN(const auto outcome, store->commit(batch));
    return outcome == store::CommitOutcome::kCommitted ? Status() : fail(Code::kInternal, "not committed");
  }
};

TEST_F(Roles, EachServiceLivesInItsSchemaAndLooksIntoNoOther) {
  const char* services[] = {"admission", "placement", "autoscaler", "telemetry", "cost"};
  for (const auto* service : services) {
    const auto opened = open(service, service == std::string("cost") ? migrations() : std::vector<store::Migration>{});
    ASSERT_TRUE(opened) << service << ": " << opened.error().to_string();
    // The second start takes the shard over from the first.
    ASSERT_TRUE(open(service, service == std::string("cost") ? migrations() : std::vector<store::Migration>{}))
        << service;
  }
  for (const auto* service : services) {
    const auto role = std::string("qm_") + service;
    EXPECT_EQ(run(role, fmt::format("select count(*) from {}.state", service)), "");
    for (const auto* other : services) {
      if (other == std::string(service)) continue;
      denied(role, fmt::format("select count(*) from {}.state", other));
      denied(role, fmt::format("select count(*) from {}.audit", other));
      denied(role, fmt::format("update {}.leader set epoch = epoch + 1", other));
      denied(role, fmt::format("create table {}.mine (a int)", other));
    }
    denied(role, "select count(*) from bus.topic");
    denied(role, "create table public.mine (a int)");
    EXPECT_NE(run(role, fmt::format("delete from {}.audit", service)).find("append-only"), std::string::npos);
    EXPECT_NE(run(role, fmt::format("update {}.audit set caller = 'another caller'", service)).find("append-only"),
              std::string::npos);
  }
}

TEST_F(Roles, ReportersReadTheViewsAlone) {
  ASSERT_TRUE(open("cost", migrations()));
  ASSERT_TRUE(open("admission"));
  apply();  // again, as after an upgrade: now there are audit trails to display
  EXPECT_EQ(run("qm_report", "select * from report.chargeback_by_team_month"), "");
  EXPECT_EQ(run("qm_report", "select * from report.ledger_balance"), "");
  denied("qm_report", "select * from cost.ledger");
  denied("qm_report", "select * from admission.state");
  denied("qm_report", "select * from report.audit");
  denied("qm_report", "create view report.mine as select 1");
  denied("qm_report", "create schema mine");
  EXPECT_EQ(run("qm_audit",
                "do $$ begin if (select count(*) from report.audit where caller = 'olga') <> 2 then "
                "raise exception 'rows are missing'; end if; end $$"),
            "");
  denied("qm_audit", "select * from admission.audit");
  denied("qm_audit", "select * from report.ledger_balance");
  EXPECT_NE(run("qm_audit", "delete from report.audit"), "");
}

TEST_F(Roles, TheBusHasItsOwn) {
  auto bus = bus::make_bus("postgres:" + as("qm_bus"));
  ASSERT_TRUE(bus) << bus.error().to_string();
  const std::vector<std::string> topics{"qm.test"};
  const auto made = (*bus)->ensure_topics(topics, 1);
  ASSERT_TRUE(made) << made.error().to_string();
  auto producer = (*bus)->producer("test");
  ASSERT_TRUE(producer);
  const std::vector<bus::Record> records{{"qm.test", "k", "v"}};
  const auto sent = (*producer)->publish(records, std::chrono::seconds(10));
  EXPECT_TRUE(sent) << sent.error().to_string();
  denied("qm_bus", "select * from cost.ledger");
  denied("qm_report", "select * from bus.message");
}

}  // namespace roles_pg_test
}  // namespace qm::cost::test
