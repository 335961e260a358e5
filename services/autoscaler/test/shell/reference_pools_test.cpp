// NodePools of manifests, unchanged, through the engine with the real catalog: what is launched. The files are those
// of this repository and, where they are present, the reference ones.
#include "test/shell/reference_pools.hpp"

#include "qm/catalog/catalog.hpp"
#include "qm/catalog/hardware.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

namespace qm::autoscaler {
namespace reference_pools_test {

// S-168: one pool gives each of three jobs the instance that it needs.
TEST_P(ReferencePools, OneGeneralPoolServesT4A10gAndH100) {
  struct Case {
    std::string file, pool;
    std::vector<std::string> models;
    std::set<std::string> families;
  };
  const auto c =
      GetParam().pick(Case{"nodepool-mixed.yaml", "mixed", {kL4, kL40s, kV100[0]}, {"g6", "g6e", "p3"}},
                      Case{"004-nodepool-gpu-general.yaml", "gpu-general", {kT4, kA10g, kH100}, {"g4dn", "g5", "p5"}});
  apply(c.file);
  std::set<std::string> families;
  for (const auto& model : c.models) {
    const auto launched = want(1, {model});
    ASSERT_EQ(launched.size(), 1U) << model;
    EXPECT_EQ(launched[0].row.pool, c.pool);
    EXPECT_EQ(engine_.type(launched[0].row.type)->gpu_product, model);
    families.insert(launched[0].row.type.substr(0, launched[0].row.type.find('.')));
  }
  EXPECT_EQ(families, c.families);
}

// S-170: eight GPUs of the newest model are one whole instance of it; one older GPU is the cheapest spot instance that
// has it, and the next cheapest if spot has no capacity.
TEST_P(ReferencePools, TheTrainingPoolTakesWhatTheJobNeedsAndSpotHas) {
  struct Case {
    std::string file, zone, newest, machine;
    std::vector<std::string> older;
    std::string first, then;
  };
  const auto c = GetParam().pick(Case{"nodepool-deep-training-v1beta1.yaml", "eu-west-1a", kH200, "p5en.48xlarge",
                                      kV100, "p3.16xlarge", "p3dn.24xlarge"},
                                 Case{"001-nodepool-gpu-training.yaml", "us-east-1a", kH100, "p5.48xlarge", kA100,
                                      "p4d.24xlarge", "p4de.24xlarge"});
  apply(c.file);
  spot_price(c.first, c.zone, "9.00");
  spot_price(c.then, c.zone, "12.00");
  auto launched = want(8, {c.newest});
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.type, c.machine);
  launched = want(1, c.older);
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.type, c.first);
  EXPECT_EQ(launched[0].row.market, Market::kSpot);
  launched = no_capacity(launched[0].claim);
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.type, c.then);
  EXPECT_EQ(launched[0].row.market, Market::kSpot);
}

// S-172: the memory limit is reached long before the GPU limit, and is named. An instance of either kind
// has a capacity of 1,894.4 GiB: 2 TiB without 7.5 % for the virtual machine.
TEST_P(ReferencePools, MemoryIsTheLimitThatStopsTheTrainingPool) {
  struct Case {
    std::string file, pool, model;
    int listed_instances;
  };
  const auto c = GetParam().pick(Case{"nodepool-deep-training-v1beta1.yaml", "deep-training", kH200, 2},  // of 5 TiB
                                 Case{"001-nodepool-gpu-training.yaml", "gpu-training", kH100, 4});       // of 8000 GiB
  apply(c.file);
  int launched = 0;
  for (int gang = 0; gang < 16; ++gang) launched += static_cast<int>(want(8, {c.model}).size());
  EXPECT_EQ(launched, c.listed_instances);
  EXPECT_NE(why_last().find("NodePool " + c.pool + " has the limit memory "), std::string::npos) << why_last();
  EXPECT_EQ(why_last().find("nvidia.com/gpu"), std::string::npos) << why_last();
}

