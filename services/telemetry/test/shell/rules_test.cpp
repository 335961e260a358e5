// Prometheus rules, unchanged, those of this repository and, where they are present, the reference ones, on the series
// that telemetry exports.
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"
#include "qm/testing/promtool.hpp"
#include "test/shell/little_service.hpp"

#include <gtest/gtest.h>

namespace qm::telemetry::testing {
namespace rules_test {

using qm::testing::firing;
using qm::testing::RuleCase;

/// The series that telemetry exports for four GPUs.
class Exported : public ::testing::Test {
 protected:
  void SetUp() override {
    if (qm::testing::promtool().empty()) GTEST_SKIP() << qm::testing::kNoPromtool;
    std::vector<pb::GpuSample> gpus;
    for (int i = 0; i < 4; ++i) {
      gpus.push_back(sample(i, 0.5, i < 2 ? "p" : fmt::format("q{}", i)));
      gpus.back().set_fb_used_bytes(3 << 20);
      gpus.back().set_fb_free_bytes(5 << 20);
      gpus.back().set_temperature_c(61);
      gpus.back().set_double_bit_errors(0);
      gpus.back().set_clocks_event_reasons(0);
      gpus.back().set_fan_percent(40);
    }
    service_.samples.take(frame("a", 1, 1, gpus));
    page_ = service_.registry.text();
  }
  /// A series as telemetry exports it for a GPU.
  std::string series(const std::string& metric, int gpu = 0) {
    const auto found = qm::testing::series_of(page_, fmt::format("{}{{gpu=\"{}\"", metric, gpu));
    EXPECT_NE(found, "") << metric << " is not exported";
    return found;
  }
  LittleService service_;
  std::string page_;
};

class Rules : public Exported, public ::testing::WithParamInterface<qm::testing::Manifests> {
 protected:
  std::string tried(const std::string& of_reference, const std::vector<RuleCase>& cases) {
    const auto file = GetParam().dir + GetParam().pick("prometheusrule-fleet.yaml", of_reference.c_str());
    const auto loaded = config::load_path(file);
    EXPECT_EQ(loaded.objects.size(), 1U);
    return qm::testing::try_rules(loaded.objects.at(0).document.content["spec"].dump(), cases);
  }
};

// S-326: used memory that grows while little is free fires after ten minutes; a flat 60 % does not.
TEST_P(Rules, AMemoryLeakFires) {
  const auto alert = firing(GetParam().pick("GpuMemoryFills", "GPUMemoryLeaking"));
  const auto used = series("dcgm_fb_used"), free = series("dcgm_fb_free");
  EXPECT_EQ(tried("001-prometheusrule-gpu-alerts.yaml",
                  {{"a leak", {{used, "40000+150x60"}, {free, "41000-150x60"}}, alert, {{"10m", 0}, {"10m30s", 1}}},
                   {"flat", {{used, "48000x60"}, {free, "32000x60"}}, alert, {{"10m30s", 0}, {"30m", 0}}}}),
            "");
}

// S-327: after four hours below a fifth, not after three.
TEST_P(Rules, UnderutilizationFiresAfterItsHours) {
  const auto alert = firing(GetParam().pick("GpuHardlyUsed", "GPUUnderutilized"));
  const auto used = series("dcgm_gpu_utilization");
  EXPECT_EQ(
      tried("001-prometheusrule-gpu-alerts.yaml", {{"ten percent", {{used, "10x640"}}, alert, {{"3h", 0}, {"5h", 1}}},
                                                   {"half", {{used, "50x640"}}, alert, {{"3h", 0}, {"5h", 0}}}}),
      "");
}

// S-328: 86 degrees for six minutes; not 84, and not 86 for four.
TEST_P(Rules, HeatFiresAboveItsLimitForItsTime) {
  const auto alert = firing(GetParam().pick("GpuHot", "GPUTemperatureHigh"));
  const auto degrees = series("dcgm_gpu_temp");
  EXPECT_EQ(tried("001-prometheusrule-gpu-alerts.yaml",
                  {{"hot", {{degrees, "86x40"}}, alert, {{"4m", 0}, {"6m", 1}}},
                   {"warm", {{degrees, "84x40"}}, alert, {{"6m", 0}, {"20m", 0}}},
                   {"hot for a while", {{degrees, "86x8 70x40"}}, alert, {{"4m", 0}, {"6m", 0}, {"20m", 0}}}}),
            "");
}

// S-331: 5 % for 100 minutes; 12 % never.
TEST_P(Rules, LowUtilizationFiresAfterItsTimeOnly) {
  const auto alert = firing(GetParam().pick("GpuIdle", "LowGPUUtilization"));
  const auto used = series("DCGM_FI_DEV_GPU_UTIL");
  EXPECT_EQ(tried("004-prometheusrule-karpenter-gpu-alerts.yaml",
                  {{"idle", {{used, "5x240"}}, alert, {{"59m", 0}, {"100m", 1}}},
                   {"a little", {{used, "12x240"}}, alert, {{"59m", 0}, {"100m", 0}, {"2h", 0}}}}),
            "");
}

// S-219: the mean over the GPUs of each app by the labels of kube-state-metrics; pods without an app are omitted.
TEST_P(Rules, UtilizationByAppIsTheMeanOverItsGpus) {
  const auto record = GetParam().pick("app:gpu_utilization:avg", "deployment_gpu_utilization_avg");
  const auto util = [&](int gpu) { return series("dcgm_gpu_utilization", gpu); };
  const std::map<std::string, std::string> all{
      {util(0), "70x10"},
      {util(1), "51x10"},
      {util(2), "30x10"},
      {util(3), "99x10"},
      {R"(kube_pod_labels{namespace="team",pod="p",label_app="llm"})", "1x10"},
      {R"(kube_pod_labels{namespace="team",pod="q2",label_app="llm"})", "1x10"},
      {R"(kube_pod_labels{namespace="team",pod="q3"})", "1x10"}};
  const auto close =
      fmt::format(R"(sum(abs({}{{label_app="llm",namespace="team"}} - (70 + 51 + 30) / 3) <= bool 1e-9))", record);
  EXPECT_EQ(tried("001-prometheusrule-gpu-utilization.yaml",
                  {{"as calculated from the samples", all, close, {{"1m", 1}, {"5m", 1}}},
                   {"no other", all, "count(" + record + ")", {{"5m", 1}}}}),
            "");
}

QM_FOR_EACH_MANIFESTS(Rules);

/// The alerts that the chart ships, on faults that appear in the scrape at 5m.
class ShippedRules : public Exported {
 protected:
  static std::string tried(const std::vector<RuleCase>& cases) {
    return qm::testing::try_rules(
        qm::testing::read_file(qm::testing::data_dir() + "/../../deploy/prometheus/rules.yaml"), cases);
  }
};
constexpr const char* kScrape = "5m30s";           ///< one scrape after the fault
constexpr const char* kScrapeAndMinute = "6m30s";  ///< and the minute of `for`

// S-496: an uncorrectable ECC error, throttling and a fan that stands still each alert within a scrape and `for`.
TEST_F(ShippedRules, EccErrorsFireWithinAScrape) {
  const auto alert = firing("QuartermasterGpuEccErrors"), errors = series("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL");
  EXPECT_EQ(tried({{"one", {{errors, "0x9 1x40"}}, alert, {{"4m30s", 0}, {kScrape, 1}}},
                   {"none", {{errors, "0x60"}}, alert, {{kScrape, 0}, {"20m", 0}}},
                   {"until the reset", {{errors, "0x9 1x9 0x40"}}, alert, {{kScrape, 1}, {"11m", 0}}}}),
            "");
}

TEST_F(ShippedRules, ThrottlingFiresWithinAScrapeAndItsMinute) {
  const auto alert = firing("QuartermasterGpuThrottled"), reasons = series("DCGM_FI_DEV_CLOCKS_EVENT_REASONS");
  std::vector<RuleCase> cases;
  // Hardware slowdown, software and hardware thermal slowdown, power brake; alone and with the power cap.
  for (const int bit : {0x8, 0x20, 0x40, 0x80}) {
    for (const int with : {0, 4}) {
      cases.push_back({fmt::format("reason {}", bit | with),
                       {{reasons, fmt::format("{}x9 {}x40", with, bit | with)}},
                       alert,
                       {{"5m", 0}, {kScrapeAndMinute, 1}}});
    }
  }
  // Idle, application clocks, power cap, sync boost, display: no fault.
  for (const int bit : {0x1, 0x2, 0x4, 0x10, 0x100})
    cases.push_back({fmt::format("reason {}", bit), {{reasons, fmt::format("{}x60", bit)}}, alert, {{"20m", 0}}});
  cases.push_back({"a moment", {{reasons, "0x9 64 0x40"}}, alert, {{kScrape, 0}, {kScrapeAndMinute, 0}}});
  EXPECT_EQ(tried(cases), "");
}

TEST_F(ShippedRules, AFanThatStandsStillFiresWithinAScrapeAndItsMinute) {
  const auto alert = firing("QuartermasterGpuFanStopped"), fan = series("DCGM_FI_DEV_FAN_SPEED"),
             degrees = series("DCGM_FI_DEV_GPU_TEMP");
  EXPECT_EQ(tried({{"stopped", {{fan, "55x9 0x40"}, {degrees, "74x60"}}, alert, {{"5m", 0}, {kScrapeAndMinute, 1}}},
                   {"heats up", {{fan, "0x60"}, {degrees, "48x9 70x40"}}, alert, {{"5m", 0}, {kScrapeAndMinute, 1}}},
                   {"idle", {{fan, "0x60"}, {degrees, "48x60"}}, alert, {{"20m", 0}}},
                   {"turns", {{fan, "30x60"}, {degrees, "84x60"}}, alert, {{"20m", 0}}},
                   {"cooled passively", {{degrees, "84x60"}}, alert, {{"20m", 0}}}}),
            "");
}

}  // namespace rules_test
}  // namespace qm::telemetry::testing
