// Generated problems: a decision holds by the separate checker, and a second pass over its result starts nothing that
// budgets do not allow.
#include "qm/autoscaler/disrupt/disrupt.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::autoscaler {
namespace disrupt_prop_test {

const Instant kNow = from_micros(1'000'000'000'000);

DisruptionProblem problem_of(const std::vector<std::uint32_t>& choices) {
  DisruptionProblem out;
  out.now = kNow;
  const std::vector<std::string> shares{"0", "1", "10%", "50%", "100%", "nonsense"};
  for (std::uint32_t p = 0; p < 3; ++p) {
    DisruptionPool pool;
    pool.name = fmt::format("p{}", p);
    const std::uint32_t c = choices.empty() ? 0 : choices[p % choices.size()];
    if (c % 7 != 0) pool.budgets.push_back({shares[c % shares.size()], {}, {}, {}});
    pool.is_static = p == 2;
    pool.bounded = c % 3 == 0;
    if (c % 5 == 0) pool.drift_after = kNow + std::chrono::seconds(c % 11) - std::chrono::seconds(5);
    out.pools.push_back(pool);
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::uint32_t c = choices[i];
    DisruptionNode node;
    node.name = fmt::format("n{}", i);
    node.pool = fmt::format("p{}", c % 4);  // p3 does not exist
    node.pods = (c >> 2) % 2;
    if (node.pods == 0) node.empty_since = kNow - std::chrono::seconds((c >> 3) % 3);
    node.ready = (c >> 5) % 8 != 0;
    node.disrupted = (c >> 8) % 6 == 0;
    node.do_not_disrupt = (c >> 11) % 7 == 0;
    node.created = kNow - std::chrono::seconds((c >> 14) % 100);
    if ((c >> 17) % 3 == 0) node.expire_after = std::chrono::seconds((c >> 19) % 120);
    if ((c >> 20) % 6 == 0)
      node.unhealthy = "Ready is False",
      node.repair_at = kNow - std::chrono::seconds((c >> 22) % 3) + std::chrono::seconds(1);
    if ((c >> 23) % 2 == 0) node.drift = "AMIDrift", node.drifted_since = kNow - std::chrono::seconds((c >> 25) % 9);
    if ((c >> 26) % 4 == 0)
      node.holding.push_back({"a/b", std::chrono::seconds((c >> 27) % 9), kNow - std::chrono::seconds(4), ""});
    out.nodes.push_back(node);
  }
  return out;
}

TEST(Disrupt, DecisionsHoldByTheChecker) {
  std::size_t started = 0;
  EXPECT_TRUE(rc::check("decisions hold", [&started](const std::vector<std::uint32_t>& choices) {
    DisruptionProblem problem = problem_of(choices);
    const auto decision = decide_disruptions(problem, next_in_utc);
    RC_ASSERT(broken_rule(problem, decision, next_in_utc) == "");
    RC_ASSERT(!decision.wake_at || *decision.wake_at > kNow);
    started += decision.start.size();
    for (const auto& one : decision.start) problem.nodes[one.node].disrupted = true;
    // What has started counts: at the same time nothing else is due.
    RC_ASSERT(decide_disruptions(problem, next_in_utc).start.empty());
  }));
  EXPECT_GT(started, 100U) << "the generated problems hardly start anything";
}

}  // namespace disrupt_prop_test
}  // namespace qm::autoscaler
