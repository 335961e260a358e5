// Where keys come from. Each fetch makes up to three attempts: these services are local or highly available, and a
// caller waits.
#include "credential_sources.hpp"

#include "failure.hpp"
#include "qm/base/json.hpp"
#include "qm/cloud/aws.hpp"
#include "text.hpp"
#include "wire.hpp"

#include <fstream>
#include <sstream>

namespace qm::cloud {
namespace {

constexpr int kAttempts = 3;
constexpr auto kTimeout = std::chrono::milliseconds(2000);
constexpr auto kStsTimeout = std::chrono::milliseconds(10000);
constexpr auto kPause = std::chrono::milliseconds(1000);
/// An instance whose role cannot be renewed keeps its expired keys: EC2 accepts them during an outage of its own.
constexpr std::int64_t kExtension = 600, kExtensionJitter = 480, kLeastExtension = 120;

Error missing(const char* name, std::string_view with) {
  return {Code::kInvalid, fmt::format("{} is set, but {} is not", with, name), name,
          fmt::format("set {}, or remove {}", name, with)};
}

Result<std::string> read_file(const std::string& path, const char* variable) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || text.str().empty()) {
    return fail(Error{Code::kInvalid, fmt::format("cannot read the token file {}", path), variable,
                      "mount the token of the service account there"});
  }
  return std::string(trim(text.str()));
}

Result<std::int64_t> instant_of(const std::string& text, std::string_view source) {
  const auto at = from_rfc3339(text);
  if (at) return micros(*at) / 1'000'000;
  return fail(Code::kUnavailable, "the {} answers with the expiration \"{}\", which is no instant", source, text);
}

/// The keys in the JSON of the container agents and of the instance metadata service.
Result<Keys> keys_of(const std::string& body, std::string_view source) {
  QM_ASSIGN(const auto json, Json::parse(body));
  Keys out{json["AccessKeyId"].string(), json["SecretAccessKey"].string(), json["Token"].string(), {}};
  if (out.access_key.empty() || out.secret_key.empty()) {
    return fail(Code::kPermissionDenied, "the {} returns no keys: {} {}", source, json["Code"].string(),
                json["Message"].string());
  }
  QM_ASSIGN(out.expires_utc_s, instant_of(json["Expiration"].string(), source));
  return out;
}

/// Repeats `attempt` after an error that may pass.
template <class Attempt>
auto repeat(const Outside& outside, Attempt attempt) -> decltype(attempt()) {
  for (int n = 1;; ++n) {
    auto out = attempt();
    if (out || n == kAttempts || !out.error().retryable()) return out;
    outside.sleep(kPause);
  }
}

CredentialSource from_variables(const Environment& environment) {
  return {"environment", [environment]() -> Result<Keys> {
            Keys out{environment("AWS_ACCESS_KEY_ID"),
                     environment("AWS_SECRET_ACCESS_KEY"),
                     environment("AWS_SESSION_TOKEN"),
                     {}};
            if (out.access_key.empty()) return fail(missing("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"));
            if (out.secret_key.empty()) return fail(missing("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"));
            return out;
          }};
}

