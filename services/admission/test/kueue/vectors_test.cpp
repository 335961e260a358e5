// Replays recorded decisions of Kueue, and small cases of our own that follow from its rules. Suites that pass
// completely must stay so; of the others the number of cases that equal the record must not fall.

#include "vectors.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

namespace qm::admission::vectors {
namespace vectors_test {

struct Bar {
  const char* file;
  const char* suite;
  Replay replay;
  int most_failures;
};

class RecordedCases : public ::testing::TestWithParam<Bar> {};

void expect_decisions(const Bar& bar, const std::vector<Json>& records) {
  ASSERT_FALSE(records.empty());
  std::vector<std::string> different;
  for (const auto& record : records) {
    const auto difference = bar.replay(record);
    if (difference.empty()) continue;
    different.push_back(record["test"].string() + " " + record["name"].string() + record["id"].string() + ": " +
                        difference);
  }
  std::string all;
  for (const auto& text : different) all += text + "\n";
  EXPECT_LE(static_cast<int>(different.size()), bar.most_failures) << all;
}

TEST_P(RecordedCases, MatchKueue) {
  std::set<std::string> replayed;  // a case that is in both folders is replayed once
  for (const auto& folder : qm::testing::data_folders("vectors")) {
    SCOPED_TRACE(folder);
    auto records = read_records(folder + "/kueue/" + GetParam().file);
    ASSERT_TRUE(records) << records.error().to_string();
    std::erase_if(*records, [&](const Json& record) { return !replayed.insert(record.dump()).second; });
    if (!records->empty()) expect_decisions(GetParam(), *records);
  }
  EXPECT_FALSE(replayed.empty());
}

INSTANTIATE_TEST_SUITE_P(Kueue, RecordedCases,
                         ::testing::Values(Bar{"random_cycles.jsonl.gz", "random", replay_random, 0},
                                           Bar{"preemption.json", "preemption", replay_preemption, 0},
                                           Bar{"quota.json", "quota", replay_quota, 0},
                                           Bar{"cycle.json", "cycle", replay_cycle, 0},
                                           Bar{"cycle_tas.json", "cycle_topology", replay_cycle, 0},
                                           Bar{"order.json", "order", replay_order, 0},
                                           Bar{"tas_unit.json", "topology", replay_tas_unit, 0},
                                           Bar{"flavors.json", "flavors", replay_flavors, 0}),
                         [](const auto& bar) { return std::string(bar.param.suite); });

/// Cases that were recorded later, in a folder of their own, which not every copy of the reference data has.
class RecordedLaterCases : public ::testing::TestWithParam<Bar> {};

TEST_P(RecordedLaterCases, MatchKueue) {
  bool replayed = false;
  for (const auto& folder : qm::testing::data_folders("vectors")) {
    const auto path = folder + "/kueue-more/" + GetParam().file;
    if (!std::filesystem::exists(path)) continue;
    SCOPED_TRACE(path);
    const auto records = read_records(path);
    ASSERT_TRUE(records) << records.error().to_string();
    expect_decisions(GetParam(), *records);
    replayed = true;
  }
  if (!replayed) GTEST_SKIP() << "the reference data (QM_SHARED) has no vectors/kueue-more/" << GetParam().file;
}

INSTANTIATE_TEST_SUITE_P(Kueue, RecordedLaterCases,
                         ::testing::Values(Bar{"random_cycles.jsonl.gz", "random", replay_random, 0},
                                           Bar{"quota.json", "quota", replay_quota, 0},
                                           Bar{"cycle_tas.json", "cycle_topology", replay_cycle, 0},
                                           Bar{"flavors.json", "flavors", replay_flavors, 0}),
                         [](const auto& bar) { return std::string(bar.param.suite); });

TEST(RecordedCases, GatesHaveDefaultsOfReplays) {
  for (const auto& folder : qm::testing::data_folders("vectors")) {
    SCOPED_TRACE(folder);
    auto gates = read_json(folder + "/kueue/gates.json");
    ASSERT_TRUE(gates) << gates.error().to_string();
    EXPECT_EQ(other_defaults(*gates), "");
    gates->set("PartialAdmission").set("default", false);
    EXPECT_EQ(other_defaults(*gates), "PartialAdmission is false, taken as true; ");
    const auto cases = read_records(folder + "/kueue/gates.json");
    ASSERT_FALSE(cases);
    EXPECT_NE(cases.error().to_string().find("holds no list of cases"), std::string::npos);
  }
}

// A replay that never finds a difference would pass too.
TEST(Replay, ReportsDifferences) {
  const auto record =
      Json::parse(R"({"suite":"quota","test":"TestAvailable","featureGates":{},"input":{"clusterQueues":[
      {"metadata":{"name":"q"},"spec":{"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[
      {"name":"cpu","nominalQuota":"3"}]}]}]}}],"usage":{"q":{"f/cpu":1000}}},"expected":{"wantAvailable":{"q":{"f/cpu":1999}},
      "wantPotentiallyAvailable":{"q":{"f/cpu":3000}}}})");
  ASSERT_TRUE(record) << record.error().to_string();
  EXPECT_EQ(replay_quota(*record), "q f/cpu is 2000 where 1999 was recorded");
  const auto unknown = Json::parse(R"({"suite":"quota","test":"TestNew","input":{}})");
  EXPECT_EQ(replay_quota(*unknown), "no such test is known: TestNew");
}

