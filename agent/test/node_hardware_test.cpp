// The hardware of a node: files of a kernel and of a kubelet, and the connections of GPUs that a driver reports.
#include "node_hardware.hpp"

#include "agent.hpp"
#include "kubelet.hpp"
#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace qm::agent {
namespace node_hardware_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

/// Two sockets of 48 CPUs with hyperthreads, four GPUs on each.
struct Sockets {
  qm::testing::TempDir dir;
  Sockets() {
    const std::string node = dir.path() + "/devices/system/node/";
    write(node + "node0/cpulist", "0-47,96-143\n");
    write(node + "node0/meminfo", "Node 0 MemTotal:       1048576 kB\nNode 0 MemFree:   1 kB\n");
    write(node + "node1/cpulist", "48-95,144-191\n");
    write(node + "node1/meminfo", "Node 1 MemTotal:       2097152 kB\n");
    write(node + "has_cpu", "0-1\n");
  }
};

std::vector<Device> eight() {
  std::vector<Device> out;
  for (int i = 0; i < 8; ++i) out.push_back({i, fmt::format("GPU-{}", i), i / 4, false, {}});
  return out;
}
/// Pairs within an island by NVLink, the others across sockets.
std::vector<Joint> joined(const std::vector<std::vector<int>>& islands) {
  std::vector<Joint> out;
  for (int a = 0; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b) {
      const bool one = std::ranges::any_of(islands, [&](const std::vector<int>& island) {
        return std::ranges::count(island, a) + std::ranges::count(island, b) == 2;
      });
      out.push_back({a, b, one ? Join::kNvlink : Join::kSys});
    }
  }
  return out;
}

