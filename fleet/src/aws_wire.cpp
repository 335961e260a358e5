#include "aws_wire.hpp"

#include "qm/cloud/sigv4.hpp"
#include "text.hpp"

#include <fmt/chrono.h>
#include <openssl/crypto.h>

#include <ctime>
#include <set>

namespace qm::fleet {
namespace {

constexpr std::int64_t kMaxSkewSeconds = 300;

std::string escape(std::string_view text) {
  static const std::map<char, std::string_view> kEntities = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string out;
  for (const char& c : text) {
    const auto* entity = find_in(kEntities, c);
    out.append(entity == nullptr ? std::string_view(&c, 1) : *entity);
  }
  return out;
}

/// Seconds of "20261121T091429Z".
std::optional<std::int64_t> utc_of(const std::string& amz_date) {
  std::tm parts{};
  const char* end = strptime(amz_date.c_str(), "%Y%m%dT%H%M%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<std::int64_t>(timegm(&parts));
}

http::Response xml_response(int status, std::string body) {
  http::Response out = http::text(status, std::move(body));
  out.headers.set("Content-Type", "text/xml;charset=UTF-8");
  return out;
}

/// EC2 answers AuthFailure in all cases; the other services are more specific.
tl::unexpected<Refusal> not_signed(const std::string& service, std::string_view reason, std::string_view message) {
  if (service != "ec2") return refuse(403, reason, "{}", message);
  return refuse(401, "AuthFailure", "AWS was not able to validate the provided access credentials");
}

Answered<void> check_signature(const http::Request& request, const cloud::Authorization& auth,
                               std::int64_t utc_seconds) {
  const std::string token(request.headers.get("X-Amz-Security-Token"));
  const auto secret = secret_of(auth.access_key, token, utc_seconds);
  if (!secret && secret.error().reason == "ExpiredToken" && auth.service == "ec2") {
    return refuse(400, "RequestExpired", "Request has expired.");  // the code of EC2 for expired keys too
  }
  if (!secret) return not_signed(auth.service, secret.error().reason, secret.error().message);
  cloud::SigningInput in;
  in.method = request.method;
  const auto mark = request.target.find('?');
  in.path = request.target.substr(0, mark);
  if (mark != std::string::npos) in.query = request.target.substr(mark + 1);
  in.body = request.body;
  in.region = auth.region;
  in.service = auth.service;
  in.access_key = auth.access_key;
  in.secret_key = *secret;
  in.amz_date = request.headers.get("X-Amz-Date");
  std::set<std::string> covered;
  for (const auto& name : auth.signed_headers) {
    covered.insert(name);
    in.headers.emplace_back(name, std::string(request.headers.get(name)));
  }
  const auto signed_at = utc_of(in.amz_date);
  if (!covered.contains("host") || !covered.contains("x-amz-date") ||
      (!token.empty() && !covered.contains("x-amz-security-token")) || !signed_at ||
      !in.amz_date.starts_with(auth.date)) {
    return not_signed(auth.service, "IncompleteSignature",
                      "'Host' and 'X-Amz-Date' must be signed, and the date be that of the credential.");
  }
  if (std::abs(*signed_at - utc_seconds) > kMaxSkewSeconds) {
    if (auth.service == "ec2") return refuse(400, "RequestExpired", "Request has expired.");
    return refuse(403, "SignatureDoesNotMatch", "Signature expired or not yet current: {}", in.amz_date);
  }
  const auto expected = cloud::signature(in);
  if (expected.size() != auth.signature.size() ||
      CRYPTO_memcmp(expected.data(), auth.signature.data(), expected.size()) != 0) {
    return not_signed(auth.service, "SignatureDoesNotMatch",
                      "The request signature we calculated does not match the signature you provided. Check your AWS "
                      "Secret Access Key and signing method.");
  }
  return {};
}

}  // namespace

const std::string& AwsCall::param(const std::string& name) const {
  static const std::string kAbsent;
  const auto* value = find_in(params, name);
  return value == nullptr ? kAbsent : *value;
}

std::vector<std::string> AwsCall::list(const std::string& prefix, std::string_view rest) const {
  std::vector<std::string> out;
  while (const auto* value = find_in(params, fmt::format("{}.{}{}", prefix, out.size() + 1, rest))) {
    out.push_back(*value);
  }
  return out;
}

std::map<std::string, std::string> AwsCall::tags(const std::string& prefix) const {
  std::map<std::string, std::string> out;
  int n = 0;
  for (const auto& key : list(prefix, ".Key")) out[key] = param(fmt::format("{}.{}.Value", prefix, ++n));
  return out;
}

Answered<int> AwsCall::number(const std::string& name, int fallback, int low, int high) const {
  const auto* text = find_in(params, name);
  if (text == nullptr) return fallback;
  const auto value = whole_number(*text);
  if (value && *value >= low && *value <= high) return static_cast<int>(*value);
  return refuse(400, service == "ec2" ? "InvalidParameterValue" : "ValidationError",
                "Value ({}) for parameter {} is invalid. Expecting a number from {} to {}.", *text, name, low, high);
}

AwsXml& AwsXml::open(std::string_view name) {
  out_.append("<").append(name).append(">");
  open_.emplace_back(name);
  return *this;
}

AwsXml& AwsXml::close() {
  out_.append("</").append(open_.back()).append(">");
  open_.pop_back();
  return *this;
}

AwsXml& AwsXml::leaf(std::string_view name, std::string_view text) {
  out_.append("<").append(name).append(">").append(escape(text)).append("</").append(name).append(">");
  return *this;
}

Answered<AwsCall> read_aws_call(const http::Request& request, std::int64_t utc_seconds, std::string& service) {
  const auto auth = cloud::parse_authorization(request.headers.get("Authorization"));
  const std::string_view target = request.headers.get("X-Amz-Target");
  constexpr std::string_view kSqsTarget = "AmazonSQS.", kSsmTarget = "AmazonSSM.";
  static const std::map<std::string, std::string> kVersions = {
      {"2016-11-15", "ec2"}, {"2011-01-01", "autoscaling"}, {"2010-05-08", "iam"}, {"2011-06-15", "sts"}};
  AwsCall call;
  call.authority = request.headers.get("Host");
  if (target.starts_with(kSqsTarget)) {
    call.service = "sqs";
    call.action = target.substr(kSqsTarget.size());
  } else if (target.starts_with(kSsmTarget)) {
    call.service = "ssm";
    call.action = target.substr(kSsmTarget.size());
  } else {
    call.params = http::parse_form(request.body);
    if (const auto* known = find_in(kVersions, call.param("Version"))) call.service = *known;
    call.action = call.param("Action");
  }
  service = auth ? auth->service : call.service;
  // Its proof is the token inside.
  if (!auth && service == "sts" && call.action == "AssumeRoleWithWebIdentity") return call;
  if (!auth) return not_signed(service, "MissingAuthenticationToken", "Request is missing Authentication Token");
  FLEET_TRY(check_signature(request, *auth, utc_seconds));
  if (request.method != "POST") return refuse(405, "MethodNotAllowed", "Only POST is understood.");
  if (call.service.empty() || call.service != auth->service) {
    return refuse(400, "InvalidAction", "The action or version does not belong to the service {}.", auth->service);
  }
  if (call.service == "sqs" || call.service == "ssm") {
    call.body = Json::parse(request.body).value_or(Json());
    if (!call.body.is_object()) return refuse(400, "SerializationException", "The body is not a JSON object.");
  }
  return call;
}

http::Response aws_response(const AwsCall& call, const std::string& inner, const std::string& request_id) {
  constexpr const char* kEc2 =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{0}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">"
      "<requestId>{1}</requestId>{2}</{0}Response>";
  constexpr const char* kAutoScaling =
      "<{0}Response xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><{0}Result>{2}</{0}Result>"
      "<ResponseMetadata><RequestId>{1}</RequestId></ResponseMetadata></{0}Response>";
  const auto form = call.service == "ec2" ? kEc2 : kAutoScaling;  // IAM's differs in the namespace only
  return xml_response(200, fmt::format(fmt::runtime(form), call.action, request_id, inner));
}

http::Response aws_refusal(const std::string& service, const Refusal& refusal, const std::string& request_id) {
  const char* const side = refusal.code < 500 ? "Sender" : "Receiver";
  if (service == "ssm") {
    auto out =
        http::json(refusal.code, Json::object({{"__type", refusal.reason}, {"message", refusal.message}}).dump());
    out.headers.set("Content-Type", "application/x-amz-json-1.1");
    out.headers.set("x-amzn-RequestId", request_id);
    return out;
  }
  if (service == "sqs") {
    const Json body = Json::object({{"__type", "com.amazonaws.sqs#" + refusal.reason}, {"message", refusal.message}});
    auto out = http::json(refusal.code, body.dump());
    out.headers.set("Content-Type", "application/x-amz-json-1.0");
    out.headers.set("x-amzn-RequestId", request_id);
    const bool no_queue = refusal.reason == "QueueDoesNotExist";
    const std::string query_code = no_queue ? "AWS.SimpleQueueService.NonExistentQueue" : refusal.reason;
    out.headers.set("x-amzn-query-error", query_code + ";" + side);
    return out;
  }
  constexpr const char* kEc2 =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{1}</Code><Message>{2}</Message>"
      "</Error></Errors><RequestID>{3}</RequestID></Response>";
  constexpr const char* kAutoScaling =
      "<ErrorResponse xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><Error><Type>{0}</Type>"
      "<Code>{1}</Code><Message>{2}</Message></Error><RequestId>{3}</RequestId></ErrorResponse>";
  const auto form = service == "ec2" ? kEc2 : kAutoScaling;
  return xml_response(refusal.code,
                      fmt::format(fmt::runtime(form), side, refusal.reason, escape(refusal.message), request_id));
}

std::string aws_instant(Instant t) {
  const auto us = micros(t);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(us / 1'000'000)),
                     us / 1000 % 1000);
}

}  // namespace qm::fleet
