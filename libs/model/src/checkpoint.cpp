#include "qm/model/checkpoint.hpp"

#include <algorithm>
#include <cctype>

namespace qm {

Status check_resume_uri(std::string_view uri) {
  if (uri.size() > kMaxResumeUri) {
    return fail(Error{Code::kInvalid,
                      fmt::format("the URI has {} bytes, at most {} are allowed", uri.size(), kMaxResumeUri), "uri",
                      "answer with a shorter URI"});
  }
  constexpr std::string_view kOthers = "-._~:/?#[]@!$&'()*+,;=%";
  const auto odd = std::ranges::find_if(uri, [&](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return !letter && kOthers.find(c) == std::string_view::npos;
  });
  if (odd != uri.end()) {
    return fail(Error{Code::kInvalid,
                      fmt::format("the URI has the byte 0x{:02x} at position {}, which no URI has",
                                  static_cast<unsigned char>(*odd), odd - uri.begin()),
                      "uri", "write it percent-encoded, by RFC 3986"});
  }
  return {};
}

bool is_node_local(std::string_view uri) {
  const auto scheme = uri.substr(0, std::min(uri.find(':'), uri.size()));
  const auto is = [&](std::string_view name) {
    return std::ranges::equal(
        scheme, name, {}, [](unsigned char c) { return static_cast<char>(std::tolower(c)); },
        [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  };
  return scheme.size() < uri.size() && (is("file") || is("emptyDir") || is("hostPath") || is("local"));
}

}  // namespace qm
