// The executor against a Kubernetes API and an AWS that fail, repeat and lose responses; the poll of the cloud; the
// API.
#include "qm/autoscaler/api.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/config/manifest.hpp"
#include "qm/http/http.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/kube_refusals.hpp"
#include "qm/testing/manifests.hpp"
#include "qm/testing/promtool.hpp"
#include "qm/testing/testing.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/capacity_service.grpc.pb.h"
#include "test/shell/rig.hpp"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>
#include <mutex>

namespace qm::autoscaler {
namespace cloud_test {

namespace pb = quartermaster::v1;
using qm::testing::wait_until;
using namespace autoscaler::testing;

TEST(Executor, LaunchesUnderTheClaimsNameAsOftenAsItIsAsked) {
  Rig rig;
  for (int i = 0; i < 2; ++i) {
    const Json outcome = rig.run(rig.launch);
    EXPECT_EQ(outcome["instance"].string(), "i-1");
    EXPECT_EQ(outcome["error"].string(), "");
  }
  ASSERT_EQ(rig.ec2.count("RunInstances"), 2);
  EXPECT_EQ(rig.ec2.bodies[0], rig.ec2.bodies[1]);  // the same token and parameters: no second instance
  const auto& body = rig.ec2.bodies[0];
  EXPECT_NE(body.find("ClientToken=east%2Fp-1"), std::string::npos) << body;
  EXPECT_NE(body.find("quartermaster.dev%2Fshard"), std::string::npos);
  EXPECT_NE(body.find("MarketType=spot"), std::string::npos);
  ASSERT_EQ(rig.kube.objects.size(), 1U);
  const Json& claim = rig.kube.objects.at("p-1");
  EXPECT_EQ(claim.path("status.providerID").string(), "aws:///z1/i-1");
  EXPECT_EQ(claim["metadata"]["labels"]["a"].string(), "b");
  EXPECT_EQ(claim["metadata"]["labels"][std::string(words::kNodePool)].string(), "p");
}

TEST(Executor, ATokenThatWouldBeTooLongIsDigested) {
  Rig rig;
  Executor executor(rig.client, rig.aws, Driver::kEc2, std::string(61, 'x'), plain_parameters);
  ASSERT_TRUE(executor.execute(rig.launch));
  const auto& body = rig.ec2.bodies[0];
  const auto at = body.find("ClientToken=") + 12;
  EXPECT_EQ(body.find('&', at) - at, 64U);
}

TEST(Executor, ALostAnswerIsAskedForAgain) {
  Rig rig;
  rig.ec2.lose_next = true;
  const auto lost = rig.executor.execute(rig.launch);
  ASSERT_FALSE(lost);
  EXPECT_TRUE(lost.error().retryable()) << lost.error().to_string();
  EXPECT_EQ(rig.run(rig.launch)["instance"].string(), "i-1");
}

TEST(Executor, NoCapacityAndRefusalsAreFinalAndTakeTheClaimBack) {
  for (const char* code : {"InsufficientInstanceCapacity", "UnauthorizedOperation", "InvalidParameterValue"}) {
    Rig rig;
    rig.ec2.errors["RunInstances"] = code;
    const Json outcome = rig.run(rig.launch);
    EXPECT_EQ(outcome["instance"].string(), "");
    EXPECT_NE(outcome["error"].string().find(code), std::string::npos) << outcome.dump();
    EXPECT_TRUE(rig.kube.objects.empty());
  }
}

TEST(Executor, ARepeatWithOtherParametersFindsTheInstanceOfTheFirst) {
  Rig rig;
  rig.ec2.errors["RunInstances"] = "IdempotentParameterMismatch";
  rig.ec2.set("DescribeInstances", "<R><reservationSet/></R>");
  const auto delayed = rig.executor.execute(rig.launch);
  ASSERT_FALSE(delayed);
  EXPECT_TRUE(delayed.error().retryable()) << "lists are delayed: it must exist";
  rig.ec2.set("DescribeInstances", described(instance_xml("i-7", "", "terminated") + instance_xml("i-8", "")));
  EXPECT_EQ(rig.run(rig.launch)["instance"].string(), "i-8");
  rig.ec2.set("DescribeInstances", described(instance_xml("i-7", "", "terminated")));
  EXPECT_EQ(rig.run(rig.launch)["instance"].string(), "i-7") << "it is not launched again";
  EXPECT_NE(rig.ec2.bodies.back().find("Filter.1.Name=client-token&Filter.1.Value.1=east%2Fp-1"), std::string::npos);
}

TEST(Executor, WithoutAClassNothingIsLaunched) {
  Rig rig;
  rig.ec2.set("DescribeInstances", "<R><reservationSet/></R>");
  auto launch = rig.launch;
  launch.payload.replace(launch.payload.find("\"reason\""), 8, "\"class\":\"missing\",\"reason\"");
  const Json outcome = rig.run(launch);
  EXPECT_EQ(outcome["error"].string(), "EC2NodeClass missing does not exist; create it");
  EXPECT_EQ(rig.ec2.count("RunInstances"), 0);
  EXPECT_TRUE(rig.kube.objects.empty());
  Executor none(rig.client, rig.aws, Driver::kEc2, "east");
  const auto refused = none.execute(rig.launch);
  ASSERT_TRUE(refused);
  EXPECT_NE(refused->bytes.find("no EC2NodeClasses are read"), std::string::npos);
  // An instance that was launched before the class was deleted is not lost.
  rig.ec2.set("DescribeInstances", described(instance_xml("i-1", "")));
  EXPECT_EQ(rig.run(launch)["instance"].string(), "i-1");
}

TEST(Executor, WhatMayPassIsTriedAgain) {
  Rig rig;
  rig.ec2.errors["RunInstances"] = "RequestLimitExceeded";
  EXPECT_TRUE(rig.executor.execute(rig.launch).error().retryable());
  rig.ec2.errors["RunInstances"] = "Unavailable";
  EXPECT_TRUE(rig.executor.execute(rig.launch).error().retryable());
  rig.kube.status = 503;
  EXPECT_TRUE(rig.executor.execute(rig.launch).error().retryable());
  EXPECT_EQ(rig.executor.execute({"x", "other", "k", 0, "{}"}).error().code, Code::kInternal);
  rig.kube.status = 0;
  const auto failed = Json::parse(rig.executor.failed(rig.launch, Error{Code::kInternal, "broke", {}, {}}).bytes);
  EXPECT_EQ((*failed)["claim"].string(), "p-1");
  EXPECT_NE((*failed)["error"].string().find("broke"), std::string::npos);
}

TEST(Executor, EachIntentHandlesEachRefusalOfKubernetesByTheLifecycle) {
  const store::IntentRow cordon{"c", "node.cordon", "n", 1, R"({"node":"n","on":true,"reason":"spot"})"};
  for (const auto& one : qm::testing::kKubeRefusals) {
    Rig rig;
    const auto takes = [&](const store::IntentRow& intent, bool waits) {
      rig.kube.status = one.status;
      rig.kube.reason = one.reason;
      rig.kube.message = one.message;
      const auto result = rig.executor.execute(intent);
      ASSERT_FALSE(result) << intent.kind << ", " << one.what;
      EXPECT_EQ(result.error().retryable(), waits) << intent.kind << ", " << one.what;
      EXPECT_NE(result.error().message.find(one.message), std::string::npos) << result.error().message;
      rig.kube.status = 0;
      EXPECT_TRUE(rig.executor.execute(intent)) << intent.kind << ", " << one.what << ": the next try";
    };
    // A NodeClaim that may not be created ends its claim with the reason; the demand is planned again.
    takes(rig.launch, one.what == std::string("rights") ? false : one.start_waits);
    takes(cordon, one.release_waits);
    takes(rig.terminate, one.release_waits);
  }
}

TEST(Executor, TerminatesWhatIsThereAndWhatIsGone) {
  Rig rig;
  rig.run(rig.launch);
  EXPECT_EQ(rig.run(rig.terminate)["error"].string(), "");
  EXPECT_TRUE(rig.kube.objects.empty());
  rig.ec2.errors["TerminateInstances"] = "InvalidInstanceID.NotFound";
  EXPECT_EQ(rig.run(rig.terminate)["error"].string(), "");
  rig.ec2.errors["TerminateInstances"] = "OperationNotPermitted";
  EXPECT_FALSE(rig.executor.execute(rig.terminate));
}

TEST(Executor, LeavesInstancesToKarpenter) {
  Rig rig;
  Executor executor(rig.client, rig.aws, Driver::kKarpenter, "east");
  const auto done = executor.execute(rig.launch);
  ASSERT_TRUE(done);
  EXPECT_TRUE((*Json::parse(done->bytes))["pending"].boolean());
  EXPECT_EQ(rig.kube.objects.size(), 1U);
  EXPECT_EQ(rig.ec2.count("RunInstances"), 0);
}

/// The service on a memory host: no intent is executed, the test is the producer on the bus.
struct Service {
  Ec2 ec2;
  cloud::Aws aws = ec2.aws();
  ManualClock clock{from_micros(1'800'000'000'000'000)};
  service::Host host;
  static std::string bus_name() {
    static std::atomic<int> serial = 0;
    return fmt::format("memory:autoscaler-{}", ++serial);
  }
  Service()
      : host(host_options("east"), std::make_unique<Shell>(std::make_unique<Engine>(catalog_types()), Codec{}),
             store::open_memory(store::make_memory_disk()), *bus::make_bus(bus_name()), clock, nullptr) {
    EXPECT_TRUE(host.open());
    host.start();
  }
  ~Service() { host.stop(); }
  /// Returns when this input and all earlier ones are committed.
  void submit(const service::Input& in) {
    std::promise<void> committed;
    ASSERT_TRUE(host.submit(in, [&](const Result<std::string>&) { committed.set_value(); }));
    committed.get_future().wait();
  }
  Tables tables() {
    Tables out;
    host.read([&](const service::Shell& s) { out = engine_of(s).tables(); });
    return out;
  }
  /// Names the workload of this uid NS/train.
  void name(const std::string& uid, const std::string& ns) {
    pb::WorkloadEvent event;
    event.mutable_spec()->set_uid(uid);
    event.mutable_spec()->set_namespace_(ns);
    event.mutable_spec()->set_name("train");
    event.set_attempt(1);
    event.set_phase(pb::QUOTA_RESERVED);
    service::Input in;
    in.source = service::Source::kBus;
    in.name = "qm.workload";
    in.key = uid;
    in.version = 1;
    in.bytes = event.SerializeAsString();
    submit(in);
  }
  void want(int gangs) {
    Pool p;
    p.name = "p";
    p.instance_types = {"p5.48xlarge"};
    p.markets = {Market::kOnDemand, Market::kSpot};
    submit(pools_input({p}));
    demand(gangs);
  }
  void demand(int gangs) {
    pb::PlacementEvent event;
    event.mutable_demand();
    for (int i = 0; i < gangs; ++i) {
      auto* item = event.mutable_demand()->add_items();
      item->set_uid("w" + std::to_string(i));
      item->set_attempt(1);
      item->set_since_us(micros(clock.now()));
      PodSet set;
      set.shape.gpu.whole = 8;
      *item->add_pod_sets() = wire::to_pb(set);
    }
    service::Input in;
    in.source = service::Source::kBus;
    in.name = "qm.placement";
    in.key = "demand";
    in.version = ++version;
    in.bytes = event.SerializeAsString();
    submit(in);
  }
  std::uint64_t version = 0;
};

TEST(CloudWatch, ReportsChangesAndNotPolls) {
  Service s;
  CloudWatch watch(s.host, s.aws, s.clock, {"east", std::chrono::seconds(10)});
  const std::string ours = tag_xml("karpenter.sh/nodeclaim", "p-00009") + tag_xml("karpenter.sh/nodepool", "p") +
                           tag_xml("quartermaster.dev/shard", "east");
  const std::string theirs = tag_xml("karpenter.sh/nodeclaim", "p-00001") + tag_xml("karpenter.sh/nodepool", "p") +
                             tag_xml("quartermaster.dev/shard", "west");
  s.ec2.set("DescribeInstances",
            described(instance_xml("i-2", theirs) + instance_xml("i-1", ours) + instance_xml("i-3", "")));
  watch.look();
  ASSERT_TRUE(wait_until([&] { return s.tables().claims.size() == 3; }));
  const auto inputs = s.host.counters().inputs;
  // The same instances in another order are not a change.
  s.ec2.set("DescribeInstances",
            described(instance_xml("i-3", "") + instance_xml("i-1", ours) + instance_xml("i-2", theirs)));
  watch.look();
  EXPECT_EQ(s.host.counters().inputs, inputs);
  EXPECT_EQ(watch.looks(), 2U) << "a look that shows nothing new counts";
  const auto tables = s.tables();
  EXPECT_EQ(tables.claims.find(ClaimName("p-00009"))->pool, "p");
  EXPECT_EQ(tables.claims.find(ClaimName("i-2"))->pool, "");  // another cluster's instance is only reported
  EXPECT_EQ(tables.claims.find(ClaimName("i-3"))->pool, "");

  // Stopped, without a time from the cloud: the billing ends at the first observation, independent of later polls.
  s.ec2.set("DescribeInstances",
            described(instance_xml("i-3", "", "terminated") + instance_xml("i-1", ours) + instance_xml("i-2", theirs)));
  const Instant learned = s.clock.now();
  watch.look();
  s.clock.advance(std::chrono::seconds(5));
  watch.look();
  ASSERT_TRUE(wait_until([&] { return s.tables().claims.find(ClaimName("i-3"))->state == ClaimState::kGone; }));
  EXPECT_EQ(s.host.counters().inputs, inputs + 1);
  EXPECT_EQ(s.tables().claims.find(ClaimName("i-3"))->stopped, learned);

  // A cloud that does not respond is not a change either.
  s.ec2.errors["DescribeInstances"] = "Unavailable";
  watch.look();
  EXPECT_EQ(s.host.counters().inputs, inputs + 1);
  EXPECT_EQ(watch.looks(), 4U);
}

TEST(CloudWatch, AsksForThePricesOfWhatPoolsAllow) {
  Service s;
  CloudWatch watch(s.host, s.aws, s.clock, {"east", std::chrono::seconds(10)});
  watch.look();
  EXPECT_EQ(s.ec2.count("DescribeSpotPriceHistory"), 0);
  s.want(0);
  s.ec2.set(
      "DescribeSpotPriceHistory",
      "<R><spotPriceHistorySet><item><instanceType>p5.48xlarge</instanceType><availabilityZone>z1</availabilityZone>"
      "<spotPrice>20.5</spotPrice><timestamp>2026-11-21T09:14:29.000Z</timestamp></item></spotPriceHistorySet></R>");
  watch.look();
  ASSERT_TRUE(wait_until([&] { return s.tables().spot_prices.size() == 1; }));
  EXPECT_EQ(s.tables().spot_prices.find({"p5.48xlarge", "z1"})->rate.per_hour.to_usd(2), "20.50");
  const auto inputs = s.host.counters().inputs;
  watch.look();
  EXPECT_EQ(s.host.counters().inputs, inputs);
}

TEST(CloudWatch, LooksByItselfUntilItIsStopped) {
  Service s;
  CloudWatch watch(s.host, s.aws, s.clock, {"east", std::chrono::seconds(10)});
  s.ec2.set("DescribeInstances", described(instance_xml("i-1", "")));
  watch.start();
  EXPECT_TRUE(wait_until([&] { return s.tables().claims.size() == 1; }));
  watch.stop();
}

struct Api : Service {
  std::unique_ptr<grpc::Service> api = make_api(host, clock);
  rpc::Server server{rpc::ServerOptions{}, {api.get()}};
  std::unique_ptr<pb::Capacity::Stub> stub;
  Api() {
    EXPECT_TRUE(server.start());
    stub = pb::Capacity::NewStub(
        grpc::CreateChannel(fmt::format("127.0.0.1:{}", server.port()), grpc::InsecureChannelCredentials()));
  }
  ~Api() { server.stop(); }
};

void deadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
}

// A tenant gets the reason why its own workload has no nodes, and nothing about the workloads of others.
TEST(CapacityApi, ATenantGetsTheSentencesAboutItsOwnWorkloads) {
  Service s;
  s.name("w0", "mine");
  s.name("w1", "theirs");
  s.want(2);
  s.host.read([&](const service::Shell& shell) {
    const Engine& engine = engine_of(shell);
    const Instant now = s.clock.now();
    const auto all = plan_for(engine, now, rpc::Caller::anyone());
    EXPECT_EQ(all.explanations_size(), 2);
    EXPECT_EQ(all.requested_size(), 2);
    EXPECT_NE(all.DebugString().find("theirs"), std::string::npos);
    rpc::Caller tenant;
    tenant.user = true;
    tenant.namespaces = {"mine"};
    const auto own = plan_for(engine, now, tenant);
    ASSERT_EQ(own.explanations_size(), 1);
    EXPECT_TRUE(own.explanations(0).starts_with("mine/train is pending ")) << own.explanations(0);
    EXPECT_EQ(own.demand().items_size(), 1);
    EXPECT_EQ(own.requested_size(), 1);
    for (const auto* text : {"theirs", "w1"})
      EXPECT_EQ(own.DebugString().find(text), std::string::npos) << own.DebugString();
    rpc::Caller stranger;
    stranger.user = true;
    EXPECT_EQ(plan_for(engine, now, stranger).explanations_size(), 0);

    int hidden = 0;
    for (const auto& [name, claim] : engine.tables().claims) {
      const auto shown = claim_for(name, claim, engine, tenant);
      EXPECT_EQ(shown.reason().find("theirs"), std::string::npos) << shown.reason();
      hidden += shown.reason().ends_with(": for a workload of another tenant") ? 1 : 0;
      EXPECT_NE(claim_for(name, claim, engine, rpc::Caller::anyone()).reason().find("/train"), std::string::npos);
    }
    EXPECT_EQ(hidden, 1);
  });
}

TEST(CapacityApi, ShowsThePlanAndPagesThroughClaims) {
  Api s;
  s.want(5);
  grpc::ClientContext plan_context;
  deadline(plan_context);
  pb::CapacityPlan plan;
  ASSERT_TRUE(s.stub->GetPlan(&plan_context, {}, &plan).ok());
  EXPECT_EQ(plan.demand().items_size(), 5);
  EXPECT_EQ(plan.requested_size(), 5);
  EXPECT_NE(plan.explanations(0).find("w0/1 is pending for 0 s: 1 instance(s) of p5.48xlarge"), std::string::npos)
      << plan.explanations(0);

  std::vector<std::string> names;
  pb::ListClaimsRequest request;
  request.set_page_size(2);
  do {
    grpc::ClientContext context;
    deadline(context);
    pb::ListClaimsResponse page;
    ASSERT_TRUE(s.stub->ListClaims(&context, request, &page).ok());
    EXPECT_EQ(page.total(), 5);
    EXPECT_LE(page.claims_size(), 2);
    for (const auto& c : page.claims()) {
      names.push_back(c.claim());
      EXPECT_TRUE(c.reason().starts_with("Requested: ")) << c.reason();
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(names, (std::vector<std::string>{"p-00001", "p-00002", "p-00003", "p-00004", "p-00005"}));

  grpc::ClientContext none_context, bad_context;
  deadline(none_context), deadline(bad_context);
  pb::ListClaimsResponse none;
  request.Clear();
  request.set_state(pb::INSTANCE_STOPPED);
  ASSERT_TRUE(s.stub->ListClaims(&none_context, request, &none).ok());
  EXPECT_EQ(none.total(), 0);
  request.set_page_size(1001);
  const auto refused = s.stub->ListClaims(&bad_context, request, &none);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(CapacityApi, SnapshotsItsTopic) {
  Api s;
  s.want(1);
  grpc::ClientContext context;
  deadline(context);
  pb::SnapshotRequest request;
  request.set_topic("qm.capacity");
  pb::SnapshotResponse page;
  ASSERT_TRUE(s.stub->Snapshot(&context, request, &page).ok());
  std::vector<std::string> keys;
  for (const auto& e : page.entries()) keys.push_back(e.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"instance/p-00001", "promise/w0"}));
}

TEST(CapacityApi, AWatchResumesWhereItWasLeft) {
  Api s;
  s.want(1);
  const auto read = [&](std::uint64_t from, int count) {
    grpc::ClientContext context;
    deadline(context);
    pb::WatchIntentsRequest request;
    request.set_resume_version(from);
    auto reader = s.stub->WatchIntents(&context, request);
    std::vector<pb::IntentUpdate> out(static_cast<std::size_t>(count));
    for (auto& update : out) EXPECT_TRUE(reader->Read(&update));
    context.TryCancel();
    return out;
  };
  s.want(3);
  // The first event is the claim, the second its promise, then the next claims.
  const auto later = read(1, 2);
  EXPECT_EQ(later[0].intent_id(), "p-00002");
  EXPECT_EQ(later[0].kind(), "launch");
  EXPECT_EQ(later[0].target(), "p5.48xlarge");
  EXPECT_EQ(later[0].outcome(), "");
  const auto resumed = read(later[0].resume_version(), 1);
  EXPECT_EQ(resumed[0].intent_id(), "p-00003");
  EXPECT_GT(resumed[0].resume_version(), later[0].resume_version());

  grpc::ClientContext ahead;
  deadline(ahead);
  pb::WatchIntentsRequest request;
  request.set_resume_version(1 << 20);
  pb::IntentUpdate none;
  auto reader = s.stub->WatchIntents(&ahead, request);
  EXPECT_FALSE(reader->Read(&none));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::OUT_OF_RANGE);
}

TEST(CapacityApi, AWatchDistinguishesALaunchFromATermination) {
  Api s;
  s.want(1);
  const auto look = [&](bool stopped) {
    service::Input in;
    in.source = service::Source::kWatch;
    in.name = "instances";
    in.bytes = fmt::format(
        R"([{{"id":"i-1","claim":"p-00001","pool":"p","type":"p5.48xlarge","zone":"z","spot":false,"node":"n1",)"
        R"("launched_us":{0},"stopped_us":{1}}}])",
        micros(s.clock.now()), stopped ? micros(s.clock.now()) : 0);
    s.submit(in);
  };
  std::uint64_t version = 0;
  const auto node = [&](pb::NodeState state) {
    pb::NodeEvent event;
    event.set_node("n1");
    event.set_state(state);
    event.set_provider_id("aws:///z/i-1");
    event.set_empty_since_us(micros(s.clock.now()));
    service::Input in;
    in.source = service::Source::kBus;
    in.name = "qm.node";
    in.key = "n1";
    in.version = ++version;
    in.bytes = event.SerializeAsString();
    s.submit(in);
  };
  look(false);
  node(pb::NODE_READY);
  s.demand(0);
  node(pb::NODE_CORDONED);
  ASSERT_EQ(s.tables().claims.find(ClaimName("p-00001"))->state, ClaimState::kTerminating);
  look(true);

  grpc::ClientContext context;
  deadline(context);
  pb::WatchIntentsRequest request;
  request.set_resume_version(1);  // the request itself was published with version 1
  auto reader = s.stub->WatchIntents(&context, request);
  std::vector<std::string> published;
  pb::IntentUpdate update;
  while (reader->Read(&update)) {
    EXPECT_EQ(update.intent_id(), "p-00001");
    EXPECT_EQ(update.target(), "i-1");
    const std::string line = update.kind() + " " + update.outcome();
    if (published.empty() || published.back() != line) published.push_back(line);
    if (line == "terminate ok") context.TryCancel();
  }
  EXPECT_EQ(published, (std::vector<std::string>{"launch ok", "terminate ", "terminate ok"}));
}

// S-347: the sum over the pool's live claims. S-348: the limits of its manifest.
TEST(Metrics, ShowUsageAndLimitsUnderKarpentersNames) {
  const qm::testing::TempDir dir;
  const std::string file = dir.path() + "/pool.yaml";
  std::ofstream(file) << "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec:\n"
                         "  limits: {nvidia.com/gpu: 24, cpu: 2500m, memory: 1Gi}\n  template:\n    spec:\n"
                         "      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n"
                         "      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]\n";
  const auto pools = pools_from_manifests(std::vector{file});
  ASSERT_TRUE(pools) << pools.error().to_string();
  Service s;
  s.want(2);
  metrics::Registry registry;
  export_metrics(registry, s.host);
  const auto* type = [&] {
    const InstanceType* found = nullptr;
    s.host.read([&](const service::Shell& shell) { found = engine_of(shell).type("p5.48xlarge"); });
    return found;
  }();
  const auto line = [](const char* name, const char* resource, const std::string& value) {
    return fmt::format("{}{{nodepool=\"p\",resource_type=\"{}\"}} {}\n", name, resource, value);
  };
  auto text = registry.text();
  EXPECT_NE(text.find(line("karpenter_nodepool_usage", "nvidia.com/gpu", "16")), std::string::npos) << text;
  EXPECT_NE(
      text.find(line("karpenter_nodepool_usage", "cpu",
                     fmt::format("{}", 2 * static_cast<double>(type->cpu_milli + type->reserved_cpu_milli) / 1000))),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("karpenter_nodepool_usage{nodepool=\"p\",resource_type=\"memory\"} "), std::string::npos) << text;
  EXPECT_EQ(text.find("karpenter_nodepool_limit"), std::string::npos) << "it has none";

  s.submit(pools_input(*pools));
  text = registry.text();
  EXPECT_NE(text.find(line("karpenter_nodepool_limit", "nvidia.com/gpu", "24")), std::string::npos) << text;
  EXPECT_NE(text.find(line("karpenter_nodepool_limit", "cpu", "2.5")), std::string::npos) << text;
  EXPECT_NE(text.find(line("karpenter_nodepool_limit", "memory", "1073741824")), std::string::npos) << text;
}

// S-330: the shipped rule for pools that are nearly full, on the series of its pool: above nine tenths for five
// minutes.
TEST(Metrics, ARuleFiresForAPoolThatIsNearlyFull) {
  if (qm::testing::promtool().empty()) GTEST_SKIP() << qm::testing::kNoPromtool;
  struct Case {
    std::string rules, alert, pools, pool;
    int limit, much, less;
  };
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(
        Case{"prometheusrule-fleet.yaml", "NodePoolNearlyFull", "nodepool-mixed.yaml", "mixed", 72, 66, 64},
        Case{"004-prometheusrule-karpenter-gpu-alerts.yaml", "GPUNodePoolNearLimit", "004-nodepool-gpu-general.yaml",
             "gpu-general", 100, 91, 89});
    const auto pools = pools_from_manifests(std::vector{manifests.dir + c.pools});
    ASSERT_TRUE(pools) << pools.error().to_string();
    Service s;
    s.submit(pools_input(*pools));
    metrics::Registry registry;
    export_metrics(registry, s.host);
    const auto labels = fmt::format(R"({{nodepool="{}",resource_type="nvidia.com/gpu"}})", c.pool);
    const auto used = qm::testing::series_of(registry.text(), "karpenter_nodepool_usage" + labels);
    const auto limit = qm::testing::series_of(registry.text(), "karpenter_nodepool_limit" + labels);
    EXPECT_NE(registry.text().find(fmt::format("{} {}\n", limit, c.limit)), std::string::npos);
    const auto rules = config::load_path(manifests.dir + c.rules);
    ASSERT_EQ(rules.objects.size(), 1U);
    const auto alert = qm::testing::firing(c.alert);
    const auto all = fmt::format("{}x30", c.limit);
    EXPECT_EQ(qm::testing::try_rules(
                  rules.objects[0].document.content["spec"].dump(),
                  {{"much", {{used, fmt::format("{}x30", c.much)}, {limit, all}}, alert, {{"4m", 0}, {"5m", 1}}},
                   {"less", {{used, fmt::format("{}x30", c.less)}, {limit, all}}, alert, {{"5m", 0}, {"14m", 0}}}}),
              "");
  }
}

TEST(Metrics, ShowClaimsAndPools) {
  Service s;
  s.want(2);
  metrics::Registry registry;
  export_metrics(registry, s.host);
  const auto text = registry.text();
  EXPECT_NE(text.find("qm_autoscaler_claims{state=\"Requested\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("qm_autoscaler_pool_gpus{nodepool=\"p\"} 16\n"), std::string::npos) << text;
  EXPECT_NE(text.find("qm_autoscaler_demand 2\n"), std::string::npos);
}

}  // namespace cloud_test
}  // namespace qm::autoscaler
