// Reference manifests of pods and nodes: where the pods that they describe may go, and where not.
#include "little_kube.hpp"
#include "qm/config/manifest.hpp"
#include "qm/placement/api.hpp"
#include "qm/placement/shell.hpp"
#include "qm/testing/testing.hpp"
#include "qm/wire/model.hpp"
#include "src/shell/rules_json.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace qm::placement {
namespace {

namespace pb = quartermaster::v1;

struct NodeKind {
  std::string name, product;
  int gpus = 8;
  Labels labels;
  Json taints = Json::array();
  Json more = Json::object();  ///< allocatable beside CPU, memory and whole GPUs
};

class ReferencePods : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto shared = qm::testing::shared_dir();
    if (!shared || !std::filesystem::is_directory(*shared + "/manifests")) GTEST_SKIP() << qm::testing::no_shared();
    dir_ = *shared + "/manifests/";
  }
  Json fragment(const std::string& name) {
    const auto loaded = config::load_path(dir_ + name);
    EXPECT_EQ(loaded.objects.size(), 1U) << name;
    return loaded.objects.empty() ? Json() : loaded.objects.front().document.content;
  }
  void add(const NodeKind& kind) {
    Json node = testing::make_node(kind.name, kind.gpus);
    Json& labels = node.set("metadata").set("labels");
    labels.set("nvidia.com/gpu.product", kind.product);
    labels.set("nvidia.com/gpu.count", std::to_string(kind.gpus));
    for (const auto& [key, value] : kind.labels) labels.set(key, value);
    node.set("spec").set("taints", kind.taints);
    for (const auto& [resource, amount] : kind.more.members()) {
      node.set("status").set("allocatable").set(resource, amount);
    }
    watched("node", node.dump());
  }
  void watched(const char* kind, const std::string& bytes) {
    service::Input input;
    input.source = service::Source::kWatch;
    input.name = kind;
    input.bytes = bytes;
    const auto commands = Codec().decode(input);
    ASSERT_TRUE(commands) << commands.error().to_string();
    (void)engine_.step(*commands, from_micros(1'000'000));
    engine_.commit();
  }
  /// The pod's spec with one GPU where it asks for none.
  static PodShape shape_of(Json spec) {
    if (spec["containers"].size() == 0) {
      spec.set("containers", *Json::parse(R"([{"name":"c","resources":{"limits":{"nvidia.com/gpu":1}}}])"));
    }
    const auto shape = config::shape_from_pod_spec(spec);
    EXPECT_TRUE(shape) << (shape ? "" : shape.error().to_string());
    return shape ? *shape : PodShape{};
  }
  pb::DryRunResponse dry(const PodShape& shape, int pods = 1) {
    pb::DryRunRequest request;
    PodSet set;
    set.count = pods;
    set.shape = shape;
    *request.add_pod_sets() = wire::to_pb(set);
    const auto answer = dry_run(engine_, request);
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().to_string());
    return answer ? *answer : pb::DryRunResponse{};
  }
  /// The nodes that take the pod, found by asking for as many pods as there is room for.
  std::set<std::string> nodes_for(const PodShape& shape) {
    std::set<std::string> out;
    for (int pods = 1;; ++pods) {
      const auto answer = dry(shape, pods);
      if (!answer.fits()) return out;
      for (const auto& member : answer.members()) out.insert(member.node());
    }
  }

  std::string dir_;
  Engine engine_;
};

const std::string kH100 = "NVIDIA-H100-80GB-HBM3", kA100 = "NVIDIA-A100-SXM4-80GB";
Json taint(const std::string& key, const std::string& value) {
  return Json::array({Json::object({{"key", key}, {"value", value}, {"effect", "NoSchedule"}})});
}

// S-048: of eight H100, four H100 and eight A100, the first alone.
TEST_F(ReferencePods, TheH100SelectorTakesTheFullNodeOnly) {
  add({"full", kH100, 8, {}, Json::array()});
  add({"half", kH100, 4, {}, Json::array()});
  add({"older", kA100, 8, {}, Json::array()});
  EXPECT_EQ(nodes_for(shape_of(fragment("001-node-selector-h100.yaml"))), (std::set<std::string>{"full"}));
}

