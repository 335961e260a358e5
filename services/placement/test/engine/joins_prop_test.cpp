// Facts of different keys are not ordered: handled one by one, in any order, they lead to the same state.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::placement::testing {
namespace joins_prop_test {

struct Join {
  const char* name;
  std::vector<std::string> before;  ///< handled first, in this order
  std::vector<std::string> facts;   ///< of different keys: every permutation is tried
};

const Join kJoins[] = {
    {"a bound pod, its node, a verdict, a drain and the devices that the kubelet gave",
     {"node other gpus=8", "synced"},
     {"node a gpus=8", "pod w/1#0 on=a running", "health a gpu=3 cordon", "drain a", "devices a w/1#0=4,5"}},
    {"an unmanaged pod with its node and a verdict on it",
     {"node other gpus=8", "synced"},
     {"node a gpus=8", "unmanaged p on=a gpus=1 cpu=2 devices=0,1", "health a gpu=0 cordon", "health other ok"}},
    {"an admission event before and after the node observations",
     {"node a gpus=8", "synced", "want w/1 1x8"},
     {"phase w/1 admitted", "health b ok", "node b gpus=8", "devices b x/1#0=1"}},
};

TEST(Joins, EveryOrderOfObservationsGivesTheSameState) {
  for (const Join& join : kJoins) {
    std::vector<std::size_t> order(join.facts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::uint64_t first = 0;
    std::string first_order;
    int tried = 0;
    do {
      Script script;
      std::string update;
      for (const auto& line : join.before) (void)script.run(line);  // the result is not checked here, the laws are
      for (const auto i : order) {
        update += join.facts[i] + "; ";
        (void)script.run(join.facts[i]);
      }
      const auto digest = script.engine().digest();
      if (tried++ == 0) {
        first = digest;
        first_order = update;
      }
      ASSERT_EQ(digest, first) << join.name << "\n  " << first_order << "\n  " << update;
    } while (std::ranges::next_permutation(order).found);
    EXPECT_GE(tried, 24) << join.name;
  }
}

}  // namespace joins_prop_test
}  // namespace qm::placement::testing
