// NodePools of manifests, unchanged, over weeks of virtual time: which nodes expire, drift and are held.
#include "qm/autoscaler/budgets/budgets.hpp"
#include "qm/autoscaler/nodes/node_lifecycle.hpp"
#include "test/shell/reference_pools.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace reference_pools_test {

class ReferenceDisruption : public ReferencePools {};

// S-187: at every minute of a week a budget of none stops consolidation and drift; expiry and a spot notice still act.
// S-186: the value applies, 30 days for the reference pool, whatever the comment says; reading the file warns of it.
TEST_P(ReferenceDisruption, ABudgetOfNoneStopsDriftAndEmptyNodesAndNotExpiryAndInterruption) {
  struct Case {
    std::string file, model;
    std::chrono::hours expires;
  };
  const auto c = GetParam().pick(Case{"nodepool-steady-training.yaml", kH200, std::chrono::hours(2160)},
                                 Case{"004-nodepool-gpu-training.yaml", kH100, std::chrono::hours(720)});
  const auto loaded = config::load_path(GetParam().dir + c.file);
  EXPECT_TRUE(std::ranges::any_of(loaded.diagnostics, [](const auto& d) {
    return d.field == "spec.template.spec.expireAfter" && d.severity == config::Diagnostic::Severity::kWarning;
  }));
  apply(c.file);
  const auto idle = run_node(c.model, "n1", 0), busy = run_node(c.model, "n2", 1);
  (void)run_node(c.model, "n3", 1);
  auto pools = load(c.file);
  pools[0].lifecycle.template_hash = "another";
  step(PoolsApplied{pools});
  EXPECT_EQ(engine_.tables().claims.find(busy)->life.drift, "NodePoolDrifted");
  for (int minute = 0; minute < 7 * 24 * 60; ++minute) {
    const auto out = tick(std::chrono::minutes(1));
    ASSERT_TRUE(out.drains.empty() && out.launches.empty() && out.terminations.empty()) << minute;
  }
  const std::vector<Command> notice{SpotNoticeUpdated{NodeName("n3"), now_ + std::chrono::seconds(120), false}};
  const auto noticed = engine_.step(notice, now_);
  engine_.commit();
  ASSERT_EQ(noticed.drains.size(), 1U);
  EXPECT_EQ(noticed.drains[0].node, NodeName("n3"));
  now_ = engine_.tables().claims.find(idle)->requested + c.expires - std::chrono::seconds(2);
  EXPECT_TRUE(tick(std::chrono::seconds(1)).drains.empty());
  const auto expired = tick(std::chrono::seconds(60));
  ASSERT_EQ(expired.drains.size(), 2U);
  EXPECT_EQ(expired.drains[0].reason, "Expired");
}

// S-180, S-174: nodes of the pool retire at their maximum age, after 14 days in the general pool of the reference and 30 in
// its training pool. The gang on the node gets its checkpoint order first.
TEST_P(ReferenceDisruption, NodesRetireAtTheirMaximumAgeAfterACheckpoint) {
  struct Case {
    std::string file, model;
    std::chrono::hours expires;
  };
  const auto first = GetParam().pick(Case{"nodepool-steady-training.yaml", kL40s, std::chrono::hours(2160)},
                                     Case{"004-nodepool-gpu-general.yaml", kA10g, std::chrono::hours(336)});
  const auto second = GetParam().pick(Case{"nodepool-deep-training-v1beta1.yaml", kH200, std::chrono::hours(240)},
                                      Case{"001-nodepool-gpu-training.yaml", kH100, std::chrono::hours(720)});
  for (const Case& c : {first, second}) {
    apply(c.file);
    const std::string node = "n-" + c.file;
    const auto claim = run_node(c.model, node, 1);
    step(WorkloadUpdated{WorkloadUid("train"), 1, true, false, "ml", "PyTorchJob", "train"});
    step(AssignmentUpdated{{WorkloadUid("train"), 1}, true, {NodeName(node)}});
    now_ = engine_.tables().claims.find(claim)->requested + c.expires - std::chrono::seconds(2);
    const auto before = tick(std::chrono::seconds(1));
    EXPECT_TRUE(before.drains.empty() && before.orders.empty()) << c.file;
    const auto out = tick(std::chrono::seconds(1));
    ASSERT_EQ(out.drains.size(), 1U) << c.file;
    EXPECT_EQ(out.drains[0].reason, "Expired");
    ASSERT_EQ(out.orders.size(), 1U) << c.file;
    EXPECT_TRUE(out.evictions.empty()) << "the gang saves first";
    step(AssignmentUpdated{{WorkloadUid("train"), 1}, false, {}});
    step(NodeUpdated{NodeName(node), false, false, true, 0, {}, {}});
  }
}

