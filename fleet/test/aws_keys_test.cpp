// Session keys from STS, from the agent of EKS Pod Identity and from the instance, each used to sign a call.
#include "aws_keys.hpp"

#include "aws_rig.hpp"
#include "imds.hpp"

#include <gmock/gmock.h>

#include <fstream>

namespace qm::fleet {
namespace aws_keys_test {

using ::testing::HasSubstr;

class AwsKeysTest : public AwsApiTest {
 protected:
  std::map<std::string, std::string> variables;
  Imds imds{world};

  /// A client whose credentials come from the fleet.
  cloud::AwsOptions options() {
    auto out = client_options();
    out.access_key.clear();
    out.secret_key.clear();
    cloud::CredentialOptions credentials;
    credentials.environment = [this](const char* name) { return variables[name]; };
    credentials.outside = out.outside;
    credentials.sts_origin = "http://fleet:1";
    out.credentials = std::make_shared<cloud::Credentials>(credentials);
    return out;
  }
  static std::string token_file() {
    const auto path = ::testing::TempDir() + "qm-fleet-token";
    std::ofstream(path) << "jwt";
    return path;
  }
};

TEST_F(AwsKeysTest, AWebIdentityBecomesKeysThatExpireAndAreRenewed) {
  variables["AWS_ROLE_ARN"] = "arn:aws:iam::000000000000:role/scaler";
  variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = token_file();
  const auto client = options();
  cloud::Aws session(client);
  ASSERT_TRUE(session.describe_instances());
  const auto first = client.credentials->keys().value();
  EXPECT_EQ(first.expires_utc_s, kUtc + 3600);
  // The client's clock stays, so it does not know that the keys have expired: the refusal renews them.
  utc += 3601;
  client_utc += 3600 - 901;
  ASSERT_TRUE(session.describe_groups()) << "the clock is corrected, then the keys are renewed";
  EXPECT_NE(client.credentials->keys()->access_key, first.access_key);
}

TEST_F(AwsKeysTest, ThePodIdentityAgentWantsAToken) {
  variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1:1/v1/credentials";
  EXPECT_EQ(cloud::Aws(options()).describe_instances().error().code, Code::kPermissionDenied);
  variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = token_file();
  EXPECT_TRUE(cloud::Aws(options()).describe_instances());
  EXPECT_TRUE(cloud::Aws(options()).create_queue("q"));
}

TEST_F(AwsKeysTest, AnInstanceHasTheKeysOfItsProfile) {
  auto with_profile = request();
  with_profile.instance_profile = "fleet-nodes";
  const auto node = aws.run_instances(with_profile)->front().private_dns;
  const auto metadata = [&](const std::string& path, const std::string& token) {
    http::Request read{"GET", path, {}, {}};
    read.headers.set("X-aws-ec2-metadata-token", token);
    return imds.handle(node, path, read);
  };
  http::Request put{"PUT", "/latest/api/token", {}, {}};
  put.headers.set("X-aws-ec2-metadata-token-ttl-seconds", "60");
  const auto token = imds.handle(node, "/latest/api/token", put).body;
  const std::string roles = "/latest/meta-data/iam/security-credentials/";
  EXPECT_EQ(metadata(roles, token).body, "fleet-nodes");
  const auto keys = Json::parse(metadata(roles + "fleet-nodes", token).body);
  ASSERT_TRUE(keys);
  EXPECT_EQ((*keys)["Code"].string(), "Success");
  EXPECT_TRUE(secret_of((*keys)["AccessKeyId"].string(), (*keys)["Token"].string(), host_utc()));
}

TEST(SessionKeys, OnlyTheirOwnTokenFitsAndOnlyInTime) {
  const auto keys = session_keys("r", 1000);
  EXPECT_EQ(secret_of(keys.access_key, keys.token, 999).value(), keys.secret_key);
  EXPECT_EQ(secret_of(keys.access_key, keys.token, 1000).error().reason, "ExpiredToken");
  EXPECT_EQ(secret_of(keys.access_key, "r|2000", 999).error().reason, "InvalidClientTokenId");
  EXPECT_EQ(secret_of(keys.access_key, "", 999).error().reason, "InvalidClientTokenId");
  EXPECT_EQ(secret_of(kAwsKey, keys.token, 999).error().reason, "InvalidClientTokenId");
}

}  // namespace aws_keys_test
}  // namespace qm::fleet