// S-129: the pod with one small instance goes to the sliced node, and the eighth of them waits.
TEST_F(ReferencePods, AnEighthSmallInstanceWaits) {
  add({"whole", kH100, 8, {}, Json::array()});
  add({"sliced", kH100, 0, {}, Json::array(), fragment("001-node-mig-capacity.yaml")["Capacity"]});
  const PodShape pod = shape_of(fragment("001-pod-bert-inference-mig.yaml")["spec"]);
  EXPECT_EQ(nodes_for(pod), (std::set<std::string>{"sliced"}));
  EXPECT_TRUE(dry(pod, 7).fits());
  const auto eighth = dry(pod, 8);
  EXPECT_FALSE(eighth.fits());
  EXPECT_NE(eighth.reason().find("7 of 8 pods fit"), std::string::npos) << eighth.reason();
  EXPECT_NE(eighth.reason().find("too few free 1g.10gb instances"), std::string::npos) << eighth.reason();
}

// S-061: both labels, or none of it.
TEST_F(ReferencePods, ProductAndZoneMustBothMatch) {
  const std::string zone = "topology.kubernetes.io/zone";
  add({"here", kH100, 8, {{zone, "us-east-1a"}}, Json::array()});
  add({"there", kH100, 8, {{zone, "us-east-1b"}}, Json::array()});
  add({"older", kA100, 8, {{zone, "us-east-1a"}}, Json::array()});
  EXPECT_EQ(nodes_for(shape_of(fragment("002-node-selector-h100-zone.yaml"))), (std::set<std::string>{"here"}));
}

// S-062: the taint keeps out who does not tolerate it, and nobody else.
TEST_F(ReferencePods, TheGpuTaintFiltersByToleration) {
  add({"a", kH100, 8, {}, fragment("002-node-taint-gpu.yaml")["taints"]});
  const auto refused = dry(shape_of(Json::object()));
  EXPECT_FALSE(refused.fits());
  EXPECT_NE(refused.reason().find("taint nvidia.com/gpu=true:NoSchedule not tolerated"), std::string::npos)
      << refused.reason();
  EXPECT_TRUE(dry(shape_of(*Json::parse(R"({"tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"}]})"))).fits());
}

// S-008: the pod lands in its pool; without its toleration it lands nowhere, and the taint is named.
TEST_F(ReferencePods, OnlineInferenceGoesToItsPoolOnly) {
  const std::string pool = "node.kubernetes.io/gpu-pool";
  add({"online", "NVIDIA-A10G", 4, {{pool, "inference-online"}}, taint("gpu-online", "")});
  add({"batch", "NVIDIA-A10G", 4, {{pool, "inference-batch"}}, taint("gpu-batch", "")});
  add({"training", kA100, 8, {{pool, "training"}}, taint("gpu-training", "")});
  Json spec = fragment("000-workload-inference-online.yaml")["spec"];
  EXPECT_EQ(nodes_for(shape_of(spec)), (std::set<std::string>{"online"}));
  spec.erase("tolerations");
  const auto refused = dry(shape_of(spec));
  EXPECT_FALSE(refused.fits());
  EXPECT_NE(refused.reason().find("gpu-online"), std::string::npos) << refused.reason();
  // S-011: nor does tolerating another pool's taint open this one.
  spec.set("tolerations", *Json::parse(R"([{"key":"gpu-training","operator":"Exists","effect":"NoSchedule"}])"));
  EXPECT_FALSE(dry(shape_of(spec)).fits());
}

// S-069: required affinity for NVLink nodes keeps every rank of a gang on them.
TEST_F(ReferencePods, NvlinkAffinityKeepsAGangOnNvlinkNodes) {
  const Json labelled = fragment("001-node-nvlink-labels.yaml")["metadata"]["labels"];
  Labels labels;
  for (const char* key : {"gpu.nvidia.com/nvlink-enabled", "gpu.nvidia.com/nvlink-gpus-per-island"})
    labels[key] = labelled[key].string();
  add({"plain", kH100, 8, {}, Json::array()});
  add({"linked", kH100, 8, labels, Json::array()});
  const auto shape =
      shape_of(*Json::parse(R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
    {"nodeSelectorTerms":[{"matchExpressions":[{"key":"gpu.nvidia.com/nvlink-enabled","operator":"In","values":["true"]}]}]}}}})"));
  const auto gang = dry(shape, 8);
  ASSERT_TRUE(gang.fits()) << gang.reason();
  for (const auto& member : gang.members()) EXPECT_EQ(member.node(), "linked");
  EXPECT_FALSE(dry(shape, 9).fits()) << "the ninth rank waits, although the plain node is empty";
}

