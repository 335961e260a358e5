#include "lease_contract_body.hpp"
#include "qm/pg/connection.hpp"
#include "qm/testing/postgres_test.hpp"

#include <gmock/gmock.h>

#include <thread>

namespace qm::store {
namespace lease_pg_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class PgLeaseTest : public testing::PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    const auto store = open_postgres(options());
    ASSERT_TRUE(store) << store.error().to_string();
  }
  PgOptions options(std::vector<Migration> own = {}) const {
    return {.conninfo = conninfo_, .service = "admission", .migrations = std::move(own)};
  }
  std::unique_ptr<Lease> lease() const {
    auto made = open_lease(options());
    EXPECT_TRUE(made) << made.error().to_string();
    return std::move(*made);
  }
  void run(const std::string& sql) const {
    const auto session = pg::Connection::open(conninfo_, {"test"});
    ASSERT_TRUE(session) << session.error().to_string();
    const auto done = (*session)->exec(sql);
    ASSERT_TRUE(done) << done.error().to_string();
  }
};

Shard place(std::string* why_not) {
  auto* server = testing::Postgres::shared(why_not);
  if (server == nullptr) return {};
  PgOptions options{.conninfo = server->fresh_database(), .service = "admission"};
  const auto store = open_postgres(options);
  EXPECT_TRUE(store) << store.error().to_string();
  options.fenced = true;
  return {[options] { return open_lease(options).value(); }, [options] { return open_postgres(options).value(); }};
}

INSTANTIATE_TEST_SUITE_P(Postgres, LeaseContract, ::testing::Values(LeasePlace{"postgres", &place}));

TEST_F(PgLeaseTest, ReleaseWakesAWaitingReplica) {
  const auto a = lease(), b = lease();
  ASSERT_EQ(a->claim(0, "a"), true);
  ASSERT_TRUE(b->look());  // connects
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&] { EXPECT_TRUE(a->release("a")); });
  b->wait(20s);
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_F(PgLeaseTest, ItConnectsAgainAfterALoss) {
  const auto a = lease();
  ASSERT_EQ(a->claim(0, "a"), true);
  ASSERT_NO_FATAL_FAILURE(
      run("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name like 'qm lease%'"));
  EXPECT_TRUE(a->renew("a", "a:1")->holds);
  const auto view = a->look();
  ASSERT_TRUE(view);
  EXPECT_TRUE(view->session) << "the new session is the holder's";
}

TEST_F(PgLeaseTest, ARenewalSeesAStandbyAndItsOwnNewSession) {
  const auto a = lease();
  ASSERT_EQ(a->claim(0, "a"), true);
  auto renewed = a->renew("a", "a:1");
  ASSERT_TRUE(renewed);
  EXPECT_FALSE(renewed->watched);
  EXPECT_TRUE(a->renew("a", "a:1")->same_session);
  EXPECT_TRUE(testing::wait_until([&] { return a->quiet(); })) << "after the notification of its own session";
  {
    const auto b = lease();
    ASSERT_TRUE(b->look());
    EXPECT_TRUE(testing::wait_until([&] { return !a->quiet(); })) << "a standby has come";
    EXPECT_TRUE(a->renew("a", "a:1")->watched);
  }
  EXPECT_TRUE(testing::wait_until([&] { return !a->renew("a", "a:1")->watched; }));
  ASSERT_NO_FATAL_FAILURE(
      run("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name like 'qm lease%'"));
  EXPECT_TRUE(testing::wait_until([&] { return !a->quiet(); })) << "seen without a statement";
  EXPECT_FALSE(a->renew("a", "a:1")->same_session);
  EXPECT_TRUE(a->renew("a", "a:1")->same_session);
}

TEST_F(PgLeaseTest, ANewerSchemaIsNotForThisProgram) {
  const auto a = lease();
  EXPECT_TRUE(a->ready());
  ASSERT_NO_FATAL_FAILURE(
      run("insert into admission.migration (origin, version, name, checksum) values ('admission', 1, 'soon', 'x')"));
  const auto newer = a->ready();
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(newer.error().to_string(), HasSubstr("migration admission 1 (soon)"));
  EXPECT_THAT(newer.error().to_string(), HasSubstr("run a newer program"));
}

TEST_F(PgLeaseTest, ACheckChangesNothingAndNamesBothVersions) {
  const Migration one{1, "ledger", "create table {schema}.ledger (a bigint)"};
  auto ask = options({one});
  ask.migrate = PgOptions::Migrate::kCheck;
  const auto older = open_postgres(ask);
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(older.error().to_string(),
              HasSubstr("schema admission is at version 0 of admission, this program needs 1"));
  EXPECT_THAT(older.error().to_string(), HasSubstr("--migrate-only"));
  ASSERT_TRUE(open_postgres(options({one})));
  EXPECT_TRUE(open_postgres(ask));
  const auto newer = [&] {
    auto without = options();
    without.migrate = PgOptions::Migrate::kCheck;
    return open_postgres(without);
  }();
  ASSERT_FALSE(newer);
  EXPECT_THAT(newer.error().to_string(), HasSubstr("which has 0 of admission, found are 1"));

  ask.conninfo = server_->fresh_database();
  const auto empty = open_postgres(ask);
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().to_string(), HasSubstr("is at version 0 of common, this program needs"));
}

}  // namespace lease_pg_test
}  // namespace qm::store
