// Manifests of pods and nodes, the project's own and the reference ones if they are present: where
// the pods may be placed, and where not.
#include "little_kube.hpp"
#include "qm/config/manifest.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/placement/api.hpp"
#include "qm/placement/shell.hpp"
#include "qm/testing/manifests.hpp"
#include "qm/wire/model.hpp"

#include <gtest/gtest.h>

namespace qm::placement {
namespace reference_test {

namespace pb = quartermaster::v1;

struct NodeKind {
  std::string name, product;
  int gpus = 8;
  Labels labels;
  Json taints = Json::array();
  Json more = Json::object();  ///< allocatable resources in addition to CPU, memory and whole GPUs
};

class ReferencePods : public ::testing::TestWithParam<qm::testing::Manifests> {
 protected:
  Json fragment(const std::string& name) {
    const auto loaded = config::load_path(GetParam().dir + name);
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
  /// The shape of the pod's spec, with one GPU if it requests none.
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
  /// The nodes that fit the pod, found by requesting more and more pods until they no longer fit.
  std::set<std::string> nodes_for(const PodShape& shape) {
    std::set<std::string> out;
    for (int pods = 1;; ++pods) {
      const auto answer = dry(shape, pods);
      if (!answer.fits()) return out;
      for (const auto& member : answer.members()) out.insert(member.node());
    }
  }

  Engine engine_;
};

const std::string kH100 = "NVIDIA-H100-80GB-HBM3", kA100 = "NVIDIA-A100-SXM4-80GB",
                  kZone = "topology.kubernetes.io/zone";
Json taint(const std::string& key, const std::string& value) {
  return Json::array({Json::object({{"key", key}, {"value", value}, {"effect", "NoSchedule"}})});
}

// S-048: of eight H100, four H100 and eight A100, the first alone; of the same in A100, where four
// are selected, the second.
TEST_P(ReferencePods, H100SelectorMatchesTheFullNodeOnly) {
  const std::string model = GetParam().pick(kA100, kH100), other = GetParam().pick(kH100, kA100);
  add({"full", model, 8, {}, Json::array()});
  add({"half", model, 4, {}, Json::array()});
  add({"other", other, GetParam().pick(4, 8), {}, Json::array()});
  EXPECT_EQ(
      nodes_for(shape_of(fragment(GetParam().pick("fragment-selector-a100.yaml", "001-node-selector-h100.yaml")))),
      (std::set<std::string>{GetParam().pick("half", "full")}));
}

// S-051: an inference pod that requests an instance is never placed on whole GPUs.
// S-129: the pod with one instance is placed on the partitioned node, and the pod that finds no
// instance free is pending.
TEST_P(ReferencePods, EighthSmallInstanceIsPending) {
  struct Case {
    std::string pod, node, at, profile;
    int instances;
  };
  const auto c =
      GetParam().pick(Case{"pod-embedding-slice.yaml", "node-mig-capacity.yaml", "status.capacity", "2g.20gb", 3},
                      Case{"001-pod-bert-inference-mig.yaml", "001-node-mig-capacity.yaml", "Capacity", "1g.10gb", 7});
  add({"whole", kH100, 8, {}, Json::array()});
  add({"sliced", kH100, 0, {}, Json::array(), fragment(c.node).path(c.at)});
  const PodShape pod = shape_of(fragment(c.pod)["spec"]);
  EXPECT_EQ(nodes_for(pod), (std::set<std::string>{"sliced"}));
  EXPECT_TRUE(dry(pod, c.instances).fits());
  const auto last = dry(pod, c.instances + 1);
  EXPECT_FALSE(last.fits());
  EXPECT_NE(last.reason().find(fmt::format("{} of {} pods fit", c.instances, c.instances + 1)), std::string::npos)
      << last.reason();
  EXPECT_NE(last.reason().find(fmt::format("too few free {} instances", c.profile)), std::string::npos)
      << last.reason();
}

// S-061: both labels must match.
TEST_P(ReferencePods, ProductAndZoneMustBothMatch) {
  const std::string model = GetParam().pick(kA100, kH100), other = GetParam().pick(kH100, kA100);
  const std::string zone = GetParam().pick("eu-west-1c", "us-east-1a");
  add({"here", model, 8, {{kZone, zone}}, Json::array()});
  add({"there", model, 8, {{kZone, "us-east-1b"}}, Json::array()});
  add({"other", other, 8, {{kZone, zone}}, Json::array()});
  const auto selector = fragment(GetParam().pick("fragment-selector-zone.yaml", "002-node-selector-h100-zone.yaml"));
  EXPECT_EQ(nodes_for(shape_of(selector)), (std::set<std::string>{"here"}));
}

// S-062: the taint excludes exactly the pods that do not tolerate it.
TEST_P(ReferencePods, TheGpuTaintFiltersByToleration) {
  const auto file = GetParam().pick("fragment-taint.yaml", "002-node-taint-gpu.yaml");
  const auto unfit = GetParam().pick("nvidia.com/gpu=reserved:NoExecute", "nvidia.com/gpu=true:NoSchedule");
  add({"a", kH100, 8, {}, fragment(file)["taints"]});
  const auto refused = dry(shape_of(Json::object()));
  EXPECT_FALSE(refused.fits());
  EXPECT_NE(refused.reason().find(fmt::format("taint {} not tolerated", unfit)), std::string::npos) << refused.reason();
  EXPECT_TRUE(dry(shape_of(*Json::parse(R"({"tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"}]})"))).fits());
}

// S-008: the pod is placed in its pool; without its toleration it is placed nowhere, and the taint is named.
TEST_P(ReferencePods, OnlineInferenceUsesItsPoolOnly) {
  struct Case {
    std::string file, pool, name, key, value;
  };
  const auto c = GetParam().pick(
      Case{"fragment-pod-streaming.yaml", "pools.example.org/accelerators", "streaming", "gpu-streaming", "reserved"},
      Case{"000-workload-inference-online.yaml", "node.kubernetes.io/gpu-pool", "inference-online", "gpu-online", ""});
  add({"online", "NVIDIA-A10G", 4, {{c.pool, c.name}}, taint(c.key, c.value)});
  add({"batch", "NVIDIA-A10G", 4, {{c.pool, "inference-batch"}}, taint("gpu-batch", "")});
  add({"training", kA100, 8, {{c.pool, "training"}}, taint("gpu-training", "")});
  Json spec = fragment(c.file)["spec"];
  EXPECT_EQ(nodes_for(shape_of(spec)), (std::set<std::string>{"online"}));
  spec.erase("tolerations");
  const auto refused = dry(shape_of(spec));
  EXPECT_FALSE(refused.fits());
  EXPECT_NE(refused.reason().find(c.key), std::string::npos) << refused.reason();
  // S-011: tolerating another pool's taint does not give access to this pool either.
  spec.set("tolerations", *Json::parse(R"([{"key":"gpu-training","operator":"Exists","effect":"NoSchedule"}])"));
  EXPECT_FALSE(dry(shape_of(spec)).fits());
}

// S-069: required affinity for NVLink nodes keeps every rank of a gang on them.
TEST_P(ReferencePods, NvlinkAffinityKeepsAGangOnNvlinkNodes) {
  struct Case {
    std::string file, key, value, island;
  };
  const auto c =
      GetParam().pick(Case{"node-fabric-labels.yaml", "fabric.example.org/nvlink", "gen4", "fabric.example.org/island"},
                      Case{"001-node-nvlink-labels.yaml", "gpu.nvidia.com/nvlink-enabled", "true",
                           "gpu.nvidia.com/nvlink-gpus-per-island"});
  const Json labelled = fragment(c.file)["metadata"]["labels"];
  Labels labels;
  for (const auto& key : {c.key, c.island}) labels[key] = labelled[key].string();
  add({"plain", kH100, 8, {}, Json::array()});
  add({"linked", kH100, 8, labels, Json::array()});
  const auto shape = shape_of(*Json::parse(fmt::format(
      R"({{"affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":
    {{"nodeSelectorTerms":[{{"matchExpressions":[{{"key":"{}","operator":"In","values":["{}"]}}]}}]}}}}}}}})",
      c.key, c.value)));
  const auto gang = dry(shape, 8);
  ASSERT_TRUE(gang.fits()) << gang.reason();
  for (const auto& member : gang.members()) EXPECT_EQ(member.node(), "linked");
  EXPECT_FALSE(dry(shape, 9).fits()) << "the ninth rank waits, although the plain node is empty";
}

