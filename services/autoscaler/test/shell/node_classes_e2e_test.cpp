// EC2NodeClasses on the fleet's API server and account: resolved, their status written, and instances launched.
#include "qm/autoscaler/node_classes.hpp"

#include "qm/autoscaler/cluster.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/bus/bus.hpp"
#include "qm/config/typed.hpp"
#include "qm/store/memory.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/journal.pb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

namespace qm::autoscaler {
namespace node_classes_e2e_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const kube::Resource kNodeClasses{"karpenter.k8s.aws", "v1", "ec2nodeclasses", false};

class NodeClassesOnTheFleet : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string binary = std::string(QM_BIN_DIR) + "/qm-fleet";
    if (!std::filesystem::exists(binary)) GTEST_SKIP() << "qm-fleet is not built: run ./qm build";
    auto fleet =
        qm::testing::Process::start({{binary, "--dir", dir_.path(), "--nodes", "0"}, {}, dir_.path() + "/log"});
    ASSERT_TRUE(fleet) << fleet.error().to_string();
    fleet_ = std::move(*fleet);
    const std::string file = dir_.path() + "/fleet.json";
    ASSERT_TRUE(qm::testing::wait_until([&] { return std::filesystem::exists(file); }))
        << qm::testing::read_file(dir_.path() + "/log");
    const auto ports = Json::parse(qm::testing::read_file(file)).value_or(Json());
    cloud::AwsOptions options;
    options.endpoint = fmt::format("http://127.0.0.1:{}", ports["aws"].integer());
    options.access_key = options.secret_key = "test";
    aws_ = std::make_unique<cloud::Aws>(options);
    kube::ClientOptions server;
    server.server = fmt::format("http://127.0.0.1:{}", ports["kube"].integer());
    client_ = std::make_unique<kube::Client>(server);
  }
  void TearDown() override { watch_.reset(); }

  void watch(std::vector<config::NodeClass> files = {}) {
    NodeClassWatch::Options options;
    options.files = std::move(files);
    options.cluster = {"ml", "https://api.ml", "10.100.0.0/16", "Q0E=", {}};
    options.region = "us-east-1";
    options.retry = std::chrono::milliseconds(200);
    watch_ = std::make_unique<NodeClassWatch>(*client_, *aws_, clock_, options);
    watch_->start();
    ASSERT_TRUE(qm::testing::wait_until([&] { return watch_->settled(); }));
  }
  void create(const std::string& discovery) {
    const Json terms = Json::array({Json::object({{"tags", Json::object({{"karpenter.sh/discovery", discovery}})}})});
    const Json spec = Json::object({{"amiSelectorTerms", Json::array({Json::object({{"alias", "al2023@latest"}})})},
                                    {"subnetSelectorTerms", terms},
                                    {"securityGroupSelectorTerms", terms},
                                    {"role", "nodes"}});
    const auto made = client_->create(kNodeClasses, "",
                                      Json::object({{"apiVersion", "karpenter.k8s.aws/v1"},
                                                    {"kind", "EC2NodeClass"},
                                                    {"metadata", Json::object({{"name", "gpu"}})},
                                                    {"spec", spec}}));
    ASSERT_TRUE(made) << made.error().to_string();
  }
  bool ready() {
    return qm::testing::wait_until([&] { return watch_->why_not_ready("gpu").empty(); });
  }
  /// "True", or the message of the condition.
  std::string condition(const std::string& type) {
    const auto object = client_->get(kNodeClasses, "", "gpu");
    if (!object) return object.error().to_string();
    for (const Json& one : object->path("status.conditions").items()) {
      if (one["type"].string() == type) return one["status"].string() == "True" ? "True" : one["message"].string();
    }
    return "absent";
  }

  qm::testing::TempDir dir_;
  std::unique_ptr<qm::testing::Process> fleet_;
  std::unique_ptr<cloud::Aws> aws_;
  std::unique_ptr<kube::Client> client_;
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  std::unique_ptr<NodeClassWatch> watch_;
};

