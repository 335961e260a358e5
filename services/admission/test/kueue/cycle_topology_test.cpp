// Cycles by hand where flavors have nodes: which workload gets which nodes, which is preempted for nodes, and which
// gets its nodes later.
#include "qm/admission/kueue/cycle.hpp"
#include "qm/admission/kueue/objects.hpp"
#include "qm/admission/kueue/topology_objects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission::kueue {
namespace cycle_topology_test {

Json parsed(const std::string& text) { return *Json::parse(text); }

/// Queues with ample cpu quota in one cohort, over flavors of hosts h1, h2, ... with 4 cpus each.
class KueueTopology : public ::testing::Test {
 protected:
  KueueTopology() {
    objects_.topologies = std::make_shared<Topologies>();
    objects_.add_topology(parsed(R"({"metadata":{"name":"t"},"spec":{"levels":[{"nodeLabel":"rack"},
        {"nodeLabel":"kubernetes.io/hostname"}]}})"));
    objects_.add_check(parsed(R"({"metadata":{"name":"machines"},"spec":{
        "controllerName":"kueue.x-k8s.io/provisioning-request"},
        "status":{"conditions":[{"type":"Active","status":"True"}]}})"));
  }
  void nodes(int n) {
    for (int i = 1; i <= n; ++i) {
      objects_.add_node(parsed(fmt::format(R"({{"metadata":{{"name":"h{0}","labels":{{"rack":"r","kind":"gpu",
          "kubernetes.io/hostname":"h{0}"}}}},"status":{{"allocatable":{{"cpu":"4","pods":"10"}},
          "conditions":[{{"type":"Ready","status":"True"}}]}}}})",
                                           i)));
    }
  }
  void flavor(const std::string& name, const std::string& more = R"("topologyName":"t")") {
    objects_.add_flavor(parsed(R"({"metadata":{"name":")" + name + R"("},"spec":{)" + more + "}}"));
  }
  void queue(const std::string& name, const std::vector<std::string>& flavors, const std::string& more = "{}") {
    std::string offers;
    for (const auto& one : flavors) {
      offers += fmt::format(R"({}{{"name":"{}","resources":[{{"name":"cpu","nominalQuota":100}}]}})",
                            offers.empty() ? "" : ",", one);
    }
    auto object = parsed(fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"cohortName":"co","resourceGroups":[
        {{"coveredResources":["cpu"],"flavors":[{}]}}],"preemption":{{"withinClusterQueue":"LowerPriority"}}}}}})",
                                     name, offers));
    object.set("spec").merge_patch(parsed(more));
    objects_.add_queue(object);
  }
  Cycle& start() {
    planted_ = objects_.plant();
    cycle_ = std::make_unique<Cycle>(std::move(planted_.fields.at(0)));
    return *cycle_;
  }
  Json workload(int cpus, int pods, int priority, const std::string& asked) {
    return parsed(fmt::format(R"({{"metadata":{{"name":"w","uid":"{}"}},"spec":{{"priority":{},"podSets":[
        {{"name":"main","count":{},"topologyRequest":{},"template":{{"spec":{{"containers":[
        {{"resources":{{"requests":{{"cpu":"{}"}}}}}}]}}}}}}]}}}})",
                              next_, priority, pods, asked, cpus));
  }
  int add(const std::string& queue, int cpus, int pods = 1, int priority = 0,
          const std::string& asked = R"({"required":"kubernetes.io/hostname"})") {
    Work work = objects_.work(workload(cpus, pods, priority, asked));
    work.id = next_;
    work.created = next_++;
    work.queue = planted_.queues.at(queue).second;
    cycle_->enqueue(std::move(work));
    return next_ - 1;
  }
  static std::string text_of(const topology::Assignment& assignment) {
    std::string out;
    for (const auto& domain : assignment.domains) out += fmt::format("{}:{},", domain.values.back(), domain.count);
    if (!out.empty()) out.pop_back();
    return out;
  }
  /// "+1@f/h1:1 -3/5": 1 is admitted with a pod on h1, 3 is preempted by 5 and leaves at once.
  std::string run() {
    ++k_;
    const auto outcome = cycle_->run(k_, k_);
    std::string out;
    for (const auto& one : outcome.admitted) {
      const auto& placed = one.assignment.placed;
      out += fmt::format("+{}@{}/{} ", one.id, objects_.flavors[one.assignment.sets.at(0).flavors.at(0).flavor],
                         placed.empty() ? "" : text_of(placed.front().assignment));
    }
    for (const auto& one : outcome.preempted) {
      out += fmt::format("-{}/{} ", one.id, one.by);
      cycle_->evicted(one.id);
    }
    for (const auto& [id, why] : outcome.waiting) waits_[id] = name_of(why);
    for (const auto& one : outcome.placed_again) {
      out += fmt::format("~{}@{} ", one.id,
                         one.placing.failed ? one.placing.reason : text_of(one.placing.placed.front().assignment));
    }
    if (!outcome.preempted.empty()) cycle_->requeue();
    if (!out.empty()) out.pop_back();
    return out;
  }

  Objects objects_;
  Forest::Planted planted_;
  std::unique_ptr<Cycle> cycle_;
  std::map<int, std::string> waits_;
  int next_ = 1;
  std::int64_t k_ = 0;
};

