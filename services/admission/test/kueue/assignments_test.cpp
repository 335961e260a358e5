// Assignments of the pod sets of one workload: borrowing, total requests, and the reasons why nothing fits.
#include "qm/admission/kueue/flavors.hpp"
#include "qm/admission/kueue/objects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <list>

namespace qm::admission::kueue {
namespace assignments_test {

Json parsed(const std::string& text) { return *Json::parse(text); }

struct NoCandidates final : Oracle {
  Fitting simulate(const Work& /*work*/, Cell /*cell*/, std::int64_t /*amount*/) override {
    return {Mode::kNoCandidates, 0};
  }
};

/// One queue, "batch", with pending workloads.
class Assignments : public ::testing::Test {
 protected:
  void flavor(const std::string& name, const std::string& spec = "{}") {
    objects_.add_flavor(parsed(fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{}}})", name, spec)));
  }
  /// Racks of hosts with 4 cpus each, for flavors with "topologyName":"racks".
  void topology(int hosts) {
    objects_.topologies = std::make_shared<Topologies>();
    objects_.add_topology(parsed(R"({"metadata":{"name":"racks"},"spec":{"levels":[{"nodeLabel":"rack"},
        {"nodeLabel":"kubernetes.io/hostname"}]}})"));
    for (int i = 1; i <= hosts; ++i) {
      objects_.add_node(parsed(fmt::format(R"({{"metadata":{{"name":"n{0}","labels":{{"rack":"r1",
          "kubernetes.io/hostname":"n{0}"}}}},"status":{{"allocatable":{{"cpu":"4","memory":"8","pods":"20"}},
          "conditions":[{{"type":"Ready","status":"True"}}]}}}})",
                                           i)));
    }
  }
  static std::string offer(const std::string& flavor, const std::string& resource, int nominal) {
    return fmt::format(R"({{"name":"{}","resources":[{{"name":"{}","nominalQuota":{}}}]}})", flavor, resource, nominal);
  }
  static std::string group(const std::string& resource, const std::vector<std::string>& offers) {
    return fmt::format(R"({{"coveredResources":["{}"],"flavors":[{}]}})", resource, fmt::join(offers, ","));
  }
  void queue(const std::string& name, const std::vector<std::string>& groups, const std::string& cohort = "") {
    auto object = parsed(fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"resourceGroups":[{}]}}}})", name,
                                     fmt::join(groups, ",")));
    if (!cohort.empty()) object.set("spec").set("cohortName", cohort);
    objects_.add_queue(object);
  }
  static std::string pods(const std::string& name, int count, const std::string& requests,
                          const std::string& topology_request = "{}") {
    return fmt::format(R"({{"name":"{}","count":{},"topologyRequest":{},"template":{{"spec":{{"containers":[
        {{"resources":{{"requests":{}}}}}]}}}}}})",
                       name, count, topology_request, requests);
  }
  Work& work(const std::vector<std::string>& pod_sets) {
    if (planted_.fields.empty()) planted_ = objects_.plant();
    auto& out = works_.emplace_back(
        objects_.work(parsed(fmt::format(R"({{"spec":{{"podSets":[{}]}}}})", fmt::join(pod_sets, ",")))));
    out.queue = planted_.queues.at("batch").second;
    return out;
  }
  FlavorAssigner assigner() {
    auto& field = planted_.fields.at(planted_.queues.at("batch").first);
    const auto& rules = field.rules.at(static_cast<std::size_t>(planted_.queues.at("batch").second));
    return {field.tree, rules, oracle_, false, objects_.resources.find("pods"), field.topologies.get()};
  }
  Assignment assign(const std::vector<std::string>& pod_sets) {
    const auto& made = work(pod_sets);
    return assigner().explain(made);
  }
  std::string reasons(const std::vector<Why>& whys) const {
    std::vector<std::string> out;
    for (const auto& why : whys) out.push_back(objects_.to_string(why));
    return fmt::format("{}", fmt::join(out, "; "));
  }
  const Attempt& attempt(const Assignment::Set& set, const std::string& flavor) const {
    return *std::ranges::find(set.attempts, *objects_.flavors.find(flavor), &Attempt::flavor);
  }

  Objects objects_;
  Forest::Planted planted_;
  std::list<Work> works_;
  NoCandidates oracle_;
};

