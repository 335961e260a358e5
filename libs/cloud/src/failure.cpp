#include "failure.hpp"

#include "qm/base/json.hpp"
#include "text.hpp"
#include "xml.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <span>

namespace qm::cloud {
namespace {

// The lists follow botocore's retry configuration and EC2's table of error codes.
constexpr std::array<std::string_view, 14> kThrottle = {"Throttling",
                                                        "ThrottlingException",
                                                        "ThrottledException",
                                                        "RequestThrottled",
                                                        "RequestThrottledException",
                                                        "RequestLimitExceeded",
                                                        "TooManyRequestsException",
                                                        "ProvisionedThroughputExceededException",
                                                        "BandwidthLimitExceeded",
                                                        "LimitExceededException",
                                                        "SlowDown",
                                                        "PriorRequestNotComplete",
                                                        "EC2ThrottledException",
                                                        "TransactionInProgressException"};
constexpr std::array<std::string_view, 12> kCapacity = {"InsufficientInstanceCapacity",
                                                        "InsufficientHostCapacity",
                                                        "InsufficientReservedInstanceCapacity",
                                                        "InsufficientCapacity",
                                                        "InsufficientFreeAddressesInSubnet",
                                                        "MaxSpotInstanceCountExceeded",
                                                        "SpotMaxPriceTooLow",
                                                        "VcpuLimitExceeded",
                                                        "InstanceLimitExceeded",
                                                        "UnfulfillableCapacity",
                                                        "MaxFleetCountExceeded",
                                                        "ReservationCapacityExceeded"};
constexpr std::array<std::string_view, 6> kTransient = {"RequestTimeout",     "RequestTimeoutException",
                                                        "InternalError",      "InternalFailure",
                                                        "ServiceUnavailable", "ResourceContention"};
constexpr std::array<std::string_view, 8> kRefused = {
    "AuthFailure",         "UnauthorizedOperation",      "OptInRequired", "InvalidClientTokenId",
    "IncompleteSignature", "MissingAuthenticationToken", "ExpiredToken",  "ExpiredTokenException"};
constexpr std::array<std::string_view, 5> kSkew = {"RequestExpired", "RequestTimeTooSkewed", "SignatureDoesNotMatch",
                                                   "InvalidSignatureException", "AuthFailure"};

bool among(std::span<const std::string_view> list, std::string_view code) {
  return std::find(list.begin(), list.end(), code) != list.end();
}

/// "Not found" of the services: Invalid….NotFound of EC2, a missing queue of SQS, a sentence of Auto Scaling, an
/// entity of IAM, a parameter of the Systems Manager.
bool is_not_found(std::string_view code, std::string_view message) {
  return code.ends_with(".NotFound") || code.ends_with("NotFoundException") || code == "NoSuchEntity" ||
         code == "ParameterNotFound" || code.find("NonExistentQueue") != std::string_view::npos ||
         code == "QueueDoesNotExist" ||
         (code == "ValidationError" && message.find("not found") != std::string_view::npos);
}

Code code_of(const Failure& f) {
  switch (f.kind) {
    case FailureClass::kThrottled:
    case FailureClass::kCapacity:
      return Code::kExhausted;
    case FailureClass::kTransient:
      return Code::kUnavailable;
    case FailureClass::kClockSkew:
      return Code::kPermissionDenied;
    case FailureClass::kFinal:
      break;
  }
  if (among(kRefused, f.code) || f.code.starts_with("AccessDenied") || f.status == 401 || f.status == 403) {
    return Code::kPermissionDenied;
  }
  if (is_not_found(f.code, f.message)) return Code::kNotFound;
  if (f.code.find("AlreadyExists") != std::string::npos || f.code.ends_with(".Duplicate")) return Code::kAlreadyExists;
  if (f.code == "ScalingActivityInProgress") return Code::kAborted;
  return Code::kInvalid;
}

}  // namespace

FailureClass classify(int status, std::string_view code) {
  // The code has precedence over the status: EC2 reports a lack of capacity as a 500.
  if (among(kCapacity, code)) return FailureClass::kCapacity;
  if (among(kThrottle, code) || status == 429) return FailureClass::kThrottled;
  if (among(kSkew, code)) return FailureClass::kClockSkew;
  if (among(kTransient, code) || status >= 500) return FailureClass::kTransient;
  return FailureClass::kFinal;
}

Error Failure::error() const {
  Error out{code_of(*this), fmt::format("{}: {}", code, message), {}, {}};
  if (kind == FailureClass::kThrottled) {
    out.field = "rate";
    out.remedy = "send fewer calls, or ask for a higher request limit";
  } else if (kind == FailureClass::kCapacity) {
    out.field = "capacity";
    out.remedy = "try another instance type or zone";
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
  out.kind = classify(out.status, out.code);
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
