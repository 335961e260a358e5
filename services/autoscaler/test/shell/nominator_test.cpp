// Pods of plans, as nominated nodes for a scheduler that does not know the plans.
#include "src/shell/pods/nominator.hpp"

#include "src/shell/pods/parallel.hpp"
#include "test/shell/rig.hpp"

#include <gmock/gmock.h>

namespace qm::autoscaler {
namespace nominator_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NominatedNodes : public ::testing::Test {
 protected:
  static Json pod(const std::string& name, const std::string& more_spec = "") {
    auto made = Json::parse(fmt::format(
        R"({{"metadata":{{"name":"{0}","namespace":"shop","uid":"uid-{0}","resourceVersion":"1"}},
            "spec":{{"schedulerName":"default-scheduler"{1}}},
            "status":{{"phase":"Pending","conditions":[{{"type":"PodScheduled","status":"False","reason":"Unschedulable"}}]}}}})",
        name, more_spec));
    EXPECT_TRUE(made) << more_spec;
    return made ? *made : Json();
  }
  /// The pod is created, and the watch shows it.
  void make(const Json& pod, const std::string& group = "") {
    rig_.kube.statuses[kube::name_of(pod)] = pod;
    nominator_.put_pod(pod, group);
  }
  /// A change by another client.
  void change(const std::string& name, const char* patch) {
    Json& object = rig_.kube.statuses.at(name);
    object.merge_patch(*Json::parse(patch));
    object.set("metadata")
        .set("resourceVersion", std::to_string(std::stoi(object["metadata"]["resourceVersion"].string()) + 1));
  }
  /// The watch shows what is stored.
  void watch(const std::string& name, const std::string& group = "") {
    nominator_.put_pod(rig_.kube.statuses.at(name), group);
  }
  std::vector<std::string> nominate(const std::vector<std::tuple<std::string, std::string, int>>& planned) {
    std::vector<Nomination> list;
    for (const auto& [uid, node, pods] : planned) list.push_back({WorkloadUid(uid), NodeName(node), pods});
    rig_.kube.status_requests.clear();
    open_ = nominator_.nominate(list).open;
    std::ranges::sort(rig_.kube.status_requests);  // they were sent at the same time
    return rig_.kube.status_requests;
  }
  std::string node_of(const std::string& name) {
    return rig_.kube.statuses.at(name).path("status.nominatedNodeName").string();
  }
  testing::Rig rig_;
  Nominator nominator_{rig_.client};
  std::set<NodeName> open_;  ///< nodes with pods that were due
};

TEST_F(NominatedNodes, AsInThePlan) {
  for (const char* name : {"a", "b", "c"}) make(pod(name));
  EXPECT_THAT(nominate({{"uid-c", "n1", 1}, {"uid-a", "n1", 1}, {"uid-b", "n2", 1}}), ElementsAre("a", "b", "c"));
  EXPECT_EQ(node_of("c"), "n1");
  EXPECT_EQ(node_of("a"), "n1");
  EXPECT_EQ(node_of("b"), "n2");
}

// The scheduler removes a nomination when an attempt fails, also because of a taint that is gone a moment later.
TEST_F(NominatedNodes, AFewTimesForEachPodAndNode) {
  make(pod("a"));
  for (int i = 0; i < Nominator::kMostTries; ++i) {
    EXPECT_THAT(nominate({{"uid-a", "n1", 1}}), ElementsAre("a"));
    EXPECT_THAT(open_, IsEmpty());
    EXPECT_THAT(nominate({{"uid-a", "n1", 1}}), IsEmpty()) << "before the watch has shown it";
    watch("a");
    EXPECT_THAT(nominate({{"uid-a", "n1", 1}}), IsEmpty());
    change("a", R"({"status":{"nominatedNodeName":null}})");
    watch("a");
  }
  EXPECT_THAT(nominate({{"uid-a", "n1", 1}}), IsEmpty());
  EXPECT_EQ(node_of("a"), "");
  EXPECT_THAT(nominate({{"uid-a", "n2", 1}}), ElementsAre("a")) << "another plan";
  EXPECT_EQ(node_of("a"), "n2");
}

TEST_F(NominatedNodes, ANodeIsOpenUntilItsPodsAreNominated) {
  for (const char* name : {"a", "b"}) make(pod(name));
  change("a", R"({"metadata":{"labels":{"seen":"yes"}}})");
  EXPECT_THAT(nominate({{"uid-a", "n1", 1}, {"uid-b", "n2", 1}}), ElementsAre("a", "b"));
  EXPECT_THAT(open_, ElementsAre(NodeName("n1"))) << "the pod that was read has changed";
  watch("a");
  EXPECT_THAT(nominate({{"uid-a", "n1", 1}, {"uid-b", "n2", 1}}), ElementsAre("a"));
  EXPECT_THAT(open_, IsEmpty());
}

