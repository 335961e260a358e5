#include "dcgm_page.hpp"

#include "qm/testing/testing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>

namespace qm::agent {
namespace dcgm_page_test {

using ::testing::IsEmpty;
using ::testing::SizeIs;

DcgmPage read_page(const std::string& path) {
  const auto text = qm::testing::read_file(path);
  EXPECT_FALSE(text.empty()) << path;
  return parse_dcgm_page(text);
}

DcgmPage own_page(const std::string& name) { return read_page(qm::testing::data_dir() + "/telemetry/" + name); }

/// A page of the reference data, if present.
std::optional<DcgmPage> reference_page(const std::string& name) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) return std::nullopt;
  return read_page(*shared + "/telemetry/" + name);
}

// ---- our own pages: one node in the formats of several releases, with the expected readings ----

/// A row of tests/data/telemetry/expected.csv: the totals of a page if `gpu` is empty, else the values of one GPU.
using ExpectedRow = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == at) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::vector<ExpectedRow> expected_rows() {
  std::istringstream lines(qm::testing::read_file(qm::testing::data_dir() + "/telemetry/expected.csv"));
  std::vector<ExpectedRow> out;
  std::vector<std::string> head;
  for (std::string line; std::getline(lines, line);) {
    const auto cells = split(line, ',');
    if (head.empty()) {
      head = cells;
      continue;
    }
    auto& row = out.emplace_back();
    for (std::size_t i = 0; i < head.size(); ++i) row[head[i]] = i < cells.size() ? cells[i] : "";
  }
  return out;
}

/// An empty cell: the page has no value.
void expect_value(const ExpectedRow& row, const std::string& name, double found) {
  const auto& wanted = row.at(name);
  if (wanted.empty()) {
    EXPECT_TRUE(std::isnan(found)) << name << " is " << found;
  } else {
    EXPECT_NEAR(found, std::stod(wanted), 1e-6) << name;
  }
}

void expect_gpu(const ExpectedRow& row, const DeviceReading& device) {
  EXPECT_EQ(device.index, std::stoi(row.at("gpu")));
  EXPECT_EQ(device.uuid, row.at("uuid"));
  EXPECT_EQ(device.model, row.at("model"));
  expect_value(row, "utilization", device.utilization);
  expect_value(row, "sm_active", device.sm_active);
  expect_value(row, "fb_used_mib", device.fb_used_mib);
  expect_value(row, "fb_free_mib", device.fb_free_mib);
  expect_value(row, "temperature_c", device.temperature_c);
  expect_value(row, "power_watts", device.power_watts);
  expect_value(row, "energy_mj", device.energy_mj);
  expect_value(row, "xid", device.xid);
  std::multiset<std::string> held, wanted;
  for (const auto& h : device.holders) held.insert(h.ns + "/" + h.pod + "/" + h.container + "/" + h.mig_profile);
  for (const auto& one : split(row.at("holders"), ';')) {
    if (!one.empty()) wanted.insert(one);
  }
  EXPECT_EQ(held, wanted);
}

/// The page has every GPU with all its values, and no other GPU.
void expect_own_page(const std::string& name) {
  const auto page = own_page(name);
  std::size_t gpus = 0, totals = 0;
  for (const auto& row : expected_rows()) {
    if (row.at("page") != name) continue;
    SCOPED_TRACE(name + ", GPU " + row.at("gpu"));
    if (row.at("gpu").empty()) {
      ++totals;
      EXPECT_EQ(page.samples, std::stoul(row.at("samples")));
      EXPECT_EQ(page.blanks, std::stoul(row.at("blanks")));
      EXPECT_EQ(page.bad_lines, std::stoul(row.at("bad_lines")));
      continue;
    }
    ASSERT_LT(gpus, page.devices.size());
    expect_gpu(row, page.devices[gpus++]);
  }
  EXPECT_EQ(totals, 1U) << "expected.csv has no line of " << name;
  EXPECT_EQ(page.devices.size(), gpus) << name << " has GPUs that the host does not have";
}

// Each of these reads our own page, and the page of the reference data if present.

TEST(DcgmSamples, DefaultCounters) {
  expect_own_page("node.prom");
  const auto page = reference_page("dcgm-exporter-sample.prom");
  if (!page) return;
  EXPECT_EQ(page->samples, 247U);
  EXPECT_EQ(page->bad_lines, 0U);
  EXPECT_EQ(page->blanks, 0U);
  ASSERT_THAT(page->devices, SizeIs(8));
  const auto& first = page->devices[0];
  EXPECT_EQ(first.uuid, "GPU-47eaa099-2cb6-916d-86dc-283cf0480ff9");
  EXPECT_EQ(first.model, "NVIDIA H100 80GB HBM3");
  EXPECT_GT(first.utilization, 0.5);
  EXPECT_LE(first.utilization, 1.0);
  EXPECT_GT(first.power_watts, 100);
  EXPECT_GT(first.energy_mj, 0);
  ASSERT_THAT(first.holders, SizeIs(1));
  EXPECT_EQ(first.holders[0], (DeviceReading::Holder{"llm-pretrain", "llama-70b-worker-3", "trainer", ""}));
  EXPECT_EQ(page->devices[4].xid, 31);
  EXPECT_EQ(page->devices[7].xid, 63);
  EXPECT_THAT(page->devices[7].holders, IsEmpty());
}

