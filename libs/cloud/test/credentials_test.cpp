#include "qm/cloud/credentials.hpp"

#include "scripted.hpp"
#include "src/credential_sources.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <thread>

namespace qm::cloud {
namespace credentials_test {

using ::testing::HasSubstr;

/// A source on a script, with the variables of one test.
class CredentialsTest : public ::testing::Test {
 protected:
  Scripted cloud;
  std::map<std::string, std::string> variables;

  CredentialOptions options() {
    CredentialOptions out;
    out.environment = [this](const char* name) {
      const auto it = variables.find(name);
      return it == variables.end() ? std::string() : it->second;
    };
    out.sts_origin = "https://sts.test";
    out.outside = cloud.outside();
    return out;
  }
  std::string file(const std::string& name, const std::string& text) const {
    const auto path = ::testing::TempDir() + "qm-credentials-" + name;
    std::ofstream(path) << text;
    return path;
  }
  /// After so many seconds from now.
  [[nodiscard]] std::string instant(std::int64_t seconds) const {
    return to_rfc3339(from_micros((cloud.utc + seconds) * 1'000'000));
  }
  [[nodiscard]] std::string agent_answer(const std::string& key, std::int64_t seconds) const {
    return R"({"AccessKeyId":")" + key + R"(","SecretAccessKey":"s","Token":"t","Expiration":")" + instant(seconds) +
           R"("})";
  }
  void use_container() {
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://169.254.170.23/v1/credentials";
    variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = file("pod", "first");
  }
};

TEST_F(CredentialsTest, VariablesAreFirstAndNeverExpire) {
  use_container();
  variables["AWS_ACCESS_KEY_ID"] = "a";
  variables["AWS_SECRET_ACCESS_KEY"] = "b";
  variables["AWS_SESSION_TOKEN"] = "c";
  Credentials credentials(options());
  EXPECT_EQ(credentials.source(), "environment");
  EXPECT_EQ(credentials.keys().value(), (Keys{"a", "b", "c", {}}));
  EXPECT_FALSE(credentials.reject("a")) << "there are no others";
  variables.erase("AWS_SECRET_ACCESS_KEY");
  const auto partial = Credentials(options()).keys();
  ASSERT_FALSE(partial);
  EXPECT_EQ(partial.error().field, "AWS_SECRET_ACCESS_KEY");
  EXPECT_TRUE(cloud.seen.empty());
}

TEST_F(CredentialsTest, AWebIdentityIsExchangedUnsigned) {
  use_container();
  variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/nodes";
  variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = file("web", "jwt.of.pod\n");
  variables["AWS_ROLE_SESSION_NAME"] = "qm";
  cloud.then(200,
             "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA1"
             "</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>" +
                 instant(3600) +
                 "</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
                 "</AssumeRoleWithWebIdentityResponse>");
  Credentials credentials(options());
  EXPECT_EQ(credentials.source(), "web identity");
  EXPECT_EQ(credentials.keys().value(), (Keys{"ASIA1", "s", "t", cloud.utc + 3600}));
  ASSERT_EQ(cloud.seen.size(), 1U);
  EXPECT_EQ(cloud.seen[0].origin, "https://sts.test");
  EXPECT_EQ(cloud.seen[0].request.headers.get("Authorization"), "");
  EXPECT_EQ(cloud.body(0),
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
            "&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fnodes&RoleSessionName=qm"
            "&WebIdentityToken=jwt.of.pod");
}

TEST_F(CredentialsTest, StsIsAskedAgainOnlyWhereThatCanHelp) {
  variables["AWS_ROLE_ARN"] = "r";
  variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = file("web", "jwt");
  const auto error = [](const char* code) {
    return std::string("<ErrorResponse><Error><Type>Sender</Type><Code>") + code +
           "</Code><Message>m</Message></Error></ErrorResponse>";
  };
  cloud.then(400, error("IDPCommunicationError")).then(500, error("InternalFailure")).then(403, error("AccessDenied"));
  const auto refused = Credentials(options()).keys();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("AccessDenied"));
  EXPECT_EQ(cloud.seen.size(), 3U);
  EXPECT_EQ(cloud.sleeps.size(), 2U);
  variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/no/such/file";
  EXPECT_EQ(Credentials(options()).keys().error().field, "AWS_WEB_IDENTITY_TOKEN_FILE");
  variables.erase("AWS_ROLE_ARN");
  EXPECT_EQ(Credentials(options()).keys().error().field, "AWS_ROLE_ARN");
}

