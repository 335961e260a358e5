// Gangs on the simulated fleet: its EC2 refuses by zone, the service launches, rolls back and launches elsewhere.
#include "qm/autoscaler/node_classes.hpp"
#include "qm/bus/bus.hpp"
#include "qm/store/memory.hpp"
#include "qm/testing/testing.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/events.pb.h"
#include "test/shell/rig.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace qm::autoscaler {
namespace gang_e2e_test {

using qm::testing::wait_until;
using std::chrono::seconds;

class GangOnTheFleet : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string binary = std::string(QM_BIN_DIR) + "/qm-fleet";
    if (!std::filesystem::exists(binary)) GTEST_SKIP() << "qm-fleet is not built: run ./qm build";
    auto fleet =
        qm::testing::Process::start({{binary, "--dir", dir_.path(), "--nodes", "0"}, {}, dir_.path() + "/log"});
    ASSERT_TRUE(fleet) << fleet.error().to_string();
    fleet_ = std::move(*fleet);
    const std::string file = dir_.path() + "/fleet.json";
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(file); }))
        << qm::testing::read_file(dir_.path() + "/log");
    const auto ports = Json::parse(qm::testing::read_file(file)).value_or(Json());
    const auto url = [&](const char* name) { return fmt::format("http://127.0.0.1:{}", ports[name].integer()); };
    faults_ = url("node");
    cloud::AwsOptions options;
    options.endpoint = url("aws");
    options.access_key = options.secret_key = "test";
    aws_ = std::make_unique<cloud::Aws>(options);
    kube_ = std::make_unique<kube::Client>(kube::ClientOptions{url("kube"), {}, {}, {}, {}});
    NodeClassWatch::Options class_options;
    class_options.cluster = {"ml", "https://api.ml", "10.100.0.0/16", "Q0E=", {}};
    class_options.region = "us-east-1";
    classes_ = std::make_unique<NodeClassWatch>(*kube_, *aws_, clock_, class_options);
    classes_->start();
    ASSERT_TRUE(wait_until([&] { return classes_->settled() && classes_->why_not_ready("default").empty(); }))
        << classes_->why_not_ready("default");
    executor_ = std::make_unique<Executor>(
        *kube_, *aws_, Driver::kEc2, "east",
        [this](const auto& name, const auto& planned) { return classes_->launch_parameters(name, planned); });
    Options engine_options;
    engine_options.alternatives = alternatives();
    host_ = std::make_unique<service::Host>(
        host_options("east"),
        std::make_unique<Shell>(std::make_unique<Engine>(catalog_types(), engine_options), Codec{}),
        store::open_memory(store::make_memory_disk()), *bus::make_bus("memory:gangs"), clock_, executor_.get());
    ASSERT_TRUE(host_->open());
    host_->start();
    watch_ = std::make_unique<CloudWatch>(*host_, *aws_, clock_, CloudWatchOptions{"east", seconds(10)});
    Pool pool;
    pool.name = "p";
    pool.instance_types = {kType};
    pool.markets = {Market::kOnDemand};
    pool.zones = {"us-east-1a", "us-east-1b", "us-east-1c"};
    ASSERT_TRUE(host_->submit(pools_input({pool})));
  }
  /// The number of further offerings that one request may name.
  [[nodiscard]] virtual std::size_t alternatives() const { return 0; }
  void TearDown() override {
    if (host_) host_->stop();
    classes_.reset();
  }

  void want(int pods) {
    quartermaster::v1::PlacementEvent event;
    auto* item = event.mutable_demand()->add_items();
    item->set_uid("w");
    item->set_attempt(1);
    item->set_since_us(micros(clock_.now()));
    PodSet set;
    set.count = pods;
    set.shape.gpu.whole = 8;
    *item->add_pod_sets() = wire::to_pb(set);
    service::Input in;
    in.source = service::Source::kBus;
    in.name = "qm.placement";
    in.key = "demand";
    in.version = 1;
    in.bytes = event.SerializeAsString();
    ASSERT_TRUE(host_->submit(in));
  }
  /// At most `n` live instances in the zone.
  void limit(const std::string& zone, int n) {
    http::Request request;
    request.method = "POST";
    request.target = "/fleet/faults";
    request.body =
        fmt::format(R"({{"kind":"capacity","type":"{}","market":"on-demand","zone":"{}","limit":{}}})", kType, zone, n);
    const auto answer = http::Client(faults_).send(request);
    ASSERT_TRUE(answer && answer->status == 200) << (answer ? answer->body : answer.error().to_string());
  }
  std::vector<cloud::Instance> alive(const std::string& zone) {
    auto all =
        aws_->describe_instances({}, {{"availability-zone", {zone}}, {"instance-state-name", {"pending", "running"}}});
    return all ? *all : std::vector<cloud::Instance>{};
  }
  /// Polls until the zone has this number of instances, each with a claim that has it.
  bool whole(const std::string& zone, std::size_t n) {
    return wait_until(
        [&] {
          watch_->look();
          const auto instances = alive(zone);
          std::size_t matched = 0;
          host_->read([&](const service::Shell& shell) {
            for (const auto& instance : instances) {
              const auto tag = instance.tags.find(std::string(words::kNodeClaimTag));
              if (tag == instance.tags.end()) continue;
              const Claim* claim = engine_of(shell).tables().claims.find(ClaimName(tag->second));
              matched += claim != nullptr && claim->instance.value() == instance.id && !claim->node.empty() ? 1 : 0;
            }
          });
          return instances.size() == n && matched == n;
        },
        seconds(60));
  }

  static constexpr const char* kType = "p5.48xlarge";
  qm::testing::TempDir dir_;
  std::unique_ptr<qm::testing::Process> fleet_;
  std::string faults_;
  std::unique_ptr<cloud::Aws> aws_;
  std::unique_ptr<kube::Client> kube_;
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  std::unique_ptr<NodeClassWatch> classes_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<service::Host> host_;
  std::unique_ptr<CloudWatch> watch_;
};

