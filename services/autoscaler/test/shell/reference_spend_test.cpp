// The limits of NodePools of manifests as a cap on their cost: what is launched, and what is refused.
#include "qm/autoscaler/node_pools/summary.hpp"
#include "qm/catalog/catalog.hpp"
#include "test/shell/reference_pools.hpp"

namespace qm::autoscaler {
namespace reference_pools_test {

class ReferenceSpend : public ReferencePools {};

// S-311: within the limit instances are launched, at no more than the highest cost of the pool; a claim beyond it is refused
// with the name of the NodePool and its limit.
TEST_P(ReferenceSpend, AClaimBeyondTheLimitIsRefusedByName) {
  struct Case {
    std::string file, pool, model;
    std::vector<int> within;  ///< GPUs of single pods, which use the limit up
    int limit;
  };
  const auto c =
      GetParam().pick(Case{"nodepool-edge-tiers.yaml", "edge-last", kL4, {4, 1}, 5},
                      Case{"004-nodepool-tiers-g5-g4dn.yaml", "gpu-tier3-g5-ondemand", kA10g, {8, 1, 1}, 10});
  auto pools = load(c.file);
  std::erase_if(pools, [&](const Pool& pool) { return pool.name != c.pool; });  // heavier pools would be first
  step(PoolsApplied{pools});
  Money spend;
  for (const int gpus : c.within) {
    const auto launched = want(gpus, {c.model});
    ASSERT_EQ(launched.size(), 1U) << why_last();
    EXPECT_EQ(launched[0].row.pool, c.pool);
    spend += *Money::parse_usd(catalog::find(launched[0].row.type)->usd_hour);
  }
  EXPECT_TRUE(want(1, {c.model}).empty());
  EXPECT_NE(why_last().find(fmt::format("NodePool {} has the limit nvidia.com/gpu {}: {} in use, 1 more needed", c.pool,
                                        c.limit, c.limit)),
            std::string::npos)
      << why_last();
  for (const auto& object : config::load_path(GetParam().dir + c.file).objects) {
    const auto* pool = std::get_if<config::NodePool>(&object.typed);
    if (pool == nullptr || pool->name != c.pool) continue;
    const auto summary = summary_of(*pool);
    ASSERT_TRUE(summary.most);
    EXPECT_LE(spend, summary.most->usd);
  }
}

QM_FOR_EACH_MANIFESTS(ReferenceSpend);

}  // namespace reference_pools_test
}  // namespace qm::autoscaler
