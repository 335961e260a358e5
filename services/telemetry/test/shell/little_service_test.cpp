#include "test/shell/little_service.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::telemetry::testing {

TEST(LittleService, StartsAndStops) {
  LittleService service;
  EXPECT_TRUE(service.query().readings().empty());
  AgentStream agent(service, {"a"});
  EXPECT_TRUE(qm::testing::wait_until([&] { return service.hub.agents() == 1; }));
  EXPECT_TRUE(agent.end().ok());
  EXPECT_TRUE(qm::testing::wait_until([&] { return service.hub.agents() == 0; }));
}

}  // namespace qm::telemetry::testing
