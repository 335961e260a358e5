// What Explain reports about nodes.
#include "api_fixture.hpp"

namespace qm::admission {
namespace node_fit_test {

namespace pb = quartermaster::v1;

class NodeFit : public testing::ApiTest {};

// More quota would admit a workload that never runs, as no node fits its pods. The service decides this, so gRPC,
// JSON and qmctl agree.
TEST_F(NodeFit, QuotaIsNoRemedyForUnschedulablePods) {
  apply(testing::kQueues);
  see(testing::make_job("team", "a", "q", 9));
  ASSERT_TRUE(qm::testing::wait_until([&] { return !get("uid-a").state().spec().name().empty(); }));
  pb::ExplainRequest why;
  why.set_uid("uid-a");
  const auto explain = [&] {
    pb::Explanation out;
    EXPECT_EQ(call(&pb::Admission::Stub::Explain, why, out).message, "");
    return out;
  };
  // Nothing is known about the nodes.
  auto reported = explain();
  ASSERT_GT(reported.remedies_size(), 0) << reported.DebugString();
  EXPECT_EQ(reported.remedies(0).code(), "RaiseQuota");
  EXPECT_TRUE(asked_nodes_.without_pods());
  EXPECT_EQ(asked_nodes_.pod_sets(0).shape().gpu().whole(), 9);
  // Nodes could fit it.
  nodes_ = pb::DryRunResponse();
  nodes_->set_fits(true);
  reported = explain();
  EXPECT_GT(reported.remedies_size(), 0);
  EXPECT_EQ(reported.causes_size(), 1);
  // No node fits it, and no instance type does.
  nodes_->mutable_shortfall()->set_pod_set("main");
  nodes_->mutable_shortfall()->add_conflict("9 GPUs for each of 1 pods");
  nodes_->mutable_shortfall()->add_remedies("with at most 8 GPUs a pod");
  reported = explain();
  EXPECT_EQ(reported.remedies_size(), 0) << reported.DebugString();
  ASSERT_EQ(reported.causes_size(), 2);
  EXPECT_EQ(reported.causes(0).code(), "Unschedulable");
  EXPECT_EQ(reported.causes(0).message(),
            "no nodes meet 9 GPUs for each of 1 pods, even with no other pod on them; waiting does not help");
  EXPECT_EQ(reported.causes(0).remedy(), "with at most 8 GPUs a pod; or add nodes that fit its pods");
  EXPECT_EQ(reported.causes(1).remedy(), "");
  EXPECT_EQ(reported.summary(), "team/a is pending: " + reported.causes(0).message());
  // No remedy for nodes is known: the request of the pods cannot be interpreted here.
  nodes_->mutable_shortfall()->Clear();
  nodes_->mutable_shortfall()->add_conflict("there is no topology level row; the levels here are block, rack");
  reported = explain();
  EXPECT_EQ(reported.causes(0).message(),
            "there is no topology level row; the levels here are block, rack; waiting does not help");
  EXPECT_EQ(reported.causes(0).remedy(), "change what its pods request");
  ApiOptions options;
  options.nodes = [this](const auto&, const auto&) { return nodes_; };
  const auto json = explain_json(*host_, clock_, "uid-a", options);
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["remedies"].size(), 0U);
  EXPECT_EQ((*json)["causes"].at(0)["code"].string(), "Unschedulable");
}

// Where nodes are launched for workloads with quota, quota is the first remedy.
TEST_F(NodeFit, QuotaIsRemedyWhereFittingNodesAreLaunched) {
  apply(testing::kQueues);
  see(testing::make_job("team", "a", "q", 8, 2));
  ASSERT_TRUE(qm::testing::wait_until([&] { return !get("uid-a").state().spec().name().empty(); }));
  nodes_ = pb::DryRunResponse();
  nodes_->mutable_shortfall()->set_pod_set("main");
  nodes_->mutable_shortfall()->add_conflict("8 GPUs for each of 2 pods");
  pb::ExplainRequest why;
  why.set_uid("uid-a");
  pb::Explanation reported;
  ASSERT_EQ(call(&pb::Admission::Stub::Explain, why, reported).message, "");
  ASSERT_GT(reported.remedies_size(), 0) << reported.DebugString();
  EXPECT_EQ(
      reported.causes(0).message(),
      "no nodes meet 8 GPUs for each of 2 pods, even with no other pod on them; its pods start only on nodes that are added");
  EXPECT_EQ(reported.causes(0).remedy(), "add nodes that fit its pods");
}

// The part of the plan of the autoscaler that is about this workload.
TEST(CapacityPlan, NodePoolLimitIsItsOwnCause) {
  const std::vector<std::string> plan{
      "team/other waits 4 s: instances are launched in the next step",
      "team/train waits 20 s: NodePool p has the limit nvidia.com/gpu 16: 16 in use, 8 more needed; raise spec.limits of the NodePool"};
  pb::Explanation reported;
  add_capacity_plan("team/train", plan, reported);
  EXPECT_EQ(reported.causes_size(), 0) << "it is not pending for nodes";
  reported.add_causes()->set_code("InsufficientCapacity");
  add_capacity_plan("team/t", plan, reported);
  EXPECT_EQ(reported.causes_size(), 1);
  add_capacity_plan("team/train", plan, reported);
  ASSERT_EQ(reported.causes_size(), 2);
  EXPECT_EQ(reported.causes(1).code(), "CapacityPlan");
  EXPECT_EQ(reported.causes(1).message(), "NodePool p has the limit nvidia.com/gpu 16: 16 in use, 8 more needed");
  EXPECT_EQ(reported.causes(1).remedy(), "raise spec.limits of the NodePool");
}

}  // namespace node_fit_test
}  // namespace qm::admission