Result<Keys> assume_role(const CredentialOptions& options) {
  const auto role = options.environment("AWS_ROLE_ARN");
  const auto file = options.environment("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (role.empty()) return fail(missing("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"));
  QM_ASSIGN(const auto token, read_file(file, "AWS_WEB_IDENTITY_TOKEN_FILE"));
  auto session = options.environment("AWS_ROLE_SESSION_NAME");
  if (session.empty()) session = fmt::format("quartermaster-{}", options.outside.utc_seconds());
  Form form("AssumeRoleWithWebIdentity", "2011-06-15");
  form.add("RoleArn", role).add("RoleSessionName", session).add("WebIdentityToken", token);
  http::Request request;  // unsigned: the token is the proof
  request.method = "POST";
  request.target = "/";
  request.body = form.body();
  request.headers.set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
  QM_ASSIGN(const auto answer, options.outside.send(options.sts_origin, request, kStsTimeout));
  if (answer.status != 200) return fail(read_failure(answer).error().with_context("AssumeRoleWithWebIdentity " + role));
  QM_ASSIGN(const auto root, parse_xml(answer.body));
  const XmlNode& found = root["AssumeRoleWithWebIdentityResult"]["Credentials"];
  Keys out{found.value("AccessKeyId"), found.value("SecretAccessKey"), found.value("SessionToken"), {}};
  QM_ASSIGN(out.expires_utc_s, instant_of(found.value("Expiration"), "AssumeRoleWithWebIdentity"));
  return out;
}

/// "http://host:port" and the rest, "/" if there is none.
std::pair<std::string, std::string> split_url(const std::string& url) {
  const auto scheme = url.find("://");
  const auto slash = scheme == std::string::npos ? scheme : url.find('/', scheme + 3);
  if (slash == std::string::npos) return {url, "/"};
  return {url.substr(0, slash), url.substr(slash)};
}

Result<Keys> ask_container(const CredentialOptions& options) {
  const auto relative = options.environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const auto url =
      relative.empty() ? options.environment("AWS_CONTAINER_CREDENTIALS_FULL_URI") : "http://169.254.170.2" + relative;
  if (!allowed_for_container(url)) {
    return fail(Error{Code::kInvalid, fmt::format("the token of the container must not be sent to {}", url),
                      "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                      "use https, a loopback address, 169.254.170.2, 169.254.170.23 or [fd00:ec2::23]"});
  }
  http::Request request;
  request.method = "GET";
  auto [origin, target] = split_url(url);
  request.target = std::move(target);
  request.headers.set("Accept", "application/json");
  auto token = options.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const auto file = options.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
    QM_ASSIGN(token, read_file(file, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
  }
  if (!token.empty()) request.headers.set("Authorization", token);
  QM_ASSIGN(const auto answer, options.outside.send(origin, request, kTimeout));
  if (answer.status == 200) return keys_of(answer.body, "container credential agent");
  const bool refused = answer.status >= 400 && answer.status < 500 && answer.status != 429;
  return fail(refused ? Code::kPermissionDenied : Code::kUnavailable,
              "the container credential agent at {} answers with status {}: {}", url, answer.status,
              trim(answer.body).substr(0, 200));
}

std::string metadata_endpoint(const Environment& environment) {
  auto endpoint = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (!endpoint.empty()) return endpoint;
  const bool v6 = lower(environment("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")) == "ipv6";
  return v6 ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
}

Result<Keys> ask_instance(InstanceMetadata& metadata, const Outside& outside) {
  const std::string path = "iam/security-credentials/";
  const auto role = metadata.get(path);
  if (!role) {
    return fail(Error{role.error().code,
                      "no AWS credentials are configured, and the instance has none: " + role.error().message,
                      "AWS_ACCESS_KEY_ID", "give the pod a service account with a role, or set the access key"});
  }
  const std::string name(*role ? trim(**role) : std::string_view());
  if (name.empty()) {
    return fail(Error{Code::kNotFound, "the instance has no role, and no other credentials are configured",
                      "AWS_ACCESS_KEY_ID", "give the pod a service account with a role, or set the access key"});
  }
  QM_ASSIGN(const auto body, metadata.get(path + name));
  if (!body) return fail(Code::kUnavailable, "the metadata service has no keys for the role {}", name);
  QM_ASSIGN(auto keys, keys_of(*body, "instance metadata service"));
  const auto now = outside.utc_seconds();
  const auto extension = kExtension + kLeastExtension +
                         static_cast<std::int64_t>(static_cast<double>(kExtensionJitter) * outside.jitter());
  if (now >= *keys.expires_utc_s - extension) keys.expires_utc_s = now + extension;
  return keys;
}

CredentialSource from_instance(const CredentialOptions& options) {
  if (!options.instance_metadata || lower(options.environment("AWS_EC2_METADATA_DISABLED")) == "true") {
    return {"none", []() -> Result<Keys> {
              return fail(Error{Code::kInvalid, "no AWS credentials are configured: AWS_ACCESS_KEY_ID is not set",
                                "AWS_ACCESS_KEY_ID",
                                "give the pod a service account with a role, or set the access key and its secret"});
            }};
  }
  MetadataOptions metadata_options;
  metadata_options.outside = options.outside;
  const auto metadata = std::make_shared<InstanceMetadata>(metadata_endpoint(options.environment), metadata_options);
  return {"instance role", [metadata, outside = options.outside] { return ask_instance(*metadata, outside); }};
}

}  // namespace

bool allowed_for_container(const std::string& url) {
  if (url.starts_with("https://")) return true;
  constexpr std::string_view kPlain = "http://";
  if (!url.starts_with(kPlain)) return false;
  auto host = split_url(url).first.substr(kPlain.size());
  if (host.find('@') != std::string::npos) return false;  // the text before it would not be the host
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
    return host == "::1" || host == "fd00:ec2::23";
  }
  host = host.substr(0, host.find(':'));
  if (host == "localhost" || host == "169.254.170.2" || host == "169.254.170.23") return true;
  // 127.0.0.0/8, as digits and dots only: "127.example.com" is a name.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

CredentialSource choose_source(const CredentialOptions& options) {
  const auto has = [&](const char* name) { return !options.environment(name).empty(); };
  const auto repeated = [options](Result<Keys> (*fetch)(const CredentialOptions&)) {
    return [options, fetch] { return repeat(options.outside, [&] { return fetch(options); }); };
  };
  if (has("AWS_ACCESS_KEY_ID") || has("AWS_SECRET_ACCESS_KEY")) return from_variables(options.environment);
  if (has("AWS_WEB_IDENTITY_TOKEN_FILE")) return {"web identity", repeated(assume_role)};
  if (has("AWS_CONTAINER_CREDENTIALS_FULL_URI") || has("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")) {
    return {"container", repeated(ask_container)};
  }
  return from_instance(options);
}

}  // namespace qm::cloud
