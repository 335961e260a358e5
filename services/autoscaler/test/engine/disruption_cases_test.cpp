// Expiry, drift, repair, holds and the start of nodes, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace disruption_cases_test {

/// `w` runs on n1 and can save; its demand is over.
std::string running(const std::string& pool) {
  return pool + R"(
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1 | runs w/1 n1 | workload w saves
    unwant w
    tick 300
    => withdrawn w/1
  )";
}

// A report from the field: the node is empty at 0 s and is consolidated after 30 s; pods that must not be disrupted are
// bound at 29 s, and observed at 31 s. The drain is withdrawn, and the instance is not terminated.
TEST(Hold, PodsThatAreBoundJustBeforeTheDrainKeepTheNode) {
  const std::string empty = running("pool p types=a8 after=30") + R"(
    released w/1
    node n1 i-1
    tick 30
    => drain n1 Empty
    tick 1
    details n1 i-1 hold=ml/train:ever
  )";
  expect(empty + R"(
    node n1 i-1 pods=2
    => lifted n1
    tick 9000
  )");
  // The same if the confirmation of the cordon is what shows the pods.
  expect(empty + R"(
    node n1 i-1 pods=2 cordoned
    => lifted n1
    node n1 i-1 pods=2
    tick 9000
  )");
}

// S-202: a pod with the annotation keeps its node from consolidation and drift, and not from a spot notice.
TEST(Hold, AnAnnotationKeepsFromDriftAndNotFromASpotNotice) {
  expect(running("pool p types=a8 hash=a") + R"(
    details n1 i-1 hold=ml/train:ever
    pool p types=a8 hash=b
    tick 9000
    notice n1 120
    => order w/1/n1 to n1 by=9410
    => drain n1 SpotInterruption
  )");
}

TEST(Hold, ADurationCountsFromTheStartOfThePod) {
  expect(running("pool p types=a8 hash=a") + R"(
    details n1 i-1 hold=ml/train:600
    pool p types=a8 hash=b
    tick 599
    tick 1
    => launch p-00002 a8 on-demand
  )");
}

TEST(Hold, APodDisruptionBudgetKeepsFromDrift) {
  expect(running("pool p types=a8 hash=a") + R"(
    details n1 i-1 pdb=ml/serve
    pool p types=a8 hash=b
    tick 9000
    details n1 i-1
    => launch p-00002 a8 on-demand
  )");
}

TEST(Hold, TheExplanationNamesThePod) {
  Script script;
  ASSERT_EQ(script.run(running("pool p types=a8 hash=a") + R"(
    details n1 i-1 hold=ml/train:ever
    pool p types=a8 hash=b
  )"),
            "");
  const auto lines = script.engine().explain(script.now());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0],
            "NodeClaim p-00001 on node n1 is Drifted and stays: pod ml/train has the annotation "
            "karpenter.sh/do-not-disrupt");
}

// S-174: the node retires at its maximum age. The gang saves first, and is then evicted.
TEST(Expiry, TheGangSavesBeforeTheNodeIsEmptied) {
  expect(running("pool p types=a8 expire=2592000") + R"(
    tick 2591699
    tick 1
    => order w/1/n1 to n1 by=2592600
    => drain n1 Expired
    node n1 i-1 pods=1 cordoned
    ack w/1/n1 n1 step=70 uri=s3://70
    => order w/1/n1 Acked step=70 uri=s3://70
    => evict w/1 from n1 by=2592600 step=70 uri=s3://70
    released w/1
    => evict-over w/1
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )");
}

// S-187: a budget of none stops neither expiry nor a spot notice; drift and consolidation it does.
TEST(Expiry, ABudgetOfNoneDoesNotStopIt) {
  expect(running("pool p types=a8 expire=86400 budget=0") + R"(
    tick 86100
    => order w/1/n1 to n1 by=87000
    => drain n1 Expired
  )");
  expect(running("pool p types=a8 hash=a budget=0") + R"(
    pool p types=a8 hash=b budget=0
    tick 604800
    notice n1 120
    => order w/1/n1 to n1 by=605210
    => drain n1 SpotInterruption
  )");
}

