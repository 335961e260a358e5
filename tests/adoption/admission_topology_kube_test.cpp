// Admission alone with a Topology: it assigns the pods of a Job to nodes, and the cluster's own scheduler binds them there.
#include "adoption.hpp"

#include <algorithm>
#include <set>

namespace qm::adoption {
namespace admission_topology_kube_test {

using kube::resources::kJobs;
using kube::resources::kNodes;
using kube::resources::kPods;
using namespace std::chrono_literals;

constexpr const char* kRack = "example.com/rack";

class AdmissionTopology : public Adoption {
 protected:
  /// Two racks of two nodes with eight GPUs each, as a Topology whose flavor is the only one of the queue.
  void racks() {
    for (const auto* rack : {"r1", "r1", "r2", "r2"}) {
      const auto name = fmt::format("{}-{}", own("rack"), machines_.size());
      machines_.push_back(create_instance(name));
      const auto& node = machines_.back().node;
      ASSERT_TRUE(comes([&] { return !get(kNodes, node).is_null(); })) << node;
      const auto labels = Json::object({{kRack, own(rack)}, {"kubernetes.io/hostname", node}});
      ASSERT_TRUE(
          client().merge_patch(kNodes, "", node, Json::object({{"metadata", Json::object({{"labels", labels}})}})));
    }
    const auto found = client().find_kind("kueue.x-k8s.io", "topologies", {"v1beta2", "v1beta1"});
    ASSERT_TRUE(found);
    const auto level = [](const char* label) { return Json::object({{"nodeLabel", label}}); };
    create(*found,
           Json::object(
               {{"apiVersion", "kueue.x-k8s.io/" + found->version},
                {"kind", "Topology"},
                {"metadata", Json::object({{"name", own("hall")}})},
                {"spec", Json::object({{"levels", Json::array({level(kRack), level("kubernetes.io/hostname")})}})}}));
    queues(100);
    const auto spec =
        Json::object({{"nodeLabels", Json::object({{kPool, own("pool")}})}, {"topologyName", own("hall")}});
    ASSERT_TRUE(client().merge_patch(flavors_, "", own("f"), Json::object({{"spec", spec}})));
  }
  void TearDown() override {
    Adoption::TearDown();
    for (const auto& machine : machines_) terminate_instance(machine);
  }
  /// Four pods of four GPUs that all need one rack.
  Json gang(const std::string& name, int run_s) {
    auto out = job(name, 4, run_s);
    out.set("spec").set("parallelism", 4).set("completions", 4);
    out.set("spec")
        .set("template")
        .set("metadata")
        .set("annotations")
        .set("kueue.x-k8s.io/podset-required-topology", kRack);
    return out;
  }
  std::vector<Json> pods_of(const std::string& name) {
    std::vector<Json> out;
    for (auto& pod : client().list_all(kPods, ns()).value_or(std::vector<Json>())) {
      if (kube::name_of(pod).starts_with(name + "-")) out.push_back(std::move(pod));
    }
    return out;
  }
  bool runs(const std::string& name) {
    const auto pods = pods_of(name);
    return pods.size() == 4 &&
           std::ranges::all_of(pods, [](const Json& pod) { return !pod.path("spec.nodeName").string().empty(); });
  }
  std::set<std::string> racks_of(const std::string& name) {
    std::set<std::string> out;
    for (const auto& pod : pods_of(name))
      out.insert(kube::label(get(kNodes, pod.path("spec.nodeName").string()), kRack));
    return out;
  }
  std::vector<Machine> machines_;
};

TEST_F(AdmissionTopology, GangRunsInOneRackAndNextOneWaitsUntilOneIsFree) {
  racks();
  // A pod that admission does not manage takes a GPU in one of the racks: four pods of four GPUs no longer fit there.
  auto other = pod("other", 1, 6000);
  other.set("spec").set("nodeSelector").set("kubernetes.io/hostname", machines_[2].node);
  create(kPods, std::move(other));
  ASSERT_TRUE(comes([&] { return !get(kPods, "other").path("spec.nodeName").string().empty(); }));

  const auto admission = service("admission", {"quota=quartermaster", "placement=none"});
  create(kJobs, gang("first", 6000));
  ASSERT_TRUE(comes([&] { return runs("first"); }, 120s)) << admission->log();
  EXPECT_EQ(racks_of("first"), std::set<std::string>{own("r1")});
  for (const auto& pod : pods_of("first")) {
    EXPECT_EQ(pod.path("spec.nodeSelector")["kubernetes.io/hostname"].string(), pod.path("spec.nodeName").string());
    EXPECT_EQ(pod["spec"]["schedulingGates"].size(), 0U);
  }

  create(kJobs, gang("second", 6000));
  const auto uid = kube::uid_of(get(kJobs, "second"));
  ASSERT_TRUE(comes([&] {
    return admission->page("/debug/explain?uid=" + uid).find("allows to fit only 3 out of 4 pod(s)") !=
           std::string::npos;
  })) << admission->page("/debug/explain?uid=" + uid);
  EXPECT_TRUE(get(kJobs, "second")["spec"]["suspend"].boolean());

  ASSERT_TRUE(client().remove(kJobs, ns(), "first", {{}, 0, "Background"}));
  EXPECT_TRUE(comes([&] { return runs("second"); }, 120s)) << admission->log();
  EXPECT_EQ(racks_of("second"), std::set<std::string>{own("r1")});

  // Without one of its nodes it is evicted, and no rack has the capacity now. The controllers of the cluster delete the
  // pods of the lost node after about a minute.
  terminate_instance(machines_[0]);
  EXPECT_TRUE(comes([&] { return get(kJobs, "second")["spec"]["suspend"].boolean(); }, 120s)) << admission->log();
  EXPECT_TRUE(comes(
      [&] { return admission->page("/debug/explain?uid=" + uid).find("TopologyPlacementFailed") != std::string::npos; },
      180s))
      << admission->page("/debug/explain?uid=" + uid);
}

}  // namespace admission_topology_kube_test
}  // namespace qm::adoption
