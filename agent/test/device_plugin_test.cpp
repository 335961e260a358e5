// The device plugin against a fake kubelet: real sockets, both sides of the protocol.
#include "device_plugin.hpp"

#include "kubelet.hpp"
#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::agent {
namespace device_plugin_test {

using qm::testing::wait_until;
using ::testing::ElementsAre;
using testing::FakeDevices;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MockKubelet;
using testing::whole_gpus;

constexpr const char* kGpu = "nvidia.com/gpu";

class DevicePluginTest : public ::testing::Test {
 protected:
  void start(std::vector<Device> gpus, int shares = 1, bool strict = false) {
    start(std::move(gpus), Sharing{{{kGpu, shares}}}, strict);
  }
  void start(std::vector<Device> gpus, Sharing sharing, bool strict = false) {
    devices = std::make_unique<FakeDevices>(std::move(gpus));
    DevicePlugin::Options options{.dir = dir.path(), .node = "n", .sharing = std::move(sharing), .strict = strict};
    options.look = options.inventory = std::chrono::milliseconds(10);
    options.patience = patience;
    plugin = std::make_unique<DevicePlugin>(options, *devices, pods, registry);
    plugin->start();
  }
  void TearDown() override {
    pods.close();
    if (plugin) plugin->stop();
  }
  void bind(const std::string& pod, const std::string& assigned, int count, const std::string& resource = kGpu,
            const std::string& phase = "Pending") {
    Json object = testing::pod_of(pod, "n", "job", 1, "", phase);
    if (!assigned.empty()) object.set("metadata").set("annotations").set("quartermaster.dev/devices", assigned);
    object.set("metadata").set("creationTimestamp", fmt::format("2026-01-01T00:00:{:02}Z", ++bound));
    object.set("spec").set(
        "containers",
        Json::array({Json::object(
            {{"resources", Json::object({{"limits", Json::object({{resource, std::to_string(count)}})}})}})}));
    pods.apply(object, false);
  }
  [[nodiscard]] bool lists(const std::string& resource, std::size_t count) {
    return wait_until([&] { return kubelet.ids(resource).size() == count; });
  }
  [[nodiscard]] double counted(const std::string& result) {
    const auto text = registry.text();
    const auto mark = "qm_agent_plugin_allocations_total{result=\"" + result + "\"} ";
    const auto at = text.find(mark);
    return at == std::string::npos ? -1 : std::stod(text.substr(at + mark.size()));
  }

