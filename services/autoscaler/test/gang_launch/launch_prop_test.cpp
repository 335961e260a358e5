// Steps of a gang launch, ranks of alternatives, tokens and answers.
#include "qm/autoscaler/gang_launch/launch.hpp"

#include "qm/autoscaler/gang_launch/alternatives.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace qm::autoscaler {
namespace launch_test {

using enum LaunchMember;
using Indexes = std::vector<std::size_t>;

LaunchStep step(std::vector<LaunchMember> members) { return next_step(members); }

TEST(GangLaunch, AllOrNone) {
  EXPECT_EQ(step({kRequested, kRequested}).phase, LaunchPhase::kPending);
  EXPECT_EQ(step({kRequested, kLaunched}).phase, LaunchPhase::kPending);
  EXPECT_EQ(step({kLaunched, kInUse, kEnded}).phase, LaunchPhase::kWhole) << "a lost member is replaced, not refused";
  // gang of 4, fourth launch refused
  const auto refused = step({kLaunched, kLaunched, kRequested, kRefused});
  EXPECT_EQ(refused.phase, LaunchPhase::kRollBack);
  EXPECT_EQ(refused.terminate, (Indexes{0, 1}));
  EXPECT_EQ(refused.cancel, Indexes{2});
  EXPECT_EQ(step({kEnded, kEnded, kRefused, kRefused}).phase, LaunchPhase::kClosed);
}

TEST(GangLaunch, AMemberInUseStaysAndALateOneIsTerminated) {
  const auto late = step({kInUse, kRefused, kLate});
  EXPECT_EQ(late.phase, LaunchPhase::kRollBack);
  EXPECT_EQ(late.terminate, Indexes{2});
  EXPECT_EQ(step({kInUse, kRefused}).phase, LaunchPhase::kClosed);
}

// The steps are applied in any order, any number of times, with members that change in between: the launch ends whole,
// or without an instance.
TEST(GangLaunch, EndsWholeOrEmptyWhateverHappens) {
  EXPECT_TRUE(rc::check("launch", [] {
    const auto n = *rc::gen::inRange<std::size_t>(1, 6);
    std::vector<LaunchMember> members(n, kRequested);
    const auto events = *rc::gen::container<std::vector<std::pair<int, int>>>(
        rc::gen::pair(rc::gen::inRange(0, 6), rc::gen::inRange(0, 4)));
    const auto apply = [&](const LaunchStep& step) {
      for (const auto i : step.terminate) members[i] = kEnded;
      for (const auto i : step.cancel) members[i] = kRefused;
    };
    for (const auto& [index, what] : events) {
      auto& member = members[static_cast<std::size_t>(index) % n];
      if (what == 0 && member == kRequested) member = kLaunched;
      if (what == 1 && member == kRequested) member = kRefused;
      if (what == 2 && member == kRefused) member = kLate;
      if (what == 3) apply(next_step(members));
    }
    for (auto& member : members) {
      if (member == kRequested) member = kRefused;
    }
    apply(next_step(members));
    const auto end = next_step(members);
    RC_ASSERT(end.phase == LaunchPhase::kWhole || end.phase == LaunchPhase::kClosed);
    const bool any = std::ranges::find(members, kLaunched) != members.end();
    RC_ASSERT(end.phase == LaunchPhase::kWhole || !any);
  }));
}

TEST(GangLaunch, TokensFollowFromTheFirstClaimAndTheSize) {
  EXPECT_EQ(launch_id("gpu-00007", 4), "gpu-00007x4");
  EXPECT_EQ(client_token("east", "gpu-00007x4"), "east/gpu-00007x4");
  EXPECT_EQ(client_token(std::string(61, 'x'), "p-1").size(), 64U);
  EXPECT_NE(client_token(std::string(61, 'x'), "p-1"), client_token(std::string(61, 'x'), "p-2"));
}

TEST(GangLaunch, InstancesAreMatchedInTheOrderOfTheirIds) {
  const std::vector<LaunchedInstance> came{{"i-3", true}, {"i-1", true}, {"i-2", true}};
  EXPECT_EQ(match(came, 3).instances, (std::vector<std::string>{"i-1", "i-2", "i-3"}));
  EXPECT_FALSE(match(came, 3).partial);
  const auto partial = match(came, 4);
  EXPECT_TRUE(partial.partial && partial.instances.empty());
  EXPECT_EQ(partial.alive.size(), 3U);
  const std::vector<LaunchedInstance> dead{{"i-1", false}, {"i-2", true}};
  EXPECT_EQ(match(dead, 2).alive, std::vector<std::string>{"i-2"}) << "one was taken back before it ran";
}

TEST(Alternatives, ByPriceThenByRefusalsThenByOrder) {
  const std::vector<Alternative> all{{50, 0, 0, false},    // a spare type
                                     {40, 400, 0, false},  // refused lately
                                     {40, 0, 1, false},    // spot at the price of on demand
                                     {40, 0, 0, false},    // the best
                                     {30, 1000, 0, true},  // held
                                     {40, 0, 0, false}};   // the next zone
  EXPECT_EQ(ranked(all), (Indexes{3, 5, 2, 1, 0}));
  EXPECT_TRUE(ranked(std::vector<Alternative>{{1, 0, 0, true}}).empty());
}

}  // namespace launch_test
}  // namespace qm::autoscaler