// The report of the field: "gang of 4, fourth launch refused, another zone has 4".
TEST_F(GangOnTheFleet, OfFourIsLaunchedWholeInAZoneThatHasFourAndMovesWhenOneCannotBeReplaced) {
  limit("us-east-1a", 3);
  want(4);
  ASSERT_TRUE(whole("us-east-1b", 4));
  const auto first = alive("us-east-1b");
  for (const auto& instance : first) {
    EXPECT_EQ(instance.client_token, first.front().client_token) << "one request";
    EXPECT_EQ(instance.subnet, first.front().subnet);
  }
  EXPECT_TRUE(alive("us-east-1a").empty());
  const auto claims = kube_->list(kube::resources::kNodeClaims, "");
  ASSERT_TRUE(claims);
  EXPECT_EQ(claims->items.size(), 4U) << "those of the refused launch are deleted";

  // One is lost, and the zone has no fourth any more: the three are terminated, and four launched in the last zone.
  limit("us-east-1b", 3);
  ASSERT_TRUE(aws_->terminate_instances({first.front().id}));
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(whole("us-east-1c", 4));
  ASSERT_TRUE(wait_until([&] { return alive("us-east-1b").empty(); }, seconds(60)));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(60));
  EXPECT_TRUE(alive("us-east-1a").empty());
}

class ChoiceOnTheFleet : public GangOnTheFleet {
 protected:
  [[nodiscard]] std::size_t alternatives() const override { return 19; }
};

TEST_F(ChoiceOnTheFleet, OneRequestNamesAllZonesAndWhatIsRefusedIsRemembered) {
  limit("us-east-1a", 3);
  want(4);
  ASSERT_TRUE(whole("us-east-1b", 4)) << "the first zone with four, by one CreateFleet";
  EXPECT_TRUE(alive("us-east-1a").empty());
  const auto templates = aws_->describe_launch_templates({{"tag:quartermaster.dev/shard", {"east"}}});
  ASSERT_TRUE(templates);
  EXPECT_EQ(templates->size(), 1U);
  host_->read([&](const service::Shell& shell) {
    const Tables& tables = engine_of(shell).tables();
    EXPECT_TRUE(tables.blocked.contains(Offering{kType, "us-east-1a", Market::kOnDemand, {}}));
    for (const auto& [name, claim] : tables.claims) {
      EXPECT_EQ(claim.zone, "us-east-1b") << name;
      EXPECT_EQ(claim.launch, "p-00001x4") << "the first request";
    }
  });

  // One is lost, and no zone has four any more: nothing of the gang remains.
  for (const char* zone : {"us-east-1b", "us-east-1c"}) limit(zone, 3);
  ASSERT_TRUE(aws_->terminate_instances({alive("us-east-1b").front().id}));
  ASSERT_TRUE(wait_until(
      [&] {
        watch_->look();
        return alive("us-east-1a").empty() && alive("us-east-1b").empty() && alive("us-east-1c").empty();
      },
      seconds(60)));
}

}  // namespace gang_e2e_test
}  // namespace qm::autoscaler
