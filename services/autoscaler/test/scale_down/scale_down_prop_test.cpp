// Generated fleets: the pods of all nodes that are not needed fit the others at once, by a checker of its own.
#include "qm/autoscaler/scale_down/scale_down.hpp"

#include "test/scale_down/fleet.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::autoscaler {
namespace scale_down_prop_test {

const Instant kNow = from_micros(1'000'000'000'000);

testing::Fleet fleet_of(const std::vector<std::uint32_t>& choices) {
  testing::Fleet out;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::uint32_t c = choices[i];
    const bool gpus = c % 3 == 0;
    std::vector<NodePod> pods;
    for (std::uint32_t p = 0; p < (c >> 2) % 4; ++p) {
      testing::PodOptions options{.milli = 100 + 300 * ((c >> (4 + p)) % 5), .gpus = gpus ? (c >> (6 + p)) % 3 : 0};
      if ((c >> (8 + p)) % 9 == 0) options.controller = "DaemonSet";
      if ((c >> (9 + p)) % 13 == 0) options.controller = "";
      pods.push_back(testing::node_pod(fmt::format("a/{}-{}", i, p), options));
      pods.back().terminating = (c >> (11 + p)) % 11 == 0;
    }
    auto& node = out.add(fmt::format("n{}", i), testing::node_pods(4, gpus ? 8 : 0, std::move(pods)));
    node.destination = (c >> 15) % 7 != 0;
    if ((c >> 18) % 5 == 0) node.group.reset();
    if ((c >> 20) % 4 != 0) node.since = kNow - std::chrono::seconds((c >> 22) % 900 * 3);
    node.unneeded = std::chrono::minutes(10);
  }
  out.problem.groups[0].min = static_cast<std::int64_t>(choices.size() / 3);
  out.problem.rules.max_drains = 3;
  return out;
}

TEST(ScaleDown, DecisionsHoldByTheChecker) {
  std::size_t unneeded = 0, started = 0, moves = 0;
  EXPECT_TRUE(rc::check("decisions hold", [&](const std::vector<std::uint32_t>& choices) {
    const testing::Fleet fleet = fleet_of(choices);
    const auto found = find_unneeded(fleet.problem);
    const auto decision = decide_scale_down(fleet.problem, found, kNow, {});
    RC_ASSERT(broken_rule(fleet.problem, found, decision) == "");
    RC_ASSERT(!decision.wake_at || *decision.wake_at > kNow);
    RC_ASSERT(find_unneeded(fleet.problem) == found);
    unneeded += found.unneeded.size();
    started += decision.start.size();
    for (const auto& one : found.unneeded) moves += one.moves.size();
  }));
  EXPECT_GT(unneeded, 100U);
  EXPECT_GT(started, 20U);
  EXPECT_GT(moves, 100U);
}

}  // namespace scale_down_prop_test
}  // namespace qm::autoscaler
