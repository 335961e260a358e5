// Placement alone, selected by schedulerName: it places pods without admission, and gangs as a whole.
#include "adoption.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"

#include <algorithm>
#include <set>

namespace qm::adoption {
namespace placement_alone_kube_test {

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
  // A scheduling gate keeps the pod pending for every scheduler.
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
  create(kPods, pod("with", 1, 1, "quartermaster"));
  ASSERT_TRUE(comes([&] { return !node_of("with").empty(); })) << placement->log();
  EXPECT_TRUE(node_of("gang-0").empty()) << "half a gang";
  ASSERT_TRUE(comes([&] { return get(kPods, "with").path("status.phase").string() == "Succeeded"; }));
  create(kPods, member("gang-1"));
  ASSERT_TRUE(comes([&] { return !node_of("gang-0").empty() && !node_of("gang-1").empty(); })) << placement->log();
  EXPECT_NE(node_of("gang-0"), node_of("gang-1"));
  // There is not enough free capacity for more, and a condition of the pod reports it.
  create(kPods, pod("big", 800, 1, "quartermaster"));
  EXPECT_TRUE(comes([&] {
    const auto big = get(kPods, "big");
    for (const auto& condition : big.path("status.conditions").items()) {
      if (condition["reason"].string() == "Unschedulable") return true;
    }
    return false;
  })) << placement->log();
}

TEST_F(PlacementAlone, PodsFollowTheirAffinityAndAntiAffinity) {
  const auto placement = service("placement", {"quota=none"});
  const auto with = [&](const std::string& name, const std::string& app, const char* rule) {
    auto made = pod(name, 1, 60, "quartermaster");
    made.set("metadata").set("labels").set("app", app);
    made.set("spec").set("affinity",
                         *Json::parse(fmt::format(R"({{"{}":{{"requiredDuringSchedulingIgnoredDuringExecution":[
          {{"topologyKey":"kubernetes.io/hostname","labelSelector":{{"matchLabels":{{"app":"front"}}}}}}]}}}})",
                                                  rule)));
    return made;
  };
  create(kPods, with("back", "back", "podAffinity"));
  create(kPods, with("front-0", "front", "podAntiAffinity"));
  create(kPods, with("front-1", "front", "podAntiAffinity"));
  ASSERT_TRUE(comes([&] {
    return !node_of("back").empty() && !node_of("front-0").empty() && !node_of("front-1").empty();
  })) << placement->log();
  EXPECT_NE(node_of("front-0"), node_of("front-1"));
  EXPECT_TRUE(node_of("back") == node_of("front-0") || node_of("back") == node_of("front-1"));
}

