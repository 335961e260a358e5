// An agent's reports, the autoscaler's orders and placement's nodes arrive independently: their order must not change
// the result.
#include "test/engine/script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace qm::telemetry::testing {
namespace joins_prop_test {

TEST(Joins, EveryOrderOfReportsAndOrdersEndsInOneState) {
  std::vector<std::string> facts{"xid a 79 gpu=3",           "xid a 63 gpu=3",         "devices a x/p=0,1 x/q=2",
                                 "notice a i-1 stop in=120", "order o w/1 a b in=110", "report a island=4"};
  std::sort(facts.begin(), facts.end());
  std::optional<std::uint64_t> end;
  std::string first;
  int orders = 0;
  do {
    Script script;
    (void)script.run(fmt::format("{}", fmt::join(facts, "\n")));
    // The acknowledgement is sent after the order is known: before that the agent has no order to acknowledge.
    (void)script.run("ack o a step=70\nack o b step=80");
    const std::string order = fmt::format("{}", fmt::join(facts, ", then "));
    if (!end) {
      end = script.engine().digest();
      first = order;
    }
    ASSERT_EQ(script.engine().digest(), *end) << order << "\nends elsewhere than\n" << first;
    ++orders;
  } while (std::next_permutation(facts.begin(), facts.end()));
  EXPECT_EQ(orders, 720);
}

}  // namespace joins_prop_test
}  // namespace qm::telemetry::testing