// S-174: a node with pods of a service is replaced first.
TEST(Expiry, TheNodeOfAServiceIsReplacedFirst) {
  const std::string due = running("pool p types=a8 expire=86400") + R"(
    details n1 i-1 serves
    tick 86100
    => launch p-00002 a8 on-demand
    tick 60
  )";
  expect(due + R"(
    up p-00002 i-2 n2
    => order w/1/n1 to n1 by=87060
    => drain n1 Expired
    tick 60
    node n1 i-1 pods=1 cordoned
    released w/1
    => order w/1/n1 Released step=0 uri=
    node n1 i-1 cordoned
    => terminate p-00001 i-1
    -- the new node has time to get the pods
    tick 119
    cloud i-1 stopped=86639
    => claim p-00001 Gone i-1 stopped=86639
    tick 119
    tick 1
    => drain n2 Empty
  )");
  // Without a replacement it expires nevertheless.
  expect(due + R"(
    ice p-00002
    => claim p-00002 Failed
    => order w/1/n1 to n1 by=87060
    => drain n1 Expired
  )");
}

TEST(Drift, AChangedTemplateReplacesTheNodeBeforeItIsEmptied) {
  expect(running("pool p types=a8 hash=a") + R"(
    pool p types=a8 hash=b
    => launch p-00002 a8 on-demand
    tick 240
    up p-00002 i-2 n2
    => order w/1/n1 to n1 by=1140
    => drain n1 Drifted
    ack w/1/n1 n1 step=9 uri=s3://9
    => order w/1/n1 Acked step=9 uri=s3://9
    => evict w/1 from n1 by=1140 step=9 uri=s3://9
    node n1 i-1 pods=1 cordoned
    released w/1
    => evict-over w/1
    node n1 i-1 cordoned
    => terminate p-00001 i-1
    tick 10
  )");
}

TEST(Drift, AnEmptyNodeIsNotReplaced) {
  expect(running("pool p types=a8 never hash=a") + R"(
    released w/1
    node n1 i-1
    pool p types=a8 never hash=b
    => drain n1 Drifted
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )");
}

TEST(Drift, AFailedReplacementPausesThePoolForLongerEachTime) {
  Script script;
  EXPECT_EQ(script.run(running("pool p types=a8 hash=a") + R"(
    pool p types=a8 hash=b
    => launch p-00002 a8 on-demand
    ice p-00002
    => claim p-00002 Failed
    tick 59
    tick 1
    -- no capacity is remembered for three minutes
    tick 119
  )"),
            "");
  const auto lines = script.engine().explain(script.now());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("backs off"), std::string::npos) << lines[0];
  EXPECT_EQ(script.run(R"(
    tick 1
    => launch p-00003 a8 on-demand
    up p-00003 i-3 n3
    => order w/1/n1 to n1 by=1080
    => drain n1 Drifted
  )"),
            "");
  EXPECT_EQ(script.engine().tables().drift_back_offs.size(), 0U);
}