TEST_F(KueueTopology, WorkloadWithinQuotaWithoutNodesIsPending) {
  nodes(2);
  flavor("f");
  queue("q", {"f"});
  start();
  const int pair = add("q", 3, 2, 0, R"({"preferred":"kubernetes.io/hostname"})");
  EXPECT_EQ(run(), "+1@f/h1:1,h2:1");
  const int third = add("q", 2);
  EXPECT_EQ(run(), "");
  EXPECT_EQ(waits_[third], "WaitingForQuota") << "the nodes are in use";
  const int huge = add("q", 5);
  EXPECT_EQ(run(), "");
  EXPECT_EQ(waits_[huge], "TopologyPlacementFailed") << "no node can ever fit it";
  cycle_->finish(pair);
  cycle_->requeue();
  EXPECT_EQ(run(), "+2@f/h1:1");
}

TEST_F(KueueTopology, VictimsForNodesAreMinimal) {
  nodes(2);
  flavor("f");
  queue("q", {"f"});
  start();
  const int low = add("q", 3, 1, 2), lowest = add("q", 2, 1, 1);
  EXPECT_EQ(run(), "+1@f/h1:1");
  EXPECT_EQ(run(), "+2@f/h2:1");
  const int urgent = add("q", 4, 1, 9);
  EXPECT_EQ(run(), fmt::format("-{}/{}", lowest, urgent)) << "its node is enough, though " << low << " might go too";
  EXPECT_EQ(run(), "+3@f/h2:1");
}

TEST_F(KueueTopology, VictimOnUselessNodeIsSpared) {
  nodes(2);
  flavor("f");
  queue("q", {"f"});
  start();
  add("q", 2, 1, 9);
  const int low = add("q", 3, 1, 2);
  add("q", 2, 1, 1);
  EXPECT_EQ(run(), "+1@f/h1:1");
  EXPECT_EQ(run(), "+2@f/h2:1");
  EXPECT_EQ(run(), "+3@f/h1:1");
  const int urgent = add("q", 4, 1, 9);
  EXPECT_EQ(run(), fmt::format("-{}/{}", low, urgent)) << "the lowest shares its node with one that stays";
}

TEST_F(KueueTopology, WorkloadWithNodeTakenInSameCycleIsRetried) {
  nodes(2);
  flavor("f");
  queue("a", {"f"});
  queue("b", {"f"});
  start();
  add("a", 3), add("b", 3);
  EXPECT_EQ(run(), "+1@f/h1:1 +2@f/h2:1") << "both were nominated for h1";
}

TEST_F(KueueTopology, PendingPreemptorWithoutVictimsReservesItsNodes) {
  nodes(2);
  flavor("f");
  for (const auto* name : {"a", "b", "c"}) queue(name, {"f"});
  start();
  const int holder = add("c", 2);
  EXPECT_EQ(run(), "+1@f/h1:1");
  add("a", 4, 2, 9, R"({"preferred":"rack"})"), add("b", 3);
  EXPECT_EQ(run(), "") << "h2 is reserved against b, although it is free";
  EXPECT_EQ(waits_[3], "WaitingForQuota");
  cycle_->finish(holder);
  cycle_->requeue();
  EXPECT_EQ(run(), "+2@f/h1:1,h2:1");
}

