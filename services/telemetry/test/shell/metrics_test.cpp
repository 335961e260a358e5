// The text format of Prometheus.
#include "qm/testing/testing.hpp"
#include "qm/wire/sample.hpp"
#include "test/shell/little_service.hpp"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace qm::telemetry::testing {
namespace metrics_test {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// The format checks of promtool: a family begins with HELP and TYPE, is contiguous, and no series occurs twice.
void check_form(const std::string& text) {
  std::set<std::string> families, series;
  std::string family;
  const auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& line = lines[i];
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << "twice: " << line;
      EXPECT_GT(line.size(), 8 + family.size()) << "no help: " << line;
      ASSERT_LT(i + 1, lines.size());
      const bool counts = family.ends_with("_total");
      EXPECT_EQ(lines[++i], "# TYPE " + family + (counts ? " counter" : " gauge"));
      continue;
    }
    const auto end = line.rfind(' ');
    EXPECT_TRUE(line.starts_with(family + "{") || line.starts_with(family + " ")) << line;
    EXPECT_TRUE(series.insert(line.substr(0, end)).second) << "twice: " << line;
    EXPECT_NO_THROW((void)std::stod(line.substr(end + 1))) << line;
  }
}

// S-016: utilization, memory, power and temperature of each GPU, by GPU, UUID and node, in the format of Prometheus.
TEST(Metrics, OneSeriesForEachGpuAsDcgmNamesIt) {
  LittleService service;
  auto busy = sample(0, 0.75, "p");
  busy.set_fb_used_bytes(3 << 20);
  busy.set_fb_free_bytes(5 << 20);
  busy.set_temperature_c(61);
  busy.set_power_watts(312.5);
  busy.set_xid(31);
  service.samples.take(frame("a", 1, 1, {busy, sample(1, 0)}));
  service.samples.take(frame("a", 61, 3, {busy, sample(1, 0)}));
  service.samples.take(frame("a", 61, 3, {busy}));
  const auto text = service.registry.text();
  check_form(text);
  const std::string labels =
      R"({gpu="0",UUID="GPU-0",modelName="NVIDIA H100 80GB HBM3",Hostname="a",container="main",namespace="team",pod="p"})";
  for (const std::string& line :
       {"DCGM_FI_DEV_GPU_UTIL" + labels + " 75\n", "DCGM_FI_DEV_FB_USED" + labels + " 3\n",
        "DCGM_FI_DEV_FB_FREE" + labels + " 5\n", "DCGM_FI_DEV_GPU_TEMP" + labels + " 61\n",
        "DCGM_FI_DEV_POWER_USAGE" + labels + " 312.5\n", "DCGM_FI_DEV_XID_ERRORS" + labels + " 31\n",
        std::string(
            "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-1\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"a\"} 0\n"),
        std::string("qm_telemetry_frames_total 3\n"), std::string("qm_telemetry_samples_total 4\n"),
        std::string("qm_telemetry_frame_gaps_total 1\n"), std::string("qm_telemetry_late_samples_total 1\n"),
        std::string("qm_telemetry_agents 0\n"), std::string("qm_telemetry_redis_up 0\n"),
        std::string("qm_telemetry_unhealthy_nodes 0\n"), std::string("qm_telemetry_open_orders 0\n")}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "is not in\n" << text;
  }
}

// S-322: the values with DCGM's name and with the name of the first generation are equal.
// S-316, S-317: so are those for utilization and memory.
TEST(Metrics, BothFamiliesOfNamesHaveEqualValues) {
  LittleService service;
  auto busy = sample(0, 0.75, "p");
  busy.set_fb_used_bytes(3 << 20);
  busy.set_fb_free_bytes(5 << 20);
  busy.set_temperature_c(61);
  busy.set_power_watts(312.5);
  service.samples.take(frame("a", 1, 1, {busy, sample(1, 0.25)}));
  const auto text = service.registry.text();
  check_form(text);
  const std::pair<std::string, std::string> names[] = {{"DCGM_FI_DEV_GPU_UTIL", "dcgm_gpu_utilization"},
                                                       {"DCGM_FI_DEV_FB_USED", "dcgm_fb_used"},
                                                       {"DCGM_FI_DEV_FB_FREE", "dcgm_fb_free"},
                                                       {"DCGM_FI_DEV_GPU_TEMP", "dcgm_gpu_temp"},
                                                       {"DCGM_FI_DEV_POWER_USAGE", "dcgm_power_usage"}};
  for (const auto& [exact, first] : names) {
    std::vector<std::string> of_exact, of_first;
    for (const auto& line : lines_of(text)) {
      if (line.starts_with(exact + "{")) of_exact.push_back(line.substr(exact.size()));
      if (line.starts_with(first + "{")) of_first.push_back(line.substr(first.size()));
    }
    EXPECT_EQ(of_exact.size(), 2U) << exact;
    EXPECT_EQ(of_exact, of_first) << exact;
  }
}

