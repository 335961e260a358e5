#include "dcgm_page.hpp"

#include "qm/testing/testing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace qm::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class DcgmSamples : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!qm::testing::shared_dir()) GTEST_SKIP() << qm::testing::no_shared();
  }
  static DcgmPage read(const std::string& name) {
    static std::map<std::string, std::string> texts;
    auto& text = texts[name];
    text = qm::testing::read_file(*qm::testing::shared_dir() + "/telemetry/" + name);
    return parse_dcgm_page(text);
  }
};

TEST_F(DcgmSamples, DefaultCounters) {
  const auto page = read("dcgm-exporter-sample.prom");
  EXPECT_EQ(page.samples, 247U);
  EXPECT_EQ(page.bad_lines, 0U);
  EXPECT_EQ(page.blanks, 0U);
  ASSERT_THAT(page.devices, SizeIs(8));
  const auto& first = page.devices[0];
  EXPECT_EQ(first.uuid, "GPU-47eaa099-2cb6-916d-86dc-283cf0480ff9");
  EXPECT_EQ(first.model, "NVIDIA H100 80GB HBM3");
  EXPECT_GT(first.utilization, 0.5);
  EXPECT_LE(first.utilization, 1.0);
  EXPECT_GT(first.power_watts, 100);
  EXPECT_GT(first.energy_mj, 0);
  ASSERT_THAT(first.holders, SizeIs(1));
  EXPECT_EQ(first.holders[0], (DeviceReading::Holder{"llm-pretrain", "llama-70b-worker-3", "trainer", ""}));
  EXPECT_EQ(page.devices[4].xid, 31);
  EXPECT_EQ(page.devices[7].xid, 63);
  EXPECT_THAT(page.devices[7].holders, IsEmpty());
}

TEST_F(DcgmSamples, MigInstancesAddUp) {
  const auto mig = read("dcgm-exporter-sample.prom").devices[5];
  // Three instances of the four are held, and what repeats the board is taken once.
  ASSERT_THAT(mig.holders, SizeIs(3));
  std::multiset<std::string> profiles;
  for (const auto& holder : mig.holders) profiles.insert(holder.mig_profile);
  EXPECT_THAT(profiles, ::testing::ElementsAre("1g.10gb", "2g.20gb", "3g.40gb"));
  EXPECT_LT(mig.power_watts, 701);
  EXPECT_GE(mig.utilization, 0);
  EXPECT_LE(mig.utilization, 1);
  EXPECT_FALSE(std::isnan(mig.fb_used_mib));
}

TEST_F(DcgmSamples, ExtendedCounters) {
  const auto page = read("dcgm-exporter-sample-extended.prom");
  EXPECT_EQ(page.samples, 562U);
  EXPECT_EQ(page.bad_lines, 0U);
  EXPECT_FALSE(std::isnan(page.devices[0].sm_active));
}

TEST_F(DcgmSamples, GenerationsSayTheSame) {
  const auto now = read("dcgm-exporter-sample.prom"), next = read("dcgm-exporter-sample-dcgm46-names.prom"),
             old = read("dcgm-exporter-sample-legacy1x.prom");
  EXPECT_EQ(next.samples, 247U);
  EXPECT_EQ(old.samples, 80U);
  ASSERT_EQ(now.devices.size(), next.devices.size());
  ASSERT_EQ(now.devices.size(), old.devices.size());
  for (std::size_t i = 0; i < now.devices.size(); ++i) {
    const auto &a = now.devices[i], &b = next.devices[i], &c = old.devices[i];
    SCOPED_TRACE(i);
    EXPECT_EQ(a.uuid, b.uuid);
    EXPECT_EQ(a.uuid, c.uuid);
    EXPECT_EQ(a.holders, b.holders);
    EXPECT_EQ(a.utilization, b.utilization);
    EXPECT_NEAR(a.power_watts, b.power_watts, 0.05 * a.power_watts);  // the samples differ by noise
    EXPECT_EQ(a.temperature_c, b.temperature_c);
    EXPECT_EQ(a.xid, b.xid);
    EXPECT_EQ(a.temperature_c, c.temperature_c);
    if (i == 5) continue;  // the old exporter knew no MIG
    EXPECT_EQ(a.holders, c.holders);
    EXPECT_EQ(a.utilization, c.utilization);
    EXPECT_EQ(a.fb_used_mib, c.fb_used_mib);
  }
}

TEST_F(DcgmSamples, TimeSlicedGpuCountsItsOwnRow) {
  const auto page = read("dcgm-exporter-sample-timeslicing.prom");
  EXPECT_EQ(page.samples, 11U);
  ASSERT_THAT(page.devices, SizeIs(1));
  EXPECT_DOUBLE_EQ(page.devices[0].utilization, 0.83);
  EXPECT_DOUBLE_EQ(page.devices[0].fb_used_mib, 40210);
  EXPECT_DOUBLE_EQ(page.devices[0].power_watts, 511.204);
  EXPECT_THAT(page.devices[0].holders, SizeIs(3));
}

