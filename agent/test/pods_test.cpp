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
  EXPECT_EQ(rank.ip, "10.0.0.1");
  EXPECT_EQ(rank.node, "n");
  EXPECT_EQ(rank.owner, "uid-job");
  EXPECT_EQ(rank.attempt, 7);
  EXPECT_EQ(rank.checkpoint, "http://{podIP}/save");
  EXPECT_TRUE(rank.uses_gpus);
  EXPECT_TRUE(rank.running);
}

TEST(PodsTest, JobIsTheOwnerBeforeAnotherController) {
  Json pod = pod_of("p", "n", "uid-job", 1);
  auto& owners = pod.set("metadata").set("ownerReferences");
  owners.items_mut().insert(owners.items_mut().begin(),
                            Json::object({{"kind", "Other"}, {"uid", "x"}, {"controller", true}}));
  EXPECT_EQ(rank_of(pod).owner, "uid-job");
  owners.items_mut().pop_back();
  EXPECT_EQ(rank_of(pod).owner, "x");
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
  const auto ranks = pods.ranks("n", "job", 2);
  ASSERT_THAT(ranks, SizeIs(1));
  EXPECT_EQ(ranks[0].name, "b");
  EXPECT_THAT(pods.ranks("nowhere", "job", 2), IsEmpty());
}

TEST(PodsTest, ThoseThatHaveEndedAreKnownByName) {
  Pods pods;
  pods.apply(pod_of("a", "n", "job", 1, "", "Succeeded"), false);
  pods.apply(pod_of("b", "n", "job", 1), false);
  pods.apply(pod_of("c", "m", "job", 1, "", "Failed"), false);
  EXPECT_THAT(pods.known("n").ended, ::testing::ElementsAre("team/a"));
  EXPECT_THAT(pods.known("n").created, SizeIs(1));
  // It comes again under its name before the old one is deleted.
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
  EXPECT_FALSE(pods.wait_synced({}));
  std::thread lists([&] { pods.synced(); });
  EXPECT_TRUE(pods.wait_synced(std::chrono::seconds(20)));
  lists.join();
  pods.close();
  EXPECT_FALSE(pods.wait_synced(std::chrono::seconds(20))) << "closed: nobody waits any more";
}

}  // namespace pods_test
}  // namespace qm::agent
