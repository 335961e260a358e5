#pragma once
#include "qm/base/result.hpp"
#include "qm/http/http.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace qm::cloud {

/// What a failed attempt means for the next one.
enum class FailureClass {
  kFinal,      ///< repeating changes nothing: the parameters, the policy, no such thing
  kCapacity,   ///< no machine of that type there now; another place may have one
  kThrottled,  ///< refused unread; repeat later
  kTransient,  ///< the service stumbled: it may or may not have been done
  kClockSkew,  ///< refused for the date of the signature, if the clocks differ
};

/// An answer of 400 and up, read: EC2's, the Query protocol's or SQS's form.
struct Failure {
  FailureClass kind = FailureClass::kFinal;
  int status = 0;
  std::string code, message;

  /// As the caller sees it: `code` first in the message, field and remedy by class.
  [[nodiscard]] Error error() const;
};
[[nodiscard]] Failure read_failure(const http::Response& response);
[[nodiscard]] FailureClass classify(int status, std::string_view code);

/// UTC seconds of "Sat, 21 Nov 2026 09:14:29 GMT".
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view text);

}  // namespace qm::cloud
