// Conversion of NodePools from real manifests.
#include "qm/autoscaler/shell.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

namespace qm::autoscaler {
namespace pools_test {

using Names = std::vector<std::string>;

Result<std::vector<Pool>> pools_of(const std::string& requirements, const std::string& rest = {}) {
  const qm::testing::TempDir dir;
  const std::string file = dir.path() + "/pool.yaml";
  std::ofstream(file)
      << "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: gpu\nspec:\n" + rest +
             "  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n"
             "      requirements:\n" +
             requirements;
  return pools_from_manifests(std::vector{file});
}

Names types_of(const std::string& requirements) {
  const auto pools = pools_of(requirements);
  EXPECT_TRUE(pools) << (pools ? "" : pools.error().to_string());
  return pools && pools->size() == 1 ? pools->front().instance_types : Names{};
}

std::string need(const std::string& key, const std::string& op, const std::string& values) {
  return "      - {key: " + key + ", operator: " + op + ", values: [" + values + "]}\n";
}

TEST(Pools, AnAnnotationNamesTheAutoScalingGroupOfTheInstances) {
  const qm::testing::TempDir dir;
  const std::string file = dir.path() + "/pool.yaml";
  std::ofstream(file)
      << "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: gpu\n"
         "  annotations: {quartermaster.dev/auto-scaling-group: gpu-nodes, other: x}\nspec:\n  template:\n    spec:\n"
         "      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n      requirements:\n" +
             need("kubernetes.io/arch", "In", "amd64");
  const auto pools = pools_from_manifests(std::vector{file});
  ASSERT_TRUE(pools) << pools.error().to_string();
  EXPECT_EQ(pools->at(0).group, "gpu-nodes");
  EXPECT_EQ(pools_of(need("kubernetes.io/arch", "In", "amd64"))->at(0).group, "");
}

TEST(Pools, TwoMayNotNameOneGroup) {
  const qm::testing::TempDir dir;
  const std::string file = dir.path() + "/pools.yaml";
  std::ofstream out(file);
  for (const char* name : {"a", "b"}) {
    out << "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: " << name
        << "\n  annotations: {quartermaster.dev/auto-scaling-group: gpus}\nspec:\n  template:\n    spec:\n"
           "      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n      requirements:\n" +
               need("kubernetes.io/arch", "In", "amd64");
  }
  out.close();
  const auto pools = pools_from_manifests(std::vector{file});
  ASSERT_FALSE(pools);
  EXPECT_EQ(pools.error().message, "NodePools a and b name the same Auto Scaling group gpus");
  EXPECT_FALSE(pools.error().remedy.empty());
}

TEST(Pools, RequirementsAreHeldAgainstTheLabelsOfTheTypes) {
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-gpu-name", "In", "h100")), (Names{"p5.48xlarge", "p5.4xlarge"}));
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-gpu-name", "In", "a100")),
            (Names{"p4d.24xlarge", "p4de.24xlarge"}));
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-family", "In", "p4d")), (Names{"p4d.24xlarge"}));
  EXPECT_EQ(
      types_of(need("karpenter.k8s.aws/instance-gpu-count", "Gt", "\"0\"") + need("kubernetes.io/arch", "In", "arm64") +
               need("karpenter.k8s.aws/instance-size", "In", "metal")),
      (Names{"g5g.metal"}));
  EXPECT_EQ(types_of(need("node.kubernetes.io/instance-type", "In", "p5.48xlarge, p4d.24xlarge, x9.large") +
                     need("node.kubernetes.io/instance-type", "NotIn", "p4d.24xlarge")),
            (Names{"p5.48xlarge"}));
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-category", "In", "c") +
                     need("karpenter.k8s.aws/instance-generation", "Gt", "\"6\"")),
            (Names{"c7g.4xlarge"}));
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-category", "In", "p") +
                     need("karpenter.k8s.aws/instance-cpu", "Lt", "\"9\"")),
            (Names{"p3.2xlarge"}));
  // An instance without GPUs has no GPU name: In fails, NotIn matches.
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-family", "In", "c7g") +
                     need("karpenter.k8s.aws/instance-gpu-name", "NotIn", "t4")),
            (Names{"c7g.4xlarge"}));
  // A key that does not depend on the type has no effect on it.
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-family", "In", "p4d") + need("example.com/disk", "In", "fast")),
            (Names{"p4d.24xlarge"}));
}

