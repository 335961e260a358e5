#include "qm/placement/relayout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::placement::relayout {
namespace relayout_test {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Capacity kWhole = {{"nvidia.com/gpu", 1}}, kSevens = {{"nvidia.com/mig-1g.10gb", 7}};

/// One order and the observed node; each step is rendered as a line of its actions and the resulting phase.
class RelayoutTest : public ::testing::Test {
 protected:
  RelayoutTest() {
    row.order = {NodeName("n"), "all-1g.10gb", kSevens, {}, {}};
    seen.config = "all-disabled";
    seen.state = "success";
    seen.capacity = kWhole;
  }
  void window(Duration from, Duration until) {
    row.order.from = now + from;
    row.order.until = now + until;
  }
  std::vector<std::string> look() {
    // Only the row is kept between steps.
    const Row before = row;
    const Step step = advance(row, seen, now);
    const Step again = advance(before, seen, now);
    EXPECT_EQ(step.row, again.row);
    row = step.row;
    wake_at = step.wake_at;
    std::vector<std::string> out;
    for (const Action& action : step.actions) {
      out.push_back(std::visit(
          [](const auto& a) -> std::string {
            using A = std::decay_t<decltype(a)>;
            if constexpr (std::is_same_v<A, Cordon>) return "cordon";
            if constexpr (std::is_same_v<A, Uncordon>) return "uncordon";
            if constexpr (std::is_same_v<A, Save>) return "save " + a.pod;
            if constexpr (std::is_same_v<A, Evict>) return "evict " + a.pod;
            if constexpr (std::is_same_v<A, Label>) return "label " + a.layout;
          },
          action));
    }
    return out;
  }
  /// Steps until mig-manager has the label.
  void until_labeled() {
    ASSERT_THAT(look(), ElementsAre("cordon"));
    seen.cordoned = true;
    ASSERT_THAT(look(), ElementsAre("label all-1g.10gb"));
    seen.config = "all-1g.10gb";
    seen.state = "";
    ASSERT_THAT(look(), IsEmpty());
    ASSERT_EQ(row.phase, Phase::kSwitching);
  }