// S-098: the PodGroups of the manifests, unchanged. With one free GPU too few no pod of the group is bound, with
// enough all are.
TEST_F(PlacementAlone, AVolcanoGroupOfEightIsBoundWholeOrNotAtAll) {
  if (cluster().aws.empty()) GTEST_SKIP() << "there is no cloud with this cluster";
  definitions("volcano.yaml");
  const kube::Resource groups{"scheduling.volcano.sh", "v1beta1", "podgroups", true};
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto loaded = config::load_path(
        manifests.dir + manifests.pick("volcano-podgroup-registration.yaml", "001-volcano-podgroup.yaml"));
    ASSERT_EQ(loaded.objects.size(), 1U);
    const auto& group = loaded.objects.front().document.content;
    const int least = manifests.pick(6, 8);
    ASSERT_EQ(group.path("spec.minMember").integer(), least);
    const auto machine = create_instance(own(manifests.name()));
    ASSERT_TRUE(comes([&] {
      const auto node = client().get(kube::resources::kNodes, "", machine.node);
      return node && (*node)["status"]["allocatable"]["nvidia.com/gpu"].string() == "8";
    }));
    const auto placement = service("placement", {"quota=none"});
    const auto here = [&](Json pod) {
      pod.set("spec").set("nodeSelector", Json::object({{"kubernetes.io/hostname", machine.node}}));
      return pod;
    };
    const auto other = manifests.name() + "-other";
    create(kPods, here(pod(other, 8 - least + 1, 6000, "quartermaster")));
    ASSERT_TRUE(comes([&] { return !node_of(other).empty(); })) << placement->log();
    create(groups, group);
    std::vector<std::string> members;
    for (int i = 0; i < least; ++i) {
      members.push_back(fmt::format("{}-rank-{}", manifests.name(), i));
      auto member = here(pod(members.back(), 1, 5, "quartermaster"));
      member.set("metadata").set("annotations").set("scheduling.k8s.io/group-name", kube::name_of(group));
      create(kPods, member);
    }
    const auto bound = [&] {
      return std::count_if(members.begin(), members.end(), [&](const auto& name) { return !node_of(name).empty(); });
    };
    const auto has_no_capacity = [&](const std::string& name) {
      return get(kPods, name).path("status.conditions").dump().find("Unschedulable") != std::string::npos;
    };
    ASSERT_TRUE(comes([&] { return has_no_capacity(members.front()); })) << placement->log();
    EXPECT_EQ(bound(), 0) << "one GPU less than it needs is free";
    ASSERT_TRUE(client().remove(kPods, ns(), other, {}));
    ASSERT_TRUE(comes([&] { return bound() == least; })) << placement->log();
    // One decision for all of them: each pod has its own device of the same node.
    std::set<std::string> devices;
    for (const auto& name : members) {
      const auto object = get(kPods, name);
      devices.insert(kube::annotation(object, "quartermaster.dev/devices"));
      EXPECT_EQ(object.path("spec.nodeName").string(), machine.node);
    }
    EXPECT_EQ(devices.size(), static_cast<std::size_t>(least));
    terminate_instance(machine);
  }
}

// S-110: quota, then the gang as a whole, for pods that name a PodGroup; pods without the annotation are bound by the
// scheduler of the cluster.
TEST_F(PlacementAlone, AnAnnotatedGangPassesQuotaThenTheGangAndAPlainPodNeither) {
  definitions("volcano.yaml");
  const kube::Resource groups{"scheduling.volcano.sh", "v1beta1", "podgroups", true};
  queues(4);
  create(groups, Json::object({{"apiVersion", "scheduling.volcano.sh/v1beta1"},
                               {"kind", "PodGroup"},
                               {"metadata", Json::object({{"name", "train"}, {"namespace", ns()}})},
                               {"spec", Json::object({{"minMember", 2}})}}));
  std::string why_not;
  const auto database = testing::Postgres::shared(&why_not)->fresh_database();  // also used as the bus between the two
  const auto admission =
      std::make_unique<Service>("admission", cluster(), database, std::vector<std::string>{"quota=quartermaster"});
  const auto placement =
      std::make_unique<Service>("placement", cluster(), database, std::vector<std::string>{"quota=quartermaster"});
  create(kPods, pod("plain", 1, 3));
  const auto member = [&](const std::string& name) {
    auto made = pod(name, 2, 3, "quartermaster");
    gate(made);
    made.set("metadata").set("annotations").set("scheduling.k8s.io/group-name", "train");
    return made;
  };
  create(kPods, member("train-0"));
  ASSERT_TRUE(comes([&] { return get(kPods, "plain").path("status.phase").string() == "Succeeded"; }));
  const auto plain = get(kPods, "plain");
  EXPECT_TRUE(kube::annotation(plain, "quartermaster.dev/workload").empty());
  EXPECT_TRUE(kube::annotation(plain, "quartermaster.dev/devices").empty());
  EXPECT_TRUE(node_of("train-0").empty()) << "half a gang";
  create(kPods, member("train-1"));
  ASSERT_TRUE(comes([&] { return !node_of("train-0").empty() && !node_of("train-1").empty(); }))
      << admission->log() << placement->log();
  for (const char* name : {"train-0", "train-1"}) {
    const auto object = get(kPods, name);
    EXPECT_FALSE(kube::annotation(object, "quartermaster.dev/workload").empty()) << "quota first";
    EXPECT_FALSE(kube::annotation(object, "quartermaster.dev/devices").empty()) << "then the gang";
  }
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

}  // namespace placement_alone_kube_test
}  // namespace qm::adoption
