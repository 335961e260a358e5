// ExplainCapacity and SimulateCapacity: names, tenants, changes and errors, and once over a server.
#include "qm/autoscaler/api.hpp"
#include "qm/bus/bus.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/capacity_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>

namespace qm::autoscaler {
namespace capacity_api_test {

namespace pb = quartermaster::v1;

constexpr const char* kPool = R"(apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  limits: {nvidia.com/gpu: LIMIT}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge, g5.48xlarge]}
)";
std::string pool_with(const std::string& limit) {
  std::string out = kPool;
  return out.replace(out.find("LIMIT"), 5, limit);
}

/// A NodePool with a limit of 8 GPUs, and two workloads of 8 GPUs each.
class Capacity : public ::testing::Test {
 protected:
  Capacity() {
    Pool pool;
    pool.name = "p";
    pool.instance_types = {"g5.48xlarge", "p5.48xlarge"};
    pool.markets = {Market::kOnDemand};
    pool.limit_gpus = 8;
    DemandUpdated demand;
    for (const std::string uid : {"u-1", "u-2"}) {
      PodSet pods;
      pods.name = "main";
      pods.shape.gpu.whole = 8;
      demand.items.push_back({{WorkloadUid(uid), 1}, {pods}, uid == "u-1" ? 5 : 0, now_});
    }
    const std::vector<Command> batch{PoolsApplied{{pool}}, named("u-1", "mine", "train"),
                                     named("u-2", "theirs", "tune"), demand};
    (void)engine_.step(batch, now_);
    engine_.commit();
    tenant_.user = true;
    tenant_.namespaces = {"mine"};
  }
  static WorkloadUpdated named(const std::string& uid, const std::string& ns, const std::string& name) {
    WorkloadUpdated out;
    out.uid = WorkloadUid(uid);
    out.ns = ns;
    out.name = name;
    return out;
  }
  Result<pb::ExplainCapacityResponse> why(const std::string& name, const rpc::Caller& caller = rpc::Caller::anyone()) {
    pb::ExplainCapacityRequest request;
    request.set_name(name);
    return explanation_for(engine_, now_, request, caller);
  }
  Result<pb::SimulateCapacityResponse> simulated(const pb::SimulateCapacityRequest& request,
                                                 const rpc::Caller& caller = rpc::Caller::anyone()) {
    return simulation_for(engine_, now_, request, caller);
  }
  Instant now_ = from_micros(1'800'000'000'000'000);
  Engine engine_{catalog_types()};
  rpc::Caller tenant_;
};

TEST_F(Capacity, AWorkloadAPodAUidAndANodeClaimFindTheSameDecision) {
  for (const std::string name : {"mine/train", "mine/train-0-abcde", "u-1", "p-00001"}) {
    const auto answer = why(name);
    ASSERT_TRUE(answer) << name << ": " << answer.error().to_string();
    ASSERT_EQ(answer->decisions_size(), 1) << name;
    const auto& decision = answer->decisions(0);
    EXPECT_EQ(decision.workload(), "mine/train");
    EXPECT_EQ(decision.claims_size(), 1);
    EXPECT_EQ(decision.candidates(0).reason(), "Chosen");
    EXPECT_EQ(decision.candidates(0).instance_type(), "g5.48xlarge");
    EXPECT_GT(decision.bound_nano_usd_hour(), 0);
    EXPECT_LE(decision.bound_nano_usd_hour(), decision.candidates(0).nano_usd_hour());
    EXPECT_EQ(decision.requests(0).gpu_milli(), 8000);
  }
  EXPECT_EQ(why("mine/train-0-abcde")->note(), "pod mine/train-0-abcde belongs to mine/train, by its name");
  const auto unmet = why("theirs/tune");
  ASSERT_TRUE(unmet);
  EXPECT_EQ(unmet->decisions(0).claims_size(), 0);
  EXPECT_EQ(unmet->decisions(0).candidates(0).reason(), "LimitExceeded");
  EXPECT_EQ(unmet->decisions(0).candidates(0).message(),
            "NodePool p has the limit nvidia.com/gpu 8: 8 in use, 8 more needed");
}

TEST_F(Capacity, ALaunchWhoseWorkloadHasAPlaceNamesTheJournal) {
  const std::vector<Command> placed{DemandUpdated{}};
  (void)engine_.step(placed, now_);
  engine_.commit();
  const auto answer = why("p-00001");
  ASSERT_TRUE(answer) << answer.error().to_string();
  ASSERT_EQ(answer->claims_size(), 1);
  EXPECT_NE(answer->claims(0).reason().find("is the cheapest at"), std::string::npos) << answer->claims(0).reason();
  EXPECT_NE(answer->note().find("qm-replay --service autoscaler --why p-00001"), std::string::npos) << answer->note();
  const auto none = why("theirs/tune");
  ASSERT_TRUE(none);
  EXPECT_NE(none->note().find("it is not on the demand list"), std::string::npos) << none->note();
}

TEST_F(Capacity, ATenantGetsNothingAboutOthers) {
  EXPECT_TRUE(why("mine/train", tenant_));
  for (const std::string name : {"theirs/tune", "u-2", "nothing"}) {
    const auto answer = why(name, tenant_);
    ASSERT_FALSE(answer) << name;
    EXPECT_EQ(answer.error().code, Code::kNotFound);
    EXPECT_NE(answer.error().remedy.find("qmctl capacity plan"), std::string::npos);
  }
  const auto plan = simulated({}, tenant_);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->DebugString().find("theirs"), std::string::npos) << plan->DebugString();
  pb::SimulateCapacityRequest change;
  change.add_deleted("p");
  EXPECT_EQ(simulated(change, tenant_).error().code, Code::kPermissionDenied);
}

TEST_F(Capacity, AChangedNodePoolIsReadFromItsManifest) {
  pb::SimulateCapacityRequest request;
  request.set_manifest(pool_with("16"));
  request.set_source("pool.yaml");
  const auto answer = simulated(request);
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(answer->present().launches_size(), 0);
  EXPECT_EQ(answer->present().unmet_size(), 1);
  EXPECT_EQ(answer->present().starting(), 1);
  ASSERT_EQ(answer->changed().launches_size(), 1);
  EXPECT_EQ(answer->changed().launches(0).workload(), "theirs/tune");
  EXPECT_EQ(answer->changed().launches(0).instance_type(), "g5.48xlarge");
  EXPECT_EQ(answer->changed().unmet_size(), 0);
  EXPECT_EQ(engine_.tables().pools.find("p")->limit_gpus, 8) << "nothing is applied";
}

TEST_F(Capacity, PricesDemandAndAvailabilityAreChangedTogether) {
  pb::SimulateCapacityRequest request;
  request.set_manifest(pool_with("64"));
  auto& expensive = *request.add_prices();
  expensive.set_instance_type("g5.48xlarge");
  expensive.set_permille(10'000);
  auto& more = *request.add_demand();
  more.set_pods(2);
  more.set_gpus(8);
  request.add_removed("theirs/tune");
  const auto answer = simulated(request);
  ASSERT_TRUE(answer) << answer.error().to_string();
  ASSERT_EQ(answer->changed().launches_size(), 2);
  EXPECT_EQ(answer->changed().launches(0).instance_type(), "p5.48xlarge");
  EXPECT_EQ(answer->changed().gpus(), 16);
  auto& out = *request.add_availability();
  out.set_instance_type("p5.48xlarge");
  const auto again = simulated(request);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->changed().launches_size(), 2);
  EXPECT_EQ(again->changed().launches(0).instance_type(), "g5.48xlarge") << "the other one is not available";
}

TEST_F(Capacity, AWrongChangeNamesTheObjectAndTheRemedy) {
  const auto refused = [&](auto&& change) {
    pb::SimulateCapacityRequest request;
    change(request);
    const auto answer = simulated(request);
    EXPECT_FALSE(answer);
    return answer ? Error{} : answer.error();
  };
  const auto kind = refused([](auto& r) {
    r.set_manifest("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n");
    r.set_source("x.yaml");
  });
  EXPECT_EQ(kind.message, "x.yaml:1: a simulation of capacity reads NodePools, not Namespace");
  EXPECT_FALSE(kind.remedy.empty());
  const auto field = refused([](auto& r) {
    r.set_manifest("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {weight: 500}\n");
    r.set_source("p.yaml");
  });
  EXPECT_NE(field.message.find("p.yaml"), std::string::npos) << field.message;
  EXPECT_EQ(refused([](auto& r) { r.add_prices()->set_instance_type("x1"); }).message,
            "instance type x1 is not in the price catalog");
  EXPECT_EQ(refused([](auto& r) {
              r.add_prices()->set_instance_type("p5.48xlarge");
              r.mutable_prices(0)->set_capacity_type("cheap");
            }).message,
            "\"cheap\" is not a capacity type");
  EXPECT_EQ(refused([](auto& r) { r.add_demand(); }).message, "a demand of 0 pods with 0 GPUs");
  EXPECT_EQ(refused([](auto& r) { r.add_removed("mine/other"); }).code, Code::kNotFound);
  EXPECT_EQ(refused([](auto& r) { r.add_deleted("q"); }).message, "NodePool q does not exist");
  pb::ExplainCapacityRequest request;
  request.set_name("mine/train");
  request.set_candidates(501);
  EXPECT_EQ(explanation_for(engine_, now_, request, rpc::Caller::anyone()).error().remedy, "use 1 to 500");
}

TEST(CapacityServer, AnswersFromACopyOfTheRows) {
  ManualClock clock{from_micros(1'800'000'000'000'000)};
  service::Host host(host_options("east"), std::make_unique<Shell>(std::make_unique<Engine>(catalog_types()), Codec{}),
                     store::open_memory(store::make_memory_disk()), *bus::make_bus("memory:capacity-api"), clock,
                     nullptr);
  ASSERT_TRUE(host.open());
  host.start();
  Pool pool;
  pool.name = "p";
  pool.instance_types = {"g5.48xlarge"};
  pool.markets = {Market::kOnDemand};
  std::promise<void> committed;
  ASSERT_TRUE(host.submit(pools_input({pool}), [&](const Result<std::string>&) { committed.set_value(); }));
  committed.get_future().wait();
  const auto api = make_api(host, clock);
  rpc::Server server(rpc::ServerOptions{}, {api.get()});
  ASSERT_TRUE(server.start());
  const auto stub = pb::Capacity::NewStub(
      grpc::CreateChannel(fmt::format("127.0.0.1:{}", server.port()), grpc::InsecureChannelCredentials()));
  const auto deadline = [](grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  };
  {
    grpc::ClientContext context;
    deadline(context);
    pb::SimulateCapacityRequest request;
    request.add_demand()->set_pods(1);
    request.mutable_demand(0)->set_gpus(8);
    pb::SimulateCapacityResponse answer;
    const auto status = stub->SimulateCapacity(&context, request, &answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(answer.changed().launches_size(), 1);
    EXPECT_EQ(answer.present().launches_size(), 0);
  }
  {
    grpc::ClientContext context;
    deadline(context);
    pb::ExplainCapacityRequest request;
    request.set_name("absent");
    pb::ExplainCapacityResponse answer;
    EXPECT_EQ(stub->ExplainCapacity(&context, request, &answer).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  server.stop();
  host.stop();
}

}  // namespace capacity_api_test
}  // namespace qm::autoscaler
