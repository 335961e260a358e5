// The table of AWS error codes. A code that is missing here is unknown on purpose: a guess would block offerings.
#include "qm/cloud/errors.hpp"

#include <algorithm>
#include <array>

namespace qm::cloud {
namespace {

struct Row {
  std::string_view code;
  ErrorKind kind;
};

constexpr ErrorKind capacity(ErrorScope scope) { return {ErrorClass::kCapacity, scope, false}; }
constexpr ErrorKind kRate{ErrorClass::kRate, ErrorScope::kAccount, true};
constexpr ErrorKind kTransient{ErrorClass::kTransient, ErrorScope::kCall, true};
constexpr ErrorKind kRefused{ErrorClass::kPermission, ErrorScope::kAccount, false};
constexpr ErrorKind kParameter{ErrorClass::kParameter, ErrorScope::kCall, false};
constexpr ErrorKind kConflict{ErrorClass::kConflict, ErrorScope::kCall, false};
constexpr ErrorKind kBusy{ErrorClass::kConflict, ErrorScope::kCall, true};
constexpr ErrorKind kNotFound{ErrorClass::kNotFound, ErrorScope::kCall, false};

/// Sorted by code.
constexpr auto kRows = std::to_array<Row>({
    {"AccessDenied", kRefused},
    {"AccessDeniedException", kRefused},
    {"ActiveInstanceRefreshNotFound", kNotFound},
    {"AlreadyExists", kConflict},
    {"AuthFailure", kRefused},
    {"BandwidthLimitExceeded", kRate},
    {"Blocked", kRefused},
    {"ConcurrentTagAccess", kBusy},
    {"DependencyViolation", kConflict},
    {"EC2ThrottledException", kRate},
    {"EntityAlreadyExists", kConflict},
    {"ExpiredToken", kRefused},
    {"ExpiredTokenException", kRefused},
    {"IDPCommunicationError", kTransient},
    {"IDPRejectedClaim", kRefused},
    {"IdempotentInstanceTerminated", kConflict},
    {"IdempotentParameterMismatch", kConflict},
    {"IncompleteSignature", kRefused},
    {"IncorrectInstanceState", kBusy},
    {"IncorrectState", kBusy},
    {"InstanceLimitExceeded", capacity(ErrorScope::kType)},
    {"InsufficientCapacity", capacity(ErrorScope::kOffering)},
    {"InsufficientCapacityOnHost", capacity(ErrorScope::kOffering)},
    {"InsufficientFreeAddressesInSubnet", capacity(ErrorScope::kZone)},
    {"InsufficientHostCapacity", capacity(ErrorScope::kOffering)},
    {"InsufficientInstanceCapacity", capacity(ErrorScope::kOffering)},
    {"InsufficientReservedInstanceCapacity", capacity(ErrorScope::kOffering)},
    {"InsufficientVolumeCapacity", capacity(ErrorScope::kZone)},
    {"InternalError", kTransient},
    {"InternalFailure", kTransient},
    {"InvalidClientTokenId", kRefused},
    {"InvalidIdentityToken", kRefused},
    {"InvalidSignatureException", kRefused},
    {"LimitExceeded", capacity(ErrorScope::kAccount)},
    {"LimitExceededException", kRate},
    {"MalformedQueryString", kParameter},
    {"MaxFleetCountExceeded", capacity(ErrorScope::kAccount)},
    {"MaxIOPSLimitExceeded", capacity(ErrorScope::kAccount)},
    {"MaxSpotFleetRequestCountExceeded", capacity(ErrorScope::kMarket)},
    {"MaxSpotInstanceCountExceeded", capacity(ErrorScope::kMarket)},
    {"MissingAuthenticationToken", kRefused},
    {"NetworkInterfaceLimitExceeded", capacity(ErrorScope::kAccount)},
    {"NoSuchEntity", kNotFound},
    {"OperationNotPermitted", kConflict},
    {"OptInRequired", kRefused},
    {"OverLimit", capacity(ErrorScope::kAccount)},
    {"ParameterNotFound", kNotFound},
    {"PendingVerification", kRefused},
    {"PriorRequestNotComplete", kRate},
    {"ProvisionedThroughputExceededException", kRate},
    {"QueueDeletedRecently", kBusy},
    {"QueueDoesNotExist", kNotFound},
    {"QueueNameExists", kConflict},
    {"ReceiptHandleIsInvalid", kParameter},
    {"RequestExpired", kRefused},
    {"RequestLimitExceeded", kRate},
    {"RequestThrottled", kRate},
    {"RequestThrottledException", kRate},
    {"RequestTimeTooSkewed", kRefused},
    {"RequestTimeout", kTransient},
    {"RequestTimeoutException", kTransient},
    {"ReservationCapacityExceeded", capacity(ErrorScope::kOffering)},
    {"ResourceContention", kTransient},
    {"ResourceInUse", kBusy},
    {"ResourceLimitExceeded", capacity(ErrorScope::kAccount)},
    {"ScalingActivityInProgress", kBusy},
    {"SerializationException", kParameter},
    {"ServiceLinkedRoleFailure", kRefused},
    {"ServiceUnavailable", kTransient},
    {"SignatureDoesNotMatch", kRefused},
    {"SlowDown", kRate},
    {"SpotMaxPriceTooLow", capacity(ErrorScope::kOffering)},
    {"TagLimitExceeded", kParameter},
    {"ThrottledException", kRate},
    {"Throttling", kRate},
    {"ThrottlingException", kRate},
    {"TooManyRequestsException", kRate},
    {"TransactionInProgressException", kRate},
    {"UnauthorizedOperation", kRefused},
    {"Unavailable", kTransient},
    {"UnfulfillableCapacity", capacity(ErrorScope::kOffering)},
    {"UnknownParameter", kParameter},
    {"Unsupported", capacity(ErrorScope::kOffering)},
    {"UnsupportedOperation", kParameter},
    {"ValidationError", kParameter},
    {"VcpuLimitExceeded", capacity(ErrorScope::kType)},
    {"VolumeLimitExceeded", capacity(ErrorScope::kAccount)},
});
static_assert(std::ranges::adjacent_find(kRows, std::ranges::greater_equal{}, &Row::code) == kRows.end());

/// Families of codes: "InvalidSubnetID.NotFound", "InvalidParameterCombination", "MissingParameter".
ErrorKind kind_by_form(std::string_view code) {
  const auto contains = [&](std::string_view part) { return code.find(part) != std::string_view::npos; };
  if (code.ends_with(".NotFound") || code.ends_with("NotFoundException") || contains("NonExistentQueue") ||
      code.ends_with(".Unknown")) {
    return kNotFound;
  }
  if (contains("AlreadyExists") || code.ends_with(".Duplicate")) return kConflict;
  if (code.starts_with("AccessDenied") || code.starts_with("AuthFailure.")) return kRefused;
  if (code.starts_with("Invalid") || code.starts_with("Missing") || code.ends_with(".Malformed")) return kParameter;
  return {};
}

ErrorKind kind_by_status(int status) {
  if (status == 429) return kRate;
  if (status == 401 || status == 403) return kRefused;
  if (status >= 500) return kTransient;
  return {};
}

}  // namespace

ErrorKind classify(std::string_view code, int http_status) {
  const auto* row = std::ranges::lower_bound(kRows, code, {}, &Row::code);
  if (row != kRows.end() && row->code == code) return row->kind;
  const ErrorKind by_form = kind_by_form(code);
  return by_form.error_class == ErrorClass::kUnknown ? kind_by_status(http_status) : by_form;
}

std::string_view service_code(const Error& error) {
  // Context is put before the message: the code is the last text before ": " that has no blank.
  const std::string_view text = error.message;
  for (std::size_t from = 0; from < text.size();) {
    const auto end = text.find(": ", from);
    if (end == std::string_view::npos) return {};
    const auto part = text.substr(from, end - from);
    const bool plain =
        !part.empty() && part.find_first_of(" /") == std::string_view::npos && part[0] >= 'A' && part[0] <= 'Z';
    if (plain) return part;
    from = end + 2;
  }
  return {};
}

}  // namespace qm::cloud