// S-284: a gang waits until its shared volume is bound; one whose volume has a single writer is refused on two nodes.
TEST_F(ReferencePods, AGangWaitsForItsVolumeAndAVolumeOfOneNodeIsRefused) {
  add({"a", kH100, 8, {}, Json::array()});
  add({"b", kH100, 8, {}, Json::array()});
  Json claim = fragment("001-pvc-llama2-dataset.yaml");
  const std::string name = kube::name_of(claim), ns = kube::namespace_of(claim);
  watched("claim", claim.dump());
  for (const char* list : {"claim.synced", "volume.synced", "class.synced"}) {
    watched(list, std::string(list) == "claim.synced" ? Json::array({"claim/" + ns + "/" + name}).dump() : "[]");
  }
  PodSet set;
  set.count = 2;
  set.shape = shape_of(Json::object());
  set.shape.gpu.whole = 8;
  set.rules = rules_text(
      Namespace(ns),
      Json::object(
          {{"spec", Json::object({{"volumes", Json::array({Json::object({{"persistentVolumeClaim",
                                                                          Json::object({{"claimName", name}})}})})}})}})
          .dump());
  EXPECT_EQ(engine_.dry_run({set}).shortfall.reason,
            "0 of 2 pods fit: claim llama2-dataset is not bound to a volume yet");

  claim.set("spec").set("volumeName", "pv-1");
  claim.set("status").set("phase", "Bound");
  watched("volume", R"({"metadata":{"name":"pv-1"}})");
  watched("claim", claim.dump());
  EXPECT_TRUE(engine_.dry_run({set}).plan) << "many nodes may have it";

  claim.set("spec").set("accessModes", Json::array({"ReadWriteOnce"}));
  watched("claim", claim.dump());
  const auto refused = engine_.dry_run({set});
  EXPECT_FALSE(refused.plan);
  EXPECT_EQ(refused.shortfall.reason.find("claim llama2-dataset is used on one node at a time"), 0U)
      << refused.shortfall.reason;
  set.count = 1;
  EXPECT_TRUE(engine_.dry_run({set}).plan);
}

// S-147: a tenant's pool of slices takes nobody who does not tolerate its taint, value and all.
TEST_F(ReferencePods, TheTenantsMigPoolTakesItsTenantsOnly) {
  const Json tenant = fragment("001-node-mig-tenant-pool.yaml");
  Labels labels;
  for (const auto& [key, value] : tenant["metadata"]["labels"].members()) labels[key] = value.string();
  const auto slices = Json::object({{"nvidia.com/mig-1g.10gb", "7"}});
  add({"tenant", kH100, 0, labels, tenant["spec"]["taints"], slices});
  Json spec = fragment("001-pod-bert-inference-mig.yaml")["spec"];
  const auto tolerating = [&](const std::string& tolerations) {
    spec.set("tolerations", *Json::parse(tolerations));
    return shape_of(spec);
  };
  for (const char* others : {"[]", R"([{"key":"nvidia.com/gpu","operator":"Exists"}])",
                             R"([{"key":"mig-enabled","operator":"Equal","value":"false","effect":"NoSchedule"}])",
                             R"([{"key":"mig-enabled","operator":"Exists","effect":"NoExecute"}])"}) {
    const auto refused = dry(tolerating(others));
    EXPECT_FALSE(refused.fits()) << others;
    EXPECT_NE(refused.reason().find("taint mig-enabled=true:NoSchedule not tolerated"), std::string::npos)
        << refused.reason();
  }
  const auto welcome = tolerating(R"([{"key":"mig-enabled","operator":"Equal","value":"true","effect":"NoSchedule"}])");
  add({"open", kH100, 0, {}, Json::array(), slices});
  EXPECT_EQ(nodes_for(tolerating("[]")), (std::set<std::string>{"open"})) << "the eighth pod does not go to the tenant";
  EXPECT_EQ(nodes_for(welcome), (std::set<std::string>{"open", "tenant"}));
}

// S-376: an Exists toleration matches the taint with any value or none, an Equal one only its own value.
TEST_F(ReferencePods, TaintsMatchByKeyOrByValue) {
  const auto tolerating = [](const std::string& text) {
    return shape_of(*Json::parse(R"({"tolerations":[)" + text + "]}"));
  };
  const auto exists = tolerating(R"({"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"})");
  const auto present =
      tolerating(R"({"key":"nvidia.com/gpu","operator":"Equal","value":"present","effect":"NoSchedule"})");
  add({"present", kH100, 1, {}, taint("nvidia.com/gpu", "present")});
  add({"true", kH100, 1, {}, taint("nvidia.com/gpu", "true")});
  add({"none", kH100, 1, {}, taint("nvidia.com/gpu", "")});
  EXPECT_EQ(nodes_for(exists), (std::set<std::string>{"none", "present", "true"}));
  EXPECT_EQ(nodes_for(present), (std::set<std::string>{"present"}));
}

}  // namespace
}  // namespace qm::placement