TEST_F(KueueTopology, HeadWithNodesTakenByPreemptorIsInadmissible) {
  nodes(1);
  flavor("f");
  for (const auto* name : {"a", "b"}) queue(name, {"f"});
  start();
  add("a", 1);
  EXPECT_EQ(run(), "+1@f/h1:1");
  const int preemptor = add("a", 4, 1, 9), late = add("b", 3);
  const auto outcome = cycle_->run(2, 2);
  ASSERT_EQ(outcome.preempted.size(), 1U);
  EXPECT_EQ(outcome.preempted[0].by, preemptor);
  EXPECT_TRUE(cycle_->active(preemptor)) << "it is pending for its victim";
  // It was nominated for the rest of h1. A new nomination would need victims and has none, so it stays inactive until
  // something changes.
  EXPECT_TRUE(cycle_->waits(late));
  EXPECT_FALSE(cycle_->active(late));
}

TEST_F(KueueTopology, HeadWithNodesTakenInCycleReservesItsNodes) {
  nodes(2);
  flavor("f");
  for (const auto* name : {"a", "b", "c"}) queue(name, {"f"});
  start();
  // Both are nominated for both nodes; the second then gets none, and the capacity that it waits for is reserved
  // against the third.
  add("a", 3, 2, 9, R"({"preferred":"rack"})"), add("b", 4, 2, 5, R"({"preferred":"rack"})"), add("c", 1);
  EXPECT_EQ(run(), "+1@f/h1:1,h2:1");
  EXPECT_EQ(waits_[2], "WaitingForQuota");
  EXPECT_EQ(waits_[3], "WaitingForQuota");
  EXPECT_FALSE(cycle_->active(2));
}

TEST_F(KueueTopology, HostOfTwoFlavorsIsOneHost) {
  nodes(1);
  flavor("one");
  flavor("two", R"("topologyName":"t","nodeLabels":{"kind":"gpu"})");
  queue("q", {"one"});
  queue("p", {"two"});
  start();
  add("q", 3);
  EXPECT_EQ(run(), "+1@one/h1:1");
  add("p", 2);
  EXPECT_EQ(run(), "");
  cycle_->finish(1);
  cycle_->requeue();
  EXPECT_EQ(run(), "+2@two/h1:1");
}

TEST_F(KueueTopology, FlavorsWithAndWithoutNodesAreSeparate) {
  nodes(1);
  flavor("plain", R"("nodeLabels":{})");
  flavor("placed");
  queue("q", {"plain", "placed"});
  start();
  add("q", 1);
  EXPECT_EQ(run(), "+1@placed/h1:1");
  add("q", 1, 1, 0, "{}");
  EXPECT_EQ(run(), "+2@plain/");
  const int elsewhere = add("q", 1, 1, 0, R"({"required":"block"})");
  EXPECT_EQ(run(), "");
  EXPECT_EQ(waits_[elsewhere], "NoMatchingFlavor");
}

TEST_F(KueueTopology, AllAreAssignedNodesWhereAllFlavorsHaveThem) {
  nodes(2);
  flavor("f");
  queue("q", {"f"});
  start();
  add("q", 3, 2, 0, "{}");
  EXPECT_EQ(run(), "+1@f/h1:1,h2:1");
}

