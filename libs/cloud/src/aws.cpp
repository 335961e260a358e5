#include "qm/cloud/aws.hpp"

#include "endpoints.hpp"
#include "qm/base/parse.hpp"
#include "services.hpp"
#include "text.hpp"

#include <set>

namespace qm::cloud {
namespace {

constexpr int kMaxPages = 10'000;
constexpr std::int64_t kMaxAttempts = 20;

}  // namespace

AwsOptions AwsOptions::from_environment(bool instance_metadata, const Environment& environment) {
  AwsOptions out;
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (auto region = environment(name); !region.empty()) {
      out.region = std::move(region);
      break;
    }
  }
  read_endpoints(environment, out);
  out.adaptive = lower(environment("AWS_RETRY_MODE")) != "standard";
  if (const auto most = whole_number(environment("AWS_MAX_ATTEMPTS")); most && *most >= 1 && *most <= kMaxAttempts) {
    out.max_attempts = static_cast<int>(*most);
  }
  if (auto file = environment("AWS_CA_BUNDLE"); !file.empty()) out.ca_file = std::move(file);
  CredentialOptions credentials;
  credentials.environment = environment;
  credentials.sts_origin = endpoint_of(out, "sts").origin;
  credentials.instance_metadata = instance_metadata;
  credentials.ca_file = out.ca_file;
  out.credentials = std::make_shared<Credentials>(std::move(credentials));
  return out;
}

Aws::Aws(AwsOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Aws::~Aws() = default;

Status Aws::Impl::pages(std::string_view service, const Form& form, const std::string& next_token_path,
                        const std::function<Status(const XmlNode&)>& take) {
  std::set<std::string> seen;
  std::string token;
  for (int page = 0; page < kMaxPages; ++page) {
    Form asked = form;
    if (!token.empty()) asked.add("NextToken", token);
    QM_ASSIGN(const auto root, wire.query(service, asked, Effect::kRead));
    QM_TRY(take(root));
    token = next_token_path.empty() ? root.value("nextToken") : root[next_token_path].value("NextToken");
    if (token.empty()) return {};
    if (!seen.insert(token).second) return fail(Code::kInternal, "{} returns the same page repeatedly", service);
  }
  return fail(Code::kInternal, "{} has more than {} pages", service, kMaxPages);
}

}  // namespace qm::cloud
