// The mapping of pods to devices, from the kubelet's socket to the fact: whole GPUs, shares (time slices, MPS), MIG
// instances.
#include "pod_resources.hpp"

#include "agent.hpp"
#include "kubelet.hpp"
#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::agent {
namespace pod_resources_test {

using qm::testing::wait_until;
using ::testing::ElementsAre;
using testing::FakeDevices;
using testing::FakeKube;
using testing::FakeMetadata;
using testing::FakePages;
using testing::FakeTelemetry;
using ::testing::IsEmpty;
using testing::MockKubelet;
using testing::page_of;
using testing::whole_gpus;

constexpr const char* kGpu = "nvidia.com/gpu";

std::vector<Device> cut(int count) {
  auto out = whole_gpus(count);
  auto& last = out.back();
  last.mig = true;
  last.slices = {{"MIG-a", "3g.40gb"}, {"MIG-b", "1g.10gb"}};
  return out;
}

std::vector<std::string> shown(const pb::DeviceObservation& seen) {
  std::vector<std::string> out;
  for (const auto& pod : seen.pods()) {
    std::string text = pod.namespace_() + "/" + pod.pod();
    for (const auto& d : pod.devices()) {
      text += fmt::format(" {}:{}:{}{}{}", d.index(), d.uuid(), d.milli(), d.mig_profile().empty() ? "" : ":",
                          d.mig_profile());
    }
    out.push_back(text);
  }
  return out;
}

class PodResourcesTest : public ::testing::Test {
 protected:
  void start(std::vector<Device> gpus) {
    ASSERT_TRUE(kube.started());
    Options options;
    options.nodes = {"n"};
    options.kube.server = kube.url();
    options.telemetry = telemetry.address();
    options.pod_resources = kubelet.resources_socket();
    auto pages = std::make_unique<FakePages>();
    page = pages.get();
    page->set("n", page_of("the-page-says"));
    agent = std::make_unique<Agent>(options, clock, registry, std::move(pages), std::make_unique<FakeMetadata>(),
                                    std::make_unique<FakeDevices>(std::move(gpus)));
    agent->start();
    // An empty answer is accepted once the pods are listed.
    ASSERT_TRUE(wait_until([&] {
      clock.advance(std::chrono::seconds(2));
      return last().empty();
    }));
  }
  void TearDown() override {
    if (agent) agent->stop();
  }
  [[nodiscard]] std::vector<std::string> last() const {
    std::vector<std::string> out = {"(none)"};
    for (const auto& fact : telemetry.facts()) {
      if (fact.has_devices()) out = shown(fact.devices());
    }
    return out;
  }
  /// Waits without advancing time.
  bool shows(const std::vector<std::string>& wanted) {
    return wait_until([&] { return last() == wanted; });
  }
  /// True if `wanted` is the mapping after five polls of the kubelet, one every two seconds. Time advances once a
  /// poll has begun. If time passes the next due time before that poll has ended, the agent skips a poll, and one
  /// more step is made.
  bool says_within_ten_seconds(const std::vector<std::string>& wanted) {
    for (int look = 0, skipped = 0; look < 5; ++look) {
      const int before = kubelet.lists();
      const auto looked = [&] { return kubelet.lists() > before || last() == wanted; };
      clock.advance(std::chrono::seconds(2));
      while (!wait_until(looked, std::chrono::seconds(2))) {
        if (++skipped > 5) return false;
        clock.advance(std::chrono::seconds(2));
      }
    }
    return shows(wanted);
  }

  bool asks_thrice() {
    const int before = kubelet.lists();
    return wait_until([&] {
      clock.advance(std::chrono::seconds(1));
      return kubelet.lists() >= before + 3;
    });
  }

