#include "node_view.hpp"

#include "qm/catalog/xid.hpp"
#include "qm/wire/sample.hpp"
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
  ASSERT_EQ(frame.gpus_size(), 2) << "GPU 7 has no utilization: a gap, not a zero";
  EXPECT_DOUBLE_EQ(frame.gpus(0).utilization(), 0.4);
  EXPECT_EQ(frame.gpus(0).pod(), "job-0");
  EXPECT_EQ(frame.gpus(0).namespace_(), "team");
  EXPECT_EQ(frame.gpus(0).fb_used_bytes(), 2 << 20);
  EXPECT_EQ(frame.gpus(0).sm_active(), -1);
  EXPECT_EQ(frame.gpus(1).pod(), "");
}

// S-496: the samples carry the values of the alerts on hardware faults.
TEST_F(NodeViewTest, FaultsOfTheHardwareAreInTheSamples) {
  const auto frame = look(qm::testing::read_file(qm::testing::data_dir() + "/telemetry/faults.prom"));
  ASSERT_EQ(frame.gpus_size(), 4);
  EXPECT_EQ(frame.gpus(0).double_bit_errors(), 2);
  EXPECT_EQ(frame.gpus(1).clocks_event_reasons(), 0x48);
  EXPECT_TRUE(frame.gpus(2).has_fan_percent());
  EXPECT_EQ(frame.gpus(2).fan_percent(), 0);
  EXPECT_EQ(frame.gpus(1).fan_percent(), 100);
  EXPECT_FALSE(frame.gpus(3).has_fan_percent()) << "it is cooled passively";
  const auto plain = look(page_of("job-0", 40)).gpus(0);
  EXPECT_FALSE(plain.has_double_bit_errors() || plain.has_clocks_event_reasons() || plain.has_fan_percent())
      << "most exporters do not list them";
}

TEST_F(NodeViewTest, WhatThePageDoesNotGiveIsMissingAndNoZero) {
  using S = pb::GpuSample;
  const std::map<int, std::string> families = {{S::kFbUsedBytesFieldNumber, "DCGM_FI_DEV_FB_USED"},
                                               {S::kFbFreeBytesFieldNumber, "DCGM_FI_DEV_FB_FREE"},
                                               {S::kTemperatureCFieldNumber, "DCGM_FI_DEV_GPU_TEMP"},
                                               {S::kPowerWattsFieldNumber, "DCGM_FI_DEV_POWER_USAGE"},
                                               {S::kSmActiveFieldNumber, "DCGM_FI_PROF_SM_ACTIVE"},
                                               {S::kEnergyMjFieldNumber, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"},
                                               {S::kXidFieldNumber, "DCGM_FI_DEV_XID_ERRORS"}};
  const std::string blank = "9223372036854775794";
  for (const auto& [left_out, name] : families) {
    for (const bool absent : {true, false}) {
      std::string text = line("DCGM_FI_DEV_GPU_UTIL", 0, "40");
      for (const auto& [field, family] : families) {
        if (field != left_out) text += line(family, 0, "0");
      }
      if (!absent) text += line(name, 0, blank);
      const auto frame = look(text, false);
      ASSERT_EQ(frame.gpus_size(), 1);
      for (const auto& [field, family] : families)
        EXPECT_EQ(wire::has_value(frame.gpus(0), field), field != left_out) << name << ": " << family;
    }
  }
}

TEST_F(NodeViewTest, SequenceShowsMissedLooks) {
  EXPECT_EQ(look(page_of("a")).sequence(), 1U);
  view.miss();
  view.miss();
  EXPECT_EQ(look(page_of("a")).sequence(), 4U);
}

TEST_F(NodeViewTest, DevicesArePublishedOnlyWhenTheyChange) {
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
  EXPECT_EQ(frame.gpus(0).pod(), "") << "the values of the board belong to no single instance";
}

TEST_F(NodeViewTest, InstancesThatFillAGpuComeToAllOfIt) {
  const auto instances = [](const std::string& model, const std::vector<std::string>& profiles) {
    std::string out;
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      out += fmt::format(
          "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu=\"0\",UUID=\"GPU-0\",modelName=\"{}\",GPU_I_PROFILE=\"{}\",GPU_I_ID=\"{}\","
          "namespace=\"team\",pod=\"p{}\"}} 0.5\n",
          model, profiles[i], i + 7, i);
    }
    return out;
  };
  const auto sum = [&](const std::string& page) {
    look(page);
    int milli = 0;
    for (const auto& pod : devices.back().devices().pods()) {
      for (const auto& device : pod.devices()) milli += device.milli();
    }
    return milli;
  };
  EXPECT_EQ(sum(instances("NVIDIA H100 80GB HBM3", std::vector<std::string>(7, "1g.10gb"))), 1000);
  EXPECT_EQ(sum(instances("NVIDIA H100 80GB HBM3", {"3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"})), 1000);
  EXPECT_EQ(sum(instances("NVIDIA A30", std::vector<std::string>(4, "1g.6gb"))), 1000) << "of four slices";
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
  EXPECT_FALSE(xids[0].xid().at_first_poll()) << "it was seen to appear";
  EXPECT_FALSE(xids[0].xid().cleared());
  look(page_of("a", 50, 0));
  ASSERT_THAT(xids, SizeIs(2));
  EXPECT_TRUE(xids[1].xid().cleared()) << "by a reset";
  EXPECT_EQ(xids[1].xid().xid(), 79);
  look(page_of("a", 50, 79));
  ASSERT_THAT(xids, SizeIs(3)) << "after a reset the same code is a new one";
  EXPECT_FALSE(xids[2].xid().at_first_poll());
}

