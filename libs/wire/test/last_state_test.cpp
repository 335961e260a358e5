#include "qm/wire/last_state.hpp"

#include "quartermaster/v1/events.pb.h"

#include <gtest/gtest.h>

namespace qm::wire {
namespace last_state_test {

namespace pb = quartermaster::v1;

template <class Event>
std::string text(const std::string& topic, const std::string& key, bool rolled_back) {
  const auto bytes = last_state(topic, key, rolled_back);
  Event event;
  if (!bytes || !event.ParseFromString(*bytes)) return "none";
  return event.ShortDebugString();
}

TEST(LastState, EndsWhatTheKeyNames) {
  EXPECT_EQ(text<pb::WorkloadEvent>("qm.workload", "u1", false), R"(spec { uid: "u1" } phase: CANCELLED)");
  EXPECT_EQ(text<pb::PlacementEvent>("qm.placement", "u1/3", false),
            R"(assignment { uid: "u1" attempt: 3 state: RELEASED })");
  EXPECT_EQ(text<pb::PlacementEvent>("qm.placement", "evict/u1/3", false), R"(eviction { uid: "u1" attempt: 3 })");
  EXPECT_EQ(text<pb::PlacementEvent>("qm.placement", "propose/7", false), "proposal { number: 7 withdrawn: true }");
  EXPECT_EQ(text<pb::NodeEvent>("qm.node", "n1", false), R"(node: "n1" state: NODE_GONE)");
  EXPECT_EQ(text<pb::CapacityEvent>("qm.capacity", "promise/u1", false), R"(promise { uid: "u1" withdrawn: true })");
  EXPECT_EQ(text<pb::CapacityEvent>("qm.capacity", "drain/n1", false), R"(drain { node: "n1" lifted: true })");
  EXPECT_EQ(text<pb::CapacityEvent>("qm.capacity", "checkpoint/u1/3/n", false),
            R"(checkpoint { id: "u1/3/n" outcome: "Withdrawn" })");
  EXPECT_EQ(text<pb::CapacityEvent>("qm.capacity", "instance/c1", false),
            R"(instance { claim: "c1" state: INSTANCE_STOPPED })");
  EXPECT_EQ(text<pb::CostEvent>("qm.cost", "budget/b1", false), R"(grant { budget: "b1" withdrawn: true })");
  EXPECT_EQ(text<pb::CostEvent>("qm.cost", "spent/u1/3", false), R"(spent { uid: "u1" attempt: 3 final: true })");
  EXPECT_EQ(text<pb::GpuEvent>("qm.gpu", "health/n1", false), R"(health { node: "n1" })");
  EXPECT_EQ(text<pb::GpuEvent>("qm.gpu", "node-report/n1", false), R"(node_report { node: "n1" })");
  EXPECT_EQ(text<pb::SpotEvent>("qm.spot", "notice/n1", false), R"(notice { node: "n1" })");
}

TEST(LastState, KeepsWhatTheOwnerPublishesAgainAfterARollback) {
  EXPECT_EQ(text<pb::PlacementEvent>("qm.placement", "propose/7", true), "proposal { number: 7 withdrawn: true }");
  for (const auto& [topic, key] : std::vector<std::pair<std::string, std::string>>{{"qm.placement", "u1/3"},
                                                                                   {"qm.workload", "u1"},
                                                                                   {"qm.node", "n1"},
                                                                                   {"qm.capacity", "instance/c1"},
                                                                                   {"qm.cost", "budget/b1"},
                                                                                   {"qm.cost", "spent/u1/3"},
                                                                                   {"qm.gpu", "health/n1"},
                                                                                   {"qm.gpu", "node-report/n1"},
                                                                                   {"qm.spot", "notice/n1"}}) {
    EXPECT_FALSE(last_state(topic, key, true)) << topic << " " << key;
  }
}

TEST(LastState, NothingForFactsListsAndKeysOfAnotherForm) {
  for (const bool rolled_back : {false, true}) {
    for (const auto& [topic, key] : std::vector<std::pair<std::string, std::string>>{{"qm.placement", "demand"},
                                                                                     {"qm.placement", "u1/x"},
                                                                                     {"qm.placement", "/3"},
                                                                                     {"qm.placement", "evict/u1"},
                                                                                     {"qm.placement", "propose/x"},
                                                                                     {"qm.capacity", "price/a/b"},
                                                                                     {"qm.capacity", "instance/"},
                                                                                     {"qm.gpu", "usage/n1/0"},
                                                                                     {"qm.spot", "ack/o/n1"},
                                                                                     {"qm.cost", "total/2026-11/t"},
                                                                                     {"qm.cost", "spent/u1"},
                                                                                     {"qm.other", "k"}}) {
      EXPECT_FALSE(last_state(topic, key, rolled_back)) << topic << " " << key;
    }
  }
}

}  // namespace last_state_test
}  // namespace qm::wire
