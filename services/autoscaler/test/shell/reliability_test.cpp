// The profile reliability with the pools of both reference configurations: which kind of capacity inference gets.
#include "qm/autoscaler/shell.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace reliability_test {

/// An engine under a profile, with pools of manifests and inference pods of one GPU.
class Fleet {
 public:
  Fleet(Reliability reliability, const std::vector<std::string>& files)
      : engine_(catalog_types(), profile(reliability)) {
    auto pools = pools_from_manifests(files);
    EXPECT_TRUE(pools) << (pools ? "" : pools.error().to_string());
    if (pools) (void)step(PoolsApplied{std::move(*pools)});
  }
  std::vector<LaunchIntent> want_inference() {
    PodSet pods;
    pods.shape.gpu.whole = 1;
    pods.shape.cpu_milli = 1000;
    pods.shape.memory_bytes = 1LL << 30;
    pods.shape.tolerations = {{"nvidia.com/gpu", "Exists", "", ""}};
    DemandUpdated::Item item{{WorkloadUid("web"), 1}, {pods}, 0, now_};
    item.type = "inference";
    return step(DemandUpdated{{item}});
  }
  std::vector<LaunchIntent> no_capacity(const ClaimName& claim) {
    return step(LaunchEnded{claim, {}, "InsufficientInstanceCapacity"});
  }
  [[nodiscard]] std::string why() const { return engine_.explain(now_).front(); }

 private:
  static Options profile(Reliability reliability) {
    Options out;
    out.reliability = reliability;
    return out;
  }
  std::vector<LaunchIntent> step(const Command& command) {
    const std::vector<Command> batch{command};
    now_ += std::chrono::seconds(1);
    auto output = engine_.step(batch, now_);
    engine_.commit();
    return output.launches;
  }
  Engine engine_;
  Instant now_ = from_micros(1'800'000'000'000'000);
};

class ReliabilityProfile : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto shared = qm::testing::shared_dir();
    if (!shared) GTEST_SKIP() << qm::testing::no_shared();
    reliable_ = *shared + "/manifests/001-nodepool-gpu-inference.yaml";
    spot_ = *shared + "/manifests/004-nodepool-gpu-spot-inference.yaml";
  }
  std::string reliable_, spot_;
};

// S-193: the configuration whose inference is on-demand.
TEST_F(ReliabilityProfile, OnDemandNeverUsesSpotForInference) {
  Fleet fleet(Reliability::kOnDemand, {reliable_, spot_});
  const auto launched = fleet.want_inference();
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.pool, "gpu-inference");
  EXPECT_EQ(launched[0].row.market, Market::kOnDemand);
  Fleet spot_only(Reliability::kOnDemand, {spot_});
  EXPECT_TRUE(spot_only.want_inference().empty());
  EXPECT_NE(spot_only.why().find("inference under reliability=on-demand: on-demand"), std::string::npos)
      << spot_only.why();
}

// S-193: the configuration whose inference prefers spot, though the on-demand pool has the higher weight.
TEST_F(ReliabilityProfile, SpotFirstFallsBackToOnDemandWithoutSpotCapacity) {
  Fleet fleet(Reliability::kSpotFirst, {reliable_, spot_});
  auto launched = fleet.want_inference();
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.pool, "gpu-spot-inference");
  std::size_t spot = 0;
  while (launched.size() == 1 && launched[0].row.market == Market::kSpot && spot < 1000) {
    ++spot;
    launched = fleet.no_capacity(launched[0].claim);
  }
  EXPECT_GT(spot, 10U) << "each type and zone was tried";
  ASSERT_EQ(launched.size(), 1U);
  EXPECT_EQ(launched[0].row.pool, "gpu-inference");
  EXPECT_EQ(launched[0].row.market, Market::kOnDemand);
}

}  // namespace reliability_test
}  // namespace qm::autoscaler
