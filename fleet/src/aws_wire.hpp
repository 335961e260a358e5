#pragma once
#include "qm/base/json.hpp"
#include "qm/base/time.hpp"
#include "qm/http/http.hpp"

#include <tl/expected.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::fleet {

/// A refusal in the words of the service.
struct AwsFault {
  int status = 400;
  std::string code, message;
};

/// The inner XML of a good answer, or a refusal.
using AwsReply = tl::expected<std::string, AwsFault>;
[[nodiscard]] inline tl::unexpected<AwsFault> aws_fault(int status, std::string code, std::string message) {
  return tl::unexpected<AwsFault>(AwsFault{status, std::move(code), std::move(message)});
}

/// One request, taken apart.
struct AwsCall {
  std::string service, action;
  std::map<std::string, std::string> params;  ///< of the Query protocol
  Json body;                                  ///< of SQS
  std::string authority;                      ///< the Host header

  [[nodiscard]] const std::string& param(const std::string& name) const;  ///< empty where absent
  /// "prefix.1", "prefix.2", ... until one is missing.
  [[nodiscard]] std::vector<std::string> list(const std::string& prefix) const;
  /// prefix.N.Key and prefix.N.Value, N from 1.
  [[nodiscard]] std::map<std::string, std::string> tags(const std::string& prefix) const;
  /// The number within the bounds, the fallback where absent.
  [[nodiscard]] tl::expected<int, AwsFault> number(const std::string& name, int fallback, int low, int high) const;
};

/// Writes elements; text is escaped.
class AwsXml {
 public:
  AwsXml& open(std::string_view name);
  AwsXml& close();
  AwsXml& leaf(std::string_view name, std::string_view text);
  AwsXml& leaf(std::string_view name, std::int64_t number) { return leaf(name, std::to_string(number)); }
  [[nodiscard]] const std::string& str() const { return out_; }

 private:
  std::string out_;
  std::vector<std::string> open_;
};

struct AwsKeys {
  std::string access_key, secret_key;
};
/// The call inside a request whose signature is good; else what the meant service answers.
/// `service` is set as soon as it is known, so that a refusal can take its form.
tl::expected<AwsCall, AwsFault> read_aws_call(const http::Request& request, const AwsKeys& keys,
                                              std::int64_t utc_seconds, std::string& service);

/// The answer of a Query service around its inner XML; JSON for SQS is made by its own part.
[[nodiscard]] http::Response aws_response(const AwsCall& call, const std::string& inner, const std::string& request_id);
[[nodiscard]] http::Response aws_fault_response(const std::string& service, const AwsFault& fault,
                                                const std::string& request_id);

/// "2026-11-21T09:14:29.000Z", as EC2 writes instants.
[[nodiscard]] std::string aws_instant(Instant t);
/// "Sat, 21 Nov 2026 09:14:29 GMT".
[[nodiscard]] std::string http_date(std::int64_t utc_seconds);
/// One page of `count` items beginning at an index: its end, and the token of the next page where there is one.
struct AwsPage {
  std::size_t begin = 0, end = 0;
  std::string next_token;
};
/// Tokens are positions, for lists that only change at their end.
tl::expected<AwsPage, AwsFault> aws_page(const std::string& token, std::size_t size, int count);

}  // namespace qm::fleet
