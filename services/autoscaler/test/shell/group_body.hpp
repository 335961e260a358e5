#pragma once
// An end-to-end test of a pool with an Auto Scaling group, against a cloud: the host with its executor and
// its poll of the cloud; the test acts as placement.
#include "qm/testing/testing.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/events.pb.h"
#include "test/shell/rig.hpp"

#include <limits>

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
    begin(4);
    // Two instances are needed: the group grows by two, and the claims match them.
    want({{.name = "w", .pods = 2}});
    ASSERT_TRUE(qm::testing::wait_until([&] { return desired() == 2; }, std::chrono::seconds(60)));
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          watch_.look();
          return count(ClaimState::kLaunched) == 2;
        },
        std::chrono::seconds(60)));

    // They are no longer needed: both are drained, and terminated through the group, which launches no others.
    want({});
    empty_out(2);
    EXPECT_EQ(tables().claims.size(), 2U) << "every instance of the group had a claim";
    EXPECT_TRUE(claims_.objects.empty());
  }

  /// A group of 0 to 20 instances with labels and a taint, at size zero: eksctl's node group for H100s.
  void run_bounds() {
    constexpr int kMost = 20;
    const std::pair<std::string, std::string> training{"workload", "training"}, h100{"gpu-type", "h100"};
    const Taint taint{"nvidia.com/gpu", "present", "NoSchedule"};
    begin(kMost, {training, h100}, {taint});

    // The group has no instances: the labels and taints that they would have determine which gang scales it up.
    const Gang intruder{.name = "intruder", .pods = 1, .select = {training}, .tolerates = false};
    const Gang stranger{.name = "stranger", .pods = 1, .select = {{"workload", "serving"}}};
    want({intruder, stranger});
    ASSERT_TRUE(qm::testing::wait_until([&] { return tables().demand.size() == 2; }));
    watch_.look();
    EXPECT_EQ(tables().claims.size(), 0U) << "neither can run on its instances";
    EXPECT_EQ(desired(), 0);

    // Three gangs that match need 25 instances: the bound is enough for the two more urgent ones, whole.
    const Gang first{.name = "first", .pods = 12, .priority = 9, .select = {training, h100}};
    const Gang second{.name = "second", .pods = 8, .priority = 5, .select = {training}};
    const Gang third{.name = "third", .pods = 5, .select = {h100}};
    want({intruder, stranger, first, second, third});
    ASSERT_TRUE(qm::testing::wait_until([&] { return desired() == kMost; }, std::chrono::seconds(60)));
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          watch_.look();
          return desired() == kMost && count(ClaimState::kLaunched) == kMost;
        },
        std::chrono::seconds(60)));
    std::map<std::string, std::size_t> served;
    for (const auto& [name, claim] : tables().claims)
      if (claim.state == ClaimState::kLaunched) ++served[claim.for_uid.value()];
    EXPECT_EQ(served, (std::map<std::string, std::size_t>{{"first", 12}, {"second", 8}}));
    EXPECT_EQ(count(ClaimState::kFailed), 5U) << "the third waits: no part of it was launched";
    EXPECT_FALSE(aws_.set_desired_capacity(group_, kMost + 1)) << "this cloud holds the bound too";

    want({});
    empty_out(kMost);
    EXPECT_EQ(lowest_, 0);
    EXPECT_EQ(highest_, kMost) << "at every look in between";
  }

 private:
  struct Gang {
    std::string name;
    int pods = 1;
    std::int32_t priority = 0;
    Labels select = {};
    bool tolerates = true;
  };

  void begin(int most, Labels labels = {}, std::vector<Taint> taints = {}) {
    ASSERT_TRUE(host_.open());
    host_.start();
    cloud::NewGroup made;
    made.name = group_;
    made.instance_type = "p5.48xlarge";
    made.zones = {"us-east-1a", "us-east-1b"};
    made.max = most;
    const auto created = aws_.create_group(made);
    ASSERT_TRUE(created) << created.error().to_string();
    Pool pool;
    pool.name = "gpus";
    pool.instance_types = {"p5.48xlarge"};
    pool.markets = {Market::kOnDemand};
    pool.labels = std::move(labels);
    pool.taints = std::move(taints);
    pool.group = group_;
    ASSERT_TRUE(host_.submit(pools_input({pool})));
  }
  /// The instances exist and are not needed: each is drained, and terminated through the group.
  void empty_out(std::size_t listed_instances) {
    for (const auto& [name, claim] : tables().claims)
      if (claim.state == ClaimState::kLaunched) node(claim, false);
    ASSERT_TRUE(qm::testing::wait_until([&] { return count(ClaimState::kDraining) == listed_instances; }));
    for (const auto& [name, claim] : tables().claims)
      if (claim.state == ClaimState::kDraining) node(claim, true);
    ASSERT_TRUE(qm::testing::wait_until([&] { return desired() == 0; }, std::chrono::seconds(60)));
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          watch_.look();
          return count(ClaimState::kGone) == listed_instances;
        },
        std::chrono::seconds(60)));
  }
  void hear(const char* topic, const std::string& key, const google::protobuf::Message& message) {
    service::Input in;
    in.source = service::Source::kBus;
    in.name = topic;
    in.key = key;
    in.version = ++versions_[key];
    in.bytes = message.SerializeAsString();
    ASSERT_TRUE(host_.submit(in));
  }
  void want(const std::vector<Gang>& gangs) {
    quartermaster::v1::PlacementEvent event;
    event.mutable_demand();
    for (const auto& gang : gangs) {
      auto* item = event.mutable_demand()->add_items();
      item->set_uid(gang.name);
      item->set_attempt(1);
      item->set_priority(gang.priority);
      item->set_since_us(micros(clock_.now()));
      PodSet set;
      set.count = gang.pods;
      set.shape.gpu.whole = 8;
      set.shape.node_selector = gang.select;
      if (gang.tolerates) set.shape.tolerations = {{"nvidia.com/gpu", "Exists", "", "NoSchedule"}};
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
    if (!groups || groups->empty()) return -1;
    lowest_ = std::min(lowest_, groups->front().desired);
    highest_ = std::max(highest_, groups->front().desired);
    return groups->front().desired;
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
  int lowest_ = std::numeric_limits<int>::max(), highest_ = -1;  ///< observed desired sizes in the cloud
};

}  // namespace qm::autoscaler::testing