// S-178: each operator; a missing label fails all but NotIn and DoesNotExist, and a value that is not a number is
// refused.
TEST(Pools, EveryOperatorDecides) {
  const std::string c7g = need("karpenter.k8s.aws/instance-family", "In", "c7g"),
                    count = "karpenter.k8s.aws/instance-gpu-count";
  EXPECT_EQ(types_of(c7g + need(count, "DoesNotExist", "")), (Names{"c7g.4xlarge"}));
  EXPECT_EQ(types_of(c7g + need(count, "Exists", "")), Names{});
  EXPECT_EQ(types_of(c7g + need(count, "Gt", "\"0\"")), Names{});
  EXPECT_EQ(types_of(c7g + need(count, "Lt", "\"1\"")), Names{}) << "no label is not zero";
  EXPECT_EQ(types_of(c7g + need(count, "NotIn", "\"0\"")), (Names{"c7g.4xlarge"}));
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-family", "In", "p3") + need(count, "Exists", "") +
                     need(count, "Gt", "\"1\"") + need(count, "Lt", "\"8\"")),
            (Names{"p3.8xlarge"}));
  const auto refused = pools_of(need(count, "Gt", "several"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().field.find("values"), std::string::npos) << refused.error().to_string();
}

TEST(Pools, BoundsMayIncludeTheirValue) {
  const std::string p3 = need("karpenter.k8s.aws/instance-family", "In", "p3"),
                    count = "karpenter.k8s.aws/instance-gpu-count";
  EXPECT_EQ(types_of(p3 + need(count, "Gte", "\"4\"") + need(count, "Lte", "\"4\"")), (Names{"p3.8xlarge"}));
  EXPECT_EQ(types_of(p3 + need(count, "Gte", "\"8\"")), (Names{"p3.16xlarge"}));
  EXPECT_EQ(types_of(p3 + need(count, "Lte", "\"1\"")), (Names{"p3.2xlarge"}));
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-family", "In", "c7g") + need(count, "Gte", "\"0\"")), Names{})
      << "no label is not zero";
  EXPECT_EQ(types_of(need("nvidia.com/gpu.product", "In", "Tesla-V100-SXM2-16GB") +
                     need("karpenter.k8s.aws/instance-size", "In", "2xlarge")),
            (Names{"p3.2xlarge"}));
}

TEST(Pools, RequirementsOnZonesHoldTogether) {
  const std::string zone = "topology.kubernetes.io/zone", p4d = need("karpenter.k8s.aws/instance-family", "In", "p4d");
  const auto of = [&](const std::string& more) { return pools_of(p4d + more)->at(0); };
  EXPECT_EQ(of(need(zone, "NotIn", "z3, z1")).not_zones, (Names{"z1", "z3"}));
  EXPECT_EQ(of(need(zone, "NotIn", "z3, z1")).zones, Names{});
  EXPECT_EQ(of(need(zone, "In", "z1, z2, z3") + need(zone, "NotIn", "z2")).zones, (Names{"z1", "z3"}));
  EXPECT_EQ(of(need(zone, "In", "z1, z2") + need(zone, "In", "z2, z3")).zones, (Names{"z2"}));
  EXPECT_EQ(of(need(zone, "Exists", "")).zones, Names{});
  EXPECT_EQ(of(need(zone, "Exists", "")).instance_types, (Names{"p4d.24xlarge"}));
  EXPECT_EQ(of(need(zone, "In", "z1") + need(zone, "NotIn", "z1")).instance_types, Names{});
  EXPECT_EQ(of(need(zone, "DoesNotExist", "")).instance_types, Names{});
}