// S-284: a gang is pending until its shared volume is bound; a gang whose volume has a single
// writer is refused on two nodes.
TEST_P(ReferencePods, GangIsPendingForItsVolumeAndSingleNodeVolumeIsRefused) {
  add({"a", kH100, 8, {}, Json::array()});
  add({"b", kH100, 8, {}, Json::array()});
  Json claim = fragment(GetParam().pick("pvc-reads.yaml", "001-pvc-llama2-dataset.yaml"));
  const std::string name = kube::name_of(claim), ns = kube::namespace_of(claim);
  EXPECT_EQ(name, GetParam().pick("reads", "llama2-dataset"));
  watched("claim", claim.dump());
  for (const char* list : {"claim.synced", "volume.synced", "class.synced"}) {
    watched(list, std::string(list) == "claim.synced" ? Json::array({"claim/" + ns + "/" + name}).dump() : "[]");
  }
  PodSet set;
  set.count = 2;
  set.shape = shape_of(Json::object());
  set.shape.gpu.whole = 8;
  set.rules = kube_objects::rules_text(
      Namespace(ns),
      Json::object(
          {{"spec", Json::object({{"volumes", Json::array({Json::object({{"persistentVolumeClaim",
                                                                          Json::object({{"claimName", name}})}})})}})}})
          .dump());
  EXPECT_EQ(engine_.dry_run({set}).shortfall.reason,
            fmt::format("0 of 2 pods fit: claim {} is not bound to a volume yet", name));

  claim.set("spec").set("volumeName", "pv-1");
  claim.set("status").set("phase", "Bound");
  watched("volume", R"({"metadata":{"name":"pv-1"}})");
  watched("claim", claim.dump());
  EXPECT_TRUE(engine_.dry_run({set}).plan) << "many nodes may have it";

  claim.set("spec").set("accessModes", Json::array({"ReadWriteOnce"}));
  watched("claim", claim.dump());
  const auto refused = engine_.dry_run({set});
  EXPECT_FALSE(refused.plan);
  EXPECT_EQ(refused.shortfall.reason.find(fmt::format("claim {} is used on one node at a time", name)), 0U)
      << refused.shortfall.reason;
  set.count = 1;
  EXPECT_TRUE(engine_.dry_run({set}).plan);
}