TEST_F(NominatedNodes, OnlyOfPodsThatTheSchedulerOfTheClusterCouldNotPlace) {
  make(pod("bound", R"(,"nodeName":"n9")"));
  make(pod("gated", R"(,"schedulingGates":[{"name":"g"}])"));
  Json ours = pod("ours");
  ours.set("spec").set("schedulerName", "quartermaster");
  make(ours);
  Json preemptor = pod("preemptor");
  preemptor.set("status").set("nominatedNodeName", "n9");
  make(preemptor);
  Json fresh = pod("fresh");
  fresh.set("status").set("conditions", Json::array());
  make(fresh);
  Json ending = pod("ending");
  ending.set("metadata").set("deletionTimestamp", "2026-11-21T09:14:29Z");
  make(ending);
  make(pod("gone"));
  nominator_.drop_pod("uid-gone");
  std::vector<std::tuple<std::string, std::string, int>> planned;
  for (const char* name : {"bound", "gated", "ours", "preemptor", "fresh", "ending", "gone", "unknown"})
    planned.emplace_back(std::string("uid-") + name, "n1", 1);
  EXPECT_THAT(nominate(planned), IsEmpty());
  EXPECT_EQ(node_of("preemptor"), "n9");
}

TEST_F(NominatedNodes, APodThatChangedMeanwhileIsReadAgain) {
  make(pod("a"));
  make(pod("b"));
  change("a", R"({"status":{"nominatedNodeName":"n9"}})");   // a preemption
  change("b", R"({"metadata":{"labels":{"seen":"yes"}}})");  // of no importance
  const std::vector<std::tuple<std::string, std::string, int>> planned = {{"uid-a", "n1", 1}, {"uid-b", "n1", 1}};
  EXPECT_THAT(nominate(planned), ElementsAre("a", "b"));
  EXPECT_EQ(node_of("a"), "n9");
  EXPECT_EQ(node_of("b"), "");
  EXPECT_THAT(nominate(planned), IsEmpty()) << "the watch has not shown the changes";
  watch("a");
  watch("b");
  EXPECT_THAT(nominate(planned), ElementsAre("b"));
  EXPECT_EQ(node_of("a"), "n9");
  EXPECT_EQ(node_of("b"), "n1");
}

TEST_F(NominatedNodes, APodOfTheSameNameIsAnotherPod) {
  make(pod("a"));
  rig_.kube.statuses.at("a").set("metadata").set("uid", "uid-later");
  EXPECT_THAT(nominate({{"uid-a", "n1", 1}}), ElementsAre("a"));
  EXPECT_EQ(node_of("a"), "");
}

TEST_F(NominatedNodes, AsManyOfAGangAsThePlanHasOnTheNode) {
  make(pod("a", R"(,"nodeName":"n1")"), "shop/ring");
  for (const char* name : {"b", "c", "d", "e"}) make(pod(name), "shop/ring");
  const std::vector<std::tuple<std::string, std::string, int>> planned = {{"shop/ring", "n1", 2},
                                                                          {"shop/ring", "n2", 2}};
  EXPECT_THAT(nominate(planned), ElementsAre("b", "c", "d"));
  EXPECT_EQ(node_of("b"), "n1");
  EXPECT_EQ(node_of("c"), "n2");
  EXPECT_EQ(node_of("d"), "n2");
  EXPECT_THAT(nominate(planned), IsEmpty());
  // A member ends, and another one takes its place.
  nominator_.drop_pod("uid-a");
  EXPECT_THAT(nominate(planned), ElementsAre("e"));
  EXPECT_EQ(node_of("e"), "n1");
}

TEST_F(NominatedNodes, AnObjectThatIsRefusedDoesNotStopTheOthersAndAServerThatRefusesDoes) {
  make(pod("a"));
  make(pod("b"));
  rig_.kube.statuses.erase("a");
  EXPECT_THAT(nominate({{"uid-a", "n1", 1}, {"uid-b", "n1", 1}}), ElementsAre("a", "b"));
  EXPECT_EQ(node_of("b"), "n1");
  std::vector<std::tuple<std::string, std::string, int>> planned;
  for (std::size_t i = 0; i < 2 * kParallelCalls; ++i) {
    const std::string name = fmt::format("c{}", i);
    make(pod(name));
    planned.emplace_back("uid-" + name, "n1", 1);
  }
  rig_.kube.status = 403;
  rig_.kube.reason = "Forbidden";
  const std::size_t sent = nominate(planned).size();
  EXPECT_GE(sent, 1U);
  EXPECT_LE(sent, kParallelCalls) << "those that were sent already";
  EXPECT_THAT(open_, ElementsAre(NodeName("n1")));
  EXPECT_THAT(nominate(planned), IsEmpty()) << "it pauses";
  EXPECT_THAT(open_, ElementsAre(NodeName("n1")));
}

TEST_F(NominatedNodes, ARoundHasABoundedNumberOfWrites) {
  std::vector<std::tuple<std::string, std::string, int>> planned;
  for (std::size_t i = 0; i < Nominator::kMostWrites + 5; ++i) {
    const std::string name = fmt::format("p{:03}", i);
    make(pod(name));
    planned.emplace_back("uid-" + name, "n1", 1);
  }
  EXPECT_EQ(nominate(planned).size(), Nominator::kMostWrites);
  EXPECT_THAT(nominate(planned), ElementsAre("p100", "p101", "p102", "p103", "p104"));
}

}  // namespace nominator_test
}  // namespace qm::autoscaler
