#include "endpoints.hpp"

#include "text.hpp"
#include "wire.hpp"

namespace qm::cloud {
namespace {

/// Regions that share their DNS suffixes.
struct Partition {
  std::string_view region_prefix, suffix, dual_stack_suffix;
  std::string_view iam_host, iam_region;  ///< empty = IAM is regional
};
constexpr Partition kPartitions[] = {
    {"cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn", "iam.cn-north-1.amazonaws.com.cn", "cn-north-1"},
    {"us-gov-", "amazonaws.com", "api.aws", "iam.us-gov.amazonaws.com", "us-gov-west-1"},
    {"us-isob-", "sc2s.sgov.gov", "api.aws", {}, {}},
    {"us-isof-", "csp.hci.ic.gov", {}, {}, {}},
    {"us-iso-", "c2s.ic.gov", "api.aws", {}, {}},
    {"eu-isoe-", "cloud.adc-e.uk", {}, {}, {}},
    {"eusc-", "amazonaws.eu", "api.amazonwebservices.eu", {}, {}},
    {"", "amazonaws.com", "api.aws", "iam.amazonaws.com", "us-east-1"},
};

const Partition& partition_of(std::string_view region) {
  for (const Partition& one : kPartitions) {
    if (region.starts_with(one.region_prefix)) return one;
  }
  return kPartitions[std::size(kPartitions) - 1];
}

std::string host_of(const AwsOptions& options, std::string_view service, const Partition& partition) {
  const bool global = partition.iam_region == "us-east-1";
  if (service == kIam && !partition.iam_host.empty()) {
    if (global && options.fips) return "iam-fips.amazonaws.com";
    if (global && options.dual_stack) return "iam.global.api.aws";
    return std::string(partition.iam_host);
  }
  const bool dual_stack = options.dual_stack && !partition.dual_stack_suffix.empty();
  // The plain endpoints of GovCloud are FIPS endpoints.
  const bool fips = options.fips && (dual_stack || partition.region_prefix != "us-gov-");
  return fmt::format("{}{}.{}.{}", service, fips ? "-fips" : "", options.region,
                     dual_stack ? partition.dual_stack_suffix : partition.suffix);
}

std::string without_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

Endpoint endpoint_of(const AwsOptions& options, std::string_view service) {
  const Partition& partition = partition_of(options.region);
  const bool elsewhere = service == kIam && !partition.iam_region.empty();
  Endpoint out{{}, elsewhere ? std::string(partition.iam_region) : options.region};
  const auto own = options.service_endpoints.find(std::string(service));
  if (own != options.service_endpoints.end()) {
    out.origin = without_slash(own->second);
  } else if (!options.endpoint.empty()) {
    out.origin = without_slash(options.endpoint);
  } else {
    out.origin = "https://" + host_of(options, service, partition);
  }
  return out;
}

void read_endpoints(const Environment& environment, AwsOptions& options) {
  const auto on = [&](const char* name) { return lower(environment(name)) == "true"; };
  options.fips = on("AWS_USE_FIPS_ENDPOINT");
  options.dual_stack = on("AWS_USE_DUALSTACK_ENDPOINT");
  if (on("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")) return;
  options.endpoint = environment("AWS_ENDPOINT_URL");
  constexpr std::pair<const char*, const char*> kServices[] = {
      {"ec2", "AWS_ENDPOINT_URL_EC2"}, {"autoscaling", "AWS_ENDPOINT_URL_AUTO_SCALING"},
      {"sqs", "AWS_ENDPOINT_URL_SQS"}, {"sts", "AWS_ENDPOINT_URL_STS"},
      {"iam", "AWS_ENDPOINT_URL_IAM"}, {"ssm", "AWS_ENDPOINT_URL_SSM"}};
  for (const auto& [service, variable] : kServices) {
    if (auto url = environment(variable); !url.empty()) options.service_endpoints[service] = std::move(url);
  }
}

}  // namespace qm::cloud