  qm::testing::TempDir dir;
  MockKubelet kubelet{dir.path()};
  Pods pods;
  metrics::Registry registry;
  std::unique_ptr<FakeDevices> devices;
  std::unique_ptr<DevicePlugin> plugin;
  SteadyDuration patience = std::chrono::milliseconds(20);
  int bound = 0;
};

TEST_F(DevicePluginTest, EveryPodGetsTheDevicesThatItWasAssigned) {
  start(whole_gpus(8));
  ASSERT_TRUE(lists(kGpu, 8));
  EXPECT_EQ(kubelet.numa_of(kGpu, "GPU-0"), 0);
  EXPECT_EQ(kubelet.numa_of(kGpu, "GPU-7"), 1);
  bind("a", "5", 1);
  bind("b", "1,6", 2);
  bind("c", "2", 1);
  EXPECT_EQ(kubelet.give("team/a", kGpu, 1).visible, "GPU-5");
  EXPECT_EQ(kubelet.give("team/b", kGpu, 2).visible, "GPU-1,GPU-6");
  EXPECT_EQ(kubelet.give("team/c", kGpu, 1).visible, "GPU-2");
  bind("foreign", "", 1);
  EXPECT_EQ(kubelet.give("team/foreign", kGpu, 1).visible, "GPU-7") << "from the top, where placement counts strangers";
  EXPECT_EQ(counted("honored"), 3);
  EXPECT_EQ(counted("free"), 1);
}

TEST_F(DevicePluginTest, SharesAndInstancesOfTheAssignedGpu) {
  auto gpus = whole_gpus(3);
  gpus[2].mig = true;
  gpus[2].slices = {{"MIG-x", "1g.10gb"}, {"MIG-y", "1g.10gb+me"}};
  gpus.push_back({3, "GPU-3", -1, true, {{"MIG-z", "1g.10gb"}}});
  start(gpus, 4);
  ASSERT_TRUE(lists(kGpu, 8)) << "two GPUs by four shares";
  ASSERT_TRUE(lists("nvidia.com/mig-1g.10gb", 2));
  ASSERT_TRUE(lists("nvidia.com/mig-1g.10gb.me", 1));
  EXPECT_THAT(kubelet.ids("nvidia.com/mig-1g.10gb.me"), ElementsAre("MIG-y"));
  bind("a", "1", 1);
  const auto a = kubelet.give("team/a", kGpu, 1);
  EXPECT_THAT(a.ids, ElementsAre(HasSubstr("GPU-1::")));
  EXPECT_EQ(a.visible, "GPU-1");
  bind("b", "3", 1, "nvidia.com/mig-1g.10gb");
  EXPECT_EQ(kubelet.give("team/b", "nvidia.com/mig-1g.10gb", 1).visible, "MIG-z");
  EXPECT_EQ(counted("honored"), 2);
}

// S-138: eight shares of a GPU under MPS, each limited to an eighth of its threads and of its memory.
TEST_F(DevicePluginTest, UnderMpsEachShareIsHeldToItsPart) {
  Sharing mps{{{kGpu, 8}}};
  mps.mps = true;
  auto gpus = whole_gpus(1);
  gpus[0].memory_mib = 81'920;
  start(gpus, mps);
  ASSERT_TRUE(lists(kGpu, 8)) << "what the node advertises of its one GPU";
  const auto one = kubelet.give("team/a", kGpu, 1);
  EXPECT_EQ(one.visible, "GPU-0");
  EXPECT_EQ(one.envs.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "12");
  EXPECT_EQ(one.envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=10240M");
  EXPECT_EQ(one.envs.at("CUDA_MPS_PIPE_DIRECTORY"), "/mps/nvidia.com/gpu/pipe");
  EXPECT_EQ(one.mounts,
            (std::map<std::string, std::string>{{"/run/nvidia/mps/nvidia.com/gpu/pipe", "/mps/nvidia.com/gpu/pipe"},
                                                {"/run/nvidia/mps/shm", "/dev/shm"}}));
  EXPECT_EQ(kubelet.give("team/b", kGpu, 2).envs.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "25");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(kubelet.give(fmt::format("team/c{}", i), kGpu, 1).status.ok());
  EXPECT_FALSE(kubelet.give("team/d", kGpu, 1).status.ok()) << "there is no ninth";
}

TEST_F(DevicePluginTest, WhatTheKubeletTookOtherwiseIsWhatThePodGets) {
  start(whole_gpus(4));
  ASSERT_TRUE(lists(kGpu, 4));
  bind("a", "1", 1);
  const auto a = kubelet.give("team/a", kGpu, 1, {"GPU-3"});
  EXPECT_TRUE(a.status.ok());
  EXPECT_EQ(a.visible, "GPU-3") << "never another than the kubelet believes";
  EXPECT_EQ(counted("differs"), 1);
  bind("b", "0", 1);
  EXPECT_EQ(kubelet.give("team/b", kGpu, 1).visible, "GPU-0") << "a is served and waits no more";
}

TEST_F(DevicePluginTest, StrictRefusesOtherDevicesThanAssigned) {
  start(whole_gpus(4), 1, true);
  ASSERT_TRUE(lists(kGpu, 4));
  bind("a", "1", 1);
  const auto a = kubelet.give("team/a", kGpu, 1, {"GPU-3"});
  EXPECT_EQ(a.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(a.status.error_message(), HasSubstr("team/a"));
  EXPECT_EQ(kubelet.give("team/a", kGpu, 1).visible, "GPU-1");
  EXPECT_EQ(counted("refused"), 1);
}

TEST_F(DevicePluginTest, WaitsForAPodThatTheKubeletSawFirst) {
  patience = std::chrono::seconds(20);
  start(whole_gpus(4));
  ASSERT_TRUE(lists(kGpu, 4));
  MockKubelet::Given given;
  std::thread asks([&] { given = kubelet.give("team/a", kGpu, 1); });
  bind("other", "3", 2);
  bind("a", "2", 1);
  asks.join();
  EXPECT_EQ(given.visible, "GPU-2");
}

TEST_F(DevicePluginTest, GpusThatDoNotWorkAreNotGiven) {
  start(whole_gpus(4));
  ASSERT_TRUE(lists(kGpu, 4));
  plugin->faulty({1});
  ASSERT_TRUE(lists(kGpu, 3));
  EXPECT_THAT(kubelet.ids(kGpu, "Unhealthy"), ElementsAre("GPU-1"));
  bind("a", "1", 1);
  EXPECT_EQ(kubelet.give("team/a", kGpu, 1, {"GPU-1"}).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(kubelet.give("team/a", kGpu, 1, {"GPU-9"}).status.error_code(), grpc::StatusCode::NOT_FOUND);
  plugin->faulty({});
  ASSERT_TRUE(lists(kGpu, 4)) << "healthy again as soon as it works, not when the plugin restarts";
  auto less = whole_gpus(4);
  less.pop_back();
  devices->set(less);
  ASSERT_TRUE(lists(kGpu, 3)) << "off the bus";
  EXPECT_THAT(kubelet.ids(kGpu, "Unhealthy"), ElementsAre("GPU-3"));
  devices->set(whole_gpus(4));
  EXPECT_TRUE(lists(kGpu, 4));
}

TEST_F(DevicePluginTest, AGpuWithMigHasOtherUnits) {
  start(whole_gpus(2));
  ASSERT_TRUE(lists(kGpu, 2));
  auto cut = whole_gpus(2);
  cut[1].mig = true;
  cut[1].slices = {{"MIG-a", "3g.40gb"}, {"MIG-b", "3g.40gb"}};
  devices->set(cut);
  ASSERT_TRUE(lists(kGpu, 1));
  ASSERT_TRUE(lists("nvidia.com/mig-3g.40gb", 2));
  EXPECT_THAT(kubelet.ids(kGpu, "Unhealthy"), IsEmpty()) << "it is cut, not broken";
  devices->set(whole_gpus(2));
  ASSERT_TRUE(lists(kGpu, 2));
  EXPECT_TRUE(lists("nvidia.com/mig-3g.40gb", 0));
}

TEST_F(DevicePluginTest, RegistersAgainAfterARestartOfTheKubelet) {
  start(whole_gpus(4));
  ASSERT_TRUE(lists(kGpu, 4));
  EXPECT_EQ(kubelet.registrations(), 1);
  bind("a", "1", 1);
  EXPECT_EQ(kubelet.give("team/a", kGpu, 1).visible, "GPU-1");
  for (int time = 2; time < 5; ++time) {
    kubelet.stop();
    kubelet.start();
    ASSERT_TRUE(lists(kGpu, 4));
    EXPECT_EQ(kubelet.registrations(), time);
  }
  bind("b", "2", 1);
  EXPECT_EQ(kubelet.give("team/b", kGpu, 1).visible, "GPU-2");
}

TEST_F(DevicePluginTest, StartsBeforeTheKubeletAndKnowsWhatPodsHaveAlready) {
  kubelet.stop();
  start(whole_gpus(4));
  bind("a", "1", 1);  // its image is still being pulled
  bind("b", "2", 1);
  ASSERT_TRUE(wait_until([&] { return devices->looks() > 2; }));
  kubelet.start();
  ASSERT_TRUE(lists(kGpu, 4));
  kubelet.hold("team/a", kGpu, {"GPU-1"});
  plugin->given({{"team/a", {"GPU-1"}}});
  EXPECT_EQ(kubelet.give("team/b", kGpu, 1).visible, "GPU-2");
}

}  // namespace device_plugin_test
}  // namespace qm::agent