// S-181: an instance counts against its pool's limits with its capacity, as in Karpenter: the one with eight GPUs with
// 1,894.4 GiB of the 2048 that the provider advertises. That exceeds a pool limit of 1894 GiB, but not one of 1895 GiB,
// although its allocatable is below both.
TEST_P(ReferencePools, LimitsCountTheCapacityOfAnInstance) {
  auto pools = load(GetParam().pick("nodepool-mixed.yaml", "004-nodepool-gpu-general.yaml"));
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].limit_memory_bytes, GetParam().pick(2500LL, 2000LL) << 30);
  ASSERT_LT(engine_.type("p5.48xlarge")->memory_bytes, 1894LL << 30);
  pools[0].limit_memory_bytes = 1894LL << 30;
  step(PoolsApplied{pools});
  EXPECT_TRUE(want(8, {kH100}).empty());
  EXPECT_NE(why_last().find("NodePool " + pools[0].name + " has the limit memory "), std::string::npos) << why_last();
  pools[0].limit_memory_bytes = 1895LL << 30;
  const auto launched = step(PoolsApplied{pools});
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.type, "p5.48xlarge");
}

// S-195: accelerators of another maker are a resource of their own: pods that request it get the types that have it, up
// to the limit of the NodePool on it.
TEST_P(ReferencePools, AcceleratorsHaveTheirOwnResourceAndLimit) {
  struct Case {
    std::string file, pool, resource, machine;
    std::int64_t each;
    int limit;  ///< in pods
  };
  const auto c = GetParam().pick(
      Case{"nodepool-trainium.yaml", "trainium", "aws.amazon.com/neuroncore", "trn1.32xlarge", 32, 2},
      Case{"004-nodepool-inferentia.yaml", "inferentia", "aws.amazon.com/neuron", "inf2.xlarge", 1, 32});
  apply(c.file);
  PodSet pods;
  pods.shape.cpu_milli = 1000;
  pods.shape.extended[c.resource] = c.each;
  pods.shape.tolerations = {{"aws.amazon.com/neuron", "Exists", "", ""}};
  int machines = 0;
  for (int i = 0; i <= c.limit; ++i) {
    demand_.items.push_back({{WorkloadUid(fmt::format("w{:03}", i)), 1}, {pods}, 0, now_});
    for (const auto& launch : step(demand_)) {
      EXPECT_EQ(launch.row.type, c.machine);
      ++machines;
    }
  }
  EXPECT_EQ(machines, c.limit);
  EXPECT_NE(why_last().find("NodePool " + c.pool + " has the limit " + c.resource), std::string::npos) << why_last();
  EXPECT_TRUE(want(1).empty()) << "they have no GPU";
}

// S-181: the same pool is filled with small instances up to its last GPU.
TEST_P(ReferencePools, SmallInstancesFillAPoolToItsLastGpu) {
  struct Case {
    std::string file, pool, model, machine;
    std::int64_t gpus;
  };
  const auto c = GetParam().pick(Case{"nodepool-mixed.yaml", "mixed", kL4, "g6.xlarge", 72},
                                 Case{"004-nodepool-gpu-general.yaml", "gpu-general", kT4, "g4dn.xlarge", 100});
  apply(c.file);
  std::int64_t gpus = 0;
  for (int job = 0; job <= c.gpus; ++job) {
    for (const auto& launch : want(1, {c.model})) {
      EXPECT_EQ(launch.row.type, c.machine);
      gpus += engine_.type(launch.row.type)->gpus;
    }
  }
  EXPECT_EQ(gpus, c.gpus);
  EXPECT_NE(why_last().find("NodePool " + c.pool + " has the limit nvidia.com/gpu "), std::string::npos) << why_last();
}

// S-175: on demand, in its zones, as many GPUs as its limit and not one more.
TEST_P(ReferencePools, TheInferencePoolKeepsToItsZonesAndLimit) {
  struct Case {
    std::string file, pool, zones;
    int limit;
  };
  const auto c = GetParam().pick(Case{"nodepool-zonal-serving-v1beta1.yaml", "zonal-serving", "eu-west-1b", 24},
                                 Case{"001-nodepool-gpu-inference.yaml", "gpu-inference", "us-west-2", 64});
  const auto loaded = config::load_path(GetParam().dir + c.file);
  EXPECT_TRUE(loaded.ok());
  EXPECT_TRUE(std::ranges::any_of(loaded.diagnostics, [](const auto& d) {
    return d.field.find("nodeClassRef") != std::string::npos;
  })) << "the missing class is a warning";
  apply(c.file);
  std::int64_t gpus = 0;
  for (int job = 0; job < c.limit + 6; ++job) {
    for (const auto& launch : want(1)) {
      gpus += engine_.type(launch.row.type)->gpus;
      EXPECT_EQ(launch.row.market, Market::kOnDemand);
      EXPECT_TRUE(launch.row.zone.starts_with(c.zones)) << launch.row.zone;
    }
    EXPECT_EQ(gpus, std::min(c.limit, job + 1));
  }
  EXPECT_NE(why_last().find("NodePool " + c.pool + " has the limit nvidia.com/gpu "), std::string::npos) << why_last();
}

