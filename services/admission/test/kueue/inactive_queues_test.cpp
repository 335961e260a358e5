// Queues that are inactive because of the objects that they name: flavors, topologies and checks.
#include "qm/admission/kueue/objects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission::kueue {
namespace inactive_queues_test {

Json parsed(const std::string& text) { return *Json::parse(text); }

class InactiveQueues : public ::testing::Test {
 protected:
  InactiveQueues() {
    objects_.topologies = std::make_shared<Topologies>();
    objects_.add_topology(parsed(R"({"metadata":{"name":"racks"},"spec":{"levels":[{"nodeLabel":"rack"}]}})"));
    flavor("one");
    flavor("two");
  }
  void flavor(const std::string& name, const std::string& spec = "{}") {
    objects_.add_flavor(parsed(fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{}}})", name, spec)));
  }
  void check(const std::string& name, const std::string& controller, bool active = true) {
    objects_.add_check(
        parsed(fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"controllerName":"kueue.x-k8s.io/{}"}},
        "status":{{"conditions":[{{"type":"Active","status":"{}"}}]}}}})",
                           name, controller, active ? "True" : "False")));
  }
  /// Whether a queue with these flavors is inactive; `more` is merged into its spec.
  bool inactive(const std::vector<std::string>& flavors, const std::string& more = "{}") {
    Json offers = Json::array();
    for (const auto& name : flavors) {
      offers.push_back(parsed(fmt::format(R"({{"name":"{}","resources":[{{"name":"cpu","nominalQuota":1}}]}})", name)));
    }
    auto object = parsed(R"({"metadata":{"name":"q"},"spec":{"resourceGroups":[{"coveredResources":["cpu"]}]}})");
    object.set("spec").set("resourceGroups").items_mut()[0].set("flavors", std::move(offers));
    object.set("spec").merge_patch(parsed(more));
    objects_.forest.queues.clear();
    Objects objects = objects_;
    objects.topologies = std::make_shared<Topologies>();
    objects.add_queue(object);
    const auto planted = objects.plant();
    const auto [field, node] = planted.queues.at("q");
    return planted.fields.at(field).rules.at(static_cast<std::size_t>(node)).inactive;
  }
  static std::string checks(const std::string& list) {
    return R"({"admissionChecksStrategy":{"admissionChecks":[)" + list + "]}}";
  }

  Objects objects_;
};

TEST_F(InactiveQueues, FlavorsMustExist) {
  EXPECT_FALSE(inactive({"one", "two"}));
  EXPECT_TRUE(inactive({"one", "lost"}));
  EXPECT_TRUE(inactive({"lost"}));
  EXPECT_FALSE(inactive({})) << "no flavor is missing";
}

TEST_F(InactiveQueues, QueueMustNotBeStopped) {
  EXPECT_FALSE(inactive({"one"}, R"({"stopPolicy":"None"})"));
  EXPECT_TRUE(inactive({"one"}, R"({"stopPolicy":"Hold"})"));
  EXPECT_TRUE(inactive({"one"}, R"({"stopPolicy":"HoldAndDrain"})"));
}

TEST_F(InactiveQueues, TopologiesMustExistUnlessNodesAreChosenInAnotherCluster) {
  flavor("racked", R"({"topologyName":"racks"})");
  flavor("adrift", R"({"topologyName":"gone"})");
  check("away", "multikueue");
  EXPECT_FALSE(inactive({"racked"}));
  EXPECT_TRUE(inactive({"adrift"}));
  EXPECT_FALSE(inactive({"adrift"}, checks(R"({"name":"away"})")));
}

TEST_F(InactiveQueues, ChecksMustExistAndBeActive) {
  check("ready", "other");
  check("broken", "other", false);
  EXPECT_FALSE(inactive({"one"}, checks(R"({"name":"ready"})")));
  EXPECT_TRUE(inactive({"one"}, checks(R"({"name":"broken"})")));
  EXPECT_TRUE(inactive({"one"}, checks(R"({"name":"ready"},{"name":"unknown"})")));
}

TEST_F(InactiveQueues, AtMostOneClusterDispatcherForAllFlavorsAndNoProvisioning) {
  check("away", "multikueue");
  check("far", "multikueue");
  check("machines", "provisioning-request");
  EXPECT_FALSE(inactive({"one", "two"}, checks(R"({"name":"away"})")));
  EXPECT_FALSE(inactive({"one", "two"}, checks(R"({"name":"away","onFlavors":["two","one"]})")));
  EXPECT_TRUE(inactive({"one", "two"}, checks(R"({"name":"away","onFlavors":["one"]})")));
  EXPECT_TRUE(inactive({"one"}, checks(R"({"name":"away"},{"name":"far"})")));
  EXPECT_TRUE(inactive({"one"}, checks(R"({"name":"machines"},{"name":"away"})")));
  EXPECT_FALSE(inactive({"one"}, checks(R"({"name":"machines"})")));
  const auto policy =
      R"({"concurrentAdmissionPolicy":{},"admissionChecksStrategy":{"admissionChecks":[{"name":"away"}]}})";
  EXPECT_FALSE(inactive({"one"}, policy)) << "the gate is off";
  objects_.variants = true;
  EXPECT_TRUE(inactive({"one"}, policy));
}

TEST_F(InactiveQueues, DuplicateCheckHasFlavorsOfBoth) {
  check("away", "multikueue");
  EXPECT_FALSE(inactive({"one"}, checks(R"({"name":"away"},{"name":"away"})")));
  const auto apart = checks(R"({"name":"away","onFlavors":["one"]},{"name":"away","onFlavors":["two"]})");
  EXPECT_FALSE(inactive({"one", "two"}, apart));
  const auto same = checks(R"({"name":"away","onFlavors":["one"]},{"name":"away","onFlavors":["one"]})");
  EXPECT_TRUE(inactive({"one", "two"}, same));
  EXPECT_FALSE(inactive({"one", "two"}, checks(R"({"name":"away"},{"name":"away","onFlavors":["one"]})")))
      << "of all flavors once";
}

TEST_F(InactiveQueues, ReaddedQueueHasItsLastChecksAndPolicy) {
  check("away", "multikueue");
  objects_.variants = true;
  objects_.add_queue(parsed(R"({"metadata":{"name":"q"},"spec":{"concurrentAdmissionPolicy":{},
      "admissionChecksStrategy":{"admissionChecks":[{"name":"unknown"}]}}})"));
  EXPECT_FALSE(inactive({"one"}));
  EXPECT_FALSE(inactive({"one"}, checks(R"({"name":"away"})"))) << "its policy was removed";
}

}  // namespace inactive_queues_test
}  // namespace qm::admission::kueue