TEST_F(KueueTopology, ProvisionedNodesAreAssignedLaterAndFailedOneIsReplaced) {
  nodes(2);
  flavor("f");
  queue("q", {"f"}, R"({"admissionChecksStrategy":{"admissionChecks":[{"name":"machines"}]}})");
  start();
  auto json = workload(3, 1, 0, R"({"required":"kubernetes.io/hostname"})");
  const int id = add("q", 3);
  EXPECT_EQ(run(), "+1@f/") << "the quota alone";
  json.set("status").set("admission").merge_patch(parsed(R"({"clusterQueue":"q","podSetAssignments":[{"name":"main",
      "count":1,"flavors":{"cpu":"f"},"resourceUsage":{"cpu":"3"},"delayedTopologyRequest":"Pending"}]})"));
  cycle_->place_again(id, objects_.node_requests(json, false), {});
  EXPECT_EQ(run(), "~1@h1:1");

  json.set("status").merge_patch(parsed(R"({"unhealthyNodes":[{"name":"h1"}],"admission":{"podSetAssignments":[
      {"name":"main","count":1,"flavors":{"cpu":"f"},"resourceUsage":{"cpu":"3"},"topologyAssignment":{
      "levels":["kubernetes.io/hostname"],"slices":[{"domainCount":1,"podCounts":{"universal":1},
      "valuesPerLevel":[{"universal":"h1"}]}]}}]}})"));
  const auto again = [&] { cycle_->place_again(id, objects_.node_requests(json, true), replacement_of(json, true)); };
  again();
  EXPECT_EQ(run(), "~1@h2:1") << "h1 is not known to be free yet";
  again();
  EXPECT_EQ(run(), "~1@h1:1") << "its former node is free";
}

constexpr const char* kAway = R"({"admissionChecksStrategy":{"admissionChecks":[{"name":"away"}]}})";
constexpr const char* kMultiKueue = R"({"metadata":{"name":"away"},"spec":{
    "controllerName":"kueue.x-k8s.io/multikueue"},"status":{"conditions":[{"type":"Active","status":"True"}]}})";

TEST_F(KueueTopology, OnlyQuotaIsReservedWhereNodesAreInAnotherCluster) {
  nodes(1);
  flavor("f");
  objects_.add_check(parsed(kMultiKueue));
  queue("q", {"f"}, kAway);
  start();
  auto json = workload(5, 1, 0, R"({"required":"kubernetes.io/hostname"})");
  add("q", 5);
  EXPECT_EQ(run(), "+1@f/") << "no node here would fit it";
  json.set("status").set("admission").merge_patch(parsed(R"({"clusterQueue":"q","podSetAssignments":[{"name":"main",
      "count":1,"flavors":{"cpu":"f"},"resourceUsage":{"cpu":"5"},"delayedTopologyRequest":"Pending"}]})"));
  EXPECT_TRUE(objects_.node_requests(json, false).empty()) << "and it is not searched later";
}

TEST_F(KueueTopology, FlavorThatNamesTopologyHasNodes) {
  nodes(3);
  flavor("f");
  flavor("adrift", R"("topologyName":"gone")");
  flavor("plain", R"("nodeLabels":{})");
  objects_.add_check(parsed(kMultiKueue));
  queue("every", {"adrift"}, kAway);
  queue("some", {"adrift", "plain"}, kAway);
  queue("here", {"f"});
  start();
  add("every", 1, 1, 0, "{}");
  EXPECT_EQ(run(), "") << "its pods are to be placed, and there is no topology";
  add("some", 1, 1, 0, "{}");
  EXPECT_EQ(run(), "+2@plain/") << "the other is for pods that request nodes";
  add("here", 1, 1, 0, "{}");
  EXPECT_EQ(run(), "+3@f/h1:1");
}

TEST_F(KueueTopology, FlavorWithMissingTopologyRefusesPodsWithoutTopologyRequest) {
  flavor("adrift", R"("topologyName":"gone")");
  flavor("plain", R"("nodeLabels":{})");
  objects_.add_check(parsed(kMultiKueue));
  queue("q", {"adrift", "plain"}, kAway);
  start();
  add("q", 1, 1, 0, "{}");
  EXPECT_EQ(run(), "+1@plain/");
}

