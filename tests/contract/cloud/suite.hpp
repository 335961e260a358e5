#pragma once
#include "qm/cloud/aws.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

namespace qm::contract {

/// Features that a part of the contract needs and that not every cloud implements.
enum class Trait {
  kClientTokens,
  kRefusesUnknownIds,  ///< in CreateTags
  kGroupLimits,
  kUnknownGroup,
  kUnknownTemplate,
  kImageParameters,  ///< GetParameter of the images that AWS publishes, and the images
  kRefusesLaunches,  ///< of unknown images, subnets and security groups
  kReservations,     ///< DescribeCapacityReservations and DescribePlacementGroups
  kRoles,            ///< AddRoleToInstanceProfile without a role that was created before
};

/// An implementation of the AWS protocol: the simulated fleet, or an independent one. The suite is the same for all;
/// a case that needs a missing feature is skipped with its name and reason.
struct CloudPeer {
  cloud::AwsOptions options;
  std::map<Trait, std::string> lacks;
  std::shared_ptr<void> keeper;  ///< stops the peer's processes
};
using PeerFactory = std::function<CloudPeer*(std::string* why_not)>;

class CloudContract : public ::testing::TestWithParam<PeerFactory> {
 protected:
  void SetUp() override {
    std::string why_not;
    peer_ = GetParam()(&why_not);
    if (peer_ == nullptr) GTEST_SKIP() << why_not;
    aws_ = std::make_unique<cloud::Aws>(peer_->options);
    static int tests = 0;
    mark_ = fmt::format("qm-{}-{}", getpid(), ++tests);
  }
  void TearDown() override {
    if (!ids_.empty()) (void)aws_->terminate_instances(ids_);
  }

  [[nodiscard]] const std::string* missing(Trait trait) const {
    const auto it = peer_->lacks.find(trait);
    return it == peer_->lacks.end() ? nullptr : &it->second;
  }
  /// A request for this test's own instances, by tag; they are terminated at its end.
  [[nodiscard]] cloud::InstanceRequest request(int count = 1) const {
    cloud::InstanceRequest out;
    out.instance_type = "g5.xlarge";
    out.zone = "us-east-1a";
    out.image_id = "ami-00000000";
    out.client_token = mark_;
    out.count = count;
    out.tags = {{"qm-test", mark_}};
    return out;
  }
  std::vector<cloud::Instance> run(const cloud::InstanceRequest& asked) {
    auto got = aws_->run_instances(asked);
    if (!got) {
      ADD_FAILURE() << got.error().to_string();
      return {};
    }
    for (const auto& instance : *got) ids_.push_back(instance.id);
    return *got;
  }
  [[nodiscard]] std::map<std::string, std::vector<std::string>> mine() const { return {{"tag:qm-test", {mark_}}}; }
  std::vector<cloud::Instance> described(const std::map<std::string, std::vector<std::string>>& filters) {
    auto got = aws_->describe_instances({}, filters);
    EXPECT_TRUE(got) << got.error().to_string();
    return got.value_or(std::vector<cloud::Instance>{});
  }
  cloud::AutoScalingGroup group(const std::string& name) {
    auto got = aws_->describe_groups({name});
    EXPECT_TRUE(got && got->size() == 1) << name;
    return got && !got->empty() ? got->front() : cloud::AutoScalingGroup{};
  }
  int in_service(const std::string& name) {
    int out = 0;
    const auto members = group(name).instances;
    for (const auto& member : members) out += member.lifecycle == "InService" ? 1 : 0;
    return out;
  }

