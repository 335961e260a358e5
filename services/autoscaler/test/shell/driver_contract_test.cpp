// One contract for everything that launches instances: EC2, a live Karpenter, and an Auto Scaling group.
#include "qm/http/http.hpp"
#include "test/shell/rig.hpp"

#include <memory>
#include <set>

namespace qm::autoscaler {
namespace driver_contract_test {

using namespace autoscaler::testing;

/// A cloud with one Auto Scaling group "gpus" of at most three instances. It may execute a call and lose the response.
class SmallCloud {
 public:
  cloud::Aws aws() {
    cloud::AwsOptions options;
    options.endpoint = "http://cloud:1";
    options.access_key = options.secret_key = "key";
    options.max_attempts = 1;
    options.outside.send = [this](const std::string&, const http::Request& request, std::chrono::milliseconds) {
      return answer(request.body);
    };
    options.outside.sleep = [](SteadyDuration) {};
    return cloud::Aws(options);
  }
  std::set<std::string> alive;
  bool lose_next = false;  ///< of the next call that changes something
  std::string refusal;     ///< the code of an error for each call that launches

 private:
  static std::string field(const std::string& body, const std::string& name) {
    const auto at = body.find("&" + name + "=");
    if (at == std::string::npos) return {};
    const auto from = at + name.size() + 2;
    return body.substr(from, body.find('&', from) - from);
  }
  std::string launch() {
    const std::string id = fmt::format("i-{}", ++last_);
    alive.insert(id);
    return id;
  }
  std::string members() const {
    std::string out;
    for (const auto& id : group_) {
      if (alive.contains(id))
        out += "<member><InstanceId>" + id + "</InstanceId><LifecycleState>InService</LifecycleState></member>";
    }
    return out;
  }
  Result<http::Response> answer(const std::string& body) {
    const std::string action = body.substr(7, body.find('&') - 7);
    std::string xml = "<R/>";
    const bool launches = action == "RunInstances" || action == "SetDesiredCapacity";
    if (launches && !refusal.empty()) {
      return http::Response{
          400, {}, "<R><Errors><Error><Code>" + refusal + "</Code><Message>no</Message></Error></Errors></R>"};
    }
    if (action == "RunInstances") {
      auto& id = by_token_[field(body, "ClientToken")];
      if (id.empty()) id = launch();
      xml = "<R><instancesSet>" + instance_xml(id, "") + "</instancesSet></R>";
    } else if (action == "DescribeInstances") {
      xml = described("");
    } else if (action == "TerminateInstances") {
      alive.erase(field(body, "InstanceId.1"));
    } else if (action == "TerminateInstanceInAutoScalingGroup") {
      alive.erase(field(body, "InstanceId"));
      --desired_;
    } else if (action == "SetDesiredCapacity") {
      desired_ = std::stoi(field(body, "DesiredCapacity"));
      for (auto have = std::ranges::count_if(group_, [&](const auto& id) { return alive.contains(id); });
           have < desired_; ++have)
        group_.insert(launch());
    } else if (action == "DescribeAutoScalingGroups") {
      xml = fmt::format(
          "<R><DescribeAutoScalingGroupsResult><AutoScalingGroups><member><AutoScalingGroupName>gpus</AutoScalingGroupName>"
          "<MinSize>0</MinSize><MaxSize>3</MaxSize><DesiredCapacity>{}</DesiredCapacity><Instances>{}</Instances></member>"
          "</AutoScalingGroups></DescribeAutoScalingGroupsResult></R>",
          desired_, members());
    }
    if (!action.starts_with("Describe") && std::exchange(lose_next, false))
      return fail(Code::kUnknown, "the connection broke");
    return http::Response{200, {}, xml};
  }
  std::map<std::string, std::string> by_token_;
  std::set<std::string> group_;
  int last_ = 0, desired_ = 0;
};

enum class Kind { kEc2, kKarpenter, kGroup };

/// A driver with its cloud, behind the calls of the contract.
class UnderTest {
 public:
  explicit UnderTest(Kind kind)
      : kind_(kind),
        aws_(cloud_.aws()),
        executor_(client_, aws_, kind == Kind::kKarpenter ? Driver::kKarpenter : Driver::kEc2, "east",
                  plain_parameters) {}