TEST(DcgmSamples, MigInstancesAddUp) {
  const auto own = own_page("node.prom");
  ASSERT_THAT(own.devices, SizeIs(8));
  // 3g at 84 % and 2g at 28 % of seven slices; the board's 241.5 W are on every row and count once.
  EXPECT_NEAR(own.devices[4].utilization, (3 * 0.84 + 2 * 0.28) / 7, 1e-9);
  EXPECT_EQ(own.devices[4].power_watts, 241.5);
  EXPECT_EQ(own.devices[4].fb_used_mib, 60100 + 20050 + 13);
  ASSERT_THAT(own.devices[4].holders, SizeIs(2)) << "the third instance is free";
  ASSERT_THAT(own.devices[5].holders, SizeIs(2)) << "one pod holds two instances";
  EXPECT_EQ(own.devices[5].holders[0].pod, own.devices[5].holders[1].pod);
  EXPECT_EQ(own.devices[5].holders[0].mig_profile, own.devices[5].holders[1].mig_profile);

  const auto page = reference_page("dcgm-exporter-sample.prom");
  if (!page) return;
  const auto& mig = page->devices[5];
  // Three of the four instances have holders, and values of the board count once.
  ASSERT_THAT(mig.holders, SizeIs(3));
  std::multiset<std::string> profiles;
  for (const auto& holder : mig.holders) profiles.insert(holder.mig_profile);
  EXPECT_THAT(profiles, ::testing::ElementsAre("1g.10gb", "2g.20gb", "3g.40gb"));
  EXPECT_LT(mig.power_watts, 701);
  EXPECT_GE(mig.utilization, 0);
  EXPECT_LE(mig.utilization, 1);
  EXPECT_FALSE(std::isnan(mig.fb_used_mib));
}

TEST(DcgmSamples, ASumThatLacksAnInstanceIsNone) {
  const auto instance = [](const std::string& family, int id, const std::string& value) {
    return fmt::format("{}{{gpu=\"0\",GPU_I_PROFILE=\"3g.40gb\",GPU_I_ID=\"{}\"}} {}\n", family, id, value);
  };
  const std::string busy = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", used = "DCGM_FI_DEV_FB_USED";
  const auto page = parse_dcgm_page(instance(busy, 1, "0.7") + instance(busy, 2, "0.7") + instance(used, 1, "100") +
                                    instance(used, 2, "9223372036854775794"));
  ASSERT_THAT(page.devices, SizeIs(1));
  EXPECT_NEAR(page.devices[0].utilization, 0.6, 1e-9);
  EXPECT_TRUE(std::isnan(page.devices[0].fb_used_mib)) << "half of it is not known";
}

TEST(DcgmSamples, ExtendedCounters) {
  expect_own_page("node-more-counters.prom");
  const auto page = reference_page("dcgm-exporter-sample-extended.prom");
  if (!page) return;
  EXPECT_EQ(page->samples, 562U);
  EXPECT_EQ(page->bad_lines, 0U);
  EXPECT_FALSE(std::isnan(page->devices[0].sm_active));
  EXPECT_FALSE(std::isnan(page->devices[0].double_bit_errors));
  EXPECT_FALSE(std::isnan(page->devices[0].clocks_event_reasons));
}

/// `noise`: the fraction by which power may differ; `mig`: the GPUs with instances, which 1.x did not support.
void expect_same_generations(const DcgmPage& now, const DcgmPage& next, const DcgmPage& old, double noise,
                             const std::set<std::size_t>& mig) {
  ASSERT_THAT(now.devices, SizeIs(8));
  ASSERT_EQ(now.devices.size(), next.devices.size());
  ASSERT_EQ(now.devices.size(), old.devices.size());
  for (std::size_t i = 0; i < now.devices.size(); ++i) {
    const auto &a = now.devices[i], &b = next.devices[i], &c = old.devices[i];
    SCOPED_TRACE(i);
    EXPECT_EQ(a.uuid, b.uuid);
    EXPECT_EQ(a.uuid, c.uuid);
    EXPECT_EQ(a.holders, b.holders);
    EXPECT_EQ(a.utilization, b.utilization);
    EXPECT_NEAR(a.power_watts, b.power_watts, noise * a.power_watts);
    EXPECT_EQ(a.temperature_c, b.temperature_c);
    EXPECT_EQ(a.xid, b.xid);
    EXPECT_EQ(a.temperature_c, c.temperature_c);
    if (mig.contains(i)) continue;
    EXPECT_EQ(a.holders, c.holders);
    EXPECT_EQ(a.utilization, c.utilization);
    EXPECT_EQ(a.fb_used_mib, c.fb_used_mib);
  }
}

