// Claims, from NodePools to instances, as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/testing/text.hpp"
#include "test/engine/script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace provisioning_table_test {

using qm::testing::split;
using qm::testing::table_rows;
using qm::testing::trimmed;

// commands of script.hpp, by ";" | what the last one leads to, without promises, by ","; - = nothing
constexpr const char* kRows = R"(
# Provisioning Daemonsets and Node Overhead should account for overhead
pool p types=c2,c4 ; daemonset kube-system/a milli=600 ; want w/1 1x0 milli=1500 | launch p-00001 c4 on-demand
# Provisioning Daemonsets and Node Overhead should not schedule if overhead is too large
pool p types=c2,c4 ; daemonset kube-system/a milli=10000 ; want w/1 1x0 milli=100 | -
# Provisioning Daemonsets and Node Overhead should ignore daemonsets without matching tolerations
pool p types=c2,c4 taint=gpu ; daemonset kube-system/a milli=600 ; want w/1 1x0 milli=1500 tolerate=gpu | launch p-00001 c2 on-demand
pool p types=c2,c4 taint=gpu ; daemonset kube-system/a milli=600 tolerate-all=1 ; want w/1 1x0 milli=1500 tolerate=gpu | launch p-00001 c4 on-demand
# Provisioning Daemonsets and Node Overhead should ignore daemonsets with an invalid selector
pool p types=c2,c4 ; daemonset kube-system/a milli=600 select=node=invalid ; want w/1 1x0 milli=1500 | launch p-00001 c2 on-demand
# Provisioning Daemonsets and Node Overhead should account for daemonset spec affinity
pool p types=c2,c4 ; daemonset kube-system/a milli=600 affinity=karpenter.k8s.aws/instance-family=c ; want w/1 1x0 milli=1500 | launch p-00001 c4 on-demand
pool p types=c2,c4 ; daemonset kube-system/a milli=600 affinity=karpenter.k8s.aws/instance-family=g ; want w/1 1x0 milli=1500 | launch p-00001 c2 on-demand
# Provisioning should ignore NodePools that are deleting
pool p types=a8 ; pool-gone p ; want w/1 1x8 | -
pool p types=a8 ; want w/1 1x8 ; pool-gone p ; want v/1 1x8 | -
# Provisioning should not schedule pods on NodePools that are not ready
pool p types=a8 unready=NodeClassNotReady ; want w/1 1x8 | -
pool p types=a8 unready=NodeClassNotReady weight=9 ; pool q types=h8 ; want w/1 1x8 | launch q-00001 h8 on-demand
# Provisioning Multiple NodePools should schedule to an explicitly selected NodePool
pool p types=h8 ; pool q types=a8 ; want w/1 1x8 select=karpenter.sh/nodepool=p | launch p-00001 h8 on-demand
# Provisioning Multiple NodePools should schedule to a NodePool by labels
pool p types=h8 label=team=x ; pool q types=a8 ; want w/1 1x8 select=team=x | launch p-00001 h8 on-demand
# Provisioning Multiple NodePools Weighted NodePools should schedule to the NodePool with the highest priority always
pool p types=a8 weight=20 ; pool q types=a8 weight=100 ; pool r types=a8 ; want w/1 1x8 | launch q-00001 a8 on-demand
# Provisioning Multiple NodePools Weighted NodePools should schedule to explicitly selected NodePool even if other NodePools are higher priority
pool p types=a8 weight=20 ; pool q types=a8 weight=100 ; want w/1 1x8 select=karpenter.sh/nodepool=p | launch p-00001 a8 on-demand
# Provisioning Resource Limits should not schedule when limits are exceeded
pool p types=a8 gpus=8 ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=8 ; want v/1 1x1 | -
# Provisioning Resource Limits should partially schedule if limits would be exceeded
pool p types=g1 gpus=1 ; tick 1 ; want w/1 1x1 ; want v/1 1x1 | -
pool p types=a8,g1 gpus=4 ; want w/1 1x1 | launch p-00001 g1 on-demand
# Provisioning Resource Limits should not schedule if limits would be exceeded (GPU)
pool p types=a8 gpus=7 ; want w/1 1x1 | -
# Provisioning Resource Limits should schedule again once an instance of the NodePool is gone (not in Karpenter)
pool p types=a8 gpus=8 ; want w/1 1x8 ; up p-00001 i-1 n1 ; want v/1 1x8 ; unwant w ; tick 1 ; cloud i-1 stopped=1 | claim p-00001 Gone i-1 stopped=1, launch p-00002 a8 on-demand
# Static Provisioning should create nodeclaims up to the desired replicas
pool s types=h8,a8 replicas=2 | launch s-00001 a8 on-demand, launch s-00002 a8 on-demand
pool s types=a8 replicas=1 ; pool s types=a8 replicas=2 | launch s-00002 a8 on-demand
# Static Provisioning should respect node limits when provisioning
pool s types=a8 replicas=3 nodes=1 | launch s-00001 a8 on-demand
# Static Provisioning should not launch nodeclaims for pending pods (not in Karpenter)
pool s types=a8 replicas=1 ; want w/1 2x8 | -
# Static Deprovisioning should terminate excess nodeclaims when current count exceeds desired replicas
pool s types=a8 replicas=2 ; up s-00001 i-1 n1 ; up s-00002 i-2 n2 ; node n2 i-2 pods=1 ; pool s types=a8 replicas=1 | drain n1 Empty
# NodeClaim Launch should delete the nodeclaim if InsufficientCapacity is returned from the cloudprovider
pool p types=a8,h8 ; want w/1 1x8 ; ice p-00001 | claim p-00001 Failed, launch p-00002 h8 on-demand
# NodeClaim Liveness should delete the nodeClaim when the Node hasn't registered past the registration timeout
pool p types=a8 ; want w/1 1x8 ; launched p-00001 i-1 ; tick 899 | -
pool p types=a8 ; cloud i-1 claim=p-00007 pool=p type=a8 node=n1 ; tick 900 | terminate p-00007 i-1
# NodeClaim Liveness should not delete the nodeClaim of an initialized node (not in Karpenter)
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; tick 9000 | -
# NodeClaim GarbageCollection should delete nodeClaims when the Node is not there and the instance is gone
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; cloud-lost i-1 ; tick 600 | claim p-00001 Gone i-1 stopped=0
# NodeClaim GarbageCollection should not delete nodeClaims when the instance is listed again in time (not in Karpenter)
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; cloud-lost i-1 ; tick 599 ; cloud i-1 ; tick 600 | -
# Instance GarbageCollection should delete an instance if there is no NodeClaim owner
pool p types=a8 after=60 ; cloud i-1 claim=p-00009 pool=p type=a8 node=n1 ; node n1 i-1 ; tick 60 | drain n1 Empty
# Instance GarbageCollection should not delete an instance if it was not launched by a NodeClaim
pool p types=a8 after=60 ; cloud i-1 type=a8 node=n1 ; node n1 i-1 ; tick 900 | -
# Node Termination should not delete the instance until the node is drained
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; tick 3600 ; node n1 i-1 pods=1 cordoned | -
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; tick 3600 ; node n1 i-1 pods=1 cordoned ; node n1 i-1 cordoned | terminate p-00001 i-1
# Consolidation TTL should not consolidate if the action becomes invalid during the node TTL wait
pool p types=a8 after=60 ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; node n1 i-1 pods=1 cordoned | lifted n1
# Interruption should delete the NodeClaim when receiving a spot interruption warning
pool p types=a8 markets=spot ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; notice n1 120 | drain n1 SpotInterruption
# Interruption should not delete the NodeClaim when receiving a rebalance recommendation
pool p types=a8 markets=spot never ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; notice n1 120 rebalance | -
# Expiration should remove nodeclaims that are expired
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; tick 3300 | drain n1 Expired
# Drift should detect static drift of the NodePool
pool p types=a8 never hash=a ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; pool p types=a8 never hash=b | drain n1 Drifted
)";

/// What the last command of the row leads to.
std::string outcome(const std::string& commands) {
  Script script;
  std::vector<std::string> last;
  for (const auto& line : split(commands, ';')) {
    last = script.render(script.step(script.commands(trimmed(line))));
    if (const auto broken = script.complaint(); !broken.empty()) return "BROKEN " + broken;
  }
  std::erase_if(last,
                [](const std::string& line) { return line.starts_with("promise ") || line.starts_with("withdrawn "); });
  return last.empty() ? "-" : fmt::format("{}", fmt::join(last, ", "));
}

TEST(Provisioning, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 2U) << row;
    EXPECT_EQ(outcome(cells[0]), cells[1]) << row;
  }
  EXPECT_GE(rows.size(), 40U);
}

}  // namespace provisioning_table_test
}  // namespace qm::autoscaler::testing