// S-147: a tenant's pool of slices accepts only pods that tolerate its taint, including the value.
TEST_P(ReferencePods, MigPoolAcceptsItsTenantOnly) {
  struct Case {
    std::string node, pod, key, value, resource;
  };
  const auto c = GetParam().pick(Case{"node-tenant-slices.yaml", "pod-embedding-slice.yaml",
                                      "tenancy.example.org/slices", "shared", "nvidia.com/mig-2g.20gb"},
                                 Case{"001-node-mig-tenant-pool.yaml", "001-pod-bert-inference-mig.yaml", "mig-enabled",
                                      "true", "nvidia.com/mig-1g.10gb"});
  const Json tenant = fragment(c.node);
  Labels labels;
  for (const auto& [key, value] : tenant["metadata"]["labels"].members()) labels[key] = value.string();
  const auto slices = Json::object({{c.resource, "3"}});
  add({"tenant", kH100, 0, labels, tenant["spec"]["taints"], slices});
  Json spec = fragment(c.pod)["spec"];
  const auto toleration = [&](const char* op, const std::string& value, const char* effect) {
    return fmt::format(R"([{{"key":"{}","operator":"{}"{},"effect":"{}"}}])", c.key, op,
                       value.empty() ? "" : fmt::format(R"(,"value":"{}")", value), effect);
  };
  const auto tolerating = [&](const std::string& tolerations) {
    spec.set("tolerations", *Json::parse(tolerations));
    return shape_of(spec);
  };
  for (const std::string& others :
       {std::string("[]"), std::string(R"([{"key":"nvidia.com/gpu","operator":"Exists"}])"),
        toleration("Equal", "false", "NoSchedule"), toleration("Exists", "", "NoExecute")}) {
    const auto refused = dry(tolerating(others));
    EXPECT_FALSE(refused.fits()) << others;
    EXPECT_NE(refused.reason().find(fmt::format("taint {}={}:NoSchedule not tolerated", c.key, c.value)),
              std::string::npos)
        << refused.reason();
  }
  const auto welcome = tolerating(toleration("Equal", c.value, "NoSchedule"));
  add({"open", kH100, 0, {}, Json::array(), slices});
  EXPECT_EQ(nodes_for(tolerating("[]")), (std::set<std::string>{"open"})) << "the next pod does not go to the tenant";
  EXPECT_EQ(nodes_for(welcome), (std::set<std::string>{"open", "tenant"}));
}

// S-376: an Exists toleration matches the taint with any value or none, an Equal one only its own value.
TEST_P(ReferencePods, TaintsMatchByKeyOrByValue) {
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

QM_FOR_EACH_MANIFESTS(ReferencePods);

}  // namespace reference_test
}  // namespace qm::placement
