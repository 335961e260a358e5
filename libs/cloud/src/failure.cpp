#include "failure.hpp"

#include "qm/base/json.hpp"
#include "qm/cloud/errors.hpp"
#include "text.hpp"
#include "xml.hpp"

#include <algorithm>
#include <array>
#include <ctime>

namespace qm::cloud {
namespace {

/// Refusals that a wrong clock explains, if the clocks differ.
constexpr std::array<std::string_view, 5> kSkew = {"RequestExpired", "RequestTimeTooSkewed", "SignatureDoesNotMatch",
                                                   "InvalidSignatureException", "AuthFailure"};

/// Auto Scaling reports an unknown group by a sentence only.
bool is_unknown_group(const Failure& f) {
  return f.code == "ValidationError" && f.message.find("not found") != std::string::npos;
}

Code code_of(const Failure& f, const ErrorKind& kind) {
  switch (kind.error_class) {
    case ErrorClass::kRate:
    case ErrorClass::kCapacity:
      return Code::kExhausted;
    case ErrorClass::kTransient:
      return Code::kUnavailable;
    case ErrorClass::kPermission:
      return Code::kPermissionDenied;
    case ErrorClass::kNotFound:
      return Code::kNotFound;
    case ErrorClass::kConflict:
      if (kind.retryable) return Code::kAborted;
      return f.code.find("AlreadyExists") != std::string::npos || f.code.ends_with(".Duplicate") ? Code::kAlreadyExists
                                                                                                 : Code::kInvalid;
    case ErrorClass::kParameter:
      return is_unknown_group(f) ? Code::kNotFound : Code::kInvalid;
    case ErrorClass::kUnknown:
      break;
  }
  return Code::kInvalid;
}

}  // namespace

FailureClass failure_class(int status, std::string_view code) {
  if (std::ranges::find(kSkew, code) != kSkew.end()) return FailureClass::kClockSkew;
  if (code == "ExpiredToken" || code == "ExpiredTokenException") return FailureClass::kExpiredKeys;
  switch (classify(code, status).error_class) {
    case ErrorClass::kCapacity:
      return FailureClass::kCapacity;
    case ErrorClass::kRate:
      return FailureClass::kThrottled;
    case ErrorClass::kTransient:
      return FailureClass::kTransient;
    default:
      return FailureClass::kFinal;
  }
}

Error Failure::error() const {
  const ErrorKind known = classify(code, status);
  Error out{code_of(*this, known), fmt::format("{}: {}", code, message), {}, {}};
  if (kind == FailureClass::kThrottled) {
    out.field = "rate";
    out.remedy = "send fewer calls, or ask for a higher request limit";
  } else if (kind == FailureClass::kCapacity) {
    out.field = "capacity";
    out.remedy = known.scope == ErrorScope::kAccount ? "ask for a higher quota of the account"
                                                     : "try another instance type or zone";
  } else if (out.code == Code::kPermissionDenied) {
    out.remedy = "check the access key, its secret and the policy";
  }
  return out;
}

Failure read_failure(const http::Response& response) {
  Failure out;
  out.status = response.status;
  const auto body = trim(response.body);
  if (body.starts_with('{')) {
    if (const auto json = Json::parse(body)) {
      // "com.amazonaws.sqs#QueueDoesNotExist": the code is the part after the hash.
      const std::string& type = (*json)["__type"].string();
      out.code = type.substr(type.find('#') + 1);
      out.message = json->contains("message") ? (*json)["message"].string() : (*json)["Message"].string();
    }
  } else if (const auto root = parse_xml(body)) {
    // EC2 sends <Response><Errors><Error>, the other Query services <ErrorResponse><Error>; proxies mix them.
    const XmlNode& errors = (*root)["Errors"];
    const XmlNode& error = errors.children.empty() ? (*root)["Error"] : errors["Error"];
    out.code = error.value("Code");
    out.message = error.value("Message");
  }
  if (out.code.empty()) {
    out.code = fmt::format("HTTP {}", response.status);
    out.message = "the answer is not one of the service's own; is the endpoint right?";
  }
  out.kind = failure_class(out.status, out.code);
  return out;
}

std::optional<std::int64_t> parse_http_date(std::string_view text) {
  std::tm parts{};
  const std::string copy(text);
  const char* end = strptime(copy.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<std::int64_t>(timegm(&parts));
}

}  // namespace qm::cloud