// S-496: the counters of hardware faults, of GPUs and exporters that have them.
TEST(Metrics, FaultCountersAreExportedWhereTheyAreKnown) {
  LittleService service;
  auto faulty = sample(0, 0.75, "p"), plain = sample(1, 0.5);
  faulty.set_double_bit_errors(2);
  faulty.set_clocks_event_reasons(0x48);
  faulty.set_fan_percent(0);
  service.samples.take(frame("a", 1, 1, {faulty, plain}));
  const auto text = service.registry.text();
  const std::string labels =
      R"({gpu="0",UUID="GPU-0",modelName="NVIDIA H100 80GB HBM3",Hostname="a",container="main",namespace="team",pod="p"})";
  for (const std::string& line :
       {"# TYPE DCGM_FI_DEV_ECC_DBE_VOL_TOTAL counter\nDCGM_FI_DEV_ECC_DBE_VOL_TOTAL" + labels + " 2\n",
        "# TYPE DCGM_FI_DEV_CLOCKS_EVENT_REASONS gauge\nDCGM_FI_DEV_CLOCKS_EVENT_REASONS" + labels + " 72\n",
        "# TYPE DCGM_FI_DEV_FAN_SPEED gauge\nDCGM_FI_DEV_FAN_SPEED" + labels + " 0\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "is not in\n" << text;
  for (const char* name :
       {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_FAN_SPEED"})
    EXPECT_EQ(text.find(std::string(name) + "{gpu=\"1\""), std::string::npos) << "zero would be a value";
}

TEST(Metrics, AValueThatIsMissingHasNoSeries) {
  LittleService service;
  auto partly = sample(0, 0.75, "p");
  partly.set_temperature_c(61);
  for (const int field :
       {pb::GpuSample::kFbUsedBytesFieldNumber, pb::GpuSample::kPowerWattsFieldNumber, pb::GpuSample::kXidFieldNumber})
    wire::set_missing(partly, field);
  service.samples.take(frame("a", 1, 1, {partly}));
  const auto text = service.registry.text();
  check_form(text);
  for (const char* there : {"DCGM_FI_DEV_GPU_UTIL{", "DCGM_FI_DEV_FB_FREE{", "DCGM_FI_DEV_GPU_TEMP{", "dcgm_gpu_temp{"})
    EXPECT_NE(text.find(there), std::string::npos) << there;
  for (const char* missing : {"DCGM_FI_DEV_FB_USED{", "DCGM_FI_DEV_POWER_USAGE{", "DCGM_FI_DEV_XID_ERRORS{",
                              "dcgm_fb_used{", "dcgm_power_usage{"})
    EXPECT_EQ(text.find(missing), std::string::npos) << missing;
}

/// Pages of dcgm-exporter: those of this repository, and the reference one where it is present.
std::vector<std::string> exporter_pages() {
  std::vector<std::string> out{qm::testing::data_dir() + "/telemetry/node.prom"};
  if (const auto shared = qm::testing::shared_dir()) out.push_back(*shared + "/telemetry/dcgm-exporter-sample.prom");
  return out;
}

TEST(Metrics, HelpAndTypeAreDcgms) {
  LittleService service;
  service.samples.take(frame("a", 1, 1, {sample(0, 0.5)}));
  for (const auto& path : exporter_pages()) {
    const auto page = lines_of(qm::testing::read_file(path));
    int compared = 0;
    for (const auto& line : lines_of(service.registry.text())) {
      if (!line.starts_with("# HELP DCGM_") && !line.starts_with("# TYPE DCGM_")) continue;
      ++compared;
      EXPECT_NE(std::find(page.begin(), page.end(), line), page.end()) << line << " is not in " << path;
    }
    EXPECT_EQ(compared, 12);
  }
}

TEST(Metrics, SeriesGoWithTheirPodAndTheirNode) {
  LittleService service;
  service.samples.take(frame("a", 1, 1, {sample(0, 0.5, "p")}));
  EXPECT_NE(service.registry.text().find("pod=\"p\""), std::string::npos);
  service.samples.take(frame("a", 61, 2, {sample(0, 0.5, "q")}));
  auto text = service.registry.text();
  EXPECT_EQ(text.find("pod=\"p\""), std::string::npos) << text;
  EXPECT_NE(text.find("pod=\"q\""), std::string::npos);
  service.samples.forget("a");
  text = service.registry.text();
  EXPECT_EQ(text.find("DCGM_"), std::string::npos) << text;
  check_form(text);
}

}  // namespace metrics_test
}  // namespace qm::telemetry::testing