TEST(Drift, RequirementsImagesSubnetsAndSecurityGroups) {
  const auto reason = [](const std::string& pool, const std::string& later, const std::string& cloud) {
    Script script;
    EXPECT_EQ(script.run(running(pool + " budget=0") + "    cloud i-1 " + cloud + "\n    " + later + " budget=0\n"),
              "");
    const Claim& c = *script.engine().tables().claims.find(ClaimName("p-00001"));
    EXPECT_EQ(c.life.drift.empty(), c.life.drift_message.empty());
    return c.life.drift;
  };
  const std::string pool = "pool p types=a8 images=ami-1 subnets=subnet-1,subnet-2 groups=sg-1,sg-2",
                    same = "image=ami-1 subnet=subnet-2 groups=sg-1,sg-2";
  EXPECT_EQ(reason(pool, pool, same), "");
  EXPECT_EQ(reason(pool, pool, "image=ami-0 subnet=subnet-2"), "AMIDrift");
  EXPECT_EQ(reason(pool, pool, "image=ami-1 subnet=subnet-9"), "SubnetDrift");
  EXPECT_EQ(reason(pool, pool, "image=ami-1 subnet=subnet-1 groups=sg-1"), "SecurityGroupDrift");
  EXPECT_EQ(reason(pool, "pool p types=h8", same), "RequirementsDrifted");
  EXPECT_EQ(reason(pool, "pool p types=a8 markets=spot", same), "RequirementsDrifted");
  EXPECT_EQ(reason(pool, "pool p types=a8 hash=b", same), "") << "an instance of an earlier release";
  EXPECT_EQ(reason(pool + " hash=a", "pool p types=h8 hash=b", same), "NodePoolDrifted") << "static fields come first";
}

// A static pool replaces each node one for one; its number is kept, and no other node is terminated for it.
TEST(Drift, AStaticPoolReplacesItsNodesOneForOne) {
  expect(R"(
    pool p types=a8 replicas=1 hash=a
    => launch p-00001 a8 on-demand
    up p-00001 i-1 n1
    pool p types=a8 replicas=1 hash=b
    => launch p-00002 a8 on-demand
    tick 100
    up p-00002 i-2 n2
    => drain n1 Drifted
    node n1 i-1 cordoned
    => terminate p-00001 i-1
    tick 10
  )");
}

// Pods that hold the node do not delay drift beyond terminationGracePeriod: then it ends with the pods on it.
TEST(Grace, TheNodeEndsAtItsDeadline) {
  expect(running("pool p types=a8 hash=a grace=1800") + R"(
    details n1 i-1 hold=ml/train:ever
    pool p types=a8 hash=b grace=1800
    => launch p-00002 a8 on-demand
    up p-00002 i-2 n2
    => drain n1 Drifted
    node n1 i-1 pods=1 cordoned
    -- the last moment at which the gang can save in time
    tick 1199
    tick 1
    => order w/1/n1 to n1 by=2100
    tick 599
    tick 1
    => order w/1/n1 Late step=0 uri=
    => evict w/1 from n1 by=2100 step=0 uri=
    => terminate p-00001 i-1
  )");
}

TEST(Repair, ANodeThatStaysUnhealthyIsReplacedByForce) {
  const std::string two = R"(
    pool p types=a8 budget=0
    want w/1 2x8
    => launch p-00001 a8 on-demand
    => launch p-00002 a8 on-demand
    => promise w/1 by=240 p-00001 p-00002
    up p-00001 i-1 n1 | up p-00002 i-2 n2
    node n1 i-1 pods=1 | node n2 i-2 pods=1
    unwant w
    tick 300
    => withdrawn w/1
  )";
  // The node is not ready: nothing on it can save.
  expect(two + R"(
    node n1 i-1 pods=1 notready | details n1 i-1 unhealthy=1800 hold=ml/train:ever
    tick 1799
    tick 1
    => drain n1 Unhealthy
    => terminate p-00001 i-1
  )");
  // The node is ready and its GPUs are not: the gang may save for ten minutes.
  expect(two + R"(
    details n1 i-1 unhealthy=600 | runs w/1 n1 n2 | workload w saves
    tick 600
    => order w/1/n1 to n1 n2 by=1500
    => drain n1 Unhealthy
    node n1 i-1 pods=1 cordoned
    tick 600
    => order w/1/n1 Late step=0 uri=
    => evict w/1 from n1 by=1500 step=0 uri=
    => terminate p-00001 i-1
  )");
  // Both are unhealthy: more than 20 % of the pool.
  expect(two + R"(
    details n1 i-1 unhealthy=600 | details n2 i-2 unhealthy=600
    tick 9000
  )");
}