  CloudPeer* peer_ = nullptr;
  std::unique_ptr<cloud::Aws> aws_;
  std::string mark_;
  std::vector<std::string> ids_;
};

#define QM_NEEDS(trait) \
  if (const auto* why = missing(trait)) GTEST_SKIP() << *why

TEST_P(CloudContract, AnInstanceLivesFromRunToTerminate) {
  const auto launched = run(request());
  ASSERT_EQ(launched.size(), 1u);
  const auto id = launched[0].id;
  EXPECT_TRUE(id.starts_with("i-"));
  EXPECT_EQ(launched[0].type, "g5.xlarge");
  EXPECT_EQ(launched[0].zone, "us-east-1a");
  EXPECT_FALSE(launched[0].spot);
  EXPECT_FALSE(launched[0].stopped);
  EXPECT_GT(micros(launched[0].launched), 0);
  EXPECT_EQ(micros(launched[0].launched) % 1'000'000, 0);
  EXPECT_FALSE(launched[0].private_dns.empty());

  EXPECT_TRUE(testing::wait_until([&] {
    const auto now = aws_->describe_instances({id});
    return now && now->size() == 1 && now->front().state == "running";
  }));
  ASSERT_TRUE(aws_->terminate_instances({id}));
  ASSERT_TRUE(aws_->terminate_instances({id})) << "ending twice is as ending once";
  const auto ended = aws_->describe_instances({id});
  ASSERT_TRUE(ended) << ended.error().to_string();
  ASSERT_EQ(ended->size(), 1u);
  EXPECT_TRUE(ended->front().state == "shutting-down" || ended->front().state == "terminated") << ended->front().state;
  ASSERT_TRUE(ended->front().stopped);
  EXPECT_GE(*ended->front().stopped, ended->front().launched);
  EXPECT_EQ(ended->front().state_reason, "Client.UserInitiatedShutdown");
}

TEST_P(CloudContract, AFleetLaunchesFromATemplate) {
  cloud::LaunchTemplate nodes;
  nodes.name = mark_;
  nodes.launch.image_id = "ami-00000000";
  nodes.tags = {{"qm-test", mark_}};
  ASSERT_TRUE(aws_->create_launch_template(nodes));
  EXPECT_TRUE(aws_->create_launch_template(nodes)) << "the same name is the same content";
  const auto listed = aws_->describe_launch_templates({{"launch-template-name", {mark_}}});
  ASSERT_TRUE(listed) << listed.error().to_string();
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ(listed->front().tags, nodes.tags);

  cloud::FleetRequest asked;
  asked.client_token = mark_;
  asked.launch_template = mark_;
  asked.overrides = {{"g5.xlarge", "us-east-1a", {}, {}}};
  asked.target = asked.min_target = 2;
  asked.one_zone = true;
  asked.tags = {{"qm-test", mark_}};
  const auto got = aws_->create_fleet(asked);
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_TRUE(got->errors.empty());
  ASSERT_EQ(got->instances.size(), 2u);
  for (const auto& one : got->instances) {
    ids_.push_back(one.id);
    EXPECT_EQ(one.instance_type, "g5.xlarge");
    EXPECT_FALSE(one.spot);
  }
  EXPECT_EQ(described(mine()).size(), 2u);
  ASSERT_TRUE(aws_->delete_launch_template(mark_));
  asked.client_token += "-2";
  EXPECT_EQ(aws_->create_fleet(asked).error().code, Code::kNotFound);
  QM_NEEDS(Trait::kUnknownTemplate);
  EXPECT_TRUE(aws_->delete_launch_template(mark_)) << "there is none";
}

TEST_P(CloudContract, SpotIsNamedAsSuch) {
  auto asked = request();
  asked.spot = true;
  ASSERT_EQ(run(asked).size(), 1u);
  const auto seen = described(mine());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].spot);
}

TEST_P(CloudContract, ManyAreFoundByTagPageByPage) {
  constexpr int kCount = 12;  // three pages of five
  ASSERT_EQ(run(request(kCount)).size(), static_cast<std::size_t>(kCount));
  auto options = peer_->options;
  options.page_size = 5;
  const auto seen = cloud::Aws(options).describe_instances({}, mine());
  ASSERT_TRUE(seen) << seen.error().to_string();
  std::set<std::string> found;
  for (const auto& instance : *seen) found.insert(instance.id);
  EXPECT_EQ(found, std::set<std::string>(ids_.begin(), ids_.end()));
  EXPECT_EQ(seen->size(), found.size()) << "none twice";
}

TEST_P(CloudContract, FiltersAllMustHoldAndTheirValuesAreAlternatives) {
  ASSERT_EQ(run(request(2)).size(), 2u);
  auto filters = mine();
  filters["instance-state-name"] = {"pending", "running"};
  EXPECT_EQ(described(filters).size(), 2u);
  filters["instance-type"] = {"p5.48xlarge"};
  EXPECT_TRUE(described(filters).empty());
}

