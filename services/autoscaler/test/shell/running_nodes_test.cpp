// How many pods of pending gangs fit running nodes, for an autoscaler without placement.
#include "src/shell/running_nodes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace running_nodes_test {

Json parse(const std::string& text) {
  const auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

class RoomOnNodes : public ::testing::Test {
 protected:
  void node(const std::string& name, const std::string& zone, int gpus, bool ready = true,
            const std::string& spec = "{}") {
    nodes.put_node(parse(fmt::format(
                       R"({{"metadata":{{"name":"{}","labels":{{"topology.kubernetes.io/zone":"{}"}}}},"spec":{},
                "status":{{"allocatable":{{"cpu":"32","memory":"256Gi","pods":"110","nvidia.com/gpu":"{}"}}}}}})",
                       name, zone, spec, gpus)),
                   ready);
  }
  static Json pod(const std::string& uid, const std::string& on, int gpus) {
    return parse(fmt::format(
        R"({{"metadata":{{"name":"{}","namespace":"team","uid":"{}"}},"spec":{{"nodeName":"{}","containers":[
            {{"name":"main","resources":{{"requests":{{"nvidia.com/gpu":"{}"}},"limits":{{"nvidia.com/gpu":"{}"}}}}}}]}}}})",
        uid, uid, on, gpus, gpus));
  }
  static DemandUpdated::Item gang(const std::string& uid, std::int32_t pods, std::int64_t gpus, int priority = 0) {
    DemandUpdated::Item item{{WorkloadUid(uid), 1}, {}, priority};
    item.ns = "team";
    PodSet set;
    set.count = pods;
    set.shape.gpu.whole = gpus;
    item.pod_sets = {set};
    return item;
  }
  RunningNodes nodes;
};

using Room = std::vector<std::int32_t>;

TEST_F(RoomOnNodes, TheTaintOfANodeThatStartsIsRemovedSoon) {
  node("a", "x", 8, true, R"({"taints":[{"key":"quartermaster.dev/nominating","effect":"NoSchedule"}]})");
  node("b", "x", 8, true, R"({"taints":[{"key":"other","effect":"NoSchedule"}]})");
  std::vector<DemandUpdated::Item> items{gang("w", 4, 4)};
  nodes.find_room(items);
  EXPECT_EQ(items[0].room, Room{2});
}

TEST_F(RoomOnNodes, CountsFreeDevicesInTheZoneWithTheMost) {
  node("a", "x", 8);
  node("b", "y", 8);
  node("c", "y", 8);
  nodes.put_pod(pod("p", "c", 4));
  std::vector<DemandUpdated::Item> items{gang("w", 9, 4)};
  nodes.find_room(items);
  EXPECT_EQ(items[0].room, Room{3}) << "two on b and one on c";
  EXPECT_EQ(items[0].room_zone, "y");
  nodes.drop_pod("p");
  items = {gang("w", 9, 4)};
  nodes.find_room(items);
  EXPECT_EQ(items[0].room, Room{4});
}

TEST_F(RoomOnNodes, TheHigherPriorityHasItsPlacesFirst) {
  node("a", "x", 8);
  std::vector<DemandUpdated::Item> items{gang("low", 2, 8), gang("high", 2, 8, 9)};
  nodes.find_room(items);
  EXPECT_EQ(items[0].room, Room{});
  EXPECT_EQ(items[1].room, Room{1});
  // Planned pods do not remain.
  items = {gang("low", 2, 8)};
  nodes.find_room(items);
  EXPECT_EQ(items[0].room, Room{1});
}

TEST_F(RoomOnNodes, NodesThatTakeNoPodsHaveNone) {
  node("cordoned", "x", 8, true, R"({"unschedulable":true})");
  node("tainted", "x", 8, true, R"({"taints":[{"key":"k","effect":"NoSchedule"}]})");
  node("broken", "x", 8, false);
  node("gone", "x", 8);
  nodes.drop_node("gone");
  std::vector<DemandUpdated::Item> items{gang("w", 2, 8)};
  nodes.find_room(items);
  EXPECT_EQ(items[0].room, Room{});
}

TEST_F(RoomOnNodes, AGangThatFitsWholeIsPendingForAnotherReason) {
  node("a", "x", 8);
  std::vector<DemandUpdated::Item> items{gang("w", 2, 4), gang("single", 1, 8)};
  nodes.find_room(items);
  EXPECT_EQ(items[0].room, Room{});
  EXPECT_EQ(items[1].room, Room{}) << "a single pod has no part that needs a new node";
}

}  // namespace running_nodes_test
}  // namespace qm::autoscaler