TEST(NodeHardware, SetsOfCpus) {
  EXPECT_THAT(*cpus_of("0-3"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(*cpus_of("8,0-1"), ElementsAre(0, 1, 8));
  EXPECT_THAT(*cpus_of(""), IsEmpty());
  for (const char* bad : {"a", "3-1", "1-", "-1", "1,,2", "0-99999999", "1-2-3"}) {
    const auto read = cpus_of(bad);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, Code::kInvalid);
  }
}

/// Configurations that a kubelet on a GPU node should have: our own file, and the reference one if present.
std::vector<std::string> wanted_kubelet_files() {
  std::vector<std::string> out{qm::testing::data_dir() + "/telemetry/kubelet-gpu-node.yaml"};
  if (const auto shared = qm::testing::shared_dir()) {
    out.push_back(*shared + "/manifests/001-kubelet-configuration.yaml");
  }
  return out;
}

void expect_wanted_settings(const std::string& file) {
  SCOPED_TRACE(file);
  const auto wanted = kubelet_settings(qm::testing::read_file(file), file);
  ASSERT_TRUE(wanted) << wanted.error().to_string();
  EXPECT_EQ(wanted->topology_policy, "single-numa-node");
  EXPECT_EQ(wanted->cpu_policy, "static");
  EXPECT_THAT(wanted->reserved_cpus, ElementsAre(0, 1, 2, 3));

  const std::string kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
  const auto plain = kubelet_settings(kind, "config.yaml");
  ASSERT_TRUE(plain) << plain.error().to_string();
  EXPECT_THAT(differences(*wanted, *wanted), IsEmpty());
  EXPECT_THAT(differences(*plain, *wanted),
              ElementsAre("topologyManagerPolicy is none, not single-numa-node", "cpuManagerPolicy is none, not static",
                          "reservedSystemCPUs is empty, not 0-3"));

  const Sockets machine;
  const auto nodes = numa_nodes(machine.dir.path());
  ASSERT_TRUE(nodes) << nodes.error().to_string();
  ASSERT_EQ(nodes->size(), 2U);
  EXPECT_EQ(nodes->at(0).cpus.size(), 96U);
  EXPECT_EQ(numa_annotation(*nodes, *wanted, eight()),
            R"({"policy":"single-numa-node","zones":[{"cpu":"92","gpus":[0,1,2,3]},{"cpu":"96","gpus":[4,5,6,7]}]})");
  EXPECT_EQ(numa_annotation(*nodes, *plain, eight()),
            R"({"policy":"none","zones":[{"gpus":[0,1,2,3]},{"gpus":[4,5,6,7]}]})");

  auto with_memory = *wanted;
  with_memory.memory_policy = "Static";
  with_memory.reserved_memory = {{0, 1 << 20}};
  EXPECT_EQ(numa_annotation(*nodes, with_memory, {}),
            R"({"policy":"single-numa-node","zones":[{"cpu":"92","memory":"1072693248","gpus":[]},)"
            R"({"cpu":"96","memory":"2147483648","gpus":[]}]})");
}

// S-065: the kubelet's settings are read, differences from the wanted settings are reported, and no NUMA node offers
// reserved CPUs.
TEST(NodeHardware, WhatTheKubeletIsSetToAndTheCpusItKeeps) {
  for (const auto& file : wanted_kubelet_files()) expect_wanted_settings(file);
}

TEST(NodeHardware, KubeletSettingsThatCannotBeRead) {
  const std::string kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
  const auto error = [](const std::string& yaml) {
    const auto read = kubelet_settings(yaml, "x.yaml");
    return read ? std::string() : read.error().field;
  };
  EXPECT_EQ(error(kind + "reservedSystemCPUs: few\n"), "reservedSystemCPUs");
  EXPECT_EQ(error(kind + "reservedMemory: [{numaNode: 0, limits: {memory: much}}]\n"), "reservedMemory.limits.memory");
  EXPECT_EQ(error("apiVersion: v1\nkind: ConfigMap\n"), "x.yaml");
  const auto reserved = kubelet_settings(
      kind + "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}]\n", "x");
  ASSERT_TRUE(reserved) << reserved.error().to_string();
  EXPECT_EQ(reserved->memory_policy, "Static");
  EXPECT_EQ(reserved->reserved_memory.at(1), 1LL << 30);
  const qm::testing::TempDir empty;
  EXPECT_EQ(numa_nodes(empty.path()).error().code, Code::kUnavailable);
}

// S-068: both labels, from the pairs that the driver connects.
TEST(NodeHardware, IslandsOfNvlinkAsLabels) {
  using Labels = std::map<std::string, std::string>;
  const std::string enabled = "gpu.nvidia.com/nvlink-enabled", size = "gpu.nvidia.com/nvlink-gpus-per-island";
  const auto of = [](const std::vector<std::vector<int>>& islands) { return island_labels(eight(), joined(islands)); };
  EXPECT_EQ(of({{0, 1, 2, 3}, {4, 5, 6, 7}}), (Labels{{enabled, "true"}, {size, "4"}}));
  EXPECT_EQ(of({{0, 1, 2, 3, 4, 5, 6, 7}}), (Labels{{enabled, "true"}, {size, "8"}}));
  EXPECT_EQ(of({{0, 1}, {2, 3}, {4, 5}, {6, 7}}), (Labels{{enabled, "true"}, {size, "2"}}));
  EXPECT_EQ(of({}), (Labels{{enabled, "false"}}));
  EXPECT_EQ(of({{0, 2}, {1, 3}, {4, 6}, {5, 7}}), (Labels{{enabled, "true"}}))
      << "islands that are not runs of indexes";
  EXPECT_EQ(of({{0, 1, 2, 3}, {4, 5}, {6, 7}}), (Labels{{enabled, "true"}}));
  EXPECT_THAT(island_labels(eight(), {}), IsEmpty()) << "the driver cannot tell";
  // Connected through a third GPU: a ring of bridges is one island.
  EXPECT_THAT(islands_of({{0, "a"}, {1, "b"}, {2, "c"}, {3, "d"}},
                         {{0, 2, Join::kNvlink}, {0, 1, Join::kPhb}, {1, 2, Join::kNvlink}, {2, 3, Join::kSys}}),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3)));
  // If one GPU fell off the bus, the islands are not runs of equal length.
  auto seven = eight();
  seven.erase(seven.begin() + 2);
  EXPECT_EQ(island_labels(seven, joined({{0, 1, 3}, {4, 5, 6, 7}})), (Labels{{enabled, "true"}}));
}