  qm::testing::TempDir dir;
  MockKubelet kubelet{dir.path()};
  FakeTelemetry telemetry;
  FakeKube kube;
  ManualClock clock{from_micros(1'000'000'000'000'000)};
  metrics::Registry registry;
  FakePages* page = nullptr;
  std::unique_ptr<Agent> agent;
};

TEST_F(PodResourcesTest, WholeGpusWithinTenSeconds) {
  start(whole_gpus(4));
  kubelet.hold("team/a", kGpu, {"GPU-2", "GPU-3"});
  kubelet.hold("team/other", "example.com/fpga", {"x"});
  EXPECT_TRUE(says_within_ten_seconds({"team/a 2:GPU-2:1000 3:GPU-3:1000"}));
  kubelet.release("team/a");
  kubelet.hold("team/a", kGpu, {"GPU-0"});
  EXPECT_TRUE(says_within_ten_seconds({"team/a 0:GPU-0:1000"}));
}

TEST_F(PodResourcesTest, SharesByTimeAndByMps) {
  start(whole_gpus(2));
  for (int share = 0; share < 4; ++share) kubelet.offer(kGpu, fmt::format("GPU-0::{}", share));
  for (int share = 0; share < 2; ++share) kubelet.offer("nvidia.com/gpu.shared", fmt::format("GPU-1::{}", share));
  kubelet.hold("team/a", kGpu, {"GPU-0::3"});
  kubelet.hold("team/b", kGpu, {"GPU-0::1"});
  kubelet.hold("team/c", "nvidia.com/gpu.shared", {"GPU-1::0"});
  EXPECT_TRUE(says_within_ten_seconds({"team/a 0:GPU-0:250", "team/b 0:GPU-0:250", "team/c 1:GPU-1:500"}));
}

TEST_F(PodResourcesTest, MigInstances) {
  start(cut(2));
  kubelet.hold("team/a", "nvidia.com/mig-3g.40gb", {"MIG-a"});
  kubelet.hold("team/b", "nvidia.com/mig-1g.10gb", {"MIG-GPU-1/9/0"});
  kubelet.hold("team/c", kGpu, {"GPU-0"});
  EXPECT_TRUE(says_within_ten_seconds(
      {"team/a 1:MIG-a:428:3g.40gb", "team/b 1:MIG-GPU-1/9/0:142:1g.10gb", "team/c 0:GPU-0:1000"}));
}

TEST_F(PodResourcesTest, APodThatHasEndedHoldsNothing) {
  start(whole_gpus(2));
  kube.put("pods", testing::pod_of("a", "n", "job", 1));
  kube.put("pods", testing::pod_of("b", "n", "job", 1));
  kubelet.hold("team/a", kGpu, {"GPU-1"});
  ASSERT_TRUE(says_within_ten_seconds({"team/a 1:GPU-1:1000"}));
  // The pod has succeeded, another pod has its GPU, and the kubelet lists both.
  kube.put("pods", testing::pod_of("a", "n", "job", 1, "", "Succeeded"));
  kubelet.hold("team/b", kGpu, {"GPU-1"});
  EXPECT_TRUE(says_within_ten_seconds({"team/b 1:GPU-1:1000"}));
}

TEST_F(PodResourcesTest, InstancesThatFillAGpuComeToAllOfIt) {
  auto gpus = whole_gpus(1);
  gpus[0].mig = true;
  for (int i = 0; i < 7; ++i) gpus[0].slices.push_back({fmt::format("MIG-{}", i), "1g.10gb"});
  start(gpus);
  // The share of an instance does not depend on the holders of the others.
  kubelet.hold("team/a", "nvidia.com/mig-1g.10gb", {"MIG-6"});
  ASSERT_TRUE(says_within_ten_seconds({"team/a 0:MIG-6:143:1g.10gb"}));
  for (int i = 0; i < 6; ++i)
    kubelet.hold(fmt::format("team/b{}", i), "nvidia.com/mig-1g.10gb", {fmt::format("MIG-{}", i)});
  ASSERT_TRUE(says_within_ten_seconds({"team/a 0:MIG-6:143:1g.10gb", "team/b0 0:MIG-0:142:1g.10gb",
                                       "team/b1 0:MIG-1:143:1g.10gb", "team/b2 0:MIG-2:143:1g.10gb",
                                       "team/b3 0:MIG-3:143:1g.10gb", "team/b4 0:MIG-4:143:1g.10gb",
                                       "team/b5 0:MIG-5:143:1g.10gb"}));
}

TEST_F(PodResourcesTest, InstancesThatCountAsGpusAreNumbered) {
  start(cut(1));
  kubelet.hold("team/a", kGpu, {"MIG-b"});
  EXPECT_TRUE(says_within_ten_seconds({"team/a 1:MIG-b:1000:1g.10gb"}));
}

TEST_F(PodResourcesTest, AKubeletThatStartsIsNotIdle) {
  start(whole_gpus(2));
  Json pod = testing::pod_of("a", "n", "job", 1);
  kube.put("pods", pod);
  kubelet.hold("team/a", kGpu, {"GPU-1"});
  ASSERT_TRUE(says_within_ten_seconds({"team/a 1:GPU-1:1000"}));
  const auto facts = telemetry.facts().size();
  kubelet.away(true);
  ASSERT_TRUE(asks_thrice());
  kubelet.away(false);
  kubelet.release("team/a");  // the kubelet answers again and lists no pod yet
  ASSERT_TRUE(asks_thrice());
  EXPECT_EQ(telemetry.facts().size(), facts);
  EXPECT_THAT(registry.text(),
              ::testing::Not(::testing::HasSubstr("qm_agent_pod_resources_total{result=\"failed\"} 0\n")));
}

// S-325
TEST_F(PodResourcesTest, SeriesCarryPodAndContainerAndARestartIsMappedWithinTenSeconds) {
  start(whole_gpus(2));
  kubelet.hold("team/a-0", kGpu, {"GPU-0"});
  ASSERT_TRUE(says_within_ten_seconds({"team/a-0 0:GPU-0:1000"}));
  const auto sample = [&](const std::string& pod) {
    return wait_until([&] {
      // One minute per step, each with its frame, because time must not run ahead of the agent.
      const auto before = telemetry.frames().size();
      clock.advance(std::chrono::seconds(60));
      if (!wait_until([&] { return telemetry.frames().size() > before; }, std::chrono::seconds(5))) return false;
      const auto frames = telemetry.frames();
      return std::ranges::any_of(frames, [&](const auto& frame) {
        return std::ranges::any_of(frame.gpus(), [&](const auto& gpu) {
          return gpu.gpu_index() == 0 && gpu.namespace_() == "team" && gpu.pod() == pod && gpu.container() == "main";
        });
      });
    });
  };
  EXPECT_TRUE(sample("a-0"));
  kubelet.release("team/a-0");
  kubelet.hold("team/a-1", kGpu, {"GPU-0"});
  ASSERT_TRUE(says_within_ten_seconds({"team/a-1 0:GPU-0:1000"}));
  EXPECT_TRUE(sample("a-1"));
}

TEST_F(PodResourcesTest, TheWholeWayToTheAssignedDevice) {
  start(whole_gpus(2));
  agent->stop();
  Options options;
  options.nodes = {"n"};
  options.kube.server = kube.url();
  options.telemetry = telemetry.address();
  options.pod_resources = kubelet.resources_socket();
  options.device_plugin = dir.path();
  auto pages = std::make_unique<FakePages>();
  pages->set("n", page_of("", 50, 79));
  agent = std::make_unique<Agent>(options, clock, registry, std::move(pages), std::make_unique<FakeMetadata>(),
                                  std::make_unique<FakeDevices>(whole_gpus(4)));
  agent->start();
  ASSERT_TRUE(wait_until([&] { return kubelet.ids(kGpu).size() == 3; })) << "GPU 0 shows XID 79";
  EXPECT_THAT(kubelet.ids(kGpu, "Unhealthy"), ElementsAre("GPU-0"));
  Json pod = testing::pod_of("a", "n", "job", 1, "", "Pending");
  pod.set("metadata").set("annotations").set("quartermaster.dev/devices", "2");
  kube.put("pods", pod);
  EXPECT_EQ(kubelet.give("team/a", kGpu, 1).visible, "GPU-2");
  EXPECT_TRUE(says_within_ten_seconds({"team/a 2:GPU-2:1000"}));
}

TEST(HoldersOf, UnknownIdsAreLeftOut) {
  HeldDevices held;
  held.held = {{"team", "a", "main", kGpu, {"GPU-7"}}, {"team", "b", "main", "nvidia.com/mig-1g.10gb", {"MIG-z"}}};
  EXPECT_THAT(holders_of(held, whole_gpus(2)), IsEmpty());
  held.held = {{"team", "a", "main", kGpu, {"GPU-1"}}, {"team", "b", "main", kGpu, {"GPU-1"}}};
  const auto twice = holders_of(held, whole_gpus(2));
  ASSERT_EQ(twice.at(1).size(), 1U) << "a device has one holder";
  EXPECT_EQ(twice.at(1)[0].pod, "b");
}

TEST(HoldersOf, ADeviceHasOneHolder) {
  struct Row {
    KnownPods pods;
    std::string want;
  };
  const std::string old_day = "2026-01-01T00:00:00Z", new_day = "2026-01-02T00:00:00Z";
  const std::vector<std::vector<std::string>> of_all_kinds = {{"GPU-0"}, {"GPU-0::1"}, {"MIG-a"}, {"MIG-GPU-1/9/0"}};
  for (const auto& ids : of_all_kinds) {
    HeldDevices held;
    held.held = {{"team", "a", "main", kGpu, ids}, {"team", "b", "main", kGpu, ids}};
    for (const Row& row : {Row{{{"team/a"}, {{"team/b", old_day}}}, "b"}, Row{{{"team/b"}, {}}, "a"},
                           Row{{{}, {{"team/a", new_day}, {"team/b", old_day}}}, "a"},
                           Row{{{}, {{"team/a", old_day}}}, "a"}, Row{{{"team/a", "team/b"}, {}}, ""}}) {
      std::vector<std::string> names;
      for (const auto& [gpu, holders] : holders_of(held, cut(2), row.pods)) {
        for (const auto& holder : holders) names.push_back(holder.pod);
      }
      EXPECT_EQ(names, row.want.empty() ? std::vector<std::string>() : std::vector<std::string>{row.want}) << ids[0];
    }
  }
  // Two containers of one pod share the devices, as with an init container.
  HeldDevices held;
  held.held = {{"team", "a", "first", kGpu, {"GPU-0"}}, {"team", "a", "second", kGpu, {"GPU-0"}}};
  EXPECT_EQ(holders_of(held, whole_gpus(1)).at(0).size(), 1U);
}

TEST(HoldersOf, LabelsOfPodsThatHaveEndedAreLeftOut) {
  auto page = parse_dcgm_page(testing::line("DCGM_FI_DEV_GPU_UTIL", 0, "5", "a") +
                              testing::line("DCGM_FI_DEV_GPU_UTIL", 0, "5", "b"));
  leave_out_ended(page, {{"team/a"}, {}});
  ASSERT_EQ(page.devices.at(0).holders.size(), 1U);
  EXPECT_EQ(page.devices[0].holders[0].pod, "b");
}

TEST(Units, OfANodeWithMigOnSomeGpus) {
  const auto units = units_of(cut(2), {});
  ASSERT_EQ(units.at(kGpu).size(), 1U);
  EXPECT_EQ(units.at(kGpu)[0].id, "GPU-0");
  EXPECT_EQ(units.at("nvidia.com/mig-3g.40gb")[0].gpu, 1);
  EXPECT_EQ(units_of(cut(2), {{{kGpu, 3}}}).at(kGpu).size(), 3U);
  EXPECT_EQ(device_of("GPU-0::2"), "GPU-0");
}

TEST(Nvml, GpusAndTheirInstances) {
  const auto source = nvml_devices(QM_FAKE_NVML);
  const auto devices = source->devices();
  ASSERT_TRUE(devices) << devices.error().to_string();
  const std::vector<Device> expected = {
      {0, "GPU-0", -1, false, {}, 81'920, "0000:ff:11.7"},
      {1, "GPU-1", -1, false, {}, 81'920, "0000:ff:12.7"},
      {3, "GPU-3", -1, true, {{"MIG-0", "3g.40gb"}, {"MIG-1", "1g.10gb+me"}}, 81'920, "0000:ff:14.7"}};
  EXPECT_EQ(*devices, expected) << "2 is off the bus, and one instance has no name yet";
  EXPECT_EQ(*source->devices(), expected);
}

TEST(Nvml, ANodeWithoutADriverIsAnError) {
  const auto devices = nvml_devices("libno-such-driver.so.1")->devices();
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code, Code::kUnavailable);
  const auto other = nvml_devices("libm.so.6")->devices();
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, ::testing::HasSubstr("lacks a function"));
}

}  // namespace pod_resources_test
}  // namespace qm::agent