TEST_F(NodeClassesOnTheFleet, AreResolvedAtEachChangeAndTheirStatusIsWritten) {
  watch();
  EXPECT_EQ(watch_->why_not_ready("default"), "") << "the fleet has one";
  EXPECT_THAT(watch_->why_not_ready("gpu"), HasSubstr("EC2NodeClass gpu does not exist; create it"));
  create("quartermaster");
  ASSERT_TRUE(ready()) << watch_->why_not_ready("gpu");
  EXPECT_TRUE(qm::testing::wait_until([&] { return condition("Ready") == "True"; })) << condition("Ready");
  EXPECT_EQ(condition("AMIsReady"), "True");
  EXPECT_EQ(condition("InstanceProfileReady"), "True");
  const auto object = client_->get(kNodeClasses, "", "gpu");
  EXPECT_EQ(object->path("status.subnets").size(), 3u);
  EXPECT_THAT(object->path("status.instanceProfile").string(), StartsWith("ml_"));

  const Json none = Json::array({Json::object({{"tags", Json::object({{"karpenter.sh/discovery", "none"}})}})});
  ASSERT_TRUE(client_->merge_patch(kNodeClasses, "", "gpu",
                                   Json::object({{"spec", Json::object({{"subnetSelectorTerms", none}})}})));
  const std::string why =
      "EC2NodeClass gpu: no subnet matches tag karpenter.sh/discovery=none; tag a subnet, or correct "
      "subnetSelectorTerms";
  EXPECT_TRUE(qm::testing::wait_until([&] { return watch_->why_not_ready("gpu") == why; }))
      << watch_->why_not_ready("gpu");
  EXPECT_TRUE(qm::testing::wait_until([&] { return condition("Ready") == why; })) << condition("Ready");
  EXPECT_EQ(condition("SubnetsReady"), why);
  EXPECT_EQ(condition("AMIsReady"), "True");

  // A subnet gets the tag: the class is resolved again without a change of its own.
  const auto subnets = aws_->describe_subnets({});
  ASSERT_TRUE(aws_->create_tags({subnets->front().id}, {{"karpenter.sh/discovery", "none"}}));
  EXPECT_TRUE(ready());

  ASSERT_TRUE(client_->remove(kNodeClasses, "", "gpu", {}));
  EXPECT_TRUE(qm::testing::wait_until(
      [&] { return watch_->why_not_ready("gpu").find("does not exist") != std::string::npos; }));
}

// A file of --config has the class; its resources do not change when an object of the same class appears.
TEST_F(NodeClassesOnTheFleet, AnObjectGetsItsStatusThoughAFileHasTheSameClass) {
  create("quartermaster");
  const auto node_class =
      config::typed_object<config::NodeClass>(*client_->get(kNodeClasses, "", "gpu"), "EC2NodeClass");
  ASSERT_TRUE(node_class) << node_class.error().to_string();
  ASSERT_TRUE(client_->remove(kNodeClasses, "", "gpu", {}));
  watch({*node_class});
  ASSERT_TRUE(ready()) << watch_->why_not_ready("gpu");
  for (int i = 0; i < 2; ++i) {
    create("quartermaster");
    EXPECT_TRUE(qm::testing::wait_until([&] { return condition("Ready") == "True"; })) << condition("Ready");
    ASSERT_TRUE(client_->remove(kNodeClasses, "", "gpu", {}));
    EXPECT_EQ(watch_->why_not_ready("gpu"), "") << "the file still has it";
  }
}

