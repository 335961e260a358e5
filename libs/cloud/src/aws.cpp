#include "qm/cloud/aws.hpp"

#include "services.hpp"

#include <cstdlib>
#include <set>

namespace qm::cloud {
namespace {

constexpr int kMaxPages = 10'000;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

Result<AwsOptions> AwsOptions::from_environment() {
  AwsOptions out;
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (auto region = environment(name); !region.empty()) {
      out.region = std::move(region);
      break;
    }
  }
  out.endpoint = environment("AWS_ENDPOINT_URL");
  out.session_token = environment("AWS_SESSION_TOKEN");
  const std::pair<const char*, std::string*> needed[] = {{"AWS_ACCESS_KEY_ID", &out.access_key},
                                                         {"AWS_SECRET_ACCESS_KEY", &out.secret_key}};
  for (const auto& [name, value] : needed) {
    *value = environment(name);
    if (value->empty()) {
      return fail(Error{Code::kInvalid, fmt::format("{} is not set", name), name,
                        "set it to the key of a role that may run and end instances"});
    }
  }
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
