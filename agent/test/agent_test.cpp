// The whole agent: real stream, real informers and HTTP, against fake peers in this test.
#include "agent.hpp"

#include "qm/testing/testing.hpp"
#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::agent {
namespace agent_test {

using qm::testing::wait_until;
using ::testing::ElementsAre;
using testing::FakeKube;
using testing::FakeMetadata;
using testing::FakePages;
using testing::FakeRanks;
using testing::FakeTelemetry;
using ::testing::HasSubstr;
using testing::page_of;
using testing::pod_of;
using ::testing::SizeIs;

class AgentTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(kube.started() && ranks.started()); }
  void start(std::vector<std::string> nodes, std::set<std::string> except = {}) {
    Options options;
    options.nodes = std::move(nodes);
    options.except = std::move(except);
    options.kube.server = kube.url();
    options.telemetry = telemetry.address();
    options.checkpoint_gateway = ranks.url_template();
    auto page_source = std::make_unique<FakePages>();
    auto metadata_source = std::make_unique<FakeMetadata>();
    pages = page_source.get();
    metadata = metadata_source.get();
    for (const auto& [node, text] : first_pages) pages->set(node, text);
    agent = std::make_unique<Agent>(options, clock, registry, std::move(page_source), std::move(metadata_source));
    agent->start();
  }
  void TearDown() override {
    if (agent) agent->stop();
  }
  [[nodiscard]] std::vector<std::string> last_hello() const {
    const auto hellos = telemetry.hellos();
    if (hellos.empty()) return {"(none)"};
    return {hellos.back().nodes().begin(), hellos.back().nodes().end()};
  }
  /// Advances time until a matching frame of the node arrives.
  bool frame_comes(const std::string& node, const std::function<bool(const pb::SampleFrame&)>& fits) {
    return wait_until([&] {
      clock.advance(std::chrono::seconds(60));
      const auto frames = telemetry.frames();
      return std::any_of(frames.begin(), frames.end(), [&](const auto& f) { return f.node() == node && fits(f); });
    });
  }

  FakeTelemetry telemetry;
  FakeKube kube;
  FakeRanks ranks;
  ManualClock clock{from_micros(1'000'000'000'000'000)};
  metrics::Registry registry;
  FakePages* pages = nullptr;
  FakeMetadata* metadata = nullptr;
  std::map<std::string, std::string> first_pages;
  std::unique_ptr<Agent> agent;
};

TEST_F(AgentTest, FramesFollowDomainTimeAndShowGaps) {
  first_pages["a"] = page_of("p", 40);
  start({"a"});
  ASSERT_TRUE(frame_comes("a", [](const auto& f) { return f.gpus_size() == 2 && f.gpus(0).pod() == "p"; }));
  const auto before = telemetry.frames().back().sequence();
  pages->down("a");
  ASSERT_TRUE(wait_until([&] {
    clock.advance(std::chrono::seconds(60));
    return registry.text().find("qm_agent_scrapes_total{result=\"failed\"} 0") == std::string::npos;
  }));
  pages->set("a", page_of("p", 60));
  ASSERT_TRUE(
      frame_comes("a", [&](const auto& f) { return f.sequence() > before + 1 && f.gpus(0).utilization() == 0.6; }));
}

TEST_F(AgentTest, ExporterDownOrEmptyIsNotIdle) {
  first_pages["a"] = page_of("p");
  start({"a"});
  const auto devices = [&] {
    std::vector<pb::DeviceObservation> out;
    for (const auto& fact : telemetry.facts()) {
      if (fact.has_devices()) out.push_back(fact.devices());
    }
    return out;
  };
  ASSERT_TRUE(wait_until([&] { return devices().size() == 1; }));
  EXPECT_EQ(devices()[0].pods(0).pod(), "p");
  for (const std::string& text : {std::string(), std::string("<html>busy</html>")}) {
    pages->set("a", text);
    const int looks = pages->looks("a");
    ASSERT_TRUE(wait_until([&] {
      clock.advance(std::chrono::seconds(60));
      return pages->looks("a") > looks + 1;
    }));
  }
  EXPECT_THAT(registry.text(), ::testing::Not(HasSubstr("qm_agent_scrapes_total{result=\"empty\"} 0\n")));
  pages->set("a", page_of("q"));
  ASSERT_TRUE(wait_until([&] {
    clock.advance(std::chrono::seconds(60));
    return devices().size() > 1;
  }));
  EXPECT_EQ(devices()[1].pods(0).pod(), "q") << "nothing came between the two";
}

TEST_F(AgentTest, HostilePageGivesAFrame) {
  first_pages["a"] =
      page_of("p") + "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",owner=\"team \"x\"\"} 5\nDCGM_FI_DEV_GPU_UTIL{gpu=\"5\"";
  start({"a"});
  ASSERT_TRUE(frame_comes("a", [](const auto& f) { return f.gpus_size() == 2; }));
  EXPECT_THAT(registry.text(), ::testing::Not(HasSubstr("qm_agent_bad_lines_total 0\n")));
}

TEST_F(AgentTest, SpotNoticeOnce) {
  start({"a"});
  metadata->set("a/instance-life-cycle", "spot");
  metadata->set("a/instance-id", "i-7");
  metadata->set("a/spot/instance-action", R"({"action":"terminate","time":"2026-11-21T09:14:29Z"})");
  const int before = metadata->looks("a/spot/instance-action");
  ASSERT_TRUE(wait_until([&] {
    clock.advance(std::chrono::seconds(10));
    return metadata->looks("a/spot/instance-action") > before + 3;
  }));
  ASSERT_TRUE(wait_until([&] { return agent->state()["facts_pending"].integer() == 0; }));
  std::vector<std::string> notices;
  for (const auto& fact : telemetry.facts()) {
    if (fact.has_notice()) notices.push_back(fact.notice().instance_id());
  }
  EXPECT_THAT(notices, ElementsAre("i-7"));
  EXPECT_THAT(registry.text(), HasSubstr("qm_agent_notices_total 1\n"));
}

TEST_F(AgentTest, CheckpointOrderToAcknowledgement) {
  kube.put("pods", pod_of("r0", "a", "job", 3, FakeRanks::kUrl));
  kube.put("pods", pod_of("r1", "a", "job", 3, FakeRanks::kUrl));
  kube.put("pods", pod_of("r2", "a", "job", 2, FakeRanks::kUrl));
  kube.put("pods", pod_of("r3", "a", "job", 3, FakeRanks::kUrl, "Succeeded"));
  ranks.saved("r0", 12);
  ranks.saved("r1", 11);
  start({"a"});
  pb::CheckpointOrder order;
  order.set_id("job/3/1");
  order.set_uid("job");
  order.set_attempt(3);
  order.set_namespace_("team");
  order.set_kind("Job");
  order.add_nodes("a");
  order.add_nodes("another-pods");
  ASSERT_TRUE(wait_until([&] { return telemetry.order(order); }));
  ASSERT_TRUE(wait_until([&] { return telemetry.acks().size() == 1; }));
  const auto ack = telemetry.acks()[0];
  EXPECT_EQ(ack.order_id(), "job/3/1");
  EXPECT_EQ(ack.node(), "a");
  EXPECT_EQ(ack.ranks(), 2);
  EXPECT_EQ(ack.step(), 11);
  EXPECT_TRUE(ack.ok()) << ack.message();
  ASSERT_TRUE(telemetry.order(order));
  ASSERT_TRUE(wait_until([&] { return telemetry.acks().size() == 2; }));
  EXPECT_EQ(telemetry.acks()[1].SerializeAsString(), ack.SerializeAsString());
  EXPECT_THAT(ranks.asked(), SizeIs(2));
}

TEST_F(AgentTest, ServesNodesThatAreCreatedAndDeleted) {
  const auto node = [](const std::string& name) {
    return Json::object({{"metadata", Json::object({{"name", name}, {"uid", "uid-" + name}})}});
  };
  for (const char* name : {"a", "b", "mine"}) kube.put("nodes", node(name));
  start({}, {"mine"});
  ASSERT_TRUE(wait_until([&] { return last_hello() == std::vector<std::string>{"a", "b"}; }));
  pages->set("c", page_of("p"));
  kube.put("nodes", node("c"));
  kube.remove("nodes", node("a"));
  ASSERT_TRUE(wait_until([&] { return last_hello() == std::vector<std::string>{"b", "c"}; }));
  EXPECT_TRUE(frame_comes("c", [](const auto&) { return true; }));
  const int looks = pages->looks("a");
  ASSERT_TRUE(frame_comes("c", [&](const auto& f) { return f.sequence() > 3; }));
  EXPECT_LE(pages->looks("a"), looks + 1) << "a look under way may still end";
  EXPECT_EQ(pages->looks("mine"), 0);
}

TEST_F(AgentTest, AsksForThePodsOfItsNodesAlone) {
  start({"a", "b"});
  ASSERT_TRUE(wait_until([&] { return kube.selectors("pods").size() == 4; }));
  EXPECT_THAT(kube.selectors("pods"), ElementsAre("list spec.nodeName=a", "list spec.nodeName=b",
                                                  "watch spec.nodeName=a", "watch spec.nodeName=b"));
  EXPECT_THAT(kube.selectors("nodes"), SizeIs(0));
}

TEST_F(AgentTest, WithAllNodesButSomeItAsksForBoundPodsOfTheOthers) {
  start({}, {"mine", "other"});
  ASSERT_TRUE(wait_until([&] { return kube.selectors("pods").size() == 2; }));
  const std::string fields = "spec.nodeName!=,spec.nodeName!=mine,spec.nodeName!=other";
  EXPECT_THAT(kube.selectors("pods"), ElementsAre("list " + fields, "watch " + fields));
}

TEST_F(AgentTest, StopsWithinTwoSeconds) {
  first_pages["a"] = page_of("p");
  start({"a"});
  ASSERT_TRUE(wait_until([&] { return agent->ready(); }));
  const auto from = std::chrono::steady_clock::now();
  agent->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(2));
}

}  // namespace agent_test
}  // namespace qm::agent