// S-488: no claim is made for a class without a subnet, and the explanation names the tag.
TEST_F(NodeClassesOnTheFleet, ANodePoolIsUsedOnceItsClassIsReady) {
  watch();
  Executor executor(*client_, *aws_, Driver::kEc2, "east");
  service::Host host(host_options("east"), std::make_unique<Shell>(std::make_unique<Engine>(catalog_types()), Codec{}),
                     store::open_memory(store::make_memory_disk()), *bus::make_bus("memory:classes"), clock_,
                     &executor);
  ASSERT_TRUE(host.open());
  ASSERT_TRUE(Cluster::begin(host));
  host.start();
  Cluster cluster(*client_, host, clock_, {{}, {}, "east", watch_.get(), [] {}});
  cluster.start();
  const Json pool = *Json::parse(
      R"({"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"p"},"spec":{"template":{"spec":{)"
      R"("requirements":[{"key":"node.kubernetes.io/instance-type","operator":"In","values":["p5.48xlarge"]}],)"
      R"("nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"gpu"}}}}})");
  ASSERT_TRUE(client_->create(kube::resources::kNodePools, "", pool));
  const auto not_ready = [&] {
    std::string out = "no pool";
    host.read([&](const service::Shell& shell) {
      if (const Pool* found = engine_of(shell).tables().pools.find("p")) out = found->not_ready;
    });
    return out;
  };
  EXPECT_TRUE(qm::testing::wait_until([&] { return not_ready().find("gpu does not exist") != std::string::npos; }))
      << not_ready();
  create("none");
  EXPECT_TRUE(qm::testing::wait_until([&] { return not_ready().find("no subnet matches") != std::string::npos; }))
      << not_ready();
  host.read([&](const service::Shell& shell) {
    EXPECT_THAT(engine_of(shell).explain(clock_.now()),
                ::testing::Contains(HasSubstr("NodePool p is not ready: EC2NodeClass gpu: no subnet matches tag "
                                              "karpenter.sh/discovery=none; tag a subnet")));
    EXPECT_EQ(engine_of(shell).tables().claims.size(), 0U);
  });
  ASSERT_TRUE(client_->remove(kNodeClasses, "", "gpu", {}));
  create("quartermaster");
  EXPECT_TRUE(qm::testing::wait_until([&] { return not_ready().empty(); })) << not_ready();
  cluster.stop();
  host.stop();
}

// A cluster without NodePools: that is reported once, not in each pass.
TEST_F(NodeClassesOnTheFleet, NoNodePoolsAreOneInput) {
  watch();
  Executor executor(*client_, *aws_, Driver::kEc2, "east");
  const auto disk = store::make_memory_disk();
  service::Host host(host_options("east"), std::make_unique<Shell>(std::make_unique<Engine>(catalog_types()), Codec{}),
                     store::open_memory(disk), *bus::make_bus("memory:classes"), clock_, &executor);
  ASSERT_TRUE(host.open());
  ASSERT_TRUE(Cluster::begin(host));
  host.start();
  Cluster cluster(*client_, host, clock_, {{}, {}, "east", watch_.get(), [] {}});
  cluster.start();
  const auto inputs = [&](const std::string& name, const std::string& part) {
    int count = 0;
    const auto rows = *store::open_memory(disk)->read_journal(0, 10'000);
    for (const auto& row : rows) {
      quartermaster::v1::JournalBatch batch;
      EXPECT_TRUE(batch.ParseFromString(row.bytes));
      for (const auto& in : batch.inputs()) count += in.name() == name && in.bytes().find(part) != std::string::npos;
    }
    return count;
  };
  // Each pass reports the pools before the nodes.
  for (const char* name : {"n1", "n2", "n3"}) {
    ASSERT_TRUE(
        client_->create(kube::resources::kNodes, "", Json::object({{"metadata", Json::object({{"name", name}})}})));
    EXPECT_TRUE(qm::testing::wait_until([&] { return inputs("node", name) + inputs("node.details", name) > 0; }))
        << name;
  }
  EXPECT_EQ(inputs("pools", ""), 1);
  cluster.stop();
  host.stop();
}

// A NodePool that moves from a file of the release into the cluster.
TEST_F(NodeClassesOnTheFleet, ANodePoolOfAFileHasAStatusOnceItIsAnObject) {
  watch();
  Executor executor(*client_, *aws_, Driver::kEc2, "east");
  service::Host host(host_options("east"), std::make_unique<Shell>(std::make_unique<Engine>(catalog_types()), Codec{}),
                     store::open_memory(store::make_memory_disk()), *bus::make_bus("memory:classes"), clock_,
                     &executor);
  ASSERT_TRUE(host.open());
  ASSERT_TRUE(Cluster::begin(host));
  host.start();
  Pool of_file;
  of_file.name = "p";
  of_file.node_class = "gpu";
  of_file.instance_types = {"p5.48xlarge"};
  const auto create = [&](const std::string& name) {
    Json pool = *Json::parse(
        R"({"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{},"spec":{"template":{"spec":{)"
        R"("requirements":[{"key":"node.kubernetes.io/instance-type","operator":"In","values":["p5.48xlarge"]}],)"
        R"("nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"gpu"}}}}})");
    pool.set("metadata").set("name", name);
    EXPECT_TRUE(client_->create(kube::resources::kNodePools, "", pool));
  };
  const auto status = [&](const std::string& name) {
    return client_->get(kube::resources::kNodePools, "", name).value_or(Json())["status"];
  };
  const auto written = [&](const std::string& name) {
    return qm::testing::wait_until([&] { return status(name)["conditions"].size() > 0; });
  };
  Cluster cluster(*client_, host, clock_, {{}, {.files = {of_file}}, "east", watch_.get(), [] {}});
  cluster.start();
  create("q");  // after p in each pass, so that p has had its turn
  EXPECT_TRUE(written("q"));
  create("p");
  EXPECT_TRUE(written("p"));
  EXPECT_EQ(status("p")["resources"]["nodes"].string(), "0");
  cluster.stop();
  host.stop();
}