TEST(NodeHardware, PcieSwitchesByIndex) {
  const auto of = [](std::vector<Joint> joints, std::size_t gpus = 8) {
    auto devices = eight();
    devices.resize(gpus);
    return switches_annotation(devices, joints);
  };
  EXPECT_EQ(of({{0, 1, Join::kPix}, {2, 3, Join::kPxb}, {4, 5, Join::kPix}, {6, 7, Join::kPix}, {1, 2, Join::kPhb}}),
            "[0,0,1,1,2,2,3,3]");
  EXPECT_EQ(of({{0, 3, Join::kPix}, {0, 1, Join::kNvlink}}, 4), "[0,1,2,0]");
  EXPECT_EQ(of({{0, 1, Join::kNvlink}, {2, 3, Join::kSys}}), "") << "no two under one switch, or NVLink hides it";
  auto missing = eight();
  missing.erase(missing.begin() + 2);
  EXPECT_EQ(switches_annotation(missing, {{0, 1, Join::kPix}}), "") << "a GPU fell off the bus";
  EXPECT_EQ(switches_annotation({}, {}), "");
}

TEST(NodeHardware, AdaptersOfTheFabric) {
  using Labels = std::map<std::string, std::string>;
  const qm::testing::TempDir dir;
  EXPECT_EQ(fabric_labels(dir.path()), Labels());
  const auto port = [&](const std::string& adapter, const char* state, const char* link, const char* rate) {
    const std::string at = dir.path() + "/class/infiniband/" + adapter + "/ports/1/";
    write(at + "state", std::string(state) + "\n");
    write(at + "link_layer", std::string(link) + "\n");
    write(at + "rate", std::string(rate) + "\n");
  };
  port("mlx5_9", "4: ACTIVE", "Ethernet", "25 Gb/sec (1X EDR)");
  EXPECT_EQ(fabric_labels(dir.path()),
            (Labels{{"quartermaster.dev/fabric-seen", "roce"}, {"quartermaster.dev/fabric-rails-seen", "1"}}));
  for (int i = 0; i < 8; ++i) port(fmt::format("mlx5_{}", i), "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)");
  port("mlx5_3", "1: DOWN", "InfiniBand", "400 Gb/sec (4X NDR)");
  port("mlx5_8", "4: ACTIVE", "InfiniBand", "100 Gb/sec (4X EDR)");  // for storage
  port("mlx5_10", "4: ACTIVE", "InfiniBand", "fast");
  EXPECT_EQ(fabric_labels(dir.path()),
            (Labels{{"quartermaster.dev/fabric-seen", "infiniband"}, {"quartermaster.dev/fabric-rails-seen", "7"}}));
}

/// Tags of an XML text as they open and close; empty if the text is not XML.
std::vector<std::string> tags_of(const std::string& xml) {
  std::vector<std::string> open, out;
  for (std::size_t at = 0; (at = xml.find('<', at)) != std::string::npos;) {
    const auto end = xml.find('>', at);
    if (end == std::string::npos) return {};
    std::string tag = xml.substr(at + 1, end - at - 1);
    at = end;
    if (std::ranges::count(tag, '"') % 2 != 0) return {};
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return {};
      open.pop_back();
      continue;
    }
    const bool closed = tag.ends_with('/');
    const auto name = tag.substr(0, tag.find_first_of(" /"));
    out.push_back(fmt::format("{:{}}{}", "", open.size(), name));
    if (!closed) open.push_back(name);
  }
  return open.empty() ? out : std::vector<std::string>();
}