// S-177: a type without a GPU is never selected.
TEST_P(ReferencePools, TheGeneralPoolHasNoInstanceWithoutGpus) {
  struct Case {
    std::string file;
    std::size_t zones;
    int weight;
  };
  const auto c = GetParam().pick(Case{"nodepool-mixed.yaml", 2, 35}, Case{"004-nodepool-gpu-general.yaml", 3, 80});
  const auto pools = load(c.file);
  ASSERT_EQ(pools.size(), 1U);
  ASSERT_NE(catalog::find("c5.2xlarge"), nullptr);
  EXPECT_FALSE(pools[0].instance_types.empty());
  for (const auto& name : pools[0].instance_types) EXPECT_GT(catalog::hardware_of(name)->gpu.count, 0) << name;
  EXPECT_EQ(pools[0].zones.size(), c.zones);
  EXPECT_EQ(pools[0].weight, c.weight);
}

// S-184: the catalog filtered by both lists; spot is tried before on-demand.
TEST_P(ReferencePools, InferenceCandidatesAreThoseOfBothListsAndSpotComesFirst) {
  struct Case {
    std::string file;
    std::set<std::string_view> models, sizes;
    std::size_t candidates;
    std::string cheapest, zone;
  };
  const auto c = GetParam().pick(
      // xlarge: g6, g6e; 8xlarge: g6, g6e, gr6.
      Case{"nodepool-small-serving.yaml", {kL4, kL40s}, {"xlarge", "8xlarge"}, 5, "g6.xlarge", "eu-west-1b"},
      Case{"004-nodepool-gpu-inference.yaml",
           {kT4, kA10g, kL4},
           {"xlarge", "2xlarge", "4xlarge"},
           10,
           "g4dn.xlarge",
           "us-east-1a"});
  const auto pools = load(c.file);
  ASSERT_EQ(pools.size(), 1U);
  std::vector<std::string> expected;
  for (const auto& type : catalog::types()) {
    const std::string_view size = type.name.substr(type.name.find('.') + 1);
    if (c.models.contains(type.gpu_product) && c.sizes.contains(size)) expected.emplace_back(type.name);
  }
  EXPECT_EQ(pools[0].instance_types, expected);
  EXPECT_EQ(expected.size(), c.candidates);
  step(PoolsApplied{pools});
  spot_price(c.cheapest, c.zone, "0.16");
  auto launched = want(1);
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.market, Market::kSpot);
  launched = no_capacity(launched[0].claim);
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.type, c.cheapest);
  EXPECT_EQ(launched[0].row.market, launched[0].row.zone.empty() ? Market::kOnDemand : Market::kSpot);
}

// S-187: a budget of none applies at every hour of a week.
// S-185: on-demand only, independent of the spot price, and an empty node stays: the budget is none.
TEST_P(ReferencePools, TheTrainingPoolIsNeverSpotAndKeepsItsEmptyNodes) {
  struct Case {
    std::string file, pool, model, machine;
  };
  const auto c = GetParam().pick(Case{"nodepool-steady-training.yaml", "steady-training", kH200, "p5en.48xlarge"},
                                 Case{"004-nodepool-gpu-training.yaml", "gpu-training", kH100, "p5.48xlarge"});
  apply(c.file);
  spot_price(c.machine, "us-east-1a", "0.01");
  const auto launched = want(8, {c.model});
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.market, Market::kOnDemand);
  const ClaimName claim = launched[0].claim;
  step(LaunchEnded{claim, InstanceId("i-1"), {}});
  step(InstancesListed{{{InstanceId("i-1"),
                         claim,
                         c.pool,
                         launched[0].row.type,
                         "us-east-1a",
                         Market::kOnDemand,
                         NodeName("n1"),
                         now_,
                         {}}}});
  step(NodeUpdated{NodeName("n1"), true, false, false, 0, now_, InstanceId("i-1")});
  step(DemandUpdated{});
  for (int hour = 0; hour < 24 * 7; ++hour) {
    now_ += std::chrono::hours(1);
    const std::vector<Command> batch{Tick{}};
    const auto output = engine_.step(batch, now_);
    engine_.commit();
    ASSERT_TRUE(output.drains.empty() && output.terminations.empty()) << hour;
  }
  EXPECT_EQ(engine_.tables().claims.find(claim)->state, ClaimState::kReady);
}