TEST_F(NodeClassesOnTheFleet, AnInstanceIsLaunchedWithTheParametersOfItsClass) {
  watch();
  create("quartermaster");
  ASSERT_TRUE(ready()) << watch_->why_not_ready("gpu");
  Executor executor(*client_, *aws_, Driver::kEc2, "east",
                    [this](const auto& name, const auto& planned) { return watch_->launch_parameters(name, planned); });
  const store::IntentRow launch{
      "launch/p-1", "instance.launch", "p-1", 0,
      R"({"claim":"p-1","pool":"p","type":"p5.48xlarge","zone":"us-east-1b","spot":true,"labels":{"a":"b"},)"
      R"("taints":[{"key":"nvidia.com/gpu","value":"true","effect":"NoSchedule"}],"class":"gpu","reason":"why"})"};
  std::set<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    const auto done = executor.execute(launch);
    ASSERT_TRUE(done) << done.error().to_string();
    const Json outcome = *Json::parse(done->bytes);
    EXPECT_EQ(outcome["error"].string(), "");
    ids.insert(outcome["instance"].string());
    // The class changes, and so do the parameters of the repeated launch.
    const Json changed = Json::object({{"spec", Json::object({{"tags", Json::object({{"n", "1"}})}})}});
    ASSERT_TRUE(client_->merge_patch(kNodeClasses, "", "gpu", changed));
    PlannedInstance any;
    any.instance_type = "p5.48xlarge";
    any.architecture = "x86_64";
    any.accelerator = Accelerator::kNvidia;
    ASSERT_TRUE(qm::testing::wait_until([&] {
      const auto request = watch_->launch_parameters("gpu", any);
      return request && request->tags.contains("n");
    }));
  }
  EXPECT_EQ(ids.size(), 1u) << "a repeat launches no second instance";
  const auto instances = aws_->describe_instances({}, {{"tag:karpenter.sh/nodeclaim", {"p-1"}}});
  ASSERT_TRUE(instances && instances->size() == 1);
  const cloud::Instance& got = instances->front();
  EXPECT_EQ(got.zone, "us-east-1b");
  EXPECT_TRUE(got.spot);
  EXPECT_THAT(got.profile, HasSubstr(":instance-profile/ml_"));
  EXPECT_EQ(got.tags.at("quartermaster.dev/shard"), "east");
  EXPECT_EQ(got.tags.at("kubernetes.io/cluster/ml"), "owned");
  const auto image = aws_->describe_images({{"image-id", {got.image}}});
  ASSERT_TRUE(image && image->size() == 1);
  EXPECT_THAT(image->front().name, HasSubstr("al2023-x86_64-nvidia-v20260501"));
}

}  // namespace node_classes_e2e_test
}  // namespace qm::autoscaler
