#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::cloud {

/// One request to sign.
///
/// `path` and `query` are as sent (already percent-encoded once). Every given header is signed; x-amz-date is
/// added if the headers lack it, so that typical requests need only host and content type.
struct SigningInput {
  std::string method, path, query, body, region, service, access_key, secret_key,
      amz_date;  ///< 20261121T091429Z
  std::vector<std::pair<std::string, std::string>> headers;
};

/// The steps of SigV4, public for test vectors: canonical request, string to sign, Authorization header.
///
/// Threads  any, pure functions.
/// Source   AWS Signature Version 4, "Create a signed AWS API request"; without S3's variant (single encoding,
///          payload header).
[[nodiscard]] std::string canonical_request(const SigningInput& in);
[[nodiscard]] std::string string_to_sign(const SigningInput& in);
[[nodiscard]] std::string signature(const SigningInput& in);
[[nodiscard]] std::string authorization_header(const SigningInput& in);

/// The parts of an Authorization header, for servers that verify one. nullopt if it is not a SigV4 header.
struct Authorization {
  std::string access_key, date, region, service, signature;
  std::vector<std::string> signed_headers;
};
[[nodiscard]] std::optional<Authorization> parse_authorization(std::string_view header);

/// Formats UTC seconds since 1970 as "20261121T091429Z".
[[nodiscard]] std::string amz_date(std::int64_t utc_seconds);

}  // namespace qm::cloud
