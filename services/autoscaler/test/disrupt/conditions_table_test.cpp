// Conditions of NodeClaims as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/autoscaler/disrupt/conditions.hpp"
#include "qm/testing/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace conditions_table_test {

using namespace std::chrono_literals;
using qm::testing::split;
using qm::testing::table_rows;

Taint taint_of(const std::string& text) {
  const auto colon = text.find(':');
  return {text.substr(0, colon), "", text.substr(colon + 1)};
}

/// launched node ready taint=KEY:EFFECT has=RESOURCE/AMOUNT startup=KEY:EFFECT wants=RESOURCE initialized drift=REASON
/// consolidatable disrupted=REASON inconsistent draining pods=N terminating
ConditionInputs inputs_of(const std::string& text) {
  ConditionInputs out;
  for (const auto& word : split(text, ' ')) {
    const std::string all(word);
    const auto eq = all.find('=');
    const std::string key = all.substr(0, eq), value = eq == std::string::npos ? "" : all.substr(eq + 1);
    if (key == "launched") out.launched = true;
    if (key == "node") out.launched = out.node.exists = true;
    if (key == "ready") out.launched = out.node.exists = out.node.ready = true;
    if (key == "taint") out.node.taints.push_back(taint_of(value));
    if (key == "has")
      out.node.allocatable[value.substr(0, value.rfind('/'))] = std::stol(value.substr(value.rfind('/') + 1));
    if (key == "startup") out.expected.startup_taints.push_back(taint_of(value));
    if (key == "wants") out.expected.resources.push_back(value);
    if (key == "initialized") out.initialized = true;
    if (key == "drift") out.drift = value;
    if (key == "consolidatable") out.consolidatable = true;
    if (key == "disrupted") out.disruption = value;
    if (key == "inconsistent") out.inconsistent = "expected 8 of resource nvidia.com/gpu, but found 7";
    if (key == "draining") out.draining = true;
    if (key == "pods") out.pods = std::stol(value);
    if (key == "terminating") out.terminating = true;
  }
  return out;
}

// Karpenter v1.14.1: pkg/controllers/nodeclaim/{lifecycle,disruption,consistency}, pkg/scheduling/taints_test.go.
// inputs | conditions that must be there: Type=Status or Type=Reason, "!Type" = absent
constexpr const char* kRows = R"(
# Launch should add the Launched status condition after creating the NodeClaim
launched | Launched=True Registered=NodeNotFound Ready=Unknown
- | Launched=AwaitingReconciliation Registered=Unknown Initialized=NodeNotFound Ready=ReconcilingDependents
# Registration Registration should match the nodeClaim to the Node when the Node comes online
node | Registered=True Initialized=NodeNotReady
# Registration should wait until the taint of an unregistered node is removed (no upstream test)
node taint=karpenter.sh/unregistered:NoExecute | Registered=UnregisteredTaintExists
# Initialization shouldn't consider the nodeClaim initialized when it has not registered
ready taint=karpenter.sh/unregistered:NoExecute | Registered=UnregisteredTaintExists Initialized=KnownEphemeralTaintsExist Ready=Unknown
# Initialization Initialization should consider the NodeClaim initialized when all initialization conditions are met
ready | Launched=True Registered=True Initialized=True Ready=True
ready wants=nvidia.com/gpu has=nvidia.com/gpu/8 startup=cilium:NoExecute | Initialized=True Ready=True
# Initialization should not consider the Node to be initialized when the status of the Node is NotReady
node wants=nvidia.com/gpu has=nvidia.com/gpu/8 | Initialized=NodeNotReady Ready=Unknown
# Initialization should not consider the Node to be initialized when all requested resources aren't registered
ready wants=nvidia.com/gpu | Initialized=ResourceNotRegistered Ready=ReconcilingDependents
ready wants=nvidia.com/gpu wants=vpc.amazonaws.com/efa has=nvidia.com/gpu/8 | Initialized=ResourceNotRegistered
# Initialization should not consider a resource registered while its amount is zero (no upstream test)
ready wants=nvidia.com/gpu has=nvidia.com/gpu/0 | Initialized=ResourceNotRegistered
# Initialization should consider the node to be initialized once all the resources are registered
ready wants=nvidia.com/gpu wants=vpc.amazonaws.com/efa has=nvidia.com/gpu/8 has=vpc.amazonaws.com/efa/4 | Initialized=True
ready has=nvidia.com/gpu/0 | Initialized=True
# Initialization should not consider the Node to be initialized when all startupTaints aren't removed
ready startup=cilium:NoExecute taint=cilium:NoExecute | Initialized=StartupTaintsExist Ready=Unknown
ready startup=a:NoSchedule startup=b:NoSchedule taint=b:NoSchedule | Initialized=StartupTaintsExist
# Initialization should consider the Node to be initialized once the startupTaints are removed
ready startup=cilium:NoExecute taint=team:NoSchedule | Initialized=True
ready startup=cilium:NoExecute taint=cilium:NoSchedule | Initialized=True
# Initialization should not consider the Node to be initialized when all ephemeralTaints aren't removed
ready taint=node.kubernetes.io/not-ready:NoSchedule | Initialized=KnownEphemeralTaintsExist
ready taint=node.kubernetes.io/unreachable:NoSchedule | Initialized=KnownEphemeralTaintsExist
ready taint=node.cloudprovider.kubernetes.io/uninitialized:NoSchedule | Initialized=KnownEphemeralTaintsExist
# Initialization should consider the Node to be initialized once the ephemeralTaints are removed
ready taint=nvidia.com/gpu:NoSchedule | Initialized=True
# Initialization should not consider the Node to be initialized while a readiness.k8s.io/ taint is present, and initialize once it is removed
ready taint=readiness.k8s.io/fabric:NoSchedule | Initialized=KnownEphemeralTaintsExist Ready=Unknown
# IsKnownEphemeralTaint matches any effect for a prefixed taint
ready taint=readiness.k8s.io/driver:NoExecute | Initialized=KnownEphemeralTaintsExist
# IsKnownEphemeralTaint does not match a taint whose key only contains the prefix in the middle
ready taint=example.com/readiness.k8s.io/driver:NoSchedule | Initialized=True
# Initialization should remain when the Node becomes not ready later (no upstream test)
node initialized wants=nvidia.com/gpu | Initialized=True Registered=True Ready=True
# Drift Drift should detect drift
ready drift=AMIDrift | Drifted=AMIDrift Ready=True
# Drift should remove the status condition from the nodeClaim if the nodeClaim is no longer drifted
ready | !Drifted
# Underutilized should mark NodeClaims as consolidatable
ready consolidatable | Consolidatable=True
# Disruption should set multiple disruption conditions simultaneously
ready consolidatable drift=NodePoolDrifted | Consolidatable=True Drifted=NodePoolDrifted Ready=True
# Disruption should remove multiple disruption conditions simultaneously
ready disrupted=Expired | !Consolidatable !Drifted
# Underutilized should remove the status condition from the nodeClaim when consolidateAfter is never
ready | !Consolidatable
# NodeClaimController Node Shape should detect issues that launch with much fewer resources than expected
ready inconsistent | ConsistentStateFound=ConsistencyCheckFailed
# NodeClaimController Node Shape Node Shape should set consistent state found condition to true if there are no consistency issues
ready | ConsistentStateFound=True
launched | !ConsistentStateFound
# Orchestration should set the DisruptionReason of the candidates (no upstream test)
ready disrupted=Drifted | DisruptionReason=Drifted !Drained
# Termination should set the Drained status condition once all pods have left (no upstream test)
ready disrupted=Empty draining pods=2 | Drained=Draining DisruptionReason=Empty
ready disrupted=Empty draining | Drained=True
# Termination shouldn't mark the root condition of the NodeClaim as unknown when setting the Termination condition
ready draining terminating pods=1 | InstanceTerminating=True Ready=True
# Termination should set the InstanceTerminating status condition (no upstream test)
ready disrupted=Expired draining terminating | InstanceTerminating=True Drained=True
ready | !InstanceTerminating !DisruptionReason !Drained
)";

