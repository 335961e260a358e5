// Each way in which a tenant may create a pod that looks like one of another workload: no such pod
// gets the reservation, is counted, is adopted, or is deleted in its place.
#include "qm/testing/forged_pods.hpp"

#include "messages.hpp"
#include "qm/testing/state.hpp"

#include <gtest/gtest.h>

namespace qm::placement {
namespace forged_pods_test {

using namespace testing;

/// As the API server returns it: with a uid, and in a phase.
Json shown(const Json& manifest, const std::string& phase, const std::string& node) {
  Json pod = manifest;
  pod.set("metadata").set("uid", "uid-forged");
  if (!node.empty()) pod.set("spec").set("nodeName", node);
  pod.set("status").set("phase", phase);
  return pod;
}

bool names_forged(const service::Effects& effects, const std::string& kind) {
  return std::ranges::any_of(effects.intents, [&](const auto& intent) {
    return intent.kind == kind && Json::parse(intent.payload)->path("pod_uid").string() == "uid-forged";
  });
}

const Assignment* row_of(const Stepped& stepped) {
  return static_cast<const Shell&>(stepped.shell).engine().tables().assignments.find({WorkloadUid("w"), 1});
}

bool has_forged(const Assignment& row) {
  return std::ranges::any_of(row.members, [](const Member& m) { return m.pod_uid == "uid-forged"; });
}

class ForgedPodsOf : public ::testing::TestWithParam<qm::testing::ForgedPod> {};

TEST_P(ForgedPodsOf, GetNothing) {
  const Json& manifest = GetParam().manifest;
  const bool by_itself = !manifest.path("spec.nodeName").string().empty();
  for (const bool first : {true, false}) {
    // The forged pod is created before its target, or after it.
    Stepped stepped;
    stepped.open();
    const auto pending = watch_of("pod", shown(manifest, "Pending", ""));
    const auto wanted = latest(workload_event("w", 1, pb::QUOTA_RESERVED, 1, 1));
    auto effects = stepped.step(first ? std::vector<service::Input>{pending} : std::vector<service::Input>{wanted});
    EXPECT_FALSE(names_forged(effects, "pod.bind"));
    effects = stepped.step(first ? std::vector<service::Input>{wanted} : std::vector<service::Input>{pending});
    EXPECT_FALSE(names_forged(effects, "pod.bind"));
    EXPECT_FALSE(has_forged(*row_of(stepped)));

    // It runs on the reserved node itself, and succeeds with the rank that it names.
    const std::string node = by_itself ? manifest.path("spec.nodeName").string() : "a";
    for (const char* phase : {"Running", "Succeeded"}) {
      effects = stepped.step({watch_of("pod", shown(manifest, phase, node))});
      EXPECT_FALSE(has_forged(*row_of(stepped))) << phase;
      EXPECT_EQ(row_of(stepped)->members.at(0).bound, Instant{}) << phase;
      EXPECT_EQ(row_of(stepped)->members.at(0).released, Instant{}) << phase;
    }
    EXPECT_TRUE(
        static_cast<const Shell&>(stepped.shell).engine().tables().workloads.find(WorkloadUid("w"))->done.empty());

    // The workload's own pod is bound, and evicted without the forged one.
    stepped.step({watch_of("pod", shown(manifest, "Running", node))});
    effects = stepped.step({watch_of("pod", make_pod("own", "w", 1, 0, 1))});
    ASSERT_EQ(effects.intents.size(), 1U);
    EXPECT_EQ(effects.intents[0].kind, "pod.bind");
    EXPECT_EQ(Json::parse(effects.intents[0].payload)->path("pod_uid").string(), "uid-own");
    effects = stepped.step({latest(workload_event("w", 1, pb::EVICTING, 1, 1))});
    EXPECT_FALSE(names_forged(effects, "pod.delete"));
    EXPECT_EQ(std::ranges::count(effects.intents, "pod.delete", &store::IntentRow::kind), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ForgedPodsOf,
                         ::testing::ValuesIn(qm::testing::forged_pods({"team", "j", "w", "1", "0", "w/1", "a", "0"},
                                                                      "other")),
                         [](const auto& of) {
                           std::string name = of.param.what;
                           std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

// The workload that a pod names is kept separate from its controller: the engine compares them.
TEST(ForgedPods, NamedWorkloadAndController) {
  auto json = make_pod("p", "job-uid", 3, 5, 2);
  auto pod = only<PodUpdated>(watch_of("pod", json)).pod;
  EXPECT_EQ(pod.controller, WorkloadUid("job-uid"));
  EXPECT_EQ(pod.controller_kind, "Job");
  json.set("metadata")
      .set("annotations")
      .set("quartermaster.dev/workload", "another")
      .set("quartermaster.dev/index", "1");
  pod = only<PodUpdated>(watch_of("pod", json)).pod;
  EXPECT_EQ(pod.owner, WorkloadUid("another"));
  EXPECT_EQ(pod.controller, WorkloadUid("job-uid"));
  // An owner that is not the controller does not count.
  json.set("metadata").erase("annotations");
  json.set("metadata").set("ownerReferences").items_mut()[0].set("controller", false);
  pod = only<PodUpdated>(watch_of("pod", json)).pod;
  EXPECT_TRUE(pod.owner.empty());
  EXPECT_TRUE(pod.controller.empty());
  EXPECT_FALSE(pod.daemon);
}

TEST(ForgedPods, PodOfAnotherNamespaceGetsAConditionAndIsCounted) {
  metrics::Registry registry;
  Shell shell(std::make_unique<Engine>(), Codec(std::make_shared<Meters>(registry)));
  auto forged = make_pod("p", "w", 1, 0, 4);
  forged.set("metadata").set("namespace", "other");
  forged.set("metadata").erase("ownerReferences");
  forged.set("metadata").set("annotations").set("quartermaster.dev/workload", "w");
  const std::vector<Input> inputs{latest(workload_event("w", 1, pb::QUOTA_RESERVED, 1, 4)), watch_of("pod", forged)};
  service::Effects effects;
  std::vector<std::pair<std::size_t, Error>> poison;
  shell.step(inputs, from_micros(1), effects, poison);
  shell.commit();
  ASSERT_EQ(effects.intents.size(), 1U);
  EXPECT_EQ(effects.intents[0].kind, "pod.unschedulable");
  EXPECT_EQ(effects.intents[0].key, "pod/other/p");
  EXPECT_EQ(
      Json::parse(effects.intents[0].payload)->path("message").string(),
      "annotation quartermaster.dev/workload names workload w, and the pod is not one of its pods (OtherNamespace): remove the "
      "annotation, or let the controller of the workload create the pod");
  EXPECT_NE(registry.text().find("qm_placement_foreign_pods_total{reason=\"OtherNamespace\"} 1"), std::string::npos);
  const auto dump = qm::testing::whole_state<service::StateDump>(shell);
  EXPECT_EQ(dump.path("foreign_pods").at(0)["pod"].string(), "other/p");
  EXPECT_EQ(dump.path("foreign_pods").at(0)["reason"].string(), "OtherNamespace");
}

TEST(ForgedPods, WorkloadOfAdmissionIgnoresLabels) {
  auto event = workload_event("w", 1, pb::QUOTA_RESERVED, 1, 4);
  (*event.mutable_spec()->mutable_labels())[kUnadmitted] = "true";
  EXPECT_FALSE(only<WorkloadUpdated>(latest(event)).spec.labels.contains(kUnadmitted));
}

}  // namespace forged_pods_test
}  // namespace qm::placement