TEST(DcgmSamples, GenerationsHaveEqualResults) {
  expect_own_page("node-dcgm46.prom");
  expect_own_page("node-1x.prom");
  expect_same_generations(own_page("node.prom"), own_page("node-dcgm46.prom"), own_page("node-1x.prom"), 0, {4, 5});
  const auto now = reference_page("dcgm-exporter-sample.prom"),
             next = reference_page("dcgm-exporter-sample-dcgm46-names.prom"),
             old = reference_page("dcgm-exporter-sample-legacy1x.prom");
  if (!now) return;
  EXPECT_EQ(next->samples, 247U);
  EXPECT_EQ(old->samples, 80U);
  expect_same_generations(*now, *next, *old, 0.05, {5});  // the samples differ by noise
}

TEST(DcgmSamples, TimeSlicedGpuCountsItsOwnRow) {
  expect_own_page("time-slicing.prom");
  const auto page = reference_page("dcgm-exporter-sample-timeslicing.prom");
  if (!page) return;
  EXPECT_EQ(page->samples, 11U);
  ASSERT_THAT(page->devices, SizeIs(1));
  EXPECT_DOUBLE_EQ(page->devices[0].utilization, 0.83);
  EXPECT_DOUBLE_EQ(page->devices[0].fb_used_mib, 40210);
  EXPECT_DOUBLE_EQ(page->devices[0].power_watts, 511.204);
  EXPECT_THAT(page->devices[0].holders, SizeIs(3));
}

TEST(DcgmSamples, HostilePageKeepsWhatIsGood) {
  expect_own_page("hostile.prom");
  const auto page = reference_page("dcgm-exporter-sample-hostile.prom");
  if (!page) return;
  EXPECT_EQ(page->samples, 7U);
  EXPECT_EQ(page->blanks, 4U);
  EXPECT_EQ(page->bad_lines, 4U);
  std::map<int, double> utilization;
  for (const auto& device : page->devices) {
    if (!std::isnan(device.utilization)) utilization[device.index] = device.utilization;
  }
  EXPECT_EQ(utilization, (std::map<int, double>{{0, 0.06}, {1, 0.07}, {4, 0.1}}));
}

// S-496: the fields of the alerts on hardware faults.
TEST(DcgmSamples, FaultsOfTheHardware) {
  expect_own_page("faults.prom");
  const auto page = own_page("faults.prom");
  ASSERT_THAT(page.devices, SizeIs(4));
  const double ecc[] = {2, 0, 0, 0}, reasons[] = {1, 0x48, 0, 4}, fan[] = {30, 100, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(page.devices[i].double_bit_errors, ecc[i]);
    EXPECT_EQ(page.devices[i].clocks_event_reasons, reasons[i]);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(page.devices[i].fan_percent, fan[i]) << i;
  EXPECT_TRUE(std::isnan(page.devices[3].fan_percent)) << "it is cooled passively";
  const auto older =
      parse_dcgm_page("dcgm_ecc_dbe_volatile_total{gpu=\"0\"} 3\nDCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 8\n");
  ASSERT_THAT(older.devices, SizeIs(1));
  EXPECT_EQ(older.devices[0].double_bit_errors, 3);
  EXPECT_EQ(older.devices[0].clocks_event_reasons, 8);
}

TEST(DcgmSamples, CapturedShapes) {
  expect_own_page("shapes.prom");
  const auto page = reference_page("captured-shapes.prom");
  if (!page) return;
  EXPECT_EQ(page->samples, 10U);
  EXPECT_EQ(page->bad_lines, 0U);
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

TEST(DcgmPage, DeviceNameReplacesTheIndex) {
  const auto page = parse_dcgm_page(
      "dcgm_gpu_utilization{device=\"nvidia6\",uuid=\"GPU-6\"} "
      "10\nDCGM_FI_DEV_GPU_UTIL{gpu=\"-1\"} 1\n"
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"99999999999\"} 1\n");
  ASSERT_THAT(page.devices, SizeIs(1));
  EXPECT_EQ(page.devices[0].index, 6);
  EXPECT_EQ(page.samples, 3U);
}

TEST(DcgmPage, ShapesWithoutAPatternAreStillRead) {
  // Every family has the rows in another order, so the guess about the next row is always wrong.
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

}  // namespace dcgm_page_test
}  // namespace qm::agent