TEST_F(Assignments, AboveNominalQuotaRequiresBorrowing) {
  flavor("small");
  queue("batch", {group("cpu", {offer("small", "cpu", 2)})}, "co");
  queue("lender", {group("cpu", {offer("small", "cpu", 4)})}, "co");
  const auto own = assign({pods("main", 2, R"({"cpu":"1"})")});
  EXPECT_FALSE(own.requires_borrowing());
  const auto more = assign({pods("main", 3, R"({"cpu":"1"})")});
  EXPECT_TRUE(more.requires_borrowing());
  EXPECT_EQ(more.borrowing, 1) << "from the cohort right above";
}

constexpr const char* kOneHost = R"({"required":"kubernetes.io/hostname"})";

TEST_F(Assignments, PlacementThatFitsNoNodeFailsFirst) {
  topology(2);
  flavor("plain");
  flavor("racked", R"({"topologyName":"racks"})");
  queue("batch", {group("cpu", {offer("plain", "cpu", 9), offer("racked", "cpu", 9)})});
  const auto made = assign({pods("main", 1, R"({"cpu":"5"})", kOneHost)});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(name_of(made.no_fit()), "TopologyPlacementFailed");
  const auto& set = made.sets.at(0);
  EXPECT_EQ(attempt(set, "plain").no_fit, NoFit::kNoMatchingFlavor);
  EXPECT_EQ(attempt(set, "racked").no_fit, NoFit::kTopologyPlacementFailed);
  EXPECT_EQ(attempt(set, "racked").value.mode, Mode::kNoFit);
}

TEST_F(Assignments, OnlyPodSetWithoutNodesFails) {
  topology(1);
  flavor("racked", R"({"topologyName":"racks"})");
  queue("batch", {group("cpu", {offer("racked", "cpu", 99)})});
  const auto made = assign({pods("fits", 1, R"({"cpu":"1"})", kOneHost), pods("huge", 1, R"({"cpu":"5"})", kOneHost)});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(made.sets.at(0).flavors.at(0).mode, Mode::kFit);
  EXPECT_EQ(made.sets.at(1).flavors.at(0).mode, Mode::kNoFit);
  EXPECT_EQ(name_of(made.no_fit()), "TopologyPlacementFailed");
}

TEST_F(Assignments, QuotaInUseIsReportedAndSmallNodesAreTheReason) {
  topology(1);
  flavor("racked", R"({"topologyName":"racks"})");
  queue("batch", {group("cpu", {offer("racked", "cpu", 9)})});
  const auto& held = work({pods("main", 1, R"({"cpu":"8"})")});
  auto& field = planted_.fields.at(0);
  field.tree.add(held.queue, 0, 8000);
  const auto made = assign({pods("main", 1, R"({"cpu":"5"})", kOneHost)});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(name_of(made.no_fit()), "TopologyPlacementFailed");
  EXPECT_EQ(reasons(made.sets.at(0).whys), "insufficient unused quota for cpu in flavor racked, 4 more needed");
}

TEST_F(Assignments, MildestReasonOfGroupAndSeverestOfSeveral) {
  flavor("tainted", R"({"nodeTaints":[{"key":"only","value":"them","effect":"NoSchedule"}]})");
  flavor("open");
  flavor("narrow");
  queue("batch", {group("memory", {offer("tainted", "memory", 8), offer("open", "memory", 8)}),
                  group("cpu", {offer("narrow", "cpu", 2)})});
  // For memory, one flavor does not match and another fits; no flavor has enough cpu.
  const auto both = assign({pods("main", 1, R"({"cpu":"3","memory":"1"})")});
  EXPECT_EQ(name_of(both.no_fit()), "NoMatchingFlavor");
  EXPECT_EQ(attempt(both.sets.at(0), "narrow").no_fit, NoFit::kExceedsMaxQuota);
  EXPECT_EQ(attempt(both.sets.at(0), "tainted").no_fit, NoFit::kNoMatchingFlavor) << "known of the group before";
  const auto one = assign({pods("main", 1, R"({"memory":"9"})")});
  EXPECT_EQ(name_of(one.no_fit()), "ExceedsMaxQuota") << "milder than the taint of the other flavor";
}

TEST_F(Assignments, FlavorOfSeveralGroupsCountsInEach) {
  flavor("shared", R"({"nodeTaints":[{"key":"only","value":"them","effect":"NoSchedule"}]})");
  flavor("narrow");
  queue("batch", {group("memory", {offer("narrow", "memory", 2), offer("shared", "memory", 8)}),
                  group("cpu", {offer("shared", "cpu", 8)})});
  const auto made = assign({pods("main", 1, R"({"cpu":"1","memory":"3"})")});
  EXPECT_EQ(attempt(made.sets.at(0), "narrow").no_fit, NoFit::kExceedsMaxQuota);
  EXPECT_EQ(name_of(made.no_fit()), "NoMatchingFlavor") << "cpu has the tainted flavor alone";
}