// S-174: a node on which a service runs has its replacement before it is drained.
TEST_P(ReferenceDisruption, AnExpiredInferenceNodeIsReplacedFirst) {
  const auto file = GetParam().pick("nodepool-zonal-serving-v1beta1.yaml", "001-nodepool-gpu-inference.yaml");
  apply(file);
  const auto claim = run_node("", "n1", 2);
  NodeDetailsUpdated details{NodeName("n1"), false, {}};
  details.details.serves = true;
  step(details);
  const Claim& old = *engine_.tables().claims.find(claim);
  ASSERT_TRUE(old.life.expire_after);
  now_ = old.requested + *old.life.expire_after - std::chrono::seconds(1);
  auto out = tick(std::chrono::seconds(1));
  ASSERT_EQ(out.launches.size(), 1U);
  EXPECT_EQ(out.launches[0].row.life.replaces, claim);
  EXPECT_TRUE(out.drains.empty()) << "its replacement is not ready";
  bring_up(out.launches[0], "n2", 0);
  out = tick(std::chrono::seconds(1));
  const auto drained = engine_.tables().nodes.find(NodeName("n1"));
  EXPECT_TRUE(drained->drain_requested);
  EXPECT_EQ(drained->drain_reason, "Expired");
}

// S-202: the pod with do-not-disrupt keeps its node from consolidation and drift, and not from a spot notice.
TEST_P(ReferenceDisruption, APodThatMustNotBeDisruptedKeepsItsNodeExceptFromASpotNotice) {
  Json pod = *Json::parse(R"({"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"72h"}}})");
  if (!GetParam().own) {
    const auto loaded = config::load_path(GetParam().dir + "004-pod-training-job-do-not-disrupt.yaml");
    ASSERT_EQ(loaded.objects.size(), 1U);
    pod = loaded.objects[0].document.content;
  }
  apply(GetParam().pick("nodepool-mixed.yaml", "004-nodepool-gpu-general.yaml"));
  (void)run_node(GetParam().pick(kL4, kT4), "n1", 1);
  NodeDetailsUpdated details{NodeName("n1"), false, {}};
  details.details.holding = {{"ml/training-job", do_not_disrupt_of(pod), now_, ""}};
  step(details);
  auto pools = load(GetParam().pick("nodepool-mixed.yaml", "004-nodepool-gpu-general.yaml"));
  pools[0].lifecycle.template_hash = "another";
  step(PoolsApplied{pools});
  for (int hour = 0; hour < 48; ++hour) {
    const auto out = tick(std::chrono::hours(1));
    ASSERT_TRUE(out.drains.empty() && out.launches.empty()) << hour;
  }
  EXPECT_NE(why_last().find("is Drifted and stays: pod ml/training-job has the annotation"), std::string::npos)
      << why_last();
  const std::vector<Command> notice{SpotNoticeUpdated{NodeName("n1"), now_ + std::chrono::seconds(120), false}};
  EXPECT_EQ(engine_.step(notice, now_).drains.size(), 1U);
  engine_.commit();
}

