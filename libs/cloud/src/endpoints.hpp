#pragma once
#include "qm/cloud/aws.hpp"

#include <string>
#include <string_view>

namespace qm::cloud {

/// Where a service is called, and the region that signs the call.
struct Endpoint {
  std::string origin;  ///< "https://ec2.eu-west-1.amazonaws.com"
  std::string region;
};

/// The configured endpoint of the service, or AWS's own of the region: FIPS or dual-stack where that is requested.
/// IAM has one endpoint for all regions of a partition.
///
/// Source   botocore's endpoint rules of EC2, Auto Scaling, SQS, STS, IAM and SSM.
[[nodiscard]] Endpoint endpoint_of(const AwsOptions& options, std::string_view service);

/// Reads the variables that choose endpoints: AWS_ENDPOINT_URL_<SERVICE>, AWS_ENDPOINT_URL,
/// AWS_IGNORE_CONFIGURED_ENDPOINT_URLS, AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT.
void read_endpoints(const Environment& environment, AwsOptions& options);

}  // namespace qm::cloud
