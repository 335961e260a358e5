// The driver's library against nvidia-smi, on a host with NVIDIA GPUs. Elsewhere these tests are skipped.
#include "device_plugin.hpp"
#include "devices.hpp"
#include "kubelet.hpp"
#include "node_hardware.hpp"
#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <sstream>

namespace qm::agent {
namespace nvml_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The output of a command, by line; its diagnostics are dropped.
std::vector<std::string> lines_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return {};
  std::array<char, 4096> part{};
  while (const auto size = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), size);
  pclose(pipe);
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class RealDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    source = nvml_devices();
    const auto found = source->devices();
    if (!found) GTEST_SKIP() << "no NVIDIA driver on this host: " << found.error().message;
    devices = *found;
    rows = lines_of(
        "nvidia-smi --query-gpu=index,uuid,pci.bus_id,memory.total,mig.mode.current --format=csv,noheader,nounits");
    if (rows.empty()) GTEST_SKIP() << "no nvidia-smi on this host";
  }
  std::unique_ptr<DeviceSource> source;
  std::vector<Device> devices;
  std::vector<std::string> rows;  // of nvidia-smi, one for each GPU
};

TEST_F(RealDriver, DevicesAreThoseOfNvidiaSmi) {
  std::vector<std::string> mine;
  for (const auto& device : devices) {
    EXPECT_EQ(device.pci.size(), 12U) << device.pci;
    std::string bus = device.pci;
    for (char& c : bus) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    mine.push_back(fmt::format("{}, {}, 0000{}, {}, {}", device.index, device.uuid, bus, device.memory_mib,
                               device.mig ? "Enabled" : "Disabled"));
    const auto sysfs = fmt::format("/sys/bus/pci/devices/{}/numa_node", device.pci);
    const auto numa = lines_of("cat " + sysfs);
    if (!numa.empty()) {
      EXPECT_EQ(std::to_string(device.numa), numa[0]) << sysfs;
    }
  }
  for (auto& row : rows) {
    if (row.ends_with("[N/A]")) row.replace(row.size() - 5, 5, "Disabled");  // a GPU without MIG
  }
  EXPECT_EQ(mine, rows);

  // "  MIG 1g.10gb     Device  0: (UUID: MIG-...)" below its GPU.
  std::vector<std::string> instances;
  for (const auto& line : lines_of("nvidia-smi -L")) {
    const auto at = line.find("(UUID: MIG-");
    if (at != std::string::npos) instances.push_back(line.substr(at + 7, line.find(')', at) - at - 7));
  }
  std::vector<std::string> slices;
  for (const auto& device : devices) {
    for (const auto& slice : device.slices) slices.push_back(slice.uuid);
  }
  EXPECT_EQ(slices, instances);

  const auto joints = source->joints();
  ASSERT_TRUE(joints) << joints.error().to_string();
  EXPECT_EQ(joints->size(), devices.size() * (devices.size() - 1) / 2);
}

TEST_F(RealDriver, TheKubeletIsOfferedItsUnits) {
  const qm::testing::TempDir dir;
  testing::MockKubelet kubelet(dir.path());
  Pods pods;
  metrics::Registry registry;
  DevicePlugin plugin({.dir = dir.path(), .node = "n"}, *source, pods, registry);
  plugin.start();
  for (const auto& [resource, units] : units_of(devices, {})) {
    std::set<std::string> ids;
    for (const auto& unit : units) ids.insert(unit.id);
    EXPECT_TRUE(qm::testing::wait_until([&] { return kubelet.ids(resource) == ids; })) << resource;
  }
  pods.close();
  plugin.stop();
}

TEST_F(RealDriver, TheHardwareIsDescribedForNcclAndForPlacement) {
  const auto nodes = numa_nodes("/sys");
  ASSERT_TRUE(nodes) << nodes.error().to_string();
  EXPECT_THAT(*nodes, ::testing::Not(IsEmpty()));
  const auto xml = nccl_topology(*nodes, devices, "/sys");
  const auto annotation = numa_annotation(*nodes, {}, devices);
  for (const auto& device : devices) {
    if (node_of(device, *nodes) >= 0) {
      EXPECT_THAT(xml, HasSubstr(device.pci));
    }
  }
  // Recorded for inspection, and for use by NCCL.
  RecordProperty("numa", annotation);
  RecordProperty("nccl", xml);
}

}  // namespace nvml_test
}  // namespace qm::agent