// S-203: in a voluntary drain the pod has its own 300 s to save, and is not killed before; nothing but the deadline of the
// node ends them. A spot notice of 120 s orders the checkpoint at once.
TEST_P(ReferenceDisruption, ALongTrainingPodHasItsGracePeriodAndSavesAtOnceOnASpotNotice) {
  Json pod = *Json::parse(R"({"metadata":{"name":"long-run","annotations":{"karpenter.sh/do-not-disrupt":"true"}},)"
                          R"("spec":{"terminationGracePeriodSeconds":300,"containers":[{"name":"trainer"}]}})");
  if (!GetParam().own) {
    const auto loaded = config::load_path(GetParam().dir + "004-pod-long-training-job.yaml");
    ASSERT_EQ(loaded.objects.size(), 1U);
    pod = loaded.objects[0].document.content;
  }
  const auto minutes = [](int n) { return std::chrono::minutes(n); };
  std::vector<DrainPod> pods{drain_pod_of(pod)};
  EXPECT_EQ(pods[0].grace, minutes(5));
  const Instant deadline = now_ + minutes(30);
  EXPECT_TRUE(next_steps(pods, deadline, deadline - minutes(5) - std::chrono::seconds(1)).steps.empty());
  const auto last = next_steps(pods, deadline, deadline - minutes(5)).steps;
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0], (DrainStep{0, DrainStep::Kind::kDelete, 300}));
  pods[0].holding.do_not_disrupt.reset();
  EXPECT_EQ(next_steps(pods, {}, now_).steps.at(0), (DrainStep{0, DrainStep::Kind::kEvict, -1})) << "its own grace";
  pods[0].terminating = true;
  pods[0].deleted_by = now_ + minutes(5);
  EXPECT_TRUE(next_steps(pods, {}, now_ + minutes(5) - std::chrono::seconds(1)).steps.empty());

  apply(GetParam().pick("nodepool-mixed.yaml", "004-nodepool-gpu-general.yaml"));
  (void)run_node(GetParam().pick(kL4, kT4), "n1", 1);
  NodeDetailsUpdated details{NodeName("n1"), false, {}};
  details.details.holding = {{"ml/long-training-job", do_not_disrupt_of(pod), now_, ""}};
  step(details);
  step(WorkloadUpdated{WorkloadUid("train"), 1, true, false, "ml", "Pod", "long-training-job"});
  step(AssignmentUpdated{{WorkloadUid("train"), 1}, true, {NodeName("n1")}});
  const std::vector<Command> notice{SpotNoticeUpdated{NodeName("n1"), now_ + minutes(2), false}};
  const auto out = engine_.step(notice, now_);
  engine_.commit();
  ASSERT_EQ(out.orders.size(), 1U);
  EXPECT_EQ(out.orders[0].row.ordered, now_) << "at once";
  EXPECT_LE(out.orders[0].row.save.deadline, now_ + minutes(2));
  EXPECT_TRUE(out.evictions.empty());
}