TEST(NodeHardware, AGpuWithoutANumaNodeIsOnTheOnlyOne) {
  const Device gpu{0, "GPU-0", -1, false, {}, 81'559, "0000:00:06.0"};
  const std::map<int, NumaNode> one{{0, {{0, 1}, 1 << 30}}}, two{{0, {{0}, 1 << 30}}, {1, {{1}, 1 << 30}}};
  EXPECT_EQ(numa_annotation(one, {}, {gpu}), R"({"policy":"none","zones":[{"gpus":[0]}]})");
  EXPECT_THAT(nccl_topology(one, {gpu}, "/nowhere"), ::testing::HasSubstr(R"(<pci busid="0000:00:06.0">)"));
  EXPECT_EQ(numa_annotation(two, {}, {gpu}), "") << "unknown: the kubelet gets no hint for it, and placement none";
  EXPECT_THAT(nccl_topology(two, {gpu}, "/nowhere"), ::testing::Not(::testing::HasSubstr("busid")));
}

// S-266: GPUs under their sockets, identical for identical nodes, and valid XML.
TEST(NodeHardware, TheTopologyFileForNccl) {
  const Sockets machine;
  auto devices = eight();
  for (auto& device : devices) device.pci = fmt::format("0000:{:02x}:00.0", 16 + device.index);
  const std::string bus = machine.dir.path() + "/bus/pci/devices/0000:10:00.0/";
  write(bus + "class", "0x030200\n");
  write(bus + "max_link_speed", "32.0 GT/s \"PCIe\" <&>\n");
  write(bus + "max_link_width", "16\n");
  const auto nodes = *numa_nodes(machine.dir.path());
  const auto xml = nccl_topology(nodes, devices, machine.dir.path());
  const auto tags = tags_of(xml);
  ASSERT_EQ(tags.size(), 1 + 2 + 8 * 2U) << xml;
  EXPECT_EQ(tags[0], "system");
  EXPECT_EQ(tags[1], " cpu");
  EXPECT_EQ(tags[2], "  pci");
  EXPECT_EQ(tags[3], "   gpu");
  EXPECT_EQ(tags[10], " cpu");
  EXPECT_NE(xml.find(R"(<cpu numaid="1" affinity="ffffffff,ffff0000,00000000,ffffffff,ffff0000,00000000">)"),
            std::string::npos)
      << xml;
  EXPECT_NE(
      xml.find(
          R"(<pci busid="0000:10:00.0" class="0x030200" link_speed="32.0 GT/s &quot;PCIe&quot; &lt;&amp;&gt;" link_width="16">)"),
      std::string::npos)
      << xml;
  EXPECT_NE(xml.find(R"(<pci busid="0000:17:00.0">)"), std::string::npos) << "what is not specified is left to NCCL";
  for (auto& device : devices) device.uuid += "-of-another-host";
  EXPECT_EQ(nccl_topology(nodes, devices, machine.dir.path()), xml);
  EXPECT_TRUE(tags_of("<a><b></a></b>").empty()) << "the reader of this test knows XML from other texts";
}

// S-288
TEST(NodeHardware, FoldersOfModelsAsLabels) {
  const qm::testing::TempDir cache;
  for (const char* name : {"llama-2-70b", "bert", ".tmp", "two words"}) {
    std::filesystem::create_directory(cache.path() + "/" + name);
  }
  write(cache.path() + "/file", "x");
  EXPECT_EQ(model_labels(cache.path()),
            (std::map<std::string, std::string>{{"cache.quartermaster.dev/bert", "true"},
                                                {"cache.quartermaster.dev/llama-2-70b", "true"}}));
  EXPECT_THAT(model_labels(cache.path() + "/nowhere"), IsEmpty());
}

TEST(NodeHardware, TheDriverReportsTheLinkOfEachPair) {
  const auto devices = nvml_devices(QM_FAKE_NVML);
  const auto joints = devices->joints();
  ASSERT_TRUE(joints) << joints.error().to_string();
  EXPECT_EQ(*joints, (std::vector<Joint>{{0, 1, Join::kNvlink}, {0, 3, Join::kPhb}, {1, 3, Join::kSys}}));
  EXPECT_EQ(nvml_devices("/no/such/library.so")->joints().error().code, Code::kUnavailable);
}

class Joined final : public DeviceSource {
 public:
  Result<std::vector<Device>> devices() override { return eight(); }
  Result<std::vector<Joint>> joints() override { return joined({{0, 1, 2, 3}, {4, 5, 6, 7}}); }
};

void expect_node_report(const std::string& kubelet_wanted) {
  SCOPED_TRACE(kubelet_wanted);
  const Sockets machine;
  const std::string config = machine.dir.path() + "/config.yaml", models = machine.dir.path() + "/models";
  const std::string kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
  write(config, kind + "topologyManagerPolicy: single-numa-node\ncpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n");
  write(models + "/bert/weights", "x");

  testing::FakeTelemetry telemetry;
  testing::FakeKube kube;
  ASSERT_TRUE(kube.started());
  ManualClock clock{from_micros(1'000'000'000'000'000)};
  metrics::Registry registry;
  Options options;
  options.nodes = {"n"};
  options.kube.server = kube.url();
  options.telemetry = telemetry.address();
  options.sysfs = machine.dir.path();
  options.kubelet_config = config;
  options.kubelet_wanted = kubelet_wanted;
  options.model_cache = models;
  options.nccl_topology = machine.dir.path() + "/nccl-topo.xml";
  Agent agent(options, clock, registry, std::make_unique<testing::FakePages>(),
              std::make_unique<testing::FakeMetadata>(), std::make_unique<Joined>());
  agent.start();
  pb::NodeReport report;
  const auto publish_all = [&](const std::function<bool()>& fits) {
    return qm::testing::wait_until([&] {
      clock.advance(std::chrono::minutes(10));
      for (const auto& fact : telemetry.facts()) {
        if (fact.has_node_report()) report = fact.node_report();
      }
      return report.node() == "n" && fits();
    });
  };
  ASSERT_TRUE(publish_all([] { return true; }));
  EXPECT_EQ(report.labels().at("gpu.nvidia.com/nvlink-enabled"), "true");
  EXPECT_EQ(report.labels().at("gpu.nvidia.com/nvlink-gpus-per-island"), "4");
  EXPECT_EQ(report.labels().at("cache.quartermaster.dev/bert"), "true");
  EXPECT_EQ(report.annotations().at("quartermaster.dev/numa"),
            R"({"policy":"single-numa-node","zones":[{"cpu":"94","gpus":[0,1,2,3]},{"cpu":"96","gpus":[4,5,6,7]}]})");
  EXPECT_EQ(report.annotations().at("quartermaster.dev/findings"), "reservedSystemCPUs is 0-1, not 0-3");
  ASSERT_EQ(report.owned_prefixes_size(), 1);
  EXPECT_EQ(report.owned_prefixes(0), kModelPrefix);

  EXPECT_EQ(qm::testing::read_file(options.nccl_topology),
            nccl_topology(*numa_nodes(machine.dir.path()), eight(), machine.dir.path()));

  // Corrected, and one more model; a file that cannot be read is omitted. A probe in progress may have seen only one
  // change.
  write(config, kind + "topologyManagerPolicy: single-numa-node\ncpuManagerPolicy: static\nreservedSystemCPUs: 0-3\n");
  write(models + "/llama/weights", "x");
  EXPECT_TRUE(publish_all([&] {
    const auto findings = report.annotations().find("quartermaster.dev/findings");
    return report.labels().contains("cache.quartermaster.dev/llama") && findings != report.annotations().end() &&
           findings->second.empty();
  }));
  write(config, "kind: Nonsense\n");
  EXPECT_TRUE(publish_all([&] { return !report.annotations().contains("quartermaster.dev/numa"); }));
  EXPECT_EQ(report.labels().size(), 4U);
  agent.stop();
}

// S-065 S-068: from the node's files and driver to the telemetry service, at each probe.
TEST(NodeHardware, IsPublishedInTheNodeReport) {
  for (const auto& file : wanted_kubelet_files()) expect_node_report(file);
}

}  // namespace node_hardware_test
}  // namespace qm::agent