TEST_F(CredentialsTest, TheTokenOfAContainerIsReadAtEachFetch) {
  use_container();
  cloud.then(200, agent_answer("ASIA1", 1000)).then(200, agent_answer("ASIA2", 3600));
  Credentials credentials(options());
  EXPECT_EQ(credentials.source(), "container");
  EXPECT_EQ(credentials.keys()->access_key, "ASIA1");
  EXPECT_EQ(credentials.keys()->access_key, "ASIA1");
  file("pod", "second");
  cloud.utc += 101;  // 899 seconds are left
  EXPECT_EQ(credentials.keys()->access_key, "ASIA2");
  ASSERT_EQ(cloud.seen.size(), 2U);
  EXPECT_EQ(cloud.seen[0].origin, "http://169.254.170.23");
  EXPECT_EQ(cloud.seen[0].request.target, "/v1/credentials");
  EXPECT_EQ(cloud.seen[0].request.headers.get("Authorization"), "first");
  EXPECT_EQ(cloud.seen[1].request.headers.get("Authorization"), "second");
}

TEST_F(CredentialsTest, OfEcsTheRelativeUriIsUsed) {
  variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/x?id=1";
  variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "t";
  cloud.then(404, "gone");
  const auto refused = Credentials(options()).keys();
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_EQ(cloud.seen[0].origin, "http://169.254.170.2");
  EXPECT_EQ(cloud.seen[0].request.target, "/v2/x?id=1");
  EXPECT_EQ(cloud.seen[0].request.headers.get("Authorization"), "t");
}

TEST(ContainerUrl, OnlySafeHostsMayReceiveTheToken) {
  for (const char* url :
       {"https://example.com/x", "http://localhost:1/x", "http://127.0.0.1:99/", "http://127.9.9.9",
        "http://169.254.170.2/x", "http://169.254.170.23/v1", "http://[fd00:ec2::23]/v1", "http://[::1]:80/"}) {
    EXPECT_TRUE(allowed_for_container(url)) << url;
  }
  for (const char* url :
       {"http://example.com/x", "http://169.254.169.254/", "http://127.0.0.1.evil.com/", "http://localhost.evil.com/",
        "http://localhost@evil.com/", "http://[fd00::23]/", "ftp://x", "localhost", ""}) {
    EXPECT_FALSE(allowed_for_container(url)) << url;
  }
}

TEST_F(CredentialsTest, TheRoleOfTheInstanceIsLastAndExtendsItsExpiredKeys) {
  cloud.then(200, "token").then(200, "nodes\n").then(200, agent_answer("ASIA1", 7200));
  Credentials credentials(options());
  EXPECT_EQ(credentials.source(), "instance role");
  EXPECT_EQ(credentials.keys()->expires_utc_s, cloud.utc + 7200);
  EXPECT_EQ(cloud.seen[1].request.target, "/latest/meta-data/iam/security-credentials/");
  EXPECT_EQ(cloud.seen[2].request.target, "/latest/meta-data/iam/security-credentials/nodes");

  Scripted outage;
  cloud = outage;
  cloud.then(200, "token").then(200, "nodes").then(200, agent_answer("ASIA1", -60));
  EXPECT_EQ(Credentials(options()).keys()->expires_utc_s, cloud.utc + 1200) << "10 minutes, 2 and a jitter of 8";

  variables["AWS_EC2_METADATA_DISABLED"] = "true";
  const auto none = Credentials(options()).keys();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().field, "AWS_ACCESS_KEY_ID");
}

TEST_F(CredentialsTest, AnInstanceWithoutARoleNamesTheRemedy) {
  cloud.then(200, "token").then(404, "");
  const auto none = Credentials(options()).keys();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_FALSE(none.error().remedy.empty());
  cloud.then_fails(Code::kUnavailable);
  const auto away = Credentials(options()).keys();
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().code, Code::kUnavailable);
  EXPECT_THAT(away.error().message, HasSubstr("no AWS credentials are configured"));
}