TEST_F(DcgmSamples, HostilePageKeepsWhatIsGood) {
  const auto page = read("dcgm-exporter-sample-hostile.prom");
  EXPECT_EQ(page.samples, 7U);
  EXPECT_EQ(page.blanks, 4U);
  EXPECT_EQ(page.bad_lines, 4U);
  std::map<int, double> utilization;
  for (const auto& device : page.devices) {
    if (!std::isnan(device.utilization)) utilization[device.index] = device.utilization;
  }
  EXPECT_EQ(utilization, (std::map<int, double>{{0, 0.06}, {1, 0.07}, {4, 0.1}}));
}

TEST_F(DcgmSamples, CapturedShapes) {
  const auto page = read("captured-shapes.prom");
  EXPECT_EQ(page.samples, 10U);
  EXPECT_EQ(page.bad_lines, 0U);
}

TEST(DcgmPage, EmptyAndForeignTextsHaveNoDevices) {
  for (const char* text : {"", "\n\n", "# HELP x y\n", "<html>busy</html>\n", "up 1\n", "{}", "DCGM_FI_DEV_GPU_UTIL"}) {
    EXPECT_THAT(parse_dcgm_page(text).devices, IsEmpty()) << text;
  }
}

TEST(DcgmPage, BrokenLinesAreCounted) {
  struct Case {
    const char* line;
    bool good;
  };
  for (const auto& [line, good] : std::initializer_list<Case>{
           {R"(DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5)", true},
           {R"(DCGM_FI_DEV_GPU_UTIL { gpu = "0" , } 5 1763683200000 )", false},  // no blank before the brace
           {R"(DCGM_FI_DEV_GPU_UTIL{ gpu = "0" , } 5 1763683200000 )", true},
           {R"(DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5 soon)", false},
           {R"(DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5x)", false},
           {R"(DCGM_FI_DEV_GPU_UTIL{gpu="0"})", false},
           {R"(DCGM_FI_DEV_GPU_UTIL{gpu="0)", false},
           {R"(DCGM_FI_DEV_GPU_UTIL{gpu="0\)", false},
           {R"(DCGM_FI_DEV_GPU_UTIL{gpu=0} 5)", false},
           {R"(DCGM_FI_DEV_GPU_UTIL{="0"} 5)", false},
           {R"(DCGM_FI_DEV_GPU_UTIL{gpu="0" pod="p"} 5)", false},
           {R"({gpu="0"} 5)", false},
           {R"(DCGM_FI_DEV_GPU_UTIL{gpu="0",note="a } 7 \" b"} 5)", true},
       }) {
    const auto page = parse_dcgm_page(line);
    EXPECT_EQ(page.samples, good ? 1U : 0U) << line;
    EXPECT_EQ(page.bad_lines, good ? 0U : 1U) << line;
    if (good) {
      ASSERT_THAT(page.devices, SizeIs(1)) << line;
      EXPECT_DOUBLE_EQ(page.devices[0].utilization, 0.05) << line;
    }
  }
}

TEST(DcgmPage, BlanksAreNoValues) {
  for (const char* value :
       {"2147483632", "2147483635", "9223372036854775792", "9223372036854775794", "9.223372036854775794e18",
        "140737488355328.000000", "140737488355330", "NaN", "+Inf", "-Inf"}) {
    const auto page = parse_dcgm_page(std::string("DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} ") + value + "\n");
    EXPECT_EQ(page.blanks, 1U) << value;
    ASSERT_THAT(page.devices, SizeIs(1)) << value;
    EXPECT_TRUE(std::isnan(page.devices[0].power_watts)) << value;
  }
}

TEST(DcgmPage, UtilizationIsClamped) {
  const auto page = parse_dcgm_page("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 250\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\"} -3\r\n");
  ASSERT_THAT(page.devices, SizeIs(2));
  EXPECT_EQ(page.devices[0].utilization, 1);
  EXPECT_EQ(page.devices[1].utilization, 0);
}

TEST(DcgmPage, DeviceNameStandsInForTheIndex) {
  const auto page = parse_dcgm_page(
      "dcgm_gpu_utilization{device=\"nvidia6\",uuid=\"GPU-6\"} "
      "10\nDCGM_FI_DEV_GPU_UTIL{gpu=\"-1\"} 1\n"
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"99999999999\"} 1\n");
  ASSERT_THAT(page.devices, SizeIs(1));
  EXPECT_EQ(page.devices[0].index, 6);
  EXPECT_EQ(page.samples, 3U);
}

TEST(DcgmPage, ShapesWithoutAPatternAreStillRead) {
  // Every family has the rows in another order, so no guess about the next row holds.
  std::string text;
  int shift = 0;
  for (const char* family : {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"}) {
    for (int i = 0; i < 8; ++i) {
      const int gpu = (i * 5 + shift) % 8;
      text += std::string(family) + "{gpu=\"" + std::to_string(gpu) + "\"} " + std::to_string(gpu + 1) + "\n";
    }
    shift += 3;
  }
  const auto page = parse_dcgm_page(text);
  ASSERT_THAT(page.devices, SizeIs(8));
  for (const auto& device : page.devices) {
    EXPECT_EQ(device.temperature_c, device.index + 1);
    EXPECT_EQ(device.power_watts, device.index + 1);
  }
}

}  // namespace
}  // namespace qm::agent