// S-200, S-201: of several budgets the least that is active applies; one with reasons limits those alone. In the reference
// the training hours allow no disruption, and from 23:00 one node at a time may be disrupted, drifted or not.
TEST_P(ReferenceDisruption, OverlappingBudgetsAllowTheLeastForEachReason) {
  using Reason = DisruptionReason;
  struct At {
    const char* time;
    Reason reason;
    std::int64_t allowed;
  };
  const std::string file = GetParam().pick("nodepool-windows.yaml", "004-nodepool-gpu-training-protected.yaml");
  const auto rows = GetParam().pick(
      std::vector<At>{{"2026-11-25T12:00:00Z", Reason::kEmpty, 0},  // Wednesday: none from 6:30 to 20:30
                      {"2026-11-25T12:00:00Z", Reason::kDrifted, 0},
                      {"2026-11-25T23:30:00Z", Reason::kEmpty, 3},  // 25 % of 12
                      {"2026-11-25T23:30:00Z", Reason::kUnderutilized, 3},
                      {"2026-11-25T23:30:00Z", Reason::kDrifted, kUnlimitedDisruptions},
                      {"2026-11-29T12:00:00Z", Reason::kDrifted, kUnlimitedDisruptions}},  // Sunday
      std::vector<At>{{"2026-11-25T12:00:00Z", Reason::kEmpty, 0},
                      {"2026-11-25T12:00:00Z", Reason::kUnderutilized, 0},
                      {"2026-11-25T12:00:00Z", Reason::kDrifted, 0},
                      {"2026-11-25T22:59:59Z", Reason::kDrifted, 0},
                      {"2026-11-25T23:30:00Z", Reason::kEmpty, 1},
                      {"2026-11-25T23:30:00Z", Reason::kUnderutilized, 1},
                      {"2026-11-25T23:30:00Z", Reason::kDrifted, 1},
                      {"2026-11-26T00:00:00Z", Reason::kEmpty, 0}});
  const auto pools = load(file);
  ASSERT_EQ(pools.size(), 1U);
  const auto allowed = [](const std::vector<Budget>& budgets, const At& at) {
    const auto out = allowed_disruptions(budgets, at.reason, 12, *from_rfc3339(at.time), next_in_utc);
    EXPECT_EQ(out.malformed, "");
    return out.nodes;
  };
  for (const At& at : rows) EXPECT_EQ(allowed(pools[0].budgets, at), at.allowed) << at.time << name_of(at.reason);
  if (!GetParam().own) {
    // At 23:30 the schedule alone limits empty nodes, and each of the two budgets drifted ones.
    const std::vector<Budget> schedule{pools[0].budgets.at(1)}, reasons{pools[0].budgets.at(2)};
    EXPECT_EQ(allowed(schedule, {"2026-11-25T23:30:00Z", Reason::kEmpty, 1}), 1);
    EXPECT_EQ(allowed(reasons, {"2026-11-25T23:30:00Z", Reason::kEmpty, 0}), kUnlimitedDisruptions);
    EXPECT_EQ(allowed(schedule, {"2026-11-25T23:30:00Z", Reason::kDrifted, 1}), 1);
    EXPECT_EQ(allowed(reasons, {"2026-11-25T23:30:00Z", Reason::kDrifted, 1}), 1);
  }
}

// S-200: the engine acts on it. Three empty nodes stay at noon, and at 23:30 they are terminated one at a time.
TEST_P(ReferenceDisruption, AtNoonEmptyNodesStayAndAtNightTheyLeaveWithinTheBudget) {
  now_ = *from_rfc3339("2026-11-25T08:00:00Z");
  apply(GetParam().pick("nodepool-windows.yaml", "004-nodepool-gpu-training-protected.yaml"));
  for (const char* node : {"n1", "n2", "n3"}) (void)run_node("", node, 0);
  now_ = *from_rfc3339("2026-11-25T12:00:00Z");
  const auto noon = tick(std::chrono::seconds(1));
  EXPECT_TRUE(noon.drains.empty() && noon.terminations.empty()) << why_last();
  now_ = *from_rfc3339("2026-11-25T23:30:00Z");
  EXPECT_EQ(tick(std::chrono::seconds(1)).drains.size(), 1U) << "one of three, or 25 % of them: " << why_last();
  EXPECT_TRUE(tick(std::chrono::seconds(60)).drains.empty()) << "the first has not left";
}

// S-201: a reason that does not exist is refused with those that do.
TEST(DisruptionReasons, AreValidated) {
  const auto loaded = config::load_text(R"(apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  disruption: {budgets: [{nodes: "1", reasons: [Drifted, Empty, Underutilized]}, {nodes: "1", reasons: [Expired]}]}
  template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}, requirements: []}}
)",
                                        "p.yaml");
  ASSERT_EQ(loaded.diagnostics.size(), 1U);
  EXPECT_EQ(
      loaded.diagnostics[0].to_string(),
      "p.yaml:5: spec.disruption.budgets[1].reasons: \"Expired\" is not a reason for disruption; use Drifted, Empty or "
      "Underutilized, or leave reasons out for all of them");
}

QM_FOR_EACH_MANIFESTS(ReferenceDisruption);

}  // namespace reference_pools_test
}  // namespace qm::autoscaler
