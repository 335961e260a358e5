#include "outside.hpp"
#include "text.hpp"

#include <algorithm>
#include <mutex>

namespace qm::cloud {
namespace {

constexpr std::string_view kTokenPath = "/latest/api/token";

}  // namespace

struct InstanceMetadata::Impl {
  std::string origin, prefix;
  MetadataOptions options;
  std::mutex mutex;
  std::string token;
  SteadyInstant renew_at{};

  Result<http::Response> send(const std::string& method, const std::string& path, const char* header,
                              const std::string& value) {
    http::Request request;
    request.method = method;
    request.target = prefix + path;
    request.headers.set(header, value);
    return options.outside.send(origin, request, options.timeout);
  }

  /// Returns the current token, or a new one if it is `refused` or in the last tenth of its lifetime.
  Result<std::string> current_token(const std::string& refused) {
    const std::lock_guard lock(mutex);
    const auto now = options.outside.now();
    if (!token.empty() && token != refused && now < renew_at) return token;
    QM_ASSIGN(const auto answer, send("PUT", std::string(kTokenPath), "X-aws-ec2-metadata-token-ttl-seconds",
                                      std::to_string(options.token_ttl.count())));
    if (answer.status != 200 || trim(answer.body).empty()) {
      return fail(Error{Code::kPermissionDenied,
                        fmt::format("the metadata service at {} returns no token: status {}", origin, answer.status),
                        {},
                        "is IMDSv2 on, and the token's lifetime between 1 and 21600 seconds?"});
    }
    token = trim(answer.body);
    renew_at = now + options.token_ttl - options.token_ttl / 10;
    return token;
  }
};

InstanceMetadata::InstanceMetadata(std::string endpoint, MetadataOptions options) : impl_(std::make_unique<Impl>()) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const auto scheme = endpoint.find("://");
  if (const auto slash = scheme == std::string::npos ? scheme : endpoint.find('/', scheme + 3);
      slash != std::string::npos) {
    impl_->prefix = endpoint.substr(slash);
    endpoint.resize(slash);
  }
  impl_->origin = std::move(endpoint);
  impl_->options = std::move(options);
  impl_->options.outside = with_defaults(std::move(impl_->options.outside), {});
}

InstanceMetadata::~InstanceMetadata() = default;

Result<std::optional<std::string>> InstanceMetadata::get(const std::string& path) {
  const auto full = path.starts_with('/') ? path : "/latest/meta-data/" + path;
  std::string refused;
  for (int attempt = 0; attempt < 2; ++attempt) {
    QM_ASSIGN(const auto token, impl_->current_token(refused));
    QM_ASSIGN(auto answer, impl_->send("GET", full, "X-aws-ec2-metadata-token", token));
    if (answer.status == 200) return std::optional(std::move(answer.body));
    if (answer.status == 404) return std::optional<std::string>{};
    if (answer.status != 401) {
      return fail(answer.status >= 500 ? Code::kUnavailable : Code::kInvalid,
                  "the metadata service answers {} with status {}", full, answer.status);
    }
    refused = token;  // the service no longer knows it: it restarted, or the host was suspended past its expiry
  }
  return fail(Error{Code::kPermissionDenied,
                    fmt::format("the metadata service refuses a fresh token for {}", full),
                    {},
                    "a container needs a hop limit of 2 or the host's network"});
}

}  // namespace qm::cloud