TEST_F(NodeViewTest, AfterABootTheFirstLookIsOneAgain) {
  view.booted("b1");
  look(page_of("a", 50, 79));
  view.booted("b1");
  look(page_of("a", 50, 79));
  ASSERT_THAT(xids, SizeIs(1));
  EXPECT_EQ(xids[0].xid().boot_id(), "b1");
  view.booted("b2");
  look(page_of("a", 50, 79));
  ASSERT_THAT(xids, SizeIs(2));
  EXPECT_TRUE(xids[1].xid().at_first_poll());
  EXPECT_EQ(xids[1].xid().boot_id(), "b2");
}

TEST_F(NodeViewTest, AnotherGpuAtTheIndexIsReadAgain) {
  look(page_of("a", 50, 79));
  look("DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-other\"} 79\n");
  ASSERT_THAT(xids, SizeIs(2));
  EXPECT_TRUE(xids[1].xid().at_first_poll());
  EXPECT_EQ(xids[1].xid().gpu_uuid(), "GPU-other");
}

TEST_F(NodeViewTest, XidPresentAtTheFirstPollIsReported) {
  look(page_of("a", 50, 48));
  ASSERT_THAT(xids, SizeIs(1));
  EXPECT_EQ(xids[0].xid().xid(), 48);
  EXPECT_TRUE(xids[0].xid().at_first_poll()) << "whether it is an old one is known to the telemetry service";
}

TEST_F(NodeViewTest, AGpuIsBrokenByTheCatalogOfXids) {
  for (const int xid : {109, 136, 155, 158, 79, 48, 13, 31, 63, 94}) {
    NodeView fresh("node-1");
    fresh.take(parse_dcgm_page(page_of("a", 50, xid)), from_micros(1), true, [](const pb::AgentFact&) { return true; });
    EXPECT_EQ(fresh.broken().contains(0), catalog::xid::breaks_gpu(xid, {})) << xid;
  }
  EXPECT_TRUE(catalog::xid::breaks_gpu(109, {}));
}