TEST_F(Assignments, FlavorTriedByOneGroupOnlyMatchesNothing) {
  for (const auto* name : {"shared", "plain", "narrow"}) flavor(name);
  // Order of the search: memory is assigned the shared flavor; disk is assigned an earlier one; no flavor
  // has enough cpu.
  queue("batch", {group("memory", {offer("shared", "memory", 8)}),
                  group("disk", {offer("plain", "disk", 8), offer("shared", "disk", 8)}),
                  group("cpu", {offer("narrow", "cpu", 2)})});
  const auto made = assign({pods("main", 1, R"({"cpu":"3","disk":"1","memory":"1"})")});
  EXPECT_EQ(name_of(made.no_fit()), "NoMatchingFlavor");
  const auto& shared = attempt(made.sets.at(0), "shared");
  EXPECT_EQ(shared.value.mode, Mode::kNoFit);
  EXPECT_EQ(shared.no_fit, NoFit::kNoMatchingFlavor);
  EXPECT_EQ(reasons(shared.whys), "flavor shared does not provide resource disk");
  EXPECT_EQ(attempt(made.sets.at(0), "plain").value.mode, Mode::kFit);

  EXPECT_EQ(name_of(assigner().assign(works_.back()).no_fit()), "NoMatchingFlavor") << "with or without a reason";
  const auto less = assign({pods("main", 1, R"({"cpu":"1","disk":"1","memory":"1"})")});
  EXPECT_EQ(less.mode(), Mode::kFit) << "the choice does not depend on it";
  EXPECT_EQ(attempt(less.sets.at(0), "shared").value.mode, Mode::kNoFit);
  const auto beyond = assign({pods("main", 1, R"({"cpu":"3","disk":"9","memory":"1"})")});
  EXPECT_EQ(name_of(beyond.no_fit()), "ExceedsMaxQuota") << "disk came to it";
}

TEST_F(Assignments, PodSetBeyondEmptyNodesIsReasonWhereAnotherNeedsVictims) {
  topology(1);
  flavor("racked", R"({"topologyName":"racks"})");
  flavor("plain");
  queue("batch", {group("cpu", {offer("racked", "cpu", 9)}), group("tokens", {offer("plain", "tokens", 4)})});
  const auto& held = work({pods("main", 1, R"({"tokens":"3"})")});
  const auto cell = planted_.cells.at(0).at({*objects_.flavors.find("plain"), *objects_.resources.find("tokens")});
  planted_.fields.at(0).tree.add(held.queue, cell, 3);
  const auto made = assign({pods("huge", 1, R"({"cpu":"5"})", kOneHost), pods("small", 1, R"({"tokens":"2"})")});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(name_of(made.no_fit()), "TopologyPlacementFailed");
  EXPECT_FALSE(made.sets.at(0).whys.empty());
  EXPECT_EQ(reasons(made.sets.at(1).whys), "insufficient unused quota for tokens in flavor plain, 1 more needed");
}

TEST_F(Assignments, LeaderWithoutGroupAndRequestsMatchesNoFlavor) {
  topology(2);
  flavor("racked", R"({"topologyName":"racks"})");
  queue("batch", {group("cpu", {offer("racked", "cpu", 9)})});
  const auto made = assign({pods("leader", 1, "{}", kOneHost), pods("worker", 2, R"({"cpu":"1"})", kOneHost)});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(name_of(made.no_fit()), "NoMatchingFlavor");
  EXPECT_EQ(reasons(made.sets.at(0).whys), "no TAS flavor assigned");
  EXPECT_TRUE(made.sets.at(0).flavors.empty());
  EXPECT_EQ(made.sets.at(1).flavors.size(), 1U) << "the others keep theirs";

  const auto* together = R"({"required":"kubernetes.io/hostname","podSetGroupName":"gang"})";
  const auto gang = assign({pods("leader", 1, "{}", together), pods("worker", 2, R"({"cpu":"1"})", together)});
  EXPECT_EQ(gang.mode(), Mode::kFit) << "in a group it goes where its workers go";
}

constexpr const char* kGang = R"({"required":"kubernetes.io/hostname","podSetGroupName":"gang"})";