TEST_F(CredentialsTest, AFailedRenewalLeavesValidKeysForAMinute) {
  use_container();
  cloud.then(200, agent_answer("ASIA1", 1000));
  Credentials credentials(options());
  ASSERT_TRUE(credentials.keys());
  cloud.utc += 500;  // 500 seconds are left: less than ten minutes
  for (int i = 0; i < 3; ++i) cloud.then_fails(Code::kUnavailable);
  EXPECT_EQ(credentials.keys()->access_key, "ASIA1");
  EXPECT_EQ(cloud.seen.size(), 4U);
  EXPECT_EQ(credentials.keys()->access_key, "ASIA1");
  EXPECT_EQ(cloud.seen.size(), 4U) << "no fetch within the minute";
  cloud.now += std::chrono::seconds(61);
  cloud.then(200, agent_answer("ASIA2", 3600));
  EXPECT_EQ(credentials.keys()->access_key, "ASIA2");
  cloud.utc += 4000;  // expired
  for (int i = 0; i < 3; ++i) cloud.then_fails(Code::kUnavailable);
  EXPECT_FALSE(credentials.keys());
}

TEST_F(CredentialsTest, RejectedKeysAreFetchedAgain) {
  use_container();
  cloud.then(200, agent_answer("ASIA1", 3600)).then(200, agent_answer("ASIA2", 3600));
  Credentials credentials(options());
  ASSERT_TRUE(credentials.keys());
  EXPECT_TRUE(credentials.reject("ASIA0")) << "another caller has renewed them";
  EXPECT_EQ(credentials.keys()->access_key, "ASIA1");
  EXPECT_TRUE(credentials.reject("ASIA1"));
  EXPECT_EQ(credentials.keys()->access_key, "ASIA2");
}

// 15 minutes before the end one caller fetches, and the others do not wait for it.
TEST_F(CredentialsTest, OneCallerRenewsWhileTheOthersGoOn) {
  use_container();
  cloud.then(200, agent_answer("ASIA1", 1000));
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false, released = false;
  auto slow = options();
  slow.outside.send = [&, plain = slow.outside.send](const std::string& origin, const http::Request& request,
                                                     std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex);
    if (cloud.seen.size() == 1) {
      inside = true;
      changed.notify_all();
      changed.wait(lock, [&] { return released; });
    }
    return plain(origin, request, timeout);
  };
  Credentials credentials(slow);
  ASSERT_TRUE(credentials.keys());
  cloud.utc += 150;  // 850 seconds are left
  cloud.then(200, agent_answer("ASIA2", 3600));
  std::thread renewing([&] { EXPECT_EQ(credentials.keys()->access_key, "ASIA2"); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside; });
  }
  EXPECT_EQ(credentials.keys()->access_key, "ASIA1");
  {
    const std::lock_guard lock(mutex);
    released = true;
  }
  changed.notify_all();
  renewing.join();
  EXPECT_EQ(credentials.keys()->access_key, "ASIA2");
}

TEST_F(CredentialsTest, AClientRenewsExpiredKeysOnceAndSignsWithThem) {
  use_container();
  cloud.then(200, agent_answer("ASIA1", 3600)).then_ec2_error(400, "ExpiredToken");
  cloud.then(200, agent_answer("ASIA2", 3600)).then(200, "<R/>");
  AwsOptions client;
  client.endpoint = "http://cloud:1";
  client.outside = cloud.outside();
  client.credentials = std::make_shared<Credentials>(options());
  ASSERT_TRUE(Aws(client).describe_instances());
  ASSERT_EQ(cloud.seen.size(), 4U);
  EXPECT_EQ(parse_authorization(cloud.seen[1].request.headers.get("Authorization"))->access_key, "ASIA1");
  EXPECT_EQ(parse_authorization(cloud.seen[3].request.headers.get("Authorization"))->access_key, "ASIA2");
  EXPECT_EQ(cloud.seen[3].request.headers.get("X-Amz-Security-Token"), "t");

  cloud.then_ec2_error(400, "ExpiredToken").then(200, agent_answer("ASIA3", 3600)).then_ec2_error(400, "ExpiredToken");
  EXPECT_EQ(Aws(client).describe_instances().error().code, Code::kPermissionDenied) << "once only";
}

}  // namespace credentials_test
}  // namespace qm::cloud