TEST_F(NodeViewTest, TheXidCarriesTheRecoveryActionOfTheDriver) {
  look(page_of("a", 50, 154));
  ASSERT_THAT(xids, SizeIs(1));
  EXPECT_FALSE(xids[0].xid().has_recovery_action()) << "most exporters do not list it";
  EXPECT_THAT(view.broken(), ElementsAre(0));
  const auto asks = [](const char* value) { return line("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", 0, value); };
  look(page_of("a", 50, 154) + asks("0"));
  EXPECT_THAT(view.broken(), IsEmpty());
  look(page_of("a", 50, 145) + asks("1"));
  ASSERT_THAT(xids, SizeIs(3));
  EXPECT_EQ(xids[2].xid().recovery_action(), 1);
  EXPECT_THAT(view.broken(), ElementsAre(0));
  look(page_of("a", 50, 145) + asks("0"));
  EXPECT_THAT(view.broken(), IsEmpty());
}

TEST_F(NodeViewTest, ARecoveryActionThatChangesUnderOneCodeIsReported) {
  const auto asks = [](const char* value) { return line("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", 0, value); };
  const std::string blank = asks("9223372036854775794");
  look(page_of("a", 50, 154) + asks("0"));
  look(page_of("a", 50, 154) + asks("0"));
  ASSERT_THAT(xids, SizeIs(1));
  EXPECT_EQ(xids[0].xid().recovery_action(), 0);
  refuse = true;
  look(page_of("a", 50, 154) + asks("1"));
  refuse = false;
  look(page_of("a", 50, 154) + asks("1"));
  ASSERT_THAT(xids, SizeIs(2));
  EXPECT_EQ(xids[1].xid().xid(), 154);
  EXPECT_EQ(xids[1].xid().recovery_action(), 1);
  EXPECT_FALSE(xids[1].xid().at_first_poll()) << "it was seen to change";
  EXPECT_FALSE(xids[1].xid().cleared());
  // A missing value is not a changed value.
  look(page_of("a", 50, 154) + blank);
  look(page_of("a", 50, 154) + asks("1"));
  EXPECT_THAT(xids, SizeIs(2));
  look(page_of("a", 50, 154) + blank);
  look(page_of("a", 50, 154) + asks("2"));
  EXPECT_THAT(xids, SizeIs(3));
  // For a code whose verdict does not depend on it, a change is not reported.
  look(page_of("a", 50, 48) + asks("2"));
  ASSERT_THAT(xids, SizeIs(4));
  look(page_of("a", 50, 48) + asks("0"));
  look(page_of("a", 50, 0) + asks("0"));
  look(page_of("a", 50, 0) + asks("1"));
  ASSERT_THAT(xids, SizeIs(5));
  EXPECT_TRUE(xids[4].xid().cleared());
}

TEST_F(NodeViewTest, ARecoveryActionEndsWithItsPageItsBootAndItsGpu) {
  const auto asks = [](const char* value) { return line("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", 0, value); };
  look(page_of("a", 50, 154) + asks("0"));
  EXPECT_THAT(view.broken(), IsEmpty());
  look(page_of("a", 50, 154));
  EXPECT_THAT(view.broken(), ElementsAre(0)) << "what is not known is the code's own";
  look(page_of("a", 50, 154) + asks("0"));
  view.booted("b2");
  look(page_of("a", 50, 154));
  ASSERT_THAT(xids, SizeIs(2));
  EXPECT_TRUE(xids[1].xid().at_first_poll());
  EXPECT_FALSE(xids[1].xid().has_recovery_action());
  look(page_of("a", 50, 154) + asks("0"));
  ASSERT_THAT(xids, SizeIs(3));
  look("DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-other\"} 154\n");
  ASSERT_THAT(xids, SizeIs(4));
  EXPECT_TRUE(xids[3].xid().at_first_poll());
  EXPECT_FALSE(xids[3].xid().has_recovery_action());
}

TEST_F(NodeViewTest, AnotherGpuThatTheKubeletNamesFirstIsReadAgain) {
  look(page_of("a", 50, 79));
  Device other;
  other.index = 0;
  other.uuid = "GPU-other";
  view.held({}, {other}, from_micros(now_us), false, [](const pb::AgentFact&) { return true; });
  EXPECT_THAT(view.broken(), IsEmpty());
  look("DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-other\"} 79\n");
  ASSERT_THAT(xids, SizeIs(2));
  EXPECT_TRUE(xids[1].xid().at_first_poll());
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