TEST_F(Assignments, LeaderWithCountedPodsNeedsNodesOfItsOwnFlavor) {
  topology(2);
  flavor("racked", R"({"topologyName":"racks"})");
  flavor("bank");
  queue("batch", {group("cpu", {offer("racked", "cpu", 9)}), group("pods", {offer("bank", "pods", 9)})});
  const auto made = assign({pods("leader", 1, "{}", kGang), pods("worker", 2, R"({"cpu":"1"})", kGang)});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(reasons(made.sets.at(0).whys), "no TAS flavor assigned");
  ASSERT_EQ(made.sets.at(0).flavors.size(), 1U);
  EXPECT_EQ(objects_.flavors[made.sets.at(0).flavors[0].flavor], "bank");
  EXPECT_TRUE(made.sets.at(1).whys.empty());
}

TEST_F(Assignments, LeaderWithRequestsNeedsNodesOfItsOwnFlavor) {
  topology(2);
  objects_.transformations =
      Transformations(parsed(R"([{"input":"memory","strategy":"Replace","outputs":{"tokens":"1"}}])"));
  flavor("racked", R"({"topologyName":"racks"})");
  flavor("bank");
  queue("batch", {group("cpu", {offer("racked", "cpu", 9)}), group("tokens", {offer("bank", "tokens", 9)})});
  const auto made = assign({pods("leader", 1, R"({"memory":"1"})", kGang), pods("worker", 2, R"({"cpu":"1"})", kGang)});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(reasons(made.sets.at(0).whys), "no TAS flavor assigned");
  const auto none = assign({pods("leader", 1, "{}", kGang), pods("worker", 2, R"({"cpu":"1"})", kGang)});
  EXPECT_EQ(none.mode(), Mode::kFit) << "without requests it goes where its workers go";
}

TEST_F(Assignments, TopologyRequestInQueueWithoutNodesFailsEachPodSet) {
  topology(1);
  flavor("plain");
  flavor("racked", R"({"topologyName":"racks"})");
  queue("batch", {group("cpu", {offer("plain", "cpu", 9)})});
  queue("other", {group("cpu", {offer("racked", "cpu", 9)})});
  const auto made = assign({pods("a", 1, "{}", kOneHost), pods("b", 1, "{}", kOneHost), pods("c", 1, "{}")});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  for (const int i : {0, 1}) {
    EXPECT_EQ(reasons(made.sets.at(static_cast<std::size_t>(i)).whys),
              "workload requires Topology, but there is no TAS cache information");
  }
  EXPECT_TRUE(made.sets.at(2).whys.empty()) << "it does not request nodes";
  EXPECT_EQ(name_of(made.no_fit()), "NoMatchingFlavor");
}

TEST_F(Assignments, WithoutAnyTopologyItIsSameError) {
  objects_.topologies = std::make_shared<Topologies>();
  flavor("plain");
  queue("batch", {group("cpu", {offer("plain", "cpu", 9)})});
  const auto made = assign({pods("main", 1, "{}", kOneHost)});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(reasons(made.sets.at(0).whys), "workload requires Topology, but there is no TAS cache information");
}

TEST_F(Assignments, NodesOfSeveralFlavorsFailEachPodSetOfGroup) {
  topology(1);
  for (const auto* name : {"zinc", "iron", "lead"}) flavor(name, R"({"topologyName":"racks"})");
  queue("batch", {group("cpu", {offer("zinc", "cpu", 9)}), group("memory", {offer("iron", "memory", 9)}),
                  group("pods", {offer("lead", "pods", 9)})});
  const auto* gang = R"({"required":"rack","podSetGroupName":"gang"})";
  const auto made = assign({pods("a", 1, R"({"cpu":"1","memory":"1"})", gang), pods("b", 1, R"({"cpu":"1"})", gang)});
  EXPECT_EQ(reasons(made.sets.at(0).whys), "more than one TAS flavor assigned: iron, lead, zinc") << "by name";
  EXPECT_EQ(reasons(made.sets.at(1).whys), "more than one TAS flavor assigned: lead, zinc");
  EXPECT_EQ(name_of(made.no_fit()), "") << "every flavor fits by quota";
}

