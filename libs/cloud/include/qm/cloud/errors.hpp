#pragma once
#include "qm/base/result.hpp"

#include <cstdint>
#include <string_view>

namespace qm::cloud {

/// The cause of an AWS error, as far as the next step depends on it.
enum class ErrorClass : std::uint8_t {
  kUnknown,     ///< a code that the table does not have: it concerns the one call, nothing else
  kCapacity,    ///< no capacity, or a quota is used up: try other offerings, remember it for the scope
  kRate,        ///< too many calls; refused without processing
  kPermission,  ///< key, signature or policy
  kParameter,   ///< the call is wrong
  kConflict,    ///< the state of the object, or a client token that was used before
  kNotFound,
  kTransient,  ///< a failure of the service: the call may or may not have taken effect
};

/// The launches that fail for the same reason. An offering is an instance type in one zone of one market.
enum class ErrorScope : std::uint8_t {
  kCall,      ///< only the call itself
  kOffering,  ///< the offering
  kType,      ///< the instance type in all zones of its market
  kZone,      ///< all types in the zone or subnet
  kMarket,    ///< all offerings of the market, such as spot
  kAccount,   ///< all launches of the account in the region
};

struct ErrorKind {
  ErrorClass error_class = ErrorClass::kUnknown;
  ErrorScope scope = ErrorScope::kCall;
  bool retryable = false;  ///< the unchanged call may succeed after a short wait
  friend bool operator==(const ErrorKind&, const ErrorKind&) = default;
};

/// Looks up the code of an error in the one table of AWS error codes; the code has precedence over the HTTP status.
///
/// Status   for a code that is not in the table: 429 is kRate, 401 and 403 are kPermission, 5xx is kTransient. The
///          errors of CreateFleet have no status of their own: 0.
/// Threads  any. Cost: O(log n) for n codes.
/// Source   EC2 API Reference, "Error codes for the Amazon EC2 API"; Auto Scaling, SQS and STS API Reference, "Common
///          Errors"; botocore's retry configuration; Karpenter's list of unfulfillable capacity.
[[nodiscard]] ErrorKind classify(std::string_view code, int http_status = 0);

/// The service's own code in an error of this library, such as "InsufficientInstanceCapacity"; empty if it has none.
[[nodiscard]] std::string_view service_code(const Error& error);

}  // namespace qm::cloud