// S-191: each type and zone of the cross product is tried once, and then the explanation has the reason why the pod is
// pending.
TEST_P(ReferencePools, SpotCapacityIsSoughtInEveryTypeAndZone) {
  const auto file = GetParam().pick("nodepool-spot-spread.yaml", "004-nodepool-gpu-spot-inference.yaml");
  const std::size_t zones = GetParam().pick(2, 3);
  apply(file);
  auto launched = want(1);
  std::set<std::pair<std::string, std::string>> tried;
  std::set<std::string> types;
  while (!launched.empty()) {
    ASSERT_EQ(launched.size(), 1U);
    const auto& row = launched[0].row;
    EXPECT_EQ(row.market, Market::kSpot);
    EXPECT_TRUE(tried.insert({row.type, row.zone}).second) << row.type << " in " << row.zone << " again";
    types.insert(row.type);
    launched = no_capacity(launched[0].claim);
  }
  const auto pools = load(file);
  EXPECT_EQ(types.size(), pools[0].instance_types.size());
  EXPECT_EQ(tried.size(), types.size() * zones);
  EXPECT_NE(why_last().find("the provider has no capacity of the allowed instance types now"), std::string::npos)
      << why_last();
}

// S-196: the first spot tier, then the second, then on-demand, each up to its limit; the next job is pending.
TEST_P(ReferencePools, TheTiersFillInOrder) {
  struct Case {
    std::string file;
    std::vector<std::pair<std::string, std::size_t>> tiers;  ///< by weight, with their limits
  };
  const auto c =
      GetParam().pick(Case{"nodepool-edge-tiers.yaml", {{"edge-first", 9}, {"edge-second", 7}, {"edge-last", 5}}},
                      Case{"004-nodepool-tiers-g5-g4dn.yaml",
                           {{"gpu-tier1-g5-spot", 20}, {"gpu-tier2-g4dn-spot", 20}, {"gpu-tier3-g5-ondemand", 10}}});
  std::vector<std::string> expected;
  for (const auto& [pool, limit] : c.tiers) expected.insert(expected.end(), limit, pool);
  apply(c.file);
  std::vector<std::string> pools;
  for (std::size_t job = 0; job <= expected.size(); ++job) {
    for (const auto& launch : want(1)) {
      const auto gpus = engine_.type(launch.row.type)->gpus;
      pools.insert(pools.end(), static_cast<std::size_t>(gpus), launch.row.pool);
    }
  }
  EXPECT_EQ(pools, expected);
  EXPECT_NE(why_last().find("has the limit"), std::string::npos) << why_last();
}

// S-194: instances of the newer generations for pods without GPUs, and never for pods with GPUs.
TEST_P(ReferencePools, ThePoolOfManyArchitecturesIsForPodsWithoutGpus) {
  struct Case {
    std::string file, categories;
    char generation;  ///< the oldest
  };
  const auto c =
      GetParam().pick(Case{"nodepool-without-gpus.yaml", "cm", '7'}, Case{"004-nodepool-multi-arch.yaml", "cmr", '6'});
  apply(c.file);
  const auto launched = want(0);
  ASSERT_EQ(launched.size(), 1U);
  const std::string& type = launched[0].row.type;
  EXPECT_NE(c.categories.find(type[0]), std::string::npos) << type;
  EXPECT_GE(type[1], c.generation) << type;
  const auto pools = load(c.file);
  for (const auto& name : pools.at(0).instance_types) EXPECT_GE(name[1], c.generation) << name;
  EXPECT_TRUE(want(1).empty());
  EXPECT_NE(why_last().find("no NodePool allows an instance type"), std::string::npos) << why_last();
}

// S-171: a v1beta1 pool is parsed like a v1 pool, and its text is preserved.
TEST_P(ReferencePools, AV1beta1PoolIsConvertedAndKept) {
  struct Case {
    std::string file, memory;
    std::chrono::hours expires;
  };
  const auto c = GetParam().pick(Case{"nodepool-deep-training-v1beta1.yaml", "5Ti", std::chrono::hours(240)},
                                 Case{"001-nodepool-gpu-training.yaml", "8000Gi", std::chrono::hours(720)});
  const auto loaded = config::load_path(GetParam().dir + c.file);
  ASSERT_EQ(loaded.objects.size(), 1U);
  const auto& document = loaded.objects[0].document;
  EXPECT_EQ(document.content["apiVersion"].string(), "karpenter.sh/v1beta1");
  const auto& pool = std::get<config::NodePool>(loaded.objects[0].typed);
  EXPECT_EQ(pool.consolidation_policy, "WhenEmptyOrUnderutilized");
  EXPECT_EQ(pool.expire_after, c.expires);
  const auto again = config::load_text(document.content.dump(), "again.json");
  ASSERT_EQ(again.objects.size(), 1U);
  EXPECT_EQ(again.objects[0].document.content, document.content);
  const auto& same = std::get<config::NodePool>(again.objects[0].typed);
  EXPECT_EQ(same.consolidation_policy, pool.consolidation_policy);
  EXPECT_EQ(same.limits.at("memory").to_string(), c.memory);
}

