// Events about one instance arrive from three topics and two polls, in any order: the result must not depend on it.
#include "qm/testing/table.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace joins_prop_test {

/// Applies `facts` in every order, each in its own step, after `before`; all orders must end in the same state. A last
/// step without inputs completes what a later fact allows.
void expect_one_end(const std::string& before, const std::vector<std::string>& facts) {
  const int orders = qm::testing::expect_one_end(facts, [&](const std::string& lines) {
    Script script;
    (void)script.run(before + "\n" + lines + "tick 0");
    EXPECT_EQ(script.complaint(), "");
    return script.engine().digest();
  });
  EXPECT_GT(orders, 1);
}

const std::string kLaunched = "pool p types=a8 after=60\nwant w/1 1x8";

TEST(Joins, AnInstanceThatStarts) {
  expect_one_end(kLaunched, {"launched p-00001 i-1", "cloud i-1 claim=p-00001 pool=p type=a8 node=n1",
                             "node n1 i-1 pods=1", "runs w/1 n1", "unwant w"});
}

// No gang is pending any more: otherwise an earlier verdict would correctly have launched another instance.
TEST(Joins, AVerdictOnAnInstanceThatStarts) {
  expect_one_end(kLaunched + "\nunwant w", {"launched p-00001 i-1", "cloud i-1 claim=p-00001 pool=p type=a8 node=n1",
                                            "node n1 i-1 pods=1", "health n1 broken", "runs w/1 n1"});
}

TEST(Joins, ANoticeForAGangThatSaves) {
  expect_one_end(kLaunched + "\nup p-00001 i-1 n1\nnode n1 i-1 pods=1\nunwant w",
                 {"workload w saves", "runs w/1 n1", "notice n1 120"});
}

TEST(Joins, AGangThatShallSaveAndGo) {
  expect_one_end(kLaunched + "\nup p-00001 i-1 n1\nnode n1 i-1 pods=1\nunwant w",
                 {"workload w saves", "runs w/1 n1", "save w/1 n1 300"});
}

TEST(Joins, AnInstanceOfAGroup) {
  expect_one_end("pool p types=a8 group=asg after=60\nwant w/1 1x8",
                 {"cloud i-1 type=a8 node=n1 group=asg", "node n1 i-1 pods=1", "runs w/1 n1", "health n1 broken"});
}

}  // namespace joins_prop_test
}  // namespace qm::autoscaler::testing