TEST(Conditions, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 2U) << row;
    const auto conditions = node_claim_conditions(inputs_of(cells[0]));
    for (const auto& word : split(cells[1], ' ')) {
      const std::string expected(word);
      const bool absent = expected.starts_with('!');
      const std::string type = absent ? expected.substr(1) : expected.substr(0, expected.find('='));
      const auto found = std::ranges::find(conditions, type, &Condition::type);
      ASSERT_EQ(found == conditions.end(), absent) << row << ": " << type;
      if (absent) continue;
      const std::string value = expected.substr(expected.find('=') + 1);
      EXPECT_TRUE(found->status == value || found->reason == value)
          << row << ": " << found->status << " " << found->reason;
    }
  }
  EXPECT_GE(rows.size(), 40U);
}

TEST(Conditions, MessagesNameWhatIsMissing) {
  const auto gap = initialization_gap({true, true, {}, {}}, {{}, {"nvidia.com/gpu"}});
  ASSERT_TRUE(gap);
  EXPECT_EQ(gap->message, "Resource \"nvidia.com/gpu\" was requested but not registered");
  const auto conditions = node_claim_conditions(inputs_of("launched"));
  const auto ready = std::ranges::find(conditions, "Ready", &Condition::type);
  EXPECT_EQ(ready->message, "Registered=Unknown, Initialized=Unknown");
}

// conditions of the node as TYPE=STATUS@MINUTE of the change | the condition and the minute of the repair; - = none
constexpr const char* kRepairs = R"(
# Node Health Reconciliation should not delete node when unhealthy type does not match cloud provider passed in value
MemoryPressure=True@0 DiskPressure=True@0 | -
# Node Health Reconciliation should not delete node when health status does not match cloud provider passed in value
AcceleratedHardwareReady=Unknown@0 StorageReady=Unknown@0 | -
# Node Health should repair each condition of the AWS provider after its time, the earliest one first (no upstream test)
Ready=True@0 | -
Ready=False@0 | Ready is False 30
Ready=Unknown@7 | Ready is Unknown 37
AcceleratedHardwareReady=False@0 | AcceleratedHardwareReady is False 10
StorageReady=False@0 | StorageReady is False 30
Ready=False@0 AcceleratedHardwareReady=False@5 | AcceleratedHardwareReady is False 15
)";

TEST(Repair, RowsHold) {
  const auto rows = table_rows(kRepairs);
  const Instant start = from_micros(1'000'000'000);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 2U) << row;
    std::vector<NodeCondition> conditions;
    for (const auto& word : split(cells[0], ' ')) {
      const auto eq = word.find('='), at = word.find('@');
      const auto minute = std::chrono::minutes(std::stol(word.substr(at + 1)));
      conditions.push_back({word.substr(0, eq), word.substr(eq + 1, at - eq - 1), start + minute});
    }
    const auto repair = repair_of(conditions);
    EXPECT_EQ(repair ? fmt::format("{} {}", repair->condition, (repair->at - start) / 1min) : "-", cells[1]) << row;
  }
  EXPECT_EQ(rows.size(), 8U);
}

}  // namespace conditions_table_test
}  // namespace qm::autoscaler
