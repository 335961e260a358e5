#pragma once
// The whole way of a pool whose machines an Auto Scaling group makes, against a cloud: the host with its executor and
// its look at the cloud; the test plays placement.
#include "qm/testing/testing.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/events.pb.h"
#include "test/shell/rig.hpp"

namespace qm::autoscaler::testing {

class GroupStory {
 public:
  GroupStory(cloud::AwsOptions options, std::string group)
      : aws_(std::move(options)),
        group_(std::move(group)),
        executor_(kube_, aws_, Driver::kEc2, group_),
        host_(host_options(group_), std::make_unique<Shell>(std::make_unique<Engine>(catalog_types()), Codec{}),
              store::open_memory(store::make_memory_disk()), *bus::make_bus("memory:" + group_), clock_, &executor_),
        watch_(host_, aws_, clock_, {group_, std::chrono::seconds(10)}) {}
  ~GroupStory() { host_.stop(); }

  void run() {
    ASSERT_TRUE(host_.open());
    host_.start();
    cloud::NewGroup made;
    made.name = group_;
    made.instance_type = "p5.48xlarge";
    made.zones = {"us-east-1a", "us-east-1b"};
    made.max = 4;
    const auto created = aws_.create_group(made);
    ASSERT_TRUE(created) << created.error().to_string();
    Pool pool;
    pool.name = "gpus";
    pool.instance_types = {"p5.48xlarge"};
    pool.markets = {Market::kOnDemand};
    pool.group = group_;
    ASSERT_TRUE(host_.submit(pools_input({pool})));

    // Two machines are wanted: the group grows by two, and the claims find them.
    want(2);
    ASSERT_TRUE(qm::testing::wait_until([&] { return desired() == 2; }, std::chrono::seconds(60)));
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          watch_.look();
          return count(ClaimState::kLaunched) == 2;
        },
        std::chrono::seconds(60)));

    // Nobody wants them any more: both are drained, and ended through the group, which makes no others.
    want(0);
    for (const auto& [name, claim] : tables().claims) node(claim, false);
    ASSERT_TRUE(qm::testing::wait_until([&] { return count(ClaimState::kDraining) == 2; }));
    for (const auto& [name, claim] : tables().claims) node(claim, true);
    ASSERT_TRUE(qm::testing::wait_until([&] { return desired() == 0; }, std::chrono::seconds(60)));
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          watch_.look();
          return count(ClaimState::kGone) == 2;
        },
        std::chrono::seconds(60)));
    EXPECT_EQ(tables().claims.size(), 2U) << "every machine of the group had a claim";
    EXPECT_TRUE(claims_.objects.empty());
  }

 private:
  void hear(const char* topic, const std::string& key, const google::protobuf::Message& message) {
    service::Input in;
    in.source = service::Source::kBus;
    in.name = topic;
    in.key = key;
    in.version = ++versions_[key];
    in.bytes = message.SerializeAsString();
    ASSERT_TRUE(host_.submit(in));
  }
  void want(int pods) {
    quartermaster::v1::PlacementEvent event;
    event.mutable_demand();
    if (pods > 0) {
      auto* item = event.mutable_demand()->add_items();
      item->set_uid("w");
      item->set_attempt(1);
      item->set_since_us(micros(clock_.now()));
      PodSet set;
      set.count = pods;
      set.shape.gpu.whole = 8;
      *item->add_pod_sets() = wire::to_pb(set);
    }
    hear("qm.placement", "demand", event);
  }
  void node(const Claim& claim, bool cordoned) {
    quartermaster::v1::NodeEvent event;
    event.set_node(claim.node.value());
    event.set_state(cordoned ? quartermaster::v1::NODE_CORDONED : quartermaster::v1::NODE_READY);
    event.set_provider_id("aws:///" + claim.zone + "/" + claim.instance.value());
    event.set_empty_since_us(micros(clock_.now()));
    hear("qm.node", claim.node.value(), event);
  }
  int desired() {
    const auto groups = aws_.describe_groups({group_});
    return groups && !groups->empty() ? groups->front().desired : -1;
  }
  Tables tables() {
    Tables out;
    host_.read([&](const service::Shell& s) { out = engine_of(s).tables(); });
    return out;
  }
  std::size_t count(ClaimState state) {
    std::size_t n = 0;
    for (const auto& [name, claim] : tables().claims) n += claim.state == state ? 1 : 0;
    return n;
  }

  NodeClaims claims_;
  kube::Client kube_{{claims_.origin(), {}, {}, {}, {}}};
  cloud::Aws aws_;
  std::string group_;
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  Executor executor_;
  service::Host host_;
  CloudWatch watch_;
  std::map<std::string, std::uint64_t> versions_;
};

}  // namespace qm::autoscaler::testing
