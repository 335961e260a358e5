// Placement alone, chosen by schedulerName: pods are placed without any word of admission, gangs as a whole.
#include "adoption.hpp"

namespace qm::adoption {
namespace {

using kube::resources::kPods;
using namespace std::chrono_literals;

class PlacementAlone : public Adoption {
 protected:
  std::string node_of(const std::string& pod) { return get(kPods, pod).path("spec.nodeName").string(); }
};

TEST_F(PlacementAlone, PodsThatNameItArePlacedAndOthersAreNot) {
  const auto placement = service("placement", {"quota=none", "binding=auto"});
  create(kPods, pod("mine", 2, 20, "quartermaster"));
  create(kPods, pod("theirs", 2, 20, "volcano"));
  ASSERT_TRUE(comes([&] { return !node_of("mine").empty(); })) << placement->log();
  EXPECT_FALSE(kube::annotation(get(kPods, "mine"), "quartermaster.dev/devices").empty());
  EXPECT_TRUE(node_of("theirs").empty());
  // A gate keeps it from us as from any scheduler.
  auto waits = pod("waits", 1, 20, "quartermaster");
  waits.set("spec").set("schedulingGates", Json::array({Json::object({{"name", "example.com/wait"}})}));
  create(kPods, waits);
  create(kPods, pod("after", 1, 20, "quartermaster"));
  ASSERT_TRUE(comes([&] { return !node_of("after").empty(); }));
  EXPECT_TRUE(node_of("waits").empty());
  const auto lift = Json::object({{"spec", Json::object({{"schedulingGates", Json()}})}});
  ASSERT_TRUE(client().merge_patch(kPods, ns(), "waits", lift));
  EXPECT_TRUE(comes([&] { return !node_of("waits").empty(); })) << placement->log();
}

TEST_F(PlacementAlone, AGangIsPlacedWhole) {
  const auto placement = service("placement", {"quota=none"});
  const auto member = [&](const std::string& name) {
    auto made = pod(name, 8, 20, "quartermaster");
    made.set("metadata").set("labels").set("kueue.x-k8s.io/pod-group-name", "gang");
    made.set("metadata").set("annotations").set("kueue.x-k8s.io/pod-group-total-count", "2");
    return made;
  };
  create(kPods, member("gang-0"));
  create(kPods, pod("beside", 1, 1, "quartermaster"));
  ASSERT_TRUE(comes([&] { return !node_of("beside").empty(); })) << placement->log();
  EXPECT_TRUE(node_of("gang-0").empty()) << "half a gang";
  ASSERT_TRUE(comes([&] { return get(kPods, "beside").path("status.phase").string() == "Succeeded"; }));
  create(kPods, member("gang-1"));
  ASSERT_TRUE(comes([&] { return !node_of("gang-0").empty() && !node_of("gang-1").empty(); })) << placement->log();
  EXPECT_NE(node_of("gang-0"), node_of("gang-1"));
  // There is no room for more, and the pod says so.
  create(kPods, pod("big", 800, 1, "quartermaster"));
  EXPECT_TRUE(comes([&] {
    const auto big = get(kPods, "big");
    for (const auto& condition : big.path("status.conditions").items()) {
      if (condition["reason"].string() == "Unschedulable") return true;
    }
    return false;
  })) << placement->log();
}

TEST_F(PlacementAlone, ANamespaceThatAnotherBindsIsNotTouched) {
  label_namespace("quartermaster.dev/binding", "default-scheduler");
  const auto placement = service("placement", {"quota=none"});
  create(kPods, pod("theirs", 1, 20, "quartermaster"));
  ASSERT_TRUE(comes([&] {
    return placement->state().path("engine.pods").integer() > 0 || placement->state()["pods"].integer() > 0;
  }));
  EXPECT_TRUE(node_of("theirs").empty());
  label_namespace("quartermaster.dev/binding", "quartermaster");
  EXPECT_TRUE(comes([&] { return !node_of("theirs").empty(); })) << placement->log();
}

}  // namespace
}  // namespace qm::adoption