TEST_F(KueueTopology, OnlyPodSetsOnFailedNodeAreReplaced) {
  nodes(3);
  flavor("f");
  queue("q", {"f"});
  start();
  const auto assigned = [](const std::string& name, const std::string& host) {
    return fmt::format(R"({{"name":"{}","count":1,"flavors":{{"cpu":"f"}},"resourceUsage":{{"cpu":"3"}},
        "topologyAssignment":{{"levels":["kubernetes.io/hostname"],"slices":[{{"domainCount":1,
        "podCounts":{{"universal":1}},"valuesPerLevel":[{{"universal":"{}"}}]}}]}}}})",
                       name, host);
  };
  auto json = workload(3, 1, 0, R"({"required":"kubernetes.io/hostname"})");
  auto& sets = json.set("spec").set("podSets").items_mut();
  sets.push_back(sets.front());
  sets.back().set("name", "side");
  const auto on = [&](const std::string& main, const std::string& side) {
    json.set("status", parsed(fmt::format(R"({{"unhealthyNodes":[{{"name":"h1"}}],"admission":{{"clusterQueue":"q",
        "podSetAssignments":[{},{}]}}}})",
                                          assigned("main", main), assigned("side", side))));
  };
  on("h1", "h2");
  Work work = objects_.work(json);
  work.id = next_++;
  work.queue = planted_.queues.at("q").second;
  work.usage = objects_.usage(json, planted_.cells.at(0));
  work.on_nodes = objects_.on_nodes(json);
  cycle_->hold(std::move(work));
  const auto node_requests = objects_.node_requests(json, true);
  ASSERT_EQ(node_requests.size(), 1U);
  EXPECT_EQ(node_requests[0].set, 0U);
  cycle_->place_again(1, node_requests, replacement_of(json, true));
  EXPECT_EQ(run(), "~1@h3:1") << "the pod set on h2 stays there";

  on("h2", "h1");
  ASSERT_EQ(objects_.node_requests(json, true).size(), 1U);
  EXPECT_EQ(objects_.node_requests(json, true)[0].set, 1U);
  on("h1", "h1");
  EXPECT_EQ(objects_.node_requests(json, true).size(), 2U);
  on("h2", "h3");
  EXPECT_TRUE(objects_.node_requests(json, true).empty());
}

TEST_F(KueueTopology, ChecksReportNodes) {
  nodes(2);
  flavor("f");
  queue("q", {"f"}, R"({"admissionChecksStrategy":{"admissionChecks":[{"name":"machines"}]}})");
  start();
  auto json = workload(1, 1, 0, R"({"required":"kubernetes.io/hostname"})");
  const int id = add("q", 1);
  EXPECT_EQ(run(), "+1@f/");
  json.set("status").merge_patch(parsed(R"({"admission":{"clusterQueue":"q","podSetAssignments":[{"name":"main",
      "count":1,"flavors":{"cpu":"f"},"resourceUsage":{"cpu":"1"},"delayedTopologyRequest":"Pending"}]},
      "admissionChecks":[{"name":"machines","state":"Ready","podSetUpdates":[{"name":"main",
      "nodeSelector":{"kubernetes.io/hostname":"h2"}}]}]})"));
  cycle_->place_again(id, objects_.node_requests(json, false), {});
  EXPECT_EQ(run(), "~1@h2:1");
}

TEST_F(KueueTopology, RequestForNodesOnlyFitsNothing) {
  nodes(1);
  flavor("f");
  queue("q", {"f"});
  start();
  Work work = objects_.work(workload(1, 1, 0, R"({"required":"rack"})"));
  work.pod_sets[0].each.clear();
  work.id = next_++;
  work.queue = planted_.queues.at("q").second;
  cycle_->enqueue(std::move(work));
  EXPECT_EQ(run(), "");
}

TEST(KueueTopologyObjects, AssignmentsAreUnpacked) {
  const auto read = topology_assignment(parsed(R"({"levels":["rack","kubernetes.io/hostname"],"slices":[
      {"domainCount":2,"podCounts":{"individual":[3,1]},"valuesPerLevel":[{"universal":"r1"},
      {"individual":{"prefix":"h","suffix":".x","roots":["1","2"]}}]},
      {"domainCount":1,"podCounts":{"universal":2},"valuesPerLevel":[{"universal":"r2"},{"universal":"h9"}]}]})"));
  const std::vector<topology::AssignedDomain> domains{{{"r1", "h1.x"}, 3}, {{"r1", "h2.x"}, 1}, {{"r2", "h9"}, 2}};
  EXPECT_EQ(read.domains, domains);
  EXPECT_EQ(read.levels.size(), 2U);
}

}  // namespace cycle_topology_test
}  // namespace qm::admission::kueue