TEST(Pools, RequirementsOnTheUsersLabelsBecomeRules) {
  const std::string key = "example.com/disk", p4d = need("karpenter.k8s.aws/instance-family", "In", "p4d");
  const auto of = [&](const std::string& more) { return pools_of(p4d + more)->at(0); };
  const auto rule = [&](const std::string& more) {
    const auto pool = of(more);
    EXPECT_EQ(pool.rules.size(), 1U) << more;
    return pool.rules.empty() ? Requirement{} : pool.rules[0];
  };
  struct Row {
    std::string requirements;
    Names allowed, refused;
    std::optional<std::string> lowest;
  };
  for (const Row& row :
       {Row{need(key, "In", "slow, fast"), {"fast", "slow"}, {"other", ""}, "fast"},
        Row{need(key, "NotIn", "slow"), {"fast", "0"}, {"slow"}, "0"},  // Karpenter sets the label for it too
        Row{need(key, "Exists", ""), {"fast"}, {}, "0"},
        Row{need(key, "Exists", "") + need(key, "NotIn", "\"0\", \"1\""), {"2"}, {"0", "1"}, "2"},
        Row{need(key, "DoesNotExist", ""), {}, {"fast", ""}, std::nullopt},
        Row{need(key, "Gt", "\"4\""), {"5", "100"}, {"4", "x", "5x"}, "5"},
        Row{need(key, "Gte", "\"4\"") + need(key, "Lte", "\"5\""), {"4", "5"}, {"3", "6"}, "4"},
        Row{need(key, "Lt", "\"4\""), {"3", "0"}, {"4"}, "0"},
        Row{need(key, "In", "\"10\", \"9\", \"20\"") + need(key, "Gte", "\"10\""), {"10", "20"}, {"9"}, "10"}}) {
    const auto found = rule(row.requirements);
    EXPECT_EQ(found.key, key);
    for (const auto& value : row.allowed) EXPECT_TRUE(found.has(value)) << row.requirements << value;
    for (const auto& value : row.refused) EXPECT_FALSE(found.has(value)) << row.requirements << value;
    EXPECT_EQ(lowest(found), row.lowest) << row.requirements;
  }
  for (const auto& none :
       {need(key, "In", "a") + need(key, "NotIn", "a"), need(key, "Exists", "") + need(key, "DoesNotExist", ""),
        need(key, "Gt", "\"4\"") + need(key, "Lt", "\"5\""), need(key, "In", "a") + need(key, "In", "b")})
    EXPECT_EQ(of(none).instance_types, Names{}) << none;
  // A region is chosen by zones.
  const auto region = of(need("topology.kubernetes.io/region", "In", "r1, r2"));
  EXPECT_TRUE(region.rules.empty());
  EXPECT_EQ(region.not_ready,
            "spec.template.spec.requirements: a requirement on topology.kubernetes.io/region alone does not select "
            "zones; list the zones in a requirement on topology.kubernetes.io/zone");
}

TEST(Pools, LabelsThatACloudGivesAreNotChosen) {
  const std::string p4d = need("karpenter.k8s.aws/instance-family", "In", "p4d");
  // Never ignored: the pool is not ready, and the reason names field and key.
  const auto rules = [&](const std::string& key) {
    const auto pool = pools_of(p4d + need(key, "In", "a, b"))->at(0);
    EXPECT_EQ(pool.not_ready.empty(), pool.rules.size() == 1) << key;
    EXPECT_TRUE(!pool.rules.empty() || pool.not_ready.find(key) != std::string::npos) << pool.not_ready;
    EXPECT_EQ(pool.not_ready.empty(), !pool.instance_types.empty()) << key;
    return pool.rules.size();
  };
  for (const char* key :
       {"topology.k8s.aws/zone-id", "topology.k8s.aws/network-node-layer-1", "eks.amazonaws.com/nodegroup",
        "eks.amazonaws.com/capacityType", "cloud.google.com/gke-accelerator", "cloud.google.com/gke-nodepool",
        "karpenter.azure.com/sku-name", "kubernetes.azure.com/agentpool", "karpenter.k8s.aws/ec2nodeclass",
        "karpenter.sh/nodepool", "kubernetes.io/hostname", "topology.kubernetes.io/region",
        "node.kubernetes.io/windows-build"})
    EXPECT_EQ(rules(key), 0U) << key;
  for (const char* key :
       {"node.kubernetes.io/role", "kops.k8s.io/instancegroup", "gpu.kops.k8s.io/x",
        "node-restriction.kubernetes.io/team", "gpu.node-restriction.kubernetes.io/team", "node-role.kubernetes.io/gpu",
        "autoscaling.k8s.io/x", "mycloud.google.com/x", "example.com/disk", "team"})
    EXPECT_EQ(rules(key), 1U) << key;
}

