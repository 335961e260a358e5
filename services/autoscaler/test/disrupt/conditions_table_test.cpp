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

// inputs | conditions that must be there: Type=Status or Type=Reason, "!Type" = absent
constexpr const char* kRows = R"(
# Launch should add the Launched status condition after creating the NodeClaim
launched | Launched=True Registered=NodeNotFound Ready=Unknown
- | Launched=AwaitingReconciliation Registered=Unknown Initialized=NodeNotFound Ready=ReconcilingDependents
# Registration should match the nodeClaim to the Node when the Node comes online
node | Registered=True Initialized=NodeNotReady
# Registration should sync the taints to the Node when the Node comes online (the unregistered taint is removed last)
node taint=karpenter.sh/unregistered:NoExecute | Registered=UnregisteredTaintExists
# Initialization should consider the nodeClaim initialized when all initialization conditions are met
ready | Launched=True Registered=True Initialized=True Ready=True
ready wants=nvidia.com/gpu has=nvidia.com/gpu/8 startup=cilium:NoExecute | Initialized=True Ready=True
# Initialization should not consider the Node to be initialized when the Node is not ready
node wants=nvidia.com/gpu has=nvidia.com/gpu/8 | Initialized=NodeNotReady Ready=Unknown
# Initialization should not consider the Node to be initialized when all requested resources aren't registered
ready wants=nvidia.com/gpu | Initialized=ResourceNotRegistered Ready=ReconcilingDependents
ready wants=nvidia.com/gpu wants=vpc.amazonaws.com/efa has=nvidia.com/gpu/8 | Initialized=ResourceNotRegistered
# Initialization should not consider a resource registered while its amount is zero
ready wants=nvidia.com/gpu has=nvidia.com/gpu/0 | Initialized=ResourceNotRegistered
# Initialization should consider Node to be initialized once all the resources are registered
ready wants=nvidia.com/gpu wants=vpc.amazonaws.com/efa has=nvidia.com/gpu/8 has=vpc.amazonaws.com/efa/4 | Initialized=True
ready has=nvidia.com/gpu/0 | Initialized=True
# Initialization should not consider the Node to be initialized when all startupTaints aren't removed
ready startup=cilium:NoExecute taint=cilium:NoExecute | Initialized=StartupTaintsExist Ready=Unknown
ready startup=a:NoSchedule startup=b:NoSchedule taint=b:NoSchedule | Initialized=StartupTaintsExist
# Initialization should consider the Node to be initialized once all the startupTaints are removed
ready startup=cilium:NoExecute taint=team:NoSchedule | Initialized=True
ready startup=cilium:NoExecute taint=cilium:NoSchedule | Initialized=True
# Initialization should not consider the Node to be initialized when all ephemeralTaints aren't removed
ready taint=node.kubernetes.io/not-ready:NoSchedule | Initialized=KnownEphemeralTaintsExist
ready taint=node.kubernetes.io/unreachable:NoSchedule | Initialized=KnownEphemeralTaintsExist
ready taint=node.cloudprovider.kubernetes.io/uninitialized:NoSchedule | Initialized=KnownEphemeralTaintsExist
# Initialization should consider the Node to be initialized once all the ephemeralTaints are removed
ready taint=nvidia.com/gpu:NoSchedule | Initialized=True
# Initialization should remain when the Node becomes not ready later
node initialized wants=nvidia.com/gpu | Initialized=True Registered=True Ready=True
# Drift should detect drift
ready drift=AMIDrift | Drifted=AMIDrift Ready=True
# Drift should remove the status condition from the nodeClaim if the nodeClaim is no longer drifted
ready | !Drifted
# Consolidation should mark NodeClaims as consolidatable
ready consolidatable | Consolidatable=True
# Consolidation should remove the status condition from the nodeClaim when consolidateAfter is never
ready | !Consolidatable
# Consistency should detect issues when launched with fewer resources than expected
ready inconsistent | ConsistentStateFound=ConsistencyCheckFailed
# Consistency should consider the state consistent
ready | ConsistentStateFound=True
launched | !ConsistentStateFound
# Orchestration should set the DisruptionReason of the candidates
ready disrupted=Drifted | DisruptionReason=Drifted !Drained
# Termination should set the Drained status condition once all pods have left
ready disrupted=Empty draining pods=2 | Drained=Draining DisruptionReason=Empty
ready disrupted=Empty draining | Drained=True
# Termination should set the InstanceTerminating status condition
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
  EXPECT_GE(rows.size(), 33U);
}

TEST(Conditions, MessagesNameWhatIsMissing) {
  const auto gap = initialization_gap({true, true, {}, {}}, {{}, {"nvidia.com/gpu"}});
  ASSERT_TRUE(gap);
  EXPECT_EQ(gap->message, "Resource \"nvidia.com/gpu\" was requested but not registered");
  const auto conditions = node_claim_conditions(inputs_of("launched"));
  const auto ready = std::ranges::find(conditions, "Ready", &Condition::type);
  EXPECT_EQ(ready->message, "Registered=Unknown, Initialized=Unknown");
}

// The conditions for which Karpenter's AWS provider repairs a node, and their times; the earliest one counts.
TEST(Repair, EachConditionHasItsTime) {
  const Instant t = from_micros(1'000'000'000);
  const auto at = [&](std::vector<NodeCondition> conditions) -> std::int64_t {
    const auto repair = repair_of(conditions);
    return repair ? (repair->at - t) / 1min : -1;
  };
  EXPECT_EQ(at({{"Ready", "True", t}}), -1);
  EXPECT_EQ(at({{"Ready", "False", t}}), 30);
  EXPECT_EQ(at({{"Ready", "Unknown", t}}), 30);
  EXPECT_EQ(at({{"AcceleratedHardwareReady", "False", t}}), 10);
  EXPECT_EQ(at({{"AcceleratedHardwareReady", "Unknown", t}}), -1);
  EXPECT_EQ(at({{"StorageReady", "False", t}}), 30);
  EXPECT_EQ(at({{"MemoryPressure", "True", t}}), -1);
  EXPECT_EQ(at({{"Ready", "False", t}, {"AcceleratedHardwareReady", "False", t + 5min}}), 15);
  EXPECT_EQ(repair_of({{"Ready", "Unknown", t}})->condition, "Ready is Unknown");
}

}  // namespace conditions_table_test
}  // namespace qm::autoscaler