QM_FOR_EACH_MANIFESTS(ReferencePools);

// S-004: a batch of 40 GPUs gets ten spot instances of the only type of its pool, and none is left after its end.
TEST(BatchPool, ABatchIsServedBySpotAloneAndLeavesNoInstance) {
  const qm::testing::TempDir dir;
  const std::string file = dir.path() + "/pool.yaml";
  std::ofstream(file)
      << "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: inference-batch}\nspec:\n"
         "  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}\n  template:\n    spec:\n"
         "      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n"
         "      requirements:\n"
         "      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}\n"
         "      - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.12xlarge]}\n"
         "      - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}\n";
  const auto pools = pools_from_manifests(std::vector{file});
  ASSERT_TRUE(pools) << pools.error().to_string();
  Engine engine(catalog_types());
  Instant now = from_micros(1'800'000'000'000'000);
  const auto step = [&](const std::vector<Command>& batch, std::chrono::seconds later = std::chrono::seconds(1)) {
    now += later;
    auto output = engine.step(batch, now);
    engine.commit();
    return output;
  };
  PodSet pods;
  pods.count = 10;
  pods.shape.gpu.whole = 4;
  const auto launched =
      step({PoolsApplied{*pools}, DemandUpdated{{{{WorkloadUid("embeddings"), 1}, {pods}, 0, now}}}}).launches;
  ASSERT_EQ(launched.size(), 10U);
  InstancesListed cloud;
  std::vector<Command> ready, idle, drained;
  for (const auto& launch : launched) {
    EXPECT_EQ(launch.row.type, "g5.12xlarge");
    EXPECT_EQ(launch.row.market, Market::kSpot);
    const InstanceId id("i-" + launch.claim.value());
    const NodeName node("n-" + launch.claim.value());
    cloud.instances.push_back(
        {id, launch.claim, "inference-batch", launch.row.type, launch.row.zone, Market::kSpot, node, now, {}, {}});
    ready.emplace_back(NodeUpdated{node, true, false, false, 1, {}, id});
    idle.emplace_back(NodeUpdated{node, true, false, false, 0, now + std::chrono::hours(1), id});
    drained.emplace_back(NodeUpdated{node, true, true, false, 0, now + std::chrono::hours(1), id});
    step({LaunchEnded{launch.claim, id, {}}});
  }
  step({cloud});
  step(ready);
  EXPECT_TRUE(step({DemandUpdated{}}, std::chrono::hours(1)).drains.empty()) << "it runs";
  step(idle);
  EXPECT_TRUE(step({Tick{}}, std::chrono::minutes(4)).drains.empty());
  // Karpenter's budget of a pool that lists none: a tenth of its nodes at once.
  std::vector<NodeName> draining;
  const auto collect = [&](const Output& out) {
    EXPECT_LE(out.drains.size(), 1U);
    for (const auto& drain : out.drains) draining.push_back(drain.node);
  };
  collect(step({Tick{}}, std::chrono::minutes(2)));
  for (std::size_t gone = 0; gone < 10; ++gone) {
    ASSERT_EQ(draining.size(), gone + 1);
    const auto of_node = [&](const Command& command) { return std::get<NodeUpdated>(command).node == draining.back(); };
    const auto out = step({*std::ranges::find_if(drained, of_node)});
    EXPECT_EQ(out.terminations.size(), 1U);
    for (auto& instance : cloud.instances) {
      if (instance.node == draining[gone]) instance.stopped = now;
    }
    collect(out);
    collect(step({cloud}));
  }
  for (const auto& [name, claim] : engine.tables().claims) EXPECT_EQ(claim.state, ClaimState::kGone) << name.value();
}

}  // namespace reference_pools_test
}  // namespace qm::autoscaler
