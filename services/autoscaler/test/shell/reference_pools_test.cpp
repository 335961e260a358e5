// The NodePools of the reference manifests, as they lie there, through the engine with the real catalog: what is launched.
#include "qm/autoscaler/shell.hpp"
#include "qm/catalog/catalog.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace qm::autoscaler {
namespace {

const std::string kT4 = "Tesla-T4", kA10g = "NVIDIA-A10G", kH100 = "NVIDIA-H100-80GB-HBM3";
const std::vector<std::string> kA100 = {"NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"};

class ReferencePools : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto shared = qm::testing::shared_dir();
    if (!shared || !std::filesystem::is_directory(*shared + "/manifests")) GTEST_SKIP() << qm::testing::no_shared();
    dir_ = *shared + "/manifests/";
  }
  std::vector<Pool> load(const std::string& name) {
    auto pools = pools_from_manifests(std::vector{dir_ + name});
    EXPECT_TRUE(pools) << (pools ? "" : pools.error().to_string());
    return pools ? *pools : std::vector<Pool>{};
  }
  std::vector<LaunchIntent> step(const Command& command) {
    const std::vector<Command> batch{command};
    now_ += std::chrono::seconds(1);
    auto output = engine_.step(batch, now_);
    engine_.commit();
    return output.launches;
  }
  void apply(const std::string& name) { step(PoolsApplied{load(name)}); }
  /// One more gang of one pod; what is launched for it.
  std::vector<LaunchIntent> want(int gpus, std::vector<std::string> models = {}) {
    PodSet pods;
    pods.shape.gpu.whole = gpus;
    pods.shape.gpu.models = std::move(models);
    pods.shape.cpu_milli = 1000;
    pods.shape.memory_bytes = 1LL << 30;
    pods.shape.tolerations = {{"nvidia.com/gpu", "Exists", "", ""}};
    demand_.items.push_back({{WorkloadUid(fmt::format("w{:03}", demand_.items.size())), 1}, {pods}, 0, now_});
    return step(demand_);
  }
  std::vector<LaunchIntent> no_capacity(const ClaimName& claim) {
    return step(LaunchEnded{claim, {}, "InsufficientInstanceCapacity"});
  }
  void spot_price(const std::string& type, const std::string& zone, const char* usd) {
    step(SpotPricesSeen{{{type, zone, HourlyRate{*Money::parse_usd(usd)}, now_}}});
  }
  std::string why_last() const { return engine_.explain(now_).back(); }

  std::string dir_;
  Engine engine_{catalog_types()};
  DemandHeard demand_;
  Instant now_ = from_micros(1'800'000'000'000'000);
};

// S-168: one pool gives each of three jobs the machine that it needs.
TEST_F(ReferencePools, OneGeneralPoolServesT4A10gAndH100) {
  apply("004-nodepool-gpu-general.yaml");
  std::set<std::string> families;
  for (const auto& model : {kT4, kA10g, kH100}) {
    const auto launched = want(1, {model});
    ASSERT_EQ(launched.size(), 1U) << model;
    EXPECT_EQ(launched[0].row.pool, "gpu-general");
    EXPECT_EQ(engine_.type(launched[0].row.type)->gpu_product, model);
    families.insert(launched[0].row.type.substr(0, launched[0].row.type.find('.')));
  }
  EXPECT_EQ(families, (std::set<std::string>{"g4dn", "g5", "p5"}));
}

// S-170: eight H100 are a p5.48xlarge; one A100 is a p4d, and a p4de where spot has no p4d.
TEST_F(ReferencePools, TheTrainingPoolTakesWhatTheJobNeedsAndSpotHas) {
  apply("001-nodepool-gpu-training.yaml");
  spot_price("p4d.24xlarge", "us-east-1a", "9.00");
  spot_price("p4de.24xlarge", "us-east-1a", "12.00");
  auto launched = want(8, {kH100});
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.type, "p5.48xlarge");
  launched = want(1, kA100);
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.type, "p4d.24xlarge");
  EXPECT_EQ(launched[0].row.market, Market::kSpot);
  launched = no_capacity(launched[0].claim);
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.type, "p4de.24xlarge");
  EXPECT_EQ(launched[0].row.market, Market::kSpot);
}