TEST(Pools, ReplicasAndTheLimitOfNodes) {
  const auto pools =
      pools_of(need("karpenter.k8s.aws/instance-family", "In", "p4d"), "  replicas: 3\n  limits: {nodes: 5}\n");
  ASSERT_TRUE(pools) << pools.error().to_string();
  EXPECT_EQ(pools->at(0).replicas, 3);
  EXPECT_EQ(pools->at(0).limit_nodes, 5);
  EXPECT_TRUE(pools->at(0).is_static());
  EXPECT_FALSE(pools_of(need("karpenter.k8s.aws/instance-family", "In", "p4d"))->at(0).is_static());
  EXPECT_FALSE(pools_of(need("karpenter.k8s.aws/instance-family", "In", "p4d"), "  replicas: -1\n"));
}

TEST(Pools, AStaticPoolHasNeitherWeightNorOtherLimits) {
  const std::string p4d = need("karpenter.k8s.aws/instance-family", "In", "p4d");
  EXPECT_EQ(pools_of(p4d, "  replicas: 3\n  weight: 5\n")->at(0).not_ready,
            "spec.weight: a NodePool with replicas has no weight; remove it");
  EXPECT_EQ(pools_of(p4d, "  replicas: 3\n  limits: {cpu: 5, nodes: 4}\n")->at(0).not_ready,
            "spec.limits[cpu]: a NodePool with replicas has only the limit nodes; remove it");
  EXPECT_EQ(pools_of(p4d, "  weight: 5\n  limits: {aws.amazon.com/neuron: 16}\n")
                ->at(0)
                .other_limits.at("aws.amazon.com/neuron"),
            16);
}

TEST(Pools, MinValuesOfARequirement) {
  const std::string key = "karpenter.k8s.aws/instance-family";
  const auto of = [&](const std::string& number) {
    return pools_of("      - {key: " + key + ", operator: In, values: [g5, g6], minValues: " + number + "}\n");
  };
  EXPECT_EQ(of("2")->at(0).min_values.at(key), 2);
  EXPECT_NE(of("3")->at(0).not_ready.find("minValues 3 on " + key), std::string::npos) << of("3")->at(0).not_ready;
  EXPECT_FALSE(of("0"));
  EXPECT_FALSE(of("51"));
}

// S-179: the GPU families of g and p, and none of c, m, r and inf.
TEST(Pools, CategoriesKeepFamiliesTogether) {
  std::set<std::string> families;
  for (const auto& name : types_of(need("karpenter.k8s.aws/instance-category", "In", "g, p")))
    families.insert(name.substr(0, name.find('.')));
  for (const char* family : {"g4dn", "g5", "g6", "p3", "p4d", "p5"}) EXPECT_TRUE(families.contains(family)) << family;
  for (const auto& family : families) EXPECT_TRUE(family[0] == 'g' || family[0] == 'p') << family;
  for (const auto& family : families) EXPECT_FALSE(family.starts_with("gr")) << family << " is of the category gr";
}

TEST(Pools, TypesWithoutAPriceAreLeftOut) {
  EXPECT_EQ(types_of(need("karpenter.k8s.aws/instance-gpu-name", "In", "h200")), (Names{"p5en.48xlarge"}));
}

TEST(Pools, LimitsMarketsZonesAndConsolidation) {
  const auto pools =
      pools_of(need("karpenter.sh/capacity-type", "In", "spot") + need("topology.kubernetes.io/zone", "In", "z1, z2"),
               "  weight: 7\n  limits: {nvidia.com/gpu: 64, cpu: 2k, memory: 1Ti}\n"
               "  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}\n");
  ASSERT_TRUE(pools) << pools.error().to_string();
  const Pool& p = pools->front();
  EXPECT_EQ(p.weight, 7);
  EXPECT_EQ(p.markets, (std::vector{Market::kSpot}));
  EXPECT_EQ(p.zones, (Names{"z1", "z2"}));
  EXPECT_EQ(p.limit_gpus, 64);
  EXPECT_EQ(p.limit_cpu_milli, 2'000'000);
  EXPECT_EQ(p.limit_memory_bytes, 1LL << 40);
  EXPECT_TRUE(p.consolidate_empty);
  EXPECT_EQ(p.consolidate_after, std::chrono::minutes(5));
  const auto never =
      pools_of(need("karpenter.sh/capacity-type", "NotIn", "spot"), "  disruption: {consolidateAfter: Never}\n");
  ASSERT_TRUE(never) << never.error().to_string();
  EXPECT_FALSE(never->front().consolidate_empty);
  EXPECT_EQ(never->front().markets, (std::vector{Market::kOnDemand}));
  EXPECT_EQ(never->front().limit_gpus, -1);
}