TEST_P(CloudContract, TagsKeepTheirTextAndCanBeAdded) {
  const std::string text = "a b+c&d=e<f>\"g\"/\xc3\xa9%20";
  auto asked = request();
  asked.tags["text"] = text;
  const auto launched = run(asked);
  ASSERT_EQ(launched.size(), 1u);
  ASSERT_TRUE(aws_->create_tags(ids_, {{"karpenter.sh/nodeclaim", "claim-1"}, {"qm-later", text}}));
  const auto seen = described(mine());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].tags.at("text"), text);
  EXPECT_EQ(seen[0].tags.at("qm-later"), text);
  auto filters = mine();
  filters["tag:karpenter.sh/nodeclaim"] = {"claim-1"};
  EXPECT_EQ(described(filters).size(), 1u);
  filters["tag:karpenter.sh/nodeclaim"] = {"claim-2"};
  EXPECT_TRUE(described(filters).empty());
}

TEST_P(CloudContract, UnknownInstancesAreNotFound) {
  const std::vector<std::string> unknown = {"i-0123456789abcdef0"};
  for (const auto& status :
       {Status(aws_->terminate_instances(unknown)), aws_->describe_instances(unknown).map([](const auto&) {})}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kNotFound) << status.error().to_string();
  }
}

TEST_P(CloudContract, UnknownInstancesTakeNoTags) {
  QM_NEEDS(Trait::kRefusesUnknownIds);
  EXPECT_EQ(aws_->create_tags({"i-0123456789abcdef0"}, {{"a", "b"}}).error().code, Code::kNotFound);
}

TEST_P(CloudContract, AClientTokenStartsItsInstancesOnce) {
  QM_NEEDS(Trait::kClientTokens);
  const auto first = run(request(2));
  const auto again = aws_->run_instances(request(2));
  ASSERT_TRUE(again) << again.error().to_string();
  ASSERT_EQ(again->size(), 2u);
  EXPECT_EQ((*again)[0].id, first[0].id);
  EXPECT_EQ((*again)[1].id, first[1].id);
  EXPECT_EQ((*again)[0].client_token, mark_);
  EXPECT_EQ(described(mine()).size(), 2u);
  auto other = request(2);
  other.instance_type = "p5.48xlarge";
  const auto mismatch = aws_->run_instances(other);
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code, Code::kInvalid);
  EXPECT_NE(mismatch.error().message.find("IdempotentParameterMismatch"), std::string::npos);
}

TEST_P(CloudContract, TypesDescribeTheirHardware) {
  const auto types = aws_->describe_instance_types({"p5.48xlarge", "c5.large"});
  ASSERT_TRUE(types) << types.error().to_string();
  ASSERT_EQ(types->size(), 2u);
  const auto& gpu = (*types)[0].name == "p5.48xlarge" ? (*types)[0] : (*types)[1];
  const auto& plain = (*types)[0].name == "p5.48xlarge" ? (*types)[1] : (*types)[0];
  EXPECT_EQ(gpu.gpus, 8);
  EXPECT_EQ(gpu.gpu_model, "H100");
  EXPECT_EQ(gpu.gpu_memory_mib, 81920);
  EXPECT_EQ(gpu.vcpu, 192);
  EXPECT_EQ(gpu.memory_mib, 2097152);
  EXPECT_EQ(plain.name, "c5.large");
  EXPECT_EQ(plain.gpus, 0);
  EXPECT_EQ(plain.vcpu, 2);
}

TEST_P(CloudContract, SpotPricesHaveTypeZoneAndAmount) {
  const auto prices = aws_->describe_spot_price_history({"g5.xlarge"});
  ASSERT_TRUE(prices) << prices.error().to_string();
  ASSERT_FALSE(prices->empty());
  for (const auto& quote : *prices) {
    EXPECT_EQ(quote.instance_type, "g5.xlarge");
    EXPECT_TRUE(quote.zone.starts_with("us-east-1")) << quote.zone;
    EXPECT_GT(quote.nano_usd_hour, 0);
    EXPECT_GT(micros(quote.at), 0);
  }
}

