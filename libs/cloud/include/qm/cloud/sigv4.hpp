#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::cloud {

/// One request as it is to be signed.
///
/// `path` and `query` are as on the wire (already percent-encoded once). Every header given is signed; x-amz-date is
/// added where the headers lack it, so that the common case is just host and content type.
struct SigningInput {
  std::string method, path, query, body, region, service, access_key, secret_key,
      amz_date;  ///< 20261121T091429Z
  std::vector<std::pair<std::string, std::string>> headers;
};

/// The SigV4 parts, public for their vectors: canonical request, string to sign, Authorization header.
///
/// Threads  any, pure functions.
/// Source   AWS Signature Version 4, "Create a signed AWS API request"; S3's variant (single encoding, payload header)
///          is not meant.
[[nodiscard]] std::string canonical_request(const SigningInput& in);
[[nodiscard]] std::string string_to_sign(const SigningInput& in);
[[nodiscard]] std::string signature(const SigningInput& in);
[[nodiscard]] std::string authorization_header(const SigningInput& in);

/// The parts of an Authorization header, for whoever checks one. nullopt where it is no SigV4 header.
struct Authorization {
  std::string access_key, date, region, service, signature;
  std::vector<std::string> signed_headers;
};
[[nodiscard]] std::optional<Authorization> parse_authorization(std::string_view header);

/// "20261121T091429Z" of UTC seconds since 1970.
[[nodiscard]] std::string amz_date(std::int64_t utc_seconds);

}  // namespace qm::cloud