// S-172: memory ends the growth long before the GPUs would, and is named.
TEST_F(ReferencePools, MemoryIsTheLimitThatStopsTheTrainingPool) {
  apply("001-nodepool-gpu-training.yaml");
  int launched = 0;
  for (int gang = 0; gang < 16; ++gang) launched += static_cast<int>(want(8, {kH100}).size());
  EXPECT_EQ(launched, 3);
  EXPECT_NE(why_last().find("memory of gpu-training"), std::string::npos) << why_last();
  EXPECT_EQ(why_last().find("nvidia.com/gpu"), std::string::npos) << why_last();
}

// S-175: on demand, in its three zones, sixty-four GPUs and not one more.
TEST_F(ReferencePools, TheInferencePoolKeepsToItsZonesAndLimit) {
  const auto loaded = config::load_path(dir_ + "001-nodepool-gpu-inference.yaml");
  EXPECT_TRUE(loaded.ok());
  EXPECT_TRUE(std::ranges::any_of(loaded.diagnostics, [](const auto& d) {
    return d.field.find("nodeClassRef") != std::string::npos;
  })) << "the missing class is a warning";
  apply("001-nodepool-gpu-inference.yaml");
  std::int64_t gpus = 0;
  for (int job = 0; job < 70; ++job) {
    for (const auto& launch : want(1)) {
      gpus += engine_.type(launch.row.type)->gpus;
      EXPECT_EQ(launch.row.market, Market::kOnDemand);
      EXPECT_TRUE(launch.row.zone.starts_with("us-west-2")) << launch.row.zone;
    }
    EXPECT_EQ(gpus, std::min(64, job + 1));
  }
  EXPECT_NE(why_last().find("nvidia.com/gpu of gpu-inference"), std::string::npos) << why_last();
}

// S-177: what has no GPU is never a choice.
TEST_F(ReferencePools, TheGeneralPoolHasNoMachineWithoutGpus) {
  const auto pools = load("004-nodepool-gpu-general.yaml");
  ASSERT_EQ(pools.size(), 1U);
  ASSERT_NE(catalog::find("c5.2xlarge"), nullptr);
  EXPECT_FALSE(pools[0].instance_types.empty());
  for (const auto& name : pools[0].instance_types) EXPECT_GT(catalog::find(name)->gpus, 0) << name;
  EXPECT_EQ(pools[0].zones.size(), 3U);
  EXPECT_EQ(pools[0].weight, 80);
}

// S-184: the catalog filtered by both lists; spot is tried before on demand.
TEST_F(ReferencePools, InferenceCandidatesAreThoseOfBothListsAndSpotComesFirst) {
  const auto pools = load("004-nodepool-gpu-inference.yaml");
  ASSERT_EQ(pools.size(), 1U);
  std::vector<std::string> expected;
  for (const auto& type : catalog::types()) {
    const std::string_view size = type.name.substr(type.name.find('.') + 1);
    const bool gpu =
        type.gpu_product == "Tesla-T4" || type.gpu_product == "NVIDIA-A10G" || type.gpu_product == "NVIDIA-L4";
    if (gpu && (size == "xlarge" || size == "2xlarge" || size == "4xlarge")) expected.emplace_back(type.name);
  }
  EXPECT_EQ(pools[0].instance_types, expected);
  EXPECT_EQ(expected.size(), 10U);
  step(PoolsApplied{pools});
  spot_price("g4dn.xlarge", "us-east-1a", "0.16");
  auto launched = want(1);
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.market, Market::kSpot);
  launched = no_capacity(launched[0].claim);
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.type, "g4dn.xlarge");
  EXPECT_EQ(launched[0].row.market, launched[0].row.zone.empty() ? Market::kOnDemand : Market::kSpot);
}

// S-187: a budget of none holds at every hour of a week.
// S-185: on demand only, whatever spot costs, and an empty node stays: the budget is none.
TEST_F(ReferencePools, TheTrainingPoolIsNeverSpotAndKeepsItsEmptyNodes) {
  apply("004-nodepool-gpu-training.yaml");
  spot_price("p5.48xlarge", "us-east-1a", "0.01");
  const auto launched = want(8, {kH100});
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.market, Market::kOnDemand);
  const ClaimName claim = launched[0].claim;
  step(LaunchEnded{claim, InstanceId("i-1"), {}});
  step(InstancesSeen{{{InstanceId("i-1"),
                       claim,
                       "gpu-training",
                       launched[0].row.type,
                       "us-east-1a",
                       Market::kOnDemand,
                       NodeName("n1"),
                       now_,
                       {}}}});
  step(NodeHeard{NodeName("n1"), true, false, false, 0, now_, InstanceId("i-1")});
  step(DemandHeard{});
  for (int hour = 0; hour < 24 * 7; ++hour) {
    now_ += std::chrono::hours(1);
    const std::vector<Command> batch{Tick{}};
    const auto output = engine_.step(batch, now_);
    engine_.commit();
    ASSERT_TRUE(output.drains.empty() && output.terminations.empty()) << hour;
  }
  EXPECT_EQ(engine_.tables().claims.find(claim)->state, ClaimState::kReady);
}