TEST_P(CloudContract, AGroupHoldsWhatIsDesired) {
  cloud::NewGroup made;
  made.name = mark_;
  made.instance_type = "g5.xlarge";
  made.zones = {"us-east-1a", "us-east-1b"};
  made.max = 4;
  made.desired = 2;
  made.tags = {{"qm-test", mark_}};
  ASSERT_TRUE(aws_->create_group(made));
  EXPECT_EQ(aws_->create_group(made).error().code, Code::kAlreadyExists);
  EXPECT_TRUE(testing::wait_until([&] { return in_service(mark_) == 2; }));
  const auto group_now = group(mark_);
  EXPECT_EQ(group_now.min, 0);
  EXPECT_EQ(group_now.max, 4);
  EXPECT_EQ(group_now.desired, 2);
  EXPECT_EQ(group_now.tags.at("qm-test"), mark_);
  const auto instances = described(mine());  // the tag went to the instances
  EXPECT_EQ(instances.size(), 2u);

  ASSERT_TRUE(aws_->set_desired_capacity(mark_, 3));
  EXPECT_TRUE(testing::wait_until([&] { return in_service(mark_) == 3; }));
  const auto leaving = group(mark_).instances.at(0).instance_id;
  ASSERT_TRUE(aws_->terminate_in_group(leaving, true));
  EXPECT_EQ(group(mark_).desired, 2);
  EXPECT_TRUE(testing::wait_until([&] { return in_service(mark_) == 2; }));
  const auto left = group(mark_).instances;
  for (const auto& member : left) {
    EXPECT_FALSE(member.lifecycle == "InService" && member.instance_id == leaving);
  }
  ASSERT_TRUE(aws_->set_desired_capacity(mark_, 0));
  EXPECT_TRUE(testing::wait_until([&] { return in_service(mark_) == 0; }));
}

TEST_P(CloudContract, GroupsComePageByPage) {
  std::vector<std::string> names;
  for (int i = 0; i < 7; ++i) {
    cloud::NewGroup made;
    made.name = fmt::format("{}-{}", mark_, i);
    made.instance_type = "g5.xlarge";
    made.zones = {"us-east-1a"};
    made.max = 1;
    ASSERT_TRUE(aws_->create_group(made));
    names.push_back(made.name);
  }
  auto options = peer_->options;
  options.page_size = 5;
  cloud::Aws paged(options);
  const auto named = paged.describe_groups(names);
  ASSERT_TRUE(named) << named.error().to_string();
  std::vector<std::string> found;
  for (const auto& group_now : *named) found.push_back(group_now.name);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, names);
  EXPECT_TRUE(paged.describe_groups({mark_ + "-none"})->empty());
}

TEST_P(CloudContract, AGroupReplacesAMemberThatEnds) {
  cloud::NewGroup made;
  made.name = mark_;
  made.instance_type = "g5.xlarge";
  made.zones = {"us-east-1a"};
  made.max = made.desired = 1;
  ASSERT_TRUE(aws_->create_group(made));
  EXPECT_TRUE(testing::wait_until([&] { return in_service(mark_) == 1; }));
  const auto first = group(mark_).instances.at(0).instance_id;
  ASSERT_TRUE(aws_->terminate_instances({first}));
  EXPECT_TRUE(testing::wait_until([&] {
    const auto members = group(mark_).instances;
    for (const auto& member : members) {
      if (member.lifecycle == "InService" && member.instance_id != first) return true;
    }
    return false;
  }));
  ASSERT_TRUE(aws_->set_desired_capacity(mark_, 0));
}

TEST_P(CloudContract, AGroupRefusesMoreThanItsLimit) {
  QM_NEEDS(Trait::kGroupLimits);
  cloud::NewGroup made;
  made.name = mark_;
  made.instance_type = "g5.xlarge";
  made.zones = {"us-east-1a"};
  made.max = 1;
  ASSERT_TRUE(aws_->create_group(made));
  EXPECT_EQ(aws_->set_desired_capacity(mark_, 2).error().code, Code::kInvalid);
  EXPECT_EQ(group(mark_).desired, 0);
}

