// What requirements, DaemonSets, limits and rules of pods do to launches, as text tables.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace column_cases_test {

// Four DaemonSets of 150 m leave 1,330 m of the small type: one launch of the larger one.
TEST(Columns, DaemonSetsThatRunOnANodeReduceIt) {
  const std::string four = R"(
    daemonset kube-system/a milli=150 tolerate-all=1
    daemonset kube-system/b milli=150 tolerate-all=1
    daemonset kube-system/c milli=150 tolerate-all=1
    daemonset kube-system/d milli=150 tolerate-all=1
  )";
  expect("pool p types=c2,c4" + four + R"(
    want w/1 1x0 milli=1500
    => launch p-00001 c4 on-demand
    => promise w/1 by=240 p-00001
  )");
  expect(R"(
    pool p types=c2,c4
    want w/1 1x0 milli=1500
    => launch p-00001 c2 on-demand
    => promise w/1 by=240 p-00001
  )");
}

TEST(Columns, DaemonSetsThatANodeDoesNotAcceptDoNotCount) {
  expect(R"(
    pool p types=c2,c4 taint=gpu
    daemonset kube-system/untolerating milli=600
    daemonset kube-system/elsewhere milli=600 tolerate-all=1 select=disk=fast
    daemonset kube-system/other-family milli=600 tolerate-all=1 affinity=karpenter.k8s.aws/instance-family=g
    want w/1 1x0 milli=1500 tolerate=gpu
    => launch p-00001 c2 on-demand
    => promise w/1 by=240 p-00001
  )");
  expect(R"(
    pool p types=c2,c4
    daemonset kube-system/same-family milli=600 affinity=karpenter.k8s.aws/instance-family=g,c
    want w/1 1x0 milli=1500
    => launch p-00001 c4 on-demand
    => promise w/1 by=240 p-00001
  )");
}

// limits.nodes 3 and five pods that exclude one another by host, in one pass: three claims, two pending.
TEST(Columns, ALimitOfNodesHoldsWithinOnePass) {
  Script script;
  EXPECT_EQ(script.run(R"(
    pool p types=c4 nodes=3
    want a/1 1x0 milli=100 apart=web | want b/1 1x0 milli=100 apart=web | want c/1 1x0 milli=100 apart=web | want d/1 1x0 milli=100 apart=web | want e/1 1x0 milli=100 apart=web
    => launch p-00001 c4 on-demand
    => launch p-00002 c4 on-demand
    => launch p-00003 c4 on-demand
    => promise a/1 by=240 p-00001
    => promise b/1 by=240 p-00002
    => promise c/1 by=240 p-00003
  )"),
            "");
  const auto lines = script.engine().explain(script.now());
  ASSERT_EQ(lines.size(), 5U);
  for (const std::size_t pending : {3U, 4U}) {
    EXPECT_NE(lines[pending].find("NodePool p has the limit nodes 3: 3 in use, 1 more needed"), std::string::npos)
        << lines[pending];
  }
  // In later passes too; other pods use the same node.
  EXPECT_EQ(script.run(R"(
    want f/1 1x0 milli=100
    => promise f/1 by=240 p-00001
  )"),
            "");
}

TEST(Columns, PodsOfOneSetExcludeOneAnother) {
  expect(R"(
    pool p types=c4
    want w/1 2x0 milli=100 apart=web
    => launch p-00001 c4 on-demand
    => launch p-00002 c4 on-demand
    => promise w/1 by=240 p-00001 p-00002
  )");
}

TEST(Columns, RequiredNodeAffinityIsKept) {
  expect(R"(
    pool p types=c2,g1 rule=team=blue,red
    -- the label of the type, and the label that the pool leaves open
    want w/1 1x0 milli=100 affinity=karpenter.k8s.aws/instance-family=g
    want v/1 1x0 milli=100 affinity=team=red,green
    => launch p-00001 c2 on-demand team=red
    => promise v/1 by=240 p-00001
    -- the second alternative
    want u/1 1x0 milli=100 affinity=disk;team=blue
    => launch p-00002 c2 on-demand team=blue
    => promise u/1 by=240 p-00002
  )");
  EXPECT_NE(why("pool p types=c2\nwant w/1 1x0 affinity=team").find("no NodePool matches the node selector"),
            std::string::npos);
}