  Row row;
  Observed seen;
  Instant now = from_micros(1'000'000'000'000'000), wake_at{};
};

TEST_F(RelayoutTest, IdleGpusArePartitionedAndCapacityIsAwaited) {
  until_labeled();
  seen.state = "pending";
  EXPECT_THAT(look(), IsEmpty());
  seen.state = "success";
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_EQ(row.phase, Phase::kVerifying) << "the plugin still advertises the former devices";
  EXPECT_EQ(wake_at, now + minutes(5));
  seen.capacity = kSevens;
  EXPECT_THAT(look(), ElementsAre("uncordon"));
  EXPECT_EQ(row.phase, Phase::kDone);
  EXPECT_THAT(look(), ElementsAre("uncordon")) << "until it is seen";
  seen.cordoned = false;
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(RelayoutTest, AppliedLayoutIsDone) {
  seen.config = "all-1g.10gb";
  seen.capacity = kSevens;
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_EQ(row.phase, Phase::kDone);
}

TEST_F(RelayoutTest, WithoutWindowWaitsForTheLastPod) {
  seen.occupants = {{"team/a", {}, false}};
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_EQ(row.phase, Phase::kWaiting);
  EXPECT_EQ(row.reason, "1 pods use its GPUs");
  seen.occupants.clear();
  EXPECT_THAT(look(), ElementsAre("cordon"));
  seen.cordoned = true;
  seen.occupants = {{"team/b", {}, false}};
  EXPECT_THAT(look(), ElementsAre("uncordon")) << "it was bound before the cordon, and no pod may be evicted";
  EXPECT_EQ(row.phase, Phase::kWaiting);
}

TEST_F(RelayoutTest, InTheWindowPodsSaveAndAreEvicted) {
  window(minutes(10), minutes(60));
  seen.occupants = {{"team/a", {}, false}, {"team/b", {}, false}};
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_EQ(wake_at, row.order.from);
  now += minutes(10);
  EXPECT_THAT(look(), ElementsAre("cordon"));
  seen.cordoned = true;
  EXPECT_THAT(look(), ElementsAre("save team/a", "save team/b"));
  seen.occupants[0].asked = seen.occupants[1].asked = now;
  EXPECT_THAT(look(), IsEmpty());
  seen.occupants[0].saved = true;
  EXPECT_THAT(look(), ElementsAre("evict team/a"));
  EXPECT_EQ(wake_at, now + minutes(5));
  now += minutes(5);
  EXPECT_THAT(look(), ElementsAre("evict team/a", "evict team/b")) << "the time of b is over";
  seen.occupants.clear();
  EXPECT_THAT(look(), ElementsAre("label all-1g.10gb"));
}

TEST_F(RelayoutTest, EndOfWindowKeepsPods) {
  window(seconds(0), minutes(3));
  seen.occupants = {{"team/a", {}, false}};
  EXPECT_THAT(look(), ElementsAre("cordon"));
  seen.cordoned = true;
  EXPECT_THAT(look(), ElementsAre("save team/a"));
  seen.occupants[0].asked = now;
  now += minutes(3);
  EXPECT_THAT(look(), ElementsAre("uncordon"));
  EXPECT_EQ(row.phase, Phase::kFailed);
  EXPECT_EQ(seen.config, "all-disabled");
}

TEST_F(RelayoutTest, FailedLayoutIsRolledBack) {
  until_labeled();
  seen.state = "failed";
  EXPECT_THAT(look(), ElementsAre("label all-disabled"));
  EXPECT_EQ(row.phase, Phase::kRollingBack);
  seen.config = "all-disabled";
  seen.state = "";
  EXPECT_THAT(look(), IsEmpty());
  seen.state = "success";
  EXPECT_THAT(look(), ElementsAre("uncordon"));
  EXPECT_EQ(row.phase, Phase::kFailed);
  EXPECT_EQ(row.reason, "mig-manager could not apply the layout");
}

TEST_F(RelayoutTest, SuccessWithOtherDevicesIsRolledBack) {
  until_labeled();
  seen.state = "success";
  seen.capacity = {{"nvidia.com/mig-1g.10gb", 6}};
  EXPECT_THAT(look(), IsEmpty());
  now += minutes(5);
  EXPECT_THAT(look(), ElementsAre("label all-disabled"));
  EXPECT_EQ(row.reason, "MIG_CAPACITY_MISMATCH: the node advertises other devices than the layout has");
}

TEST_F(RelayoutTest, FailedRollbackLeavesNodeCordoned) {
  until_labeled();
  now += minutes(15);
  EXPECT_THAT(look(), ElementsAre("label all-disabled")) << "mig-manager did not start the order";
  seen.config = "all-disabled";
  seen.state = "failed";
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_EQ(row.phase, Phase::kStuck);
  EXPECT_EQ(row.reason, "mig-manager did not apply the layout in time; it could not apply the former layout either");
}

TEST_F(RelayoutTest, RollbackWaitsForIdleGpus) {
  until_labeled();
  seen.state = "failed";
  seen.cordoned = false;
  seen.occupants = {{"team/a", {}, false}};
  EXPECT_THAT(look(), ElementsAre("cordon")) << "the cordon was removed, and a pod started";
  seen.cordoned = true;
  now += minutes(60);
  EXPECT_THAT(look(), IsEmpty()) << "outside of a window it is not evicted";
  EXPECT_EQ(row.phase, Phase::kRollingBack);
  seen.occupants.clear();
  EXPECT_THAT(look(), ElementsAre("label all-disabled"));
  now += minutes(14);
  EXPECT_THAT(look(), ElementsAre("label all-disabled")) << "its time limit starts when the GPUs are idle";
}

TEST_F(RelayoutTest, RollbackEvictsPodsInTheWindow) {
  window(minutes(0), minutes(120));
  until_labeled();
  seen.state = "failed";
  seen.occupants = {{"team/a", {}, false}};
  EXPECT_THAT(look(), ElementsAre("save team/a"));
  seen.occupants.front().asked = now;
  now += minutes(5);
  EXPECT_THAT(look(), ElementsAre("evict team/a"));
}

TEST_F(RelayoutTest, StaleSuccessIsIgnored) {
  ASSERT_THAT(look(), ElementsAre("cordon"));
  seen.cordoned = true;
  ASSERT_THAT(look(), ElementsAre("label all-1g.10gb"));
  ASSERT_THAT(look(), ElementsAre("label all-1g.10gb")) << "the label is not there yet, whatever the state says";
  EXPECT_EQ(row.phase, Phase::kSwitching);
}

TEST_F(RelayoutTest, NodeWithoutLabelIsRolledBackToNoMig) {
  seen.config = seen.state = "";
  until_labeled();
  seen.state = "failed";
  EXPECT_THAT(look(), ElementsAre("label all-disabled"));
}

TEST_F(RelayoutTest, ExternalLayoutChangeWins) {
  seen.state = "pending";
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_EQ(row.reason, "another layout is being applied");
  seen.state = "success";
  until_labeled();
  seen.config = "all-3g.40gb";
  EXPECT_THAT(look(), ElementsAre("uncordon"));
  EXPECT_EQ(row.reason, "another client set the layout 'all-3g.40gb'");
}

TEST_F(RelayoutTest, PodThatStartedBeforeTheLabelIsAwaited) {
  ASSERT_THAT(look(), ElementsAre("cordon"));
  seen.cordoned = true;
  ASSERT_THAT(look(), ElementsAre("label all-1g.10gb"));
  seen.occupants = {{"team/late", {}, false}};
  EXPECT_THAT(look(), ElementsAre("uncordon")) << "the label was not written, and without a window no pod is evicted";
  EXPECT_EQ(row.phase, Phase::kWaiting);
}

TEST_F(RelayoutTest, WithdrawnBeforeRepartition) {
  ASSERT_THAT(look(), ElementsAre("cordon"));
  seen.cordoned = true;
  row.withdrawn = true;
  EXPECT_THAT(look(), ElementsAre("uncordon"));
  EXPECT_EQ(row.reason, "withdrawn");
}

TEST_F(RelayoutTest, PhasesHaveNames) {
  for (int phase = 0; phase <= static_cast<int>(Phase::kStuck); ++phase) {
    EXPECT_NE(name_of(static_cast<Phase>(phase)), "unknown");
  }
  EXPECT_EQ(name_of(static_cast<Phase>(99)), "unknown");
}

}  // namespace relayout_test
}  // namespace qm::placement::relayout