  /// Requests the n-th instance, as the engine does.
  Result<service::Outcome> launch(int n) {
    const std::string claim = fmt::format("p-{}", n);
    if (kind_ == Kind::kGroup) {
      return executor_.execute(
          {"group/gpus/7", "group.size", "group/gpus", 0, fmt::format(R"({{"group":"gpus","size":{}}})", n)});
    }
    auto out =
        executor_.execute({"launch/" + claim, "instance.launch", claim, 0,
                           fmt::format(R"({{"claim":"{}","pool":"p","type":"p5.48xlarge","zone":"z1","spot":false,)"
                                       R"("labels":{{}},"taints":[],"reason":"why"}})",
                                       claim)});
    return out;
  }
  Result<service::Outcome> terminate(int n) {
    const std::string group = kind_ == Kind::kGroup ? R"(,"group":"gpus")" : "";
    return executor_.execute({fmt::format("terminate/p-{}/5", n), "instance.terminate", "p", 0,
                              fmt::format(R"({{"claim":"p-{0}","instance":"{1}"{2}}})", n, instance(n), group)});
  }
  /// The instances that exist.
  std::set<std::string> instances() {
    if (kind_ != Kind::kKarpenter) return cloud_.alive;
    std::set<std::string> out;  // Karpenter has one for each NodeClaim
    for (const auto& [name, claim] : kube_.objects) out.insert("i" + name.substr(1));
    return out;
  }
  static std::string instance(int n) { return fmt::format("i-{}", n); }
  /// The next call is executed, and its response is lost.
  void lose_response() { (kind_ == Kind::kKarpenter ? kube_.lose_next : cloud_.lose_next) = true; }
  void refuse() {
    cloud_.refusal = "UnauthorizedOperation";
    kube_.status = kind_ == Kind::kKarpenter ? 403 : 0;
    kube_.reason = "Forbidden";
  }
  /// What is final for the claim: the outcome's error, or that of the intent that is given up.
  std::string final_error(int n) {
    const auto done = launch(n);
    if (done) return (*Json::parse(done->bytes))["error"].string();
    return done.error().retryable() ? std::string() : done.error().to_string();
  }

 private:
  const Kind kind_;
  SmallCloud cloud_;
  NodeClaims kube_;
  kube::Client client_{{kube_.origin(), {}, {}, {}, {}}};
  cloud::Aws aws_;
  Executor executor_;
};

class DriverContract : public ::testing::TestWithParam<Kind> {
 protected:
  UnderTest driver_{GetParam()};
};

TEST_P(DriverContract, ARepeatedLaunchIsOneInstance) {
  for (int i = 0; i < 3; ++i) {
    const auto done = driver_.launch(1);
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ((*Json::parse(done->bytes))["error"].string(), "");
  }
  EXPECT_EQ(driver_.instances(), std::set<std::string>{"i-1"});
}

TEST_P(DriverContract, ALostResponseIsRetriedWithoutASecondInstance) {
  driver_.lose_response();
  const auto lost = driver_.launch(1);
  if (!lost) {
    EXPECT_TRUE(lost.error().retryable()) << lost.error().to_string();
  }
  ASSERT_TRUE(driver_.launch(1));
  EXPECT_EQ(driver_.instances(), std::set<std::string>{"i-1"});
}

TEST_P(DriverContract, TerminationIsByIdAndRepeatable) {
  for (int n = 1; n <= 3; ++n) ASSERT_TRUE(driver_.launch(n));
  ASSERT_EQ(driver_.instances().size(), 3U);
  for (int i = 0; i < 3; ++i) {
    const auto done = driver_.terminate(2);
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(driver_.instances(), (std::set<std::string>{"i-1", "i-3"})) << "after call " << i + 1;
  }
}

TEST_P(DriverContract, ALostResponseToATerminationHarmsNoOtherInstance) {
  for (int n = 1; n <= 2; ++n) ASSERT_TRUE(driver_.launch(n));
  driver_.lose_response();
  const auto lost = driver_.terminate(1);
  if (!lost) {
    EXPECT_TRUE(lost.error().retryable()) << lost.error().to_string();
  }
  ASSERT_TRUE(driver_.terminate(1));
  EXPECT_EQ(driver_.instances(), std::set<std::string>{"i-2"});
}

TEST_P(DriverContract, ARefusalIsFinalAndNamesItsReason) {
  driver_.refuse();
  const std::string error = driver_.final_error(1);
  EXPECT_FALSE(error.empty());
  EXPECT_TRUE(driver_.instances().empty());
}

std::string driver_name(const ::testing::TestParamInfo<Kind>& info) {
  if (info.param == Kind::kEc2) return "Ec2";
  return info.param == Kind::kKarpenter ? "Karpenter" : "Group";
}
INSTANTIATE_TEST_SUITE_P(Drivers, DriverContract, ::testing::Values(Kind::kEc2, Kind::kKarpenter, Kind::kGroup),
                         driver_name);

}  // namespace driver_contract_test
}  // namespace qm::autoscaler
