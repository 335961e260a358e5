#pragma once
#include "aws_keys.hpp"
#include "qm/base/json.hpp"
#include "qm/base/time.hpp"
#include "qm/http/http.hpp"
#include "refusal.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::fleet {

/// The inner XML of a successful answer, or a refusal in the format of the service.
using AwsReply = Answered<std::string>;

/// The two refusals of EC2 that most checks need.
[[nodiscard]] inline tl::unexpected<Refusal> invalid_value(std::string_view message) {
  return refuse(400, "InvalidParameterValue", "{}", message);
}
[[nodiscard]] inline tl::unexpected<Refusal> missing_parameter(std::string_view names) {
  return refuse(400, "MissingParameter", "The request must contain the parameter {}", names);
}

/// One parsed request.
struct AwsCall {
  std::string service, action;
  std::map<std::string, std::string> params;  ///< of the Query protocol
  Json body;                                  ///< of SQS and SSM
  std::string authority;                      ///< the Host header

  [[nodiscard]] const std::string& param(const std::string& name) const;  ///< empty if absent
  /// "prefix.1", "prefix.2", ... until one is missing; `rest` is the text after the number.
  [[nodiscard]] std::vector<std::string> list(const std::string& prefix, std::string_view rest = {}) const;
  /// prefix.N.Key and prefix.N.Value, N from 1.
  [[nodiscard]] std::map<std::string, std::string> tags(const std::string& prefix) const;
  /// The number within the bounds; `fallback` if absent.
  [[nodiscard]] Answered<int> number(const std::string& name, int fallback, int low, int high) const;
};

/// Whether a list of names includes the name; an empty list includes all.
[[nodiscard]] inline bool asked(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

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

/// The paging of a list: the element around it, the parameter that limits a page, and the position of the next token.
struct AwsPaging {
  std::string_view element;
  const char* bound;
  int usual, least, most;
  std::string_view token;
};

/// One page of the `items` that match, starting after the item whose key is in the call's token.
///
/// A token is a key and not a position: items that are added or removed between pages do not shift it.
template <class Items, class Key, class Wanted, class Write>
AwsReply aws_page(const AwsCall& call, const AwsPaging& paging, const Items& items, Key key, Wanted wanted,
                  Write write) {
  FLEET_ASSIGN(int left, call.number(paging.bound, paging.usual, paging.least, paging.most));
  auto at = std::ranges::begin(items);
  if (const auto& token = call.param("NextToken"); !token.empty()) {
    at = std::ranges::find(items, token, key);
    if (at == std::ranges::end(items)) return refuse(400, "InvalidNextToken", "The token '{}' is invalid.", token);
    ++at;
  }
  AwsXml xml;
  xml.open(paging.element);
  std::string last;
  for (; at != std::ranges::end(items); ++at) {
    if (!wanted(*at)) continue;
    if (left-- == 0) break;
    write(xml, *at);
    last = key(*at);
  }
  xml.close();
  if (at != std::ranges::end(items)) xml.leaf(paging.token, last);
  return xml.str();
}

/// The call inside a request with a valid signature; else the error of the addressed service. `service` is set as
/// soon as it is known, so that a refusal can use its format.
Answered<AwsCall> read_aws_call(const http::Request& request, std::int64_t utc_seconds, std::string& service);

/// The answer of a Query service around its inner XML; aws_queues writes the JSON of SQS.
[[nodiscard]] http::Response aws_response(const AwsCall& call, const std::string& inner, const std::string& request_id);
[[nodiscard]] http::Response aws_refusal(const std::string& service, const Refusal& refusal,
                                         const std::string& request_id);

/// "2026-11-21T09:14:29.000Z", as EC2 writes instants.
[[nodiscard]] std::string aws_instant(Instant t);

}  // namespace qm::fleet