TEST_P(CloudContract, AnUnknownGroupIsNotFound) {
  QM_NEEDS(Trait::kUnknownGroup);
  EXPECT_EQ(aws_->set_desired_capacity(mark_ + "-none", 1).error().code, Code::kNotFound);
}

TEST_P(CloudContract, AMessageIsHiddenUntilItsTimeAndGoneOnceDeleted) {
  const auto url = aws_->create_queue(mark_);
  ASSERT_TRUE(url) << url.error().to_string();
  EXPECT_EQ(aws_->create_queue(mark_).value(), *url) << "making it again gives the same";
  const std::string body = R"({"detail-type":"EC2 Spot Instance Interruption Warning","a":"<&>"})";
  ASSERT_TRUE(aws_->send_message(*url, body));
  const auto hidden = aws_->receive_messages(*url, 10, 1, 60);
  ASSERT_TRUE(hidden) << hidden.error().to_string();
  ASSERT_EQ(hidden->size(), 1u);
  EXPECT_EQ((*hidden)[0].body, body);
  EXPECT_TRUE(aws_->receive_messages(*url, 10, 0)->empty()) << "hidden for a minute";
  ASSERT_TRUE(aws_->delete_message(*url, (*hidden)[0].receipt));
  ASSERT_TRUE(aws_->send_message(*url, body));
  const auto first = aws_->receive_messages(*url, 10, 1, 1);
  ASSERT_TRUE(first) << first.error().to_string();
  ASSERT_EQ(first->size(), 1u);
  const auto again = aws_->receive_messages(*url, 10, 5);
  ASSERT_TRUE(again) << again.error().to_string();
  ASSERT_EQ(again->size(), 1u) << "visible again after a second";
  EXPECT_EQ((*again)[0].id, (*first)[0].id);
  ASSERT_TRUE(aws_->delete_message(*url, (*again)[0].receipt));
  ASSERT_TRUE(aws_->delete_message(*url, (*again)[0].receipt)) << "deleting twice is as deleting once";
  EXPECT_TRUE(aws_->receive_messages(*url, 10, 0)->empty());
}

TEST_P(CloudContract, ALongPollEndsWithTheFirstMessage) {
  const auto url = aws_->create_queue(mark_);
  ASSERT_TRUE(url) << url.error().to_string();
  Result<std::vector<cloud::QueueMessage>> got;
  const auto begin = std::chrono::steady_clock::now();
  {
    const std::jthread reader([&] { got = aws_->receive_messages(*url, 10, 20); });
    ASSERT_TRUE(aws_->send_message(*url, "now"));
  }
  ASSERT_TRUE(got) << got.error().to_string();
  ASSERT_EQ(got->size(), 1u);
  EXPECT_EQ((*got)[0].body, "now");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

TEST_P(CloudContract, ALongPollOfAnEmptyQueueEndsEmptyAfterItsTime) {
  const auto url = aws_->create_queue(mark_);
  ASSERT_TRUE(url) << url.error().to_string();
  const auto begin = std::chrono::steady_clock::now();
  const auto got = aws_->receive_messages(*url, 10, 1);
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_TRUE(got->empty());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
}

TEST_P(CloudContract, AnUnknownQueueIsNotFound) {
  const auto url = aws_->create_queue(mark_);
  ASSERT_TRUE(url) << url.error().to_string();
  const auto got = aws_->receive_messages(*url + "-none", 1, 0);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kNotFound) << got.error().to_string();
}

TEST_P(CloudContract, AWrongSecretIsRefusedByEveryService) {
  auto options = peer_->options;
  options.secret_key += "x";
  cloud::Aws stranger(options);
  EXPECT_EQ(stranger.describe_instances().error().code, Code::kPermissionDenied);
  EXPECT_EQ(stranger.describe_groups().error().code, Code::kPermissionDenied);
  EXPECT_EQ(stranger.create_queue(mark_).error().code, Code::kPermissionDenied);
  options = peer_->options;
  options.access_key = "QMNOBODY";
  EXPECT_EQ(cloud::Aws(options).describe_instances().error().code, Code::kPermissionDenied);
}

}  // namespace qm::contract
