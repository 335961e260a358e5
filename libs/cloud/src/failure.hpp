#pragma once
#include "qm/base/result.hpp"
#include "qm/http/http.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace qm::cloud {

/// The consequence of a failed attempt for the next one.
enum class FailureClass {
  kFinal,      ///< a retry cannot succeed: the parameters, the policy, an unknown object
  kCapacity,   ///< no instance of that type there now; another zone or type may have one
  kThrottled,  ///< refused without processing; retry later
  kTransient,  ///< a failure of the service: the request may or may not have taken effect
  kClockSkew,  ///< refused for the date of the signature, if the clocks differ
  kExpiredKeys,
};

/// A parsed response of 400 and up: in the form of EC2, of the Query protocol or of SQS.
struct Failure {
  FailureClass kind = FailureClass::kFinal;
  int status = 0;
  std::string code, message;

  /// The error for the caller: `code` first in the message, field and remedy by class.
  [[nodiscard]] Error error() const;
};
[[nodiscard]] Failure read_failure(const http::Response& response);
[[nodiscard]] FailureClass failure_class(int status, std::string_view code);

/// Parses "Sat, 21 Nov 2026 09:14:29 GMT" into UTC seconds.
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view text);

}  // namespace qm::cloud