TEST(Replay, QueuesOfRecordedTreeAreActive) {
  auto record = Json::parse(R"({"suite":"quota","test":"TestSnapshot","featureGates":{},"input":{
      "resourceFlavors":[{"metadata":{"name":"f"}}],"clusterQueues":[{"metadata":{"name":"q"},"spec":{"stopPolicy":"Hold",
      "resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu","nominalQuota":"3"}]}]}]
      }}]},"expected":{"quotaTree":{"clusterQueues":{"q":{}}}}})");
  ASSERT_TRUE(record) << record.error().to_string();
  EXPECT_EQ(replay_quota(*record), "q is inactive");
  record->set("expected").set("quotaTree", *Json::parse(R"({"inactiveClusterQueues":["q"]})"));
  EXPECT_EQ(replay_quota(*record), "");
}

TEST(Replay, TotalHasRecordedFlavorsOfEachPodSet) {
  const auto record = Json::parse(R"({"suite":"flavors","test":"TestAssignment_TotalRequestsFor","featureGates":{},
      "input":{"args":{"wl":{"obj":{"metadata":{"name":"w"},"spec":{"podSets":[
      {"name":"a","count":2,"template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}},
      {"name":"b","count":1,"template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"5"}}}]}}}]}}}},
      "fields":{"podSets":[{"name":"a","count":2,"flavors":{"cpu":{"name":"one"}}},
      {"name":"b","count":1,"flavors":{"cpu":{"name":"two"}}}]}},
      "expected":{"want":{"one/cpu":2000,"two/cpu":5000}}})");
  ASSERT_TRUE(record) << record.error().to_string();
  EXPECT_EQ(replay_total(*record), "");
}

TEST(Replay, QueueWithNodesInAnotherClusterPlacesNothing) {
  auto record = Json::parse(R"({"suite":"flavors","test":"TestWorkloadsTopologyRequests","featureGates":{},"input":{
      "cq":{"hasMultiKueueAC":true,"tasOnly":false,"tasFlavors":{"tas":{}}},
      "assignment":{"podSets":[{"name":"main","count":1,"flavors":{"cpu":{"name":"tas"}}}]},
      "wlPodSets":[{"name":"main","count":1,"topologyRequest":{"required":"kubernetes.io/hostname"},
      "template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}}]},
      "expected":{"wantErr":null,"wantTASPodSets":[]}})");
  ASSERT_TRUE(record) << record.error().to_string();
  EXPECT_EQ(replay_placement_requests(*record), "");
  record->set("input").set("cq").set("hasMultiKueueAC", false);
  EXPECT_EQ(replay_placement_requests(*record), "[main] where [] was recorded");
}

}  // namespace vectors_test
}  // namespace qm::admission::vectors
