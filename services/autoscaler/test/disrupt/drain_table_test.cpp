// Steps of a drain as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/autoscaler/disrupt/drain.hpp"
#include "qm/testing/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace drain_table_test {

using qm::testing::split;
using qm::testing::table_rows;
using qm::testing::trimmed;

const Instant kNow = from_micros(1'000'000'000'000);
Duration secs(const std::string& text) { return std::chrono::seconds(std::stol(text)); }

/// NAME grace=SECONDS critical stays terminating=END (in seconds) hold=true hold=SECONDS (since a start 60 s ago)
DrainPod pod_of(const std::string& text) {
  DrainPod out;
  const auto words = split(text, ' ');
  out.name = words.at(0);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string word(words[i]);
    const auto eq = word.find('=');
    const std::string key = word.substr(0, eq), value = eq == std::string::npos ? "" : word.substr(eq + 1);
    if (key == "grace") out.grace = secs(value);
    if (key == "critical") out.critical = true;
    if (key == "stays") out.stays = true;
    if (key == "terminating") out.terminating = true, out.deleted_by = kNow + secs(value);
    if (key == "hold") out.holding = {out.name, value == "true" ? Duration::max() : secs(value), kNow - secs("60"), ""};
  }
  return out;
}

// Karpenter v1.14.1: pkg/controllers/node/termination/{suite_test.go,terminator/suite_test.go}.
// seconds to the deadline of the node, or - | pods, by ";" | steps: NAME evict, NAME delete=SECONDS | pods left
constexpr const char* kRows = R"(
# Termination Reconciliation should delete nodes
- | a ; b | a evict, b evict | 2
# Termination Reconciliation should not evict static pods
- | a stays ; b | b evict | 1
- | a stays ; b stays critical | - | 0
# Termination Reconciliation should not evict pods that tolerate karpenter disruption taint with exists operator
100 | a stays grace=300 | - | 0
# Termination Reconciliation should evict non-critical pods first
- | a critical ; b | b evict | 2
- | a critical ; b terminating=30 | - | 2
- | a critical ; b stays | a evict | 1
# Termination should not evict pods that are already terminating (no upstream test)
- | a terminating=30 ; b | b evict | 2
# Termination should not evict pods with the do-not-disrupt annotation (no upstream test)
- | a hold=true ; b | b evict | 2
- | a hold=100 | - | 1
- | a hold=60 | a evict | 1
# Termination Reconciliation should evict pods in order and wait until pods are fully deleted
- | a terminating=30 | - | 1
# Termination Reconciliation should preemptively delete pods to satisfy their terminationGracePeriodSeconds
300 | a grace=300 | a delete=300 | 1
200 | a grace=300 | a delete=200 | 1
# Termination Reconciliation should only delete pods when their terminationGracePeriodSeconds is less than the the node's remaining terminationGracePeriod
301 | a grace=300 | a evict | 1
301 | a grace=300 hold=true | - | 1
300 | a grace=300 hold=true | a delete=300 | 1
# Terminator should delete pods with the do-not-disrupt annotation and blocking PDBs once the node's time is over (no upstream test)
1 | a grace=30 hold=true ; b critical grace=9 | a delete=1, b delete=1 | 2
# Eviction/Queue Pod Deletion API should not delete a pod with no nodeTerminationTime
- | a grace=9000 | a evict | 1
# Eviction/Queue Pod Deletion API should not delete a pod with terminationGracePeriodSeconds still remaining before nodeTerminationTime
400 | a grace=390 hold=100 | - | 1
# Eviction/Queue Pod Deletion API should delete a pod with less than terminationGracePeriodSeconds remaining before nodeTerminationTime
380 | a grace=390 hold=100 | a delete=380 | 1
# Eviction/Queue Pod Deletion API should clamp gracePeriodSeconds to >= 1 when nodeTerminationTime is in the past
0 | a grace=30 | a delete=1 | 1
-40 | a grace=30 | a delete=1 | 1
# Termination Reconciliation should bypass pods which are stuck terminating past their grace period
- | a terminating=-61 ; b critical | b evict | 1
- | a terminating=-60 ; b critical | - | 2
100 | a grace=300 terminating=-61 | - | 0
# Termination Reconciliation should update deletion timestamp for terminating pods when it is after node deletion timestamp
100 | a grace=300 terminating=100 | - | 1
100 | a grace=300 terminating=250 | a delete=100 | 1
# Terminator should delete critical pods in time although others are left (no upstream test)
60 | a critical grace=60 ; b grace=10 | a delete=60, b evict | 2
)";

TEST(Drain, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 4U) << row;
    std::vector<DrainPod> pods;
    for (const auto& part : split(cells[1], ';')) pods.push_back(pod_of(trimmed(part)));
    const std::string until = cells[0];
    const auto plan = next_steps(pods, until == "-" ? std::nullopt : std::optional(kNow + secs(until)), kNow);
    std::vector<std::string> steps;
    for (const auto& step : plan.steps) {
      steps.push_back(step.kind == DrainStep::Kind::kEvict
                          ? fmt::format("{} evict", pods[step.pod].name)
                          : fmt::format("{} delete={}", pods[step.pod].name, step.grace_seconds));
    }
    EXPECT_EQ(steps.empty() ? "-" : fmt::format("{}", fmt::join(steps, ", ")), cells[2]) << row;
    EXPECT_EQ(plan.left, std::stol(cells[3])) << row;
  }
  EXPECT_GE(rows.size(), 29U);
}

}  // namespace drain_table_test
}  // namespace qm::autoscaler
