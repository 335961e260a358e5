#include "answer.hpp"

#include <boost/beast/http/status.hpp>

namespace qm::http {
namespace {

/// A header value must not contain a line break: a value copied from outside must not add headers.
void append_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) out.push_back(c == '\r' || c == '\n' ? ' ' : c);
  out.append("\r\n");
}

}  // namespace

std::string head_of(const Response& response, bool chunked, bool keep_alive) {
  const auto reason =
      boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(static_cast<unsigned>(response.status)));
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, std::string_view(reason.data(), reason.size()));
  for (const auto& [name, value] : response.headers.all()) append_header(out, name, value);
  if (chunked) {
    append_header(out, "Transfer-Encoding", "chunked");
  } else if (response.status >= 200 && response.status != 204 && response.status != 304) {
    append_header(out, "Content-Length", std::to_string(response.body.size()));
  }
  append_header(out, "Connection", keep_alive ? "keep-alive" : "close");
  out.append("\r\n");
  return out;
}

}  // namespace qm::http
