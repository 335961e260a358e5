#include "node_view.hpp"

#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::agent {
namespace node_view_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::line;
using testing::page_of;
using ::testing::SizeIs;

class NodeViewTest : public ::testing::Test {
 protected:
  pb::SampleFrame look(const std::string& text, bool gpu_pods = true) {
    now_us += 1'000'000;
    return view.take(parse_dcgm_page(text), from_micros(now_us), gpu_pods, [this](pb::AgentFact fact) {
      if (refuse) return false;
      (fact.has_devices() ? devices : xids).push_back(std::move(fact));
      return true;
    });
  }
  static std::vector<std::string> pods_of(const pb::AgentFact& fact) {
    std::vector<std::string> out;
    for (const auto& pod : fact.devices().pods()) {
      std::string text = pod.namespace_() + "/" + pod.pod();
      for (const auto& d : pod.devices())
        text += fmt::format(" {}:{}:{}{}", d.index(), d.uuid(), d.milli(),
                            d.mig_profile().empty() ? "" : ":" + d.mig_profile());
      out.push_back(text);
    }
    return out;
  }

  NodeView view{"node-1"};
  std::int64_t now_us = 0;
  bool refuse = false;
  std::vector<pb::AgentFact> devices, xids;
};

TEST_F(NodeViewTest, FrameHasEveryGpuWithAValue) {
  const auto frame =
      look(page_of("job-0", 40) + line("DCGM_FI_DEV_GPU_TEMP", 7, "50") + line("DCGM_FI_DEV_FB_USED", 0, "2", "job-0"));
  EXPECT_EQ(frame.node(), "node-1");
  EXPECT_EQ(frame.at_us(), now_us);
  ASSERT_EQ(frame.gpus_size(), 2) << "GPU 7 has no utilisation: a gap, not a zero";
  EXPECT_DOUBLE_EQ(frame.gpus(0).utilization(), 0.4);
  EXPECT_EQ(frame.gpus(0).pod(), "job-0");
  EXPECT_EQ(frame.gpus(0).namespace_(), "team");
  EXPECT_EQ(frame.gpus(0).fb_used_bytes(), 2 << 20);
  EXPECT_EQ(frame.gpus(0).sm_active(), -1);
  EXPECT_EQ(frame.gpus(1).pod(), "");
}

TEST_F(NodeViewTest, SequenceShowsMissedLooks) {
  EXPECT_EQ(look(page_of("a")).sequence(), 1U);
  view.miss();
  view.miss();
  EXPECT_EQ(look(page_of("a")).sequence(), 4U);
}

TEST_F(NodeViewTest, DevicesAreNewsOnlyWhenTheyChange) {
  look(page_of("a"));
  look(page_of("a", 90));
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_THAT(pods_of(devices[0]), ElementsAre("team/a 0:GPU-0:1000"));
  look(page_of("b"));
  ASSERT_THAT(devices, SizeIs(2));
  EXPECT_THAT(pods_of(devices[1]), ElementsAre("team/b 0:GPU-0:1000"));
  EXPECT_EQ(devices[1].devices().at_us(), now_us);
}

TEST_F(NodeViewTest, LostLabelsAreNotIdle) {
  look(page_of("a"));
  const auto frame = look(page_of(""));
  EXPECT_THAT(devices, SizeIs(1));
  EXPECT_EQ(frame.gpus(0).pod(), "a") << "the sample keeps its pod too";
  look(page_of(""), false);
  ASSERT_THAT(devices, SizeIs(2)) << "without GPU pods in Kubernetes it is idle";
  EXPECT_THAT(pods_of(devices[1]), IsEmpty());
}

TEST_F(NodeViewTest, UnknownAtTheStartIsNotIdle) {
  look(page_of(""));
  EXPECT_THAT(devices, IsEmpty());
}

TEST_F(NodeViewTest, GpuThatLeftThePageKeepsItsPod) {
  look(line("DCGM_FI_DEV_GPU_UTIL", 0, "1", "a") + line("DCGM_FI_DEV_GPU_UTIL", 1, "1", "a"));
  look(line("DCGM_FI_DEV_GPU_UTIL", 1, "1", "a"));
  look("");
  EXPECT_THAT(devices, SizeIs(1));
}

TEST_F(NodeViewTest, SharedDevices) {
  look(line("DCGM_FI_DEV_GPU_UTIL", 0, "50") + line("DCGM_FI_DEV_GPU_UTIL", 0, "30", "a") +
       line("DCGM_FI_DEV_GPU_UTIL", 0, "20", "b") +
       "DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"1\",UUID=\"GPU-1\",GPU_I_PROFILE=\"3g.40gb\",GPU_I_ID="
       "\"2\",namespace=\"team\",pod=\"c\"} 0.7\n");
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_THAT(pods_of(devices[0]),
              ElementsAre("team/a 0:GPU-0:500", "team/b 0:GPU-0:500", "team/c 1:GPU-1:428:3g.40gb"));
  const auto frame = look(line("DCGM_FI_DEV_GPU_UTIL", 0, "30", "a") + line("DCGM_FI_DEV_GPU_UTIL", 0, "20", "b"));
  EXPECT_EQ(frame.gpus(0).pod(), "") << "the board's values are nobody's alone";
}

TEST_F(NodeViewTest, XidIsReportedWhenItChanges) {
  look(page_of("a", 50, 0));
  EXPECT_THAT(xids, IsEmpty());
  look(page_of("a", 50, 79));
  look(page_of("a", 50, 79));
  look(line("DCGM_FI_DEV_XID_ERRORS", 0, "9223372036854775794"));
  ASSERT_THAT(xids, SizeIs(1));
  EXPECT_EQ(xids[0].xid().xid(), 79);
  EXPECT_EQ(xids[0].xid().gpu_index(), 0);
  EXPECT_EQ(xids[0].xid().gpu_uuid(), "GPU-0");
  look(page_of("a", 50, 0));
  look(page_of("a", 50, 79));
  EXPECT_THAT(xids, SizeIs(2)) << "after a reset the same code is a new one";
}

TEST_F(NodeViewTest, XidThatStandsAtTheStartIsReported) {
  look(page_of("a", 50, 48));
  ASSERT_THAT(xids, SizeIs(1));
  EXPECT_EQ(xids[0].xid().xid(), 48);
}

TEST_F(NodeViewTest, RefusedFactsAreOfferedAgain) {
  refuse = true;
  look(page_of("a", 50, 31));
  refuse = false;
  look(page_of("a", 50, 31));
  EXPECT_THAT(devices, SizeIs(1));
  EXPECT_THAT(xids, SizeIs(1));
}

}  // namespace node_view_test
}  // namespace qm::agent