TEST(Columns, WellKnownLabelsOfATypeAreSelected) {
  expect(R"(
    pool p types=c2,g1
    want w/1 1x0 milli=100 select=karpenter.k8s.aws/instance-family=c
    => launch p-00001 c2 on-demand
    => promise w/1 by=240 p-00001
    want v/1 1x0 milli=100 select=beta.kubernetes.io/instance-type=g1
    => launch p-00002 g1 on-demand
    => promise v/1 by=240 p-00002
    want u/1 1x0 milli=100 select=karpenter.k8s.aws/instance-family=g
  )");
}

TEST(Columns, PoolsOfOneWeightComeByNameTheLastFirst) {
  expect(R"(
    pool a types=c2 nodes=1
    pool b types=c2 nodes=1
    pool c types=c2 nodes=1 weight=1
    want u/1 1x0 milli=1900
    => launch c-00001 c2 on-demand
    => promise u/1 by=240 c-00001
    want v/1 1x0 milli=1900
    => launch b-00002 c2 on-demand
    => promise v/1 by=240 b-00002
    want w/1 1x0 milli=1900
    => launch a-00003 c2 on-demand
    => promise w/1 by=240 a-00003
  )");
}

TEST(Columns, AnyResourceMayHaveALimit) {
  expect(R"(
    pool p types=c2 limit=pods=220
    want a/1 1x0 milli=1900
    => launch p-00001 c2 on-demand
    => promise a/1 by=240 p-00001
    want b/1 1x0 milli=1900
    => launch p-00002 c2 on-demand
    => promise b/1 by=240 p-00002
    want c/1 1x0 milli=1900
  )");
  EXPECT_NE(why("pool p types=c2 limit=pods=100\nwant w/1 1x0")
                .find("NodePool p has the limit pods 100: 0 in use, 110 more needed"),
            std::string::npos);
}

TEST(Columns, APoolThatIsNotReadyLaunchesNothing) {
  Script script;
  EXPECT_EQ(script.run(R"(
    pool p types=c2 not-ready=field
    pool s types=c2 replicas=1 not-ready=field
    want w/1 1x0
  )"),
            "");
  const auto lines = script.engine().explain(script.now());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_NE(lines[0].find("NodePool p is not ready: field"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[1], "NodePool p is not ready: field");
  EXPECT_EQ(lines[2], "NodePool s is not ready: field");
  EXPECT_EQ(lines[3], "NodePool s has 0 of 1 replicas: it is not ready: field");
}

TEST(Columns, MinValuesCountTheTypesThatFit) {
  const std::string pool = "pool p types=c2,c4,g1 min-values=node.kubernetes.io/instance-type=2\n";
  EXPECT_NE(
      why(pool + "want w/1 1x0 select=node.kubernetes.io/instance-type=c4")
          .find("NodePool p needs minValues 2 of node.kubernetes.io/instance-type (the offerings that fit have 1)"),
      std::string::npos)
      << why(pool + "want w/1 1x0 select=node.kubernetes.io/instance-type=c4");
  expect(pool + R"(
    want w/1 1x0 milli=1500
    => launch p-00001 c2 on-demand
    => promise w/1 by=240 p-00001
  )");
  Options options;
  options.strict_min_values = false;
  Script script(options);
  EXPECT_EQ(script.run(pool + R"(
    want w/1 1x0 select=node.kubernetes.io/instance-type=c4
    => launch p-00001 c4 on-demand
    => promise w/1 by=240 p-00001
  )"),
            "");
  const auto& reason = script.engine().tables().claims.find(ClaimName("p-00001"))->reason;
  EXPECT_NE(reason.find("; minValues 2 of node.kubernetes.io/instance-type (the offerings that fit have 1) is relaxed"),
            std::string::npos)
      << reason;
}

TEST(Columns, AnExtendedResourceMustExist) {
  EXPECT_NE(why("pool p types=c2,g1\nwant w/1 1x0 ext=vpc.amazonaws.com/efa=1")
                .find("no instance type of the price catalog fits"),
            std::string::npos);
}

}  // namespace column_cases_test
}  // namespace qm::autoscaler::testing