// S-191: each type and zone of the cross product is tried once, and then it says why the pod waits.
TEST_F(ReferencePools, SpotCapacityIsSoughtInEveryTypeAndZone) {
  apply("004-nodepool-gpu-spot-inference.yaml");
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
  const auto pools = load("004-nodepool-gpu-spot-inference.yaml");
  EXPECT_EQ(types.size(), pools[0].instance_types.size());
  EXPECT_EQ(tried.size(), types.size() * 3);
  EXPECT_NE(why_last().find("the cloud has no capacity of the allowed types now"), std::string::npos) << why_last();
}

// S-196: G5 spot, then G4dn spot, then G5 on demand, each to its limit; the fifty-first waits.
TEST_F(ReferencePools, TheTiersFillInOrder) {
  apply("004-nodepool-tiers-g5-g4dn.yaml");
  std::vector<std::string> pools;
  for (int job = 0; job < 51; ++job) {
    for (const auto& launch : want(1)) {
      const auto gpus = engine_.type(launch.row.type)->gpus;
      pools.insert(pools.end(), static_cast<std::size_t>(gpus), launch.row.pool);
    }
  }
  std::vector<std::string> expected(20, "gpu-tier1-g5-spot");
  expected.insert(expected.end(), 20, "gpu-tier2-g4dn-spot");
  expected.insert(expected.end(), 10, "gpu-tier3-g5-ondemand");
  EXPECT_EQ(pools, expected);
  EXPECT_NE(why_last().find("the limits of the NodePools are reached"), std::string::npos) << why_last();
}

// S-194: machines of the sixth generation and later for what needs no GPU, and never for what does.
TEST_F(ReferencePools, ThePoolOfManyArchitecturesIsForPodsWithoutGpus) {
  apply("004-nodepool-multi-arch.yaml");
  const auto launched = want(0);
  ASSERT_EQ(launched.size(), 1U);
  const std::string& type = launched[0].row.type;
  EXPECT_NE(std::string("cmr").find(type[0]), std::string::npos) << type;
  EXPECT_GT(type[1], '5') << type;
  const auto pools = load("004-nodepool-multi-arch.yaml");
  for (const auto& name : pools.at(0).instance_types) EXPECT_GT(name[1], '5') << name;
  EXPECT_TRUE(want(1).empty());
  EXPECT_NE(why_last().find("no NodePool allows an instance type"), std::string::npos) << why_last();
}

// S-171: a v1beta1 pool reads as a v1 one says it, and what was written is kept.
TEST_F(ReferencePools, AV1beta1PoolIsConvertedAndKept) {
  const auto loaded = config::load_path(dir_ + "001-nodepool-gpu-training.yaml");
  ASSERT_EQ(loaded.objects.size(), 1U);
  const auto& document = loaded.objects[0].document;
  EXPECT_EQ(document.content["apiVersion"].string(), "karpenter.sh/v1beta1");
  const auto& pool = std::get<config::NodePool>(loaded.objects[0].typed);
  EXPECT_EQ(pool.consolidation_policy, "WhenEmptyOrUnderutilized");
  EXPECT_EQ(pool.expire_after, std::chrono::hours(720));
  const auto again = config::load_text(document.content.dump(), "again.json");
  ASSERT_EQ(again.objects.size(), 1U);
  EXPECT_EQ(again.objects[0].document.content, document.content);
  const auto& same = std::get<config::NodePool>(again.objects[0].typed);
  EXPECT_EQ(same.consolidation_policy, pool.consolidation_policy);
  EXPECT_EQ(same.limits.at("memory").to_string(), "8000Gi");
}

}  // namespace
}  // namespace qm::autoscaler
