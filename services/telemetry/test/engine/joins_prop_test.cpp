// An agent's reports, the autoscaler's orders and placement's nodes arrive independently: their order must not change
// the result.
#include "qm/testing/table.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::telemetry::testing {
namespace joins_prop_test {

TEST(Joins, EveryOrderOfReportsAndOrdersEndsInOneState) {
  const std::vector<std::string> facts{"xid a 79 gpu=3",           "xid a 63 gpu=3",         "devices a x/p=0,1 x/q=2",
                                       "notice a i-1 stop in=120", "order o w/1 a b in=110", "report a island=4"};
  const int orders = qm::testing::expect_one_end(facts, [](const std::string& lines) {
    Script script;
    (void)script.run(lines);
    // The acknowledgement is sent after the order is known: before that the agent has no order to acknowledge.
    (void)script.run("ack o a step=70\nack o b step=80");
    return script.engine().digest();
  });
  EXPECT_EQ(orders, 720);
}

}  // namespace joins_prop_test
}  // namespace qm::telemetry::testing