Options with_details() {
  Options options;
  options.node_details = true;
  return options;
}

// A claim is ready only once its startup taints are gone and its GPUs are registered.
TEST(Start, AClaimIsReadyOnceItsNodeIsInitialized) {
  Script script(with_details());
  EXPECT_EQ(script.run(R"(
    show claims
    pool p types=a8 startup=cilium
    want w/1 1x8
    => claim p-00001 Requested
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    => claim p-00001 Launched i-1
    details n1 i-1 taint=cilium gpus=8
    details n1 i-1 taint=node.kubernetes.io/not-ready gpus=8
    details n1 i-1
    details n1 i-1 gpus=0
    details n1 i-1 gpus=8
    => claim p-00001 Ready i-1
    -- later it may lose them: that is for repair
    details n1 i-1 gpus=0
  )"),
            "");
}

// A user may cordon it before that. Once it is empty it is terminated, as any other.
TEST(Start, ACordonedNodeIsInitializedToo) {
  Script script(with_details());
  EXPECT_EQ(script.run(R"(
    pool p types=a8 after=60 budget=10%
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1 cordoned
    details n1 i-1 taint=node.kubernetes.io/unschedulable gpus=8
    unwant w
    tick 300
    => withdrawn w/1
    node n1 i-1 cordoned
    tick 60
    => drain n1 Empty
    node n1 i-1 cordoned
    => terminate p-00001 i-1
  )"),
            "");
}

// After 15 minutes it is replaced once, by another type if there is one, and the reason is remembered for the type and
// its image.
TEST(Start, ANodeThatDoesNotBecomeReadyIsReplacedOnceAndRemembered) {
  Script script(with_details());
  EXPECT_EQ(script.run(R"(
    pool p types=g1 images=ami-1
    want w/1 1x1
    => launch p-00001 g1 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1 | cloud i-1 image=ami-1
    details n1 i-1 gpus=0
    tick 240
    => promise w/1 by=300 p-00001
    tick 660
    => launch p-00002 g1 on-demand
    => promise w/1 by=1140 p-00002
    => terminate p-00001 i-1
    up p-00002 i-2 n2 | cloud i-2 image=ami-1 | cloud i-1 stopped=901
    => claim p-00001 Gone i-1 stopped=901
    details n2 i-2 gpus=0
    tick 900
    => withdrawn w/1
    => terminate p-00002 i-2
  )"),
            "");
  const auto lines = script.engine().explain(script.now());
  ASSERT_GE(lines.size(), 1U);
  EXPECT_NE(
      lines[0].find("2 instances of g1 did not become ready with the image of NodePool p, the last one because its "
                    "node did not become ready in time: Resource \"nvidia.com/gpu\" was requested but not "
                    "registered; correct the image or the device plugin, or allow another instance type"),
      std::string::npos)
      << lines[0];
  // Another image is tried at once.
  EXPECT_EQ(script.run(R"(
    pool p types=g1 images=ami-2
    => launch p-00003 g1 on-demand
    => promise w/1 by=2040 p-00003
  )"),
            "");
}

TEST(Start, AnotherTypeIsPreferredAfterTheFirstFailure) {
  Script script(with_details());
  EXPECT_EQ(script.run(R"(
    pool p types=g1,g4
    want w/1 1x1
    => launch p-00001 g1 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    details n1 i-1 gpus=0
    tick 240
    => promise w/1 by=300 p-00001
    tick 660
    => launch p-00002 g4 on-demand
    => promise w/1 by=1140 p-00002
    => terminate p-00001 i-1
  )"),
            "");
  const Claim& c = *script.engine().tables().claims.find(ClaimName("p-00002"));
  EXPECT_NE(c.reason.find("; g1 is avoided: its node did not become ready in time"), std::string::npos) << c.reason;
}

}  // namespace disruption_cases_test
}  // namespace qm::autoscaler::testing
