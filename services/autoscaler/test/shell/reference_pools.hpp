#pragma once
// NodePools of manifests through the engine, with the real catalog: the fixture of several tests.
#include "qm/autoscaler/nodes/node_watch.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qm::autoscaler {
namespace reference_pools_test {

inline const std::string kT4 = "Tesla-T4", kA10g = "NVIDIA-A10G", kL4 = "NVIDIA-L4", kL40s = "NVIDIA-L40S",
                         kH100 = "NVIDIA-H100-80GB-HBM3", kH200 = "NVIDIA-H200";
inline const std::vector<std::string> kA100 = {"NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"};
inline const std::vector<std::string> kV100 = {"Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB"};

class ReferencePools : public ::testing::TestWithParam<qm::testing::Manifests> {
 protected:
  std::vector<Pool> load(const std::string& name) {
    auto pools = pools_from_manifests(std::vector{GetParam().dir + name});
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
  /// Adds a gang of one pod; returns what is launched for it.
  std::vector<LaunchIntent> want(int gpus, std::vector<std::string> models = {}, std::string uid = {}) {
    PodSet pods;
    pods.shape.gpu.whole = gpus;
    pods.shape.gpu.models = std::move(models);
    pods.shape.cpu_milli = 1000;
    pods.shape.memory_bytes = 1LL << 30;
    pods.shape.tolerations = {{"nvidia.com/gpu", "Exists", "", ""}};
    if (uid.empty()) uid = fmt::format("w{:03}", demand_.items.size());
    demand_.items.push_back({{WorkloadUid(uid), 1}, {pods}, 0, now_});
    return step(demand_);
  }
  std::vector<LaunchIntent> no_capacity(const ClaimName& claim) {
    return step(LaunchEnded{claim, {}, "InsufficientInstanceCapacity"});
  }
  Output tick(Duration later) {
    now_ += later;
    const std::vector<Command> batch{Tick{}};
    auto output = engine_.step(batch, now_);
    engine_.commit();
    return output;
  }
  /// The instance of the launch runs on the node, with this number of pods.
  void bring_up(const LaunchIntent& launch, const std::string& node, std::int32_t pods) {
    const InstanceId id("i-" + node);
    step(LaunchEnded{launch.claim, id, {}});
    InstanceFact fact;
    fact.id = id;
    fact.claim = launch.claim;
    fact.pool = launch.row.pool;
    fact.type = launch.row.type;
    fact.zone = launch.row.zone;
    fact.market = launch.row.market;
    fact.node = NodeName(node);
    fact.launched = now_;
    cloud_.instances.push_back(fact);
    step(cloud_);
    step(NodeUpdated{NodeName(node), true, false, false, pods, pods == 0 ? std::optional(now_) : std::nullopt, id});
  }
  /// A pod with one GPU of the model gets an instance, which runs on the node.
  ClaimName run_node(const std::string& model, const std::string& node, std::int32_t pods) {
    const auto launched = want(1, model.empty() ? std::vector<std::string>{} : std::vector{model}, "for-" + node);
    EXPECT_EQ(launched.size(), 1U);
    bring_up(launched.at(0), node, pods);
    demand_.items.clear();
    step(demand_);
    return launched.at(0).claim;
  }
  void spot_price(const std::string& type, const std::string& zone, const char* usd) {
    step(SpotPricesUpdated{{{type, zone, HourlyRate{*Money::parse_usd(usd)}, now_}}});
  }
  std::string why_last() const { return engine_.explain(now_).back(); }

  Engine engine_{catalog_types()};
  DemandUpdated demand_;
  InstancesListed cloud_;
  Instant now_ = from_micros(1'800'000'000'000'000);
};

}  // namespace reference_pools_test
}  // namespace qm::autoscaler