TEST_F(Assignments, ReplacementSliceRequestsMissingPods) {
  flavor("small");
  queue("batch", {group("cpu", {offer("small", "cpu", 20)}), group("memory", {offer("small", "memory", 90)})});
  auto& grown = work({pods("grows", 5, R"({"cpu":"2","memory":"3"})"), pods("shrinks", 1, R"({"cpu":"1"})")});
  const auto small = *objects_.flavors.find("small");
  const auto cpu = *objects_.resources.find("cpu"), memory = *objects_.resources.find("memory");
  grown.pod_sets[0].pods_before = 2;
  grown.pod_sets[0].before = {{cpu, small, 4000}, {memory, small, 6}};
  grown.pod_sets[1].pods_before = 3;
  grown.pod_sets[1].before = {{cpu, small, 3000}};
  const auto made = assigner().explain(grown);
  EXPECT_EQ(made.mode(), Mode::kFit);
  const auto& cells = planted_.cells.at(0);
  const auto total = assigner().total_requests(grown, made);
  EXPECT_EQ(amount_at(total, cells.at({small, cpu})), 3 * 2000 - 2 * 1000);
  EXPECT_EQ(amount_at(total, cells.at({small, memory})), 9);

  // The assigned count covers all pods; the pods missing from the slice do not follow from it.
  auto counted = made;
  counted.sets[0].count = 50;
  EXPECT_EQ(assigner().total_requests(grown, counted), total);
  for (auto& set : grown.pod_sets) set.before.clear(), set.pods_before = 0;
  EXPECT_EQ(amount_at(assigner().total_requests(grown, counted), cells.at({small, cpu})), 50 * 2000 + 1000)
      << "without a slice the assigned count is what is requested";
}

TEST_F(Assignments, SliceScalesUpOnlyItsOwnResources) {
  flavor("small");
  queue("batch", {group("cpu", {offer("small", "cpu", 20)}), group("memory", {offer("small", "memory", 90)})});
  auto& grown = work({pods("main", 5, R"({"cpu":"2","memory":"3"})")});
  grown.pod_sets[0].pods_before = 2;
  grown.pod_sets[0].before = {{*objects_.resources.find("cpu"), *objects_.flavors.find("small"), 4000}};
  const auto made = assigner().explain(grown);
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(name_of(made.no_fit()), "NoMatchingFlavor");
  EXPECT_EQ(reasons(made.sets.at(0).whys), "could not assign small flavor since the original workload is assigned: ");
}

TEST_F(Assignments, QuotaOnlyResourcesMayUseFlavorWithoutNodes) {
  topology(1);
  objects_.transformations = Transformations(parsed(
      R"([{"input":"cpu","strategy":"Retain","outputs":{"tokens":"2"}},{"input":"memory","strategy":"Replace",
          "outputs":{"tokens":"1"}}])"));
  flavor("racked", R"({"topologyName":"racks"})");
  flavor("bank");
  queue("batch", {group("cpu", {offer("racked", "cpu", 9)}), group("tokens", {offer("bank", "tokens", 9)})});
  const auto made = assign({pods("main", 2, R"({"cpu":"1","memory":"1"})", kOneHost)});
  EXPECT_EQ(made.mode(), Mode::kFit);
  ASSERT_EQ(made.placed.size(), 1U);
  EXPECT_EQ(made.placed[0].each.size(), 2U) << "nodes hold what pods request, not what is counted of it";
  const auto bank = *objects_.flavors.find("bank");
  EXPECT_EQ(amount_at(made.usage, planted_.cells.at(0).at({bank, *objects_.resources.find("tokens")})), 6);
}

TEST_F(Assignments, FlavorWithoutNodesIsRefusedWhereItsGroupHasRequests) {
  topology(1);
  objects_.transformations =
      Transformations(parsed(R"([{"input":"cpu","strategy":"Replace","outputs":{"tokens":"2"}}])"));
  flavor("racked", R"({"topologyName":"racks"})");
  flavor("bank");
  // The cpu of the pods only counts as tokens; their resource group covers cpu nevertheless.
  queue("batch", {R"({"coveredResources":["cpu","tokens"],"flavors":[{"name":"bank","resources":[
      {"name":"cpu","nominalQuota":9},{"name":"tokens","nominalQuota":9}]}]})",
                  group("memory", {offer("racked", "memory", 9)})});
  const auto made = assign({pods("main", 1, R"({"cpu":"1","memory":"1"})", kOneHost)});
  EXPECT_EQ(made.mode(), Mode::kNoFit);
  EXPECT_EQ(reasons(attempt(made.sets.at(0), "bank").whys), "Flavor \"bank\" does not support TopologyAwareScheduling");
}

}  // namespace assignments_test
}  // namespace qm::admission::kueue
