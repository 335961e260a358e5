#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>
#include <pqxx/pqxx>

namespace qm::testing {
namespace servers_pg_test {

TEST(Postgres, KeepsWhatWasCommittedWhenItIsKilled) {
  std::string why;
  Postgres* server = Postgres::shared(&why);
  if (server == nullptr) GTEST_SKIP() << why;
  const std::string conninfo = server->fresh_database();
  EXPECT_NE(conninfo, server->fresh_database());
  pqxx::connection before(conninfo);
  pqxx::nontransaction(before).exec("CREATE TABLE t AS SELECT 42 AS v");
  server->kill9();
  EXPECT_THROW(pqxx::connection{conninfo}, pqxx::broken_connection);
  const Status restarted = server->restart();
  ASSERT_TRUE(restarted) << restarted.error().to_string();
  pqxx::connection after(conninfo);
  EXPECT_EQ(pqxx::nontransaction(after).exec1("SELECT v FROM t")[0].as<int>(), 42);
}

}  // namespace servers_pg_test
}  // namespace qm::testing