TEST(Pools, ABadManifestNamesItsFieldAndFile) {
  const auto bad = pools_of(need("karpenter.sh/capacity-type", "Near", "spot"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kInvalid);
  EXPECT_NE(bad.error().message.find("pool.yaml"), std::string::npos) << bad.error().to_string();
  EXPECT_NE(bad.error().field.find("requirements"), std::string::npos) << bad.error().to_string();
}

TEST(Pools, TheReferenceManifestsAreReadAsWritten) {
  struct Case {
    std::string steady;
    int limit;
    std::chrono::minutes after;
    Names families;
    std::size_t types;
    std::string training;
    Names chosen;
    std::string tiers, second, cpu;
    std::size_t first_tier, second_tier;  ///< their index in the file
    Names has;
    std::string has_none_of;  ///< families by the first letter
  };
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(Case{"nodepool-steady-training.yaml",
                                       48,
                                       std::chrono::minutes(45),
                                       {"p3.", "p3dn", "p5en", "g6e"},
                                       7,  // of four GPUs or more: p3 8 and 16, p3dn, p5en, g6e 12, 24 and 48
                                       "nodepool-deep-training-v1beta1.yaml",
                                       {"p3.16xlarge", "p3dn.24xlarge", "p5en.48xlarge"},
                                       "nodepool-edge-tiers.yaml",
                                       "g5.",
                                       "nodepool-without-gpus.yaml",
                                       1,
                                       2,
                                       {"c7g.4xlarge", "m7g.4xlarge", "m7i.4xlarge"},
                                       "rg"},
                                  Case{"004-nodepool-gpu-training.yaml",
                                       32,
                                       std::chrono::minutes(30),
                                       {"p4d", "p5.", "g5."},
                                       12,
                                       "001-nodepool-gpu-training.yaml",
                                       {"p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge"},
                                       "004-nodepool-tiers-g5-g4dn.yaml",
                                       "g4dn",
                                       "004-nodepool-multi-arch.yaml",
                                       0,
                                       1,
                                       {"c6i.4xlarge", "c7g.4xlarge", "m6i.4xlarge", "r6i.4xlarge"},
                                       "g"});
    const auto load = [&](const std::string& name) {
      const auto pools = pools_from_manifests(std::vector{manifests.dir + name});
      EXPECT_TRUE(pools) << (pools ? "" : pools.error().to_string());
      return pools ? *pools : std::vector<Pool>{};
    };
    const auto training = load(c.steady);
    ASSERT_EQ(training.size(), 1U);
    EXPECT_EQ(training[0].limit_gpus, c.limit);
    EXPECT_EQ(training[0].consolidate_after, c.after);
    for (const auto& name : training[0].instance_types) {
      EXPECT_TRUE(std::ranges::any_of(c.families, [&](const auto& family) { return name.starts_with(family); }))
          << name;
    }
    EXPECT_EQ(training[0].instance_types.size(), c.types);
    const auto chosen = load(c.training);
    ASSERT_EQ(chosen.size(), 1U);
    EXPECT_EQ(chosen[0].instance_types, c.chosen);
    EXPECT_EQ(chosen[0].markets, (std::vector{Market::kOnDemand, Market::kSpot}));
    const auto tiers = load(c.tiers);
    ASSERT_EQ(tiers.size(), 3U);
    EXPECT_TRUE(std::ranges::all_of(tiers[c.second_tier].instance_types,
                                    [&](const auto& n) { return n.starts_with(c.second); }));
    EXPECT_GT(tiers[c.first_tier].weight, tiers[c.second_tier].weight);
    const auto arches = load(c.cpu);
    ASSERT_EQ(arches.size(), 1U);
    // Of the newer generations without GPUs: both architectures.
    const auto& types = arches[0].instance_types;
    for (const auto& name : c.has) EXPECT_TRUE(std::ranges::find(types, name) != types.end()) << name;
    EXPECT_TRUE(std::ranges::none_of(
        types, [&](const auto& n) { return n.starts_with("c5") || c.has_none_of.find(n[0]) != std::string::npos; }));
  }
}

}  // namespace pools_test
}  // namespace qm::autoscaler
