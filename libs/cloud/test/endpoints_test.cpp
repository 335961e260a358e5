#include "src/endpoints.hpp"

#include <gtest/gtest.h>

#include <map>

namespace qm::cloud {
namespace endpoints_test {

Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? std::string() : it->second;
  };
}

// The endpoints of botocore 1.44 with the same options.
TEST(Endpoints, AreThoseOfBotocore) {
  struct Case {
    const char *service, *region;
    bool fips, dual_stack;
    const char* host;
    const char* signs = nullptr;  ///< null = the region
  };
  const Case cases[] = {
      {"ec2", "us-east-1", false, false, "ec2.us-east-1.amazonaws.com"},
      {"ec2", "us-east-1", false, true, "ec2.us-east-1.api.aws"},
      {"ec2", "us-east-1", true, false, "ec2-fips.us-east-1.amazonaws.com"},
      {"ec2", "us-east-1", true, true, "ec2-fips.us-east-1.api.aws"},
      {"autoscaling", "us-gov-west-1", false, false, "autoscaling.us-gov-west-1.amazonaws.com"},
      {"autoscaling", "us-gov-west-1", true, false, "autoscaling.us-gov-west-1.amazonaws.com"},
      {"autoscaling", "us-gov-west-1", true, true, "autoscaling-fips.us-gov-west-1.api.aws"},
      {"sqs", "cn-north-1", false, false, "sqs.cn-north-1.amazonaws.com.cn"},
      {"sqs", "cn-north-1", false, true, "sqs.cn-north-1.api.amazonwebservices.com.cn"},
      {"sqs", "cn-north-1", true, false, "sqs-fips.cn-north-1.amazonaws.com.cn"},
      {"sts", "us-iso-east-1", false, false, "sts.us-iso-east-1.c2s.ic.gov"},
      {"sts", "us-isob-east-1", true, false, "sts-fips.us-isob-east-1.sc2s.sgov.gov"},
      {"ssm", "eu-isoe-west-1", false, false, "ssm.eu-isoe-west-1.cloud.adc-e.uk"},
      {"ec2", "us-isof-south-1", true, false, "ec2-fips.us-isof-south-1.csp.hci.ic.gov"},
      {"ec2", "eusc-de-east-1", false, true, "ec2.eusc-de-east-1.api.amazonwebservices.eu"},
      {"iam", "eu-west-1", false, false, "iam.amazonaws.com", "us-east-1"},
      {"iam", "eu-west-1", false, true, "iam.global.api.aws", "us-east-1"},
      {"iam", "eu-west-1", true, false, "iam-fips.amazonaws.com", "us-east-1"},
      {"iam", "us-gov-east-1", true, false, "iam.us-gov.amazonaws.com", "us-gov-west-1"},
      {"iam", "cn-northwest-1", false, false, "iam.cn-north-1.amazonaws.com.cn", "cn-north-1"},
      {"iam", "eusc-de-east-1", false, false, "iam.eusc-de-east-1.amazonaws.eu"},
  };
  for (const Case& c : cases) {
    AwsOptions options;
    options.region = c.region;
    options.fips = c.fips;
    options.dual_stack = c.dual_stack;
    const auto got = endpoint_of(options, c.service);
    EXPECT_EQ(got.origin, std::string("https://") + c.host);
    EXPECT_EQ(got.region, c.signs == nullptr ? c.region : c.signs) << c.service << " " << c.region;
  }
}

TEST(Endpoints, TheOneOfTheServiceIsBeforeTheCommonOne) {
  AwsOptions options;
  read_endpoints(environment({{"AWS_ENDPOINT_URL", "http://all:1/"},
                              {"AWS_ENDPOINT_URL_AUTO_SCALING", "http://groups:2"},
                              {"AWS_USE_FIPS_ENDPOINT", "true"}}),
                 options);
  EXPECT_EQ(endpoint_of(options, "autoscaling").origin, "http://groups:2");
  EXPECT_EQ(endpoint_of(options, "ec2").origin, "http://all:1");
  EXPECT_EQ(endpoint_of(options, "iam").region, "us-east-1");
  EXPECT_TRUE(options.fips);
  EXPECT_FALSE(options.dual_stack);
}

TEST(Endpoints, ConfiguredOnesCanBeIgnored) {
  AwsOptions options;
  read_endpoints(environment({{"AWS_ENDPOINT_URL", "http://all:1"},
                              {"AWS_ENDPOINT_URL_EC2", "http://ec2:1"},
                              {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "TRUE"},
                              {"AWS_USE_DUALSTACK_ENDPOINT", "true"}}),
                 options);
  EXPECT_EQ(endpoint_of(options, "ec2").origin, "https://ec2.us-east-1.api.aws");
}

}  // namespace endpoints_test
}  // namespace qm::cloud
