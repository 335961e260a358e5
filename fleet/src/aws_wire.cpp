#include "aws_wire.hpp"

#include "qm/cloud/sigv4.hpp"

#include <fmt/chrono.h>
#include <openssl/crypto.h>

#include <charconv>
#include <ctime>

namespace qm::fleet {
namespace {

constexpr std::int64_t kMaxSkewSeconds = 300;
constexpr std::string_view kPageToken = "page-";

std::optional<int> to_int(std::string_view text) {
  int out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
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

/// EC2 says AuthFailure to everything; the others tell more.
AwsFault refused(const std::string& service, std::string code, std::string message) {
  if (service == "ec2") {
    return {401, "AuthFailure", "AWS was not able to validate the provided access credentials"};
  }
  return {403, std::move(code), std::move(message)};
}

std::optional<AwsFault> check_signature(const http::Request& request, const cloud::Authorization& auth,
                                        const AwsKeys& keys, std::int64_t utc_seconds) {
  if (auth.access_key != keys.access_key) {
    return refused(auth.service, "InvalidClientTokenId", "The security token included in the request is invalid.");
  }
  cloud::SigningInput in;
  in.method = request.method;
  const auto mark = request.target.find('?');
  in.path = request.target.substr(0, mark);
  if (mark != std::string::npos) in.query = request.target.substr(mark + 1);
  in.body = request.body;
  in.region = auth.region;
  in.service = auth.service;
  in.access_key = keys.access_key;
  in.secret_key = keys.secret_key;
  in.amz_date = request.headers.get("X-Amz-Date");
  bool host = false;
  bool date = false;
  for (const auto& name : auth.signed_headers) {
    host = host || name == "host";
    date = date || name == "x-amz-date";
    in.headers.emplace_back(name, std::string(request.headers.get(name)));
  }
  const auto signed_at = utc_of(in.amz_date);
  if (!host || !date || !signed_at || in.amz_date.substr(0, 8) != auth.date) {
    return refused(auth.service, "IncompleteSignature",
                   "'Host' and 'X-Amz-Date' must be signed, and the date be that of the credential.");
  }
  if (std::abs(*signed_at - utc_seconds) > kMaxSkewSeconds) {
    if (auth.service == "ec2") return AwsFault{400, "RequestExpired", "Request has expired."};
    return AwsFault{403, "SignatureDoesNotMatch", fmt::format("Signature expired or not yet current: {}", in.amz_date)};
  }
  const auto expected = cloud::signature(in);
  if (expected.size() != auth.signature.size() ||
      CRYPTO_memcmp(expected.data(), auth.signature.data(), expected.size()) != 0) {
    return refused(auth.service, "SignatureDoesNotMatch",
                   "The request signature we calculated does not match the signature you provided. "
                   "Check your AWS "
                   "Secret Access Key and signing method.");
  }
  return std::nullopt;
}

}  // namespace

const std::string& AwsCall::param(const std::string& name) const {
  static const std::string kAbsent;
  const auto it = params.find(name);
  return it == params.end() ? kAbsent : it->second;
}

std::vector<std::string> AwsCall::list(const std::string& prefix) const {
  std::vector<std::string> out;
  for (int n = 1;; ++n) {
    const auto it = params.find(fmt::format("{}.{}", prefix, n));
    if (it == params.end()) return out;
    out.push_back(it->second);
  }
}

std::map<std::string, std::string> AwsCall::tags(const std::string& prefix) const {
  std::map<std::string, std::string> out;
  for (int n = 1;; ++n) {
    const auto it = params.find(fmt::format("{}.{}.Key", prefix, n));
    if (it == params.end()) return out;
    out[it->second] = param(fmt::format("{}.{}.Value", prefix, n));
  }
}

tl::expected<int, AwsFault> AwsCall::number(const std::string& name, int fallback, int low, int high) const {
  const auto it = params.find(name);
  if (it == params.end()) return fallback;
  const auto value = to_int(it->second);
  if (!value || *value < low || *value > high) {
    return aws_fault(400, service == "ec2" ? "InvalidParameterValue" : "ValidationError",
                     fmt::format("Value ({}) for parameter {} is invalid. Expecting a number from {} to {}.",
                                 it->second, name, low, high));
  }
  return *value;
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

tl::expected<AwsCall, AwsFault> read_aws_call(const http::Request& request, const AwsKeys& keys,
                                              std::int64_t utc_seconds, std::string& service) {
  const auto auth = cloud::parse_authorization(request.headers.get("Authorization"));
  const std::string_view target = request.headers.get("X-Amz-Target");
  constexpr std::string_view kSqsTarget = "AmazonSQS.";
  AwsCall call;
  call.authority = request.headers.get("Host");
  if (target.starts_with(kSqsTarget)) {
    call.service = "sqs";
    call.action = target.substr(kSqsTarget.size());
  } else {
    call.params = http::parse_form(request.body);
    call.service = call.param("Version") == "2016-11-15"   ? "ec2"
                   : call.param("Version") == "2011-01-01" ? "autoscaling"
                                                           : "";
    call.action = call.param("Action");
  }
  service = auth ? auth->service : call.service;
  if (!auth) {
    const AwsFault fault = refused(service, "MissingAuthenticationToken", "Request is missing Authentication Token");
    return tl::unexpected<AwsFault>(fault);
  }
  if (auto fault = check_signature(request, *auth, keys, utc_seconds))
    return tl::unexpected<AwsFault>(std::move(*fault));
  if (request.method != "POST") return aws_fault(405, "MethodNotAllowed", "Only POST is understood.");
  if (call.service.empty() || call.service != auth->service) {
    return aws_fault(400, "InvalidAction",
                     fmt::format("The action or version does not belong to the service {}.", auth->service));
  }
  if (call.service == "sqs") {
    auto body = Json::parse(request.body);
    if (!body || !body->is_object()) return aws_fault(400, "SerializationException", "The body is no JSON object.");
    call.body = std::move(*body);
  }
  return call;
}

http::Response aws_response(const AwsCall& call, const std::string& inner, const std::string& request_id) {
  http::Response out;
  out.headers.set("Content-Type", "text/xml;charset=UTF-8");
  const auto& action = call.action;
  if (call.service == "ec2") {
    out.body = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{0}Response "
        "xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">"
        "<requestId>{1}</requestId>{2}</{0}Response>",
        action, request_id, inner);
  } else {
    out.body = fmt::format(
        "<{0}Response "
        "xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><{0}Result>{2}</{0}Result>"
        "<ResponseMetadata><RequestId>{1}</RequestId></ResponseMetadata></{0}Response>",
        action, request_id, inner);
  }
  return out;
}

http::Response aws_fault_response(const std::string& service, const AwsFault& fault, const std::string& request_id) {
  if (service == "sqs") {
    auto out = http::json(
        fault.status, Json::object({{"__type", "com.amazonaws.sqs#" + fault.code}, {"message", fault.message}}).dump());
    out.headers.set("Content-Type", "application/x-amz-json-1.0");
    const auto query_code = fault.code == "QueueDoesNotExist" ? "AWS.SimpleQueueService.NonExistentQueue" : fault.code;
    out.headers.set("x-amzn-query-error", fmt::format("{};{}", query_code, fault.status < 500 ? "Sender" : "Receiver"));
    return out;
  }
  http::Response out;
  out.status = fault.status;
  out.headers.set("Content-Type", "text/xml;charset=UTF-8");
  if (service == "ec2") {
    out.body = fmt::format(
        "<?xml version=\"1.0\" "
        "encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{}</Code><Message>{}</Message>"
        "</Error></Errors><RequestID>{}</RequestID></Response>",
        fault.code, escape(fault.message), request_id);
  } else {
    out.body = fmt::format(
        "<ErrorResponse "
        "xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><Error><Type>{}</Type>"
        "<Code>{}</Code><Message>{}</Message></Error><RequestId>{}</RequestId></ErrorResponse>",
        fault.status < 500 ? "Sender" : "Receiver", fault.code, escape(fault.message), request_id);
  }
  return out;
}

std::string aws_instant(Instant t) {
  const auto us = micros(t);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(us / 1'000'000)),
                     us / 1000 % 1000);
}

std::string http_date(std::int64_t utc_seconds) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(static_cast<std::time_t>(utc_seconds)));
}

tl::expected<AwsPage, AwsFault> aws_page(const std::string& token, std::size_t size, int count) {
  AwsPage page;
  if (!token.empty()) {
    const auto at =
        token.starts_with(kPageToken) ? to_int(std::string_view(token).substr(kPageToken.size())) : std::nullopt;
    if (!at || *at < 0) return aws_fault(400, "InvalidNextToken", "The token '" + token + "' is invalid.");
    page.begin = std::min(static_cast<std::size_t>(*at), size);
  }
  page.end = std::min(size, page.begin + static_cast<std::size_t>(count));
  if (page.end < size) page.next_token = fmt::format("{}{}", kPageToken, page.end);
  return page;
}

}  // namespace qm::fleet
