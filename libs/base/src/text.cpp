#include "qm/base/text.hpp"

#include <simdjson.h>

#include <algorithm>

namespace qm {
namespace {

bool is_control(char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }

}  // namespace

Status check_request_id(std::string_view id) {
  if (id.size() > kMaxRequestId) {
    return fail(Error{Code::kInvalid,
                      fmt::format("the request id has {} bytes, at most {} are allowed", id.size(), kMaxRequestId),
                      "request_id", "use a UUID"});
  }
  const auto bad = std::ranges::find_if(id, [](char c) { return c < 0x20 || c > 0x7e; });
  if (bad == id.end()) return {};
  return fail(Error{Code::kInvalid,
                    fmt::format("byte {} of the request id is 0x{:02x}, which is not a printable ASCII character",
                                bad - id.begin(), static_cast<unsigned char>(*bad)),
                    "request_id", "use a UUID"});
}

Status check_key(std::string_view what, std::string_view key) {
  if (key.size() > kMaxKey)
    return fail(Code::kInvalid, "{} has {} bytes, at most {} are allowed", what, key.size(), kMaxKey);
  const auto bad = std::ranges::find_if(key, is_control);
  if (bad != key.end()) {
    return fail(Code::kInvalid, "byte {} of {} is the control character 0x{:02x}", bad - key.begin(), what,
                static_cast<unsigned char>(*bad));
  }
  if (!simdjson::validate_utf8(key)) return fail(Code::kInvalid, "{} is not UTF-8", what);
  return {};
}

std::optional<std::string> without_nul(std::string_view document) {
  constexpr std::string_view kEscape = "u0000";
  std::optional<std::string> out;
  for (auto at = document.find(kEscape); at != std::string_view::npos; at = document.find(kEscape, at + 1)) {
    // An odd number of backslashes in front: the last of them is not itself escaped.
    const auto before = document.substr(0, at);
    const auto last = before.find_last_not_of('\\');
    const auto slashes = last == std::string_view::npos ? before.size() : before.size() - last - 1;
    if (slashes % 2 == 0) continue;
    if (!out) out = std::string(document);
    out->replace(at, kEscape.size(), "ufffd");
  }
  return out;
}

}  // namespace qm
