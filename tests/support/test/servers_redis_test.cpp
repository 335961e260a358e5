#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::testing {
namespace servers_redis_test {

TEST(Redis, StartsIsKilledAndStartsAgain) {
  std::string why;
  auto server = Redis::start(&why);
  if (!server) GTEST_SKIP() << why;
  const int port = server->port();
  server->kill9();
  const Status restarted = server->restart();
  ASSERT_TRUE(restarted) << restarted.error().to_string();
  EXPECT_EQ(server->port(), port);
}

}  // namespace servers_redis_test
}  // namespace qm::testing
