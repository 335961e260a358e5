#include "pods.hpp"

#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace qm::agent {
namespace pods_test {

using ::testing::IsEmpty;
using testing::pod_of;
using ::testing::SizeIs;

TEST(PodsTest, RankKnowsItsWorkload) {
  const Rank rank = rank_of(pod_of("job-3", "n", "uid-job", 7, "http://{podIP}/save"));
  EXPECT_EQ(rank.ns, "team");
  EXPECT_EQ(rank.name, "job-3");
  EXPECT_THAT(rank.ips, ::testing::ElementsAre("10.0.0.1"));
  EXPECT_FALSE(rank.host_network);
  EXPECT_EQ(rank.scheduler, "quartermaster");
  EXPECT_EQ(rank.node, "n");
  EXPECT_EQ(rank.controller, "uid-job");
  EXPECT_EQ(rank.controller_kind, "Job");
  EXPECT_EQ(rank.attempt, 7);
  EXPECT_EQ(rank.checkpoint, "http://{podIP}/save");
  EXPECT_TRUE(rank.uses_gpus);
  EXPECT_TRUE(rank.running);
}

TEST(PodsTest, OnlyTheControllerCountsAsOwner) {
  Json pod = pod_of("p", "n", "uid-job", 1);
  auto& owners = pod.set("metadata").set("ownerReferences");
  owners.items_mut()[0].set("controller", false);
  EXPECT_EQ(rank_of(pod).controller, "");
  owners.push_back(Json::object({{"kind", "Other"}, {"uid", "x"}, {"controller", true}}));
  EXPECT_EQ(rank_of(pod).controller, "x");
  EXPECT_EQ(rank_of(pod).controller_kind, "Other");
}

TEST(PodsTest, AddressesOfAPod) {
  Json pod = pod_of("p", "n", "uid-job", 1);
  pod.set("status").set("podIPs", Json::array({Json::object({{"ip", "10.0.0.1"}}), Json::object({{"ip", "fd00::1"}})}));
  EXPECT_THAT(rank_of(pod).ips, ::testing::ElementsAre("10.0.0.1", "fd00::1"));
  pod.set("status").set("hostIP", "10.0.0.1");
  EXPECT_TRUE(rank_of(pod).host_network) << "the address is the node's";
  pod.set("status").set("hostIP", "192.168.0.1");
  EXPECT_FALSE(rank_of(pod).host_network);
  pod.set("spec").set("hostNetwork", true);
  EXPECT_TRUE(rank_of(pod).host_network);
}

TEST(PodsTest, OnlyThisNodeWorkloadAndAttempt) {
  Pods pods;
  pods.apply(pod_of("a", "n", "job", 1), false);
  pods.apply(pod_of("b", "n", "job", 2), false);
  pods.apply(pod_of("c", "m", "job", 2), false);
  pods.apply(pod_of("d", "n", "other", 2), false);
  pods.apply(pod_of("e", "n", "job", 2, "", "Succeeded"), false);
  pods.apply(pod_of("f", "n", "job", 2, "", "Failed"), false);
  pods.apply(pod_of("g", "", "job", 2, "", "Pending"), false);
  EXPECT_EQ(pods.size(), 4U);
  pods.apply(pod_of("forged", "n", "job", 2, "", "Running", "other"), false);
  const WorkloadIdentity job{"job", "team", "Job"};
  const auto ranks = pods.ranks("n", job, 2);
  ASSERT_THAT(ranks.own, SizeIs(1));
  EXPECT_EQ(ranks.own[0].name, "b");
  EXPECT_THAT(ranks.foreign, ::testing::ElementsAre("other/forged"));
  EXPECT_THAT(pods.ranks("nowhere", job, 2).own, IsEmpty());
}

TEST(PodsTest, ThoseThatHaveEndedAreKnownByName) {
  Pods pods;
  pods.apply(pod_of("a", "n", "job", 1, "", "Succeeded"), false);
  pods.apply(pod_of("b", "n", "job", 1), false);
  pods.apply(pod_of("c", "m", "job", 1, "", "Failed"), false);
  EXPECT_THAT(pods.known("n").ended, ::testing::ElementsAre("team/a"));
  EXPECT_THAT(pods.known("n").created, SizeIs(1));
  // A pod of the same name is created before the old one is deleted.
  Json again = pod_of("a", "n", "job", 1);
  again.set("metadata").set("uid", "uid-again");
  pods.apply(again, false);
  EXPECT_THAT(pods.known("n").ended, IsEmpty());
  pods.apply(again, true);
  EXPECT_THAT(pods.known("n").ended, SizeIs(1));
  pods.apply(pod_of("a", "n", "job", 1, "", "Succeeded"), true);
  EXPECT_THAT(pods.known("n").ended, IsEmpty());
}

TEST(PodsTest, PodsThatEndAreForgotten) {
  Pods pods;
  pods.apply(pod_of("a", "n", "job", 1), false);
  pods.apply(pod_of("b", "n", "job", 1), false);
  EXPECT_TRUE(pods.gpu_pods("n"));
  pods.apply(pod_of("a", "n", "job", 1, "", "Succeeded"), false);
  pods.apply(pod_of("b", "n", "job", 1), true);
  EXPECT_EQ(pods.size(), 0U);
  EXPECT_FALSE(pods.gpu_pods("n"));
}

TEST(PodsTest, OnlyRunningPodsHoldGpus) {
  Pods pods;
  pods.apply(pod_of("a", "n", "job", 1, "", "Pending"), false);
  EXPECT_FALSE(pods.gpu_pods("n"));
  Json cpu_only = pod_of("b", "n", "job", 1);
  cpu_only.set("spec").set("containers", Json::array({Json::object({{"name", "main"}})}));
  pods.apply(cpu_only, false);
  EXPECT_FALSE(pods.gpu_pods("n"));
  pods.apply(pod_of("a", "n", "job", 1), false);
  EXPECT_TRUE(pods.gpu_pods("n"));
}

TEST(PodsTest, WaitsForTheFirstList) {
  Pods pods;
  EXPECT_FALSE(pods.wait_synced("n", {}));
  std::thread lists([&] { pods.synced("n"); });
  EXPECT_TRUE(pods.wait_synced("n", std::chrono::seconds(20)));
  lists.join();
  EXPECT_FALSE(pods.wait_synced("m", {})) << "its pods are listed apart";
  pods.synced();
  EXPECT_TRUE(pods.wait_synced("m", {})) << "all are listed";
  pods.close();
  EXPECT_FALSE(pods.wait_synced("n", std::chrono::seconds(20))) << "closed: no caller waits any more";
}

}  // namespace pods_test
}  // namespace qm::agent
