#include "qm/http/http.hpp"

#include <algorithm>
#include <cctype>

namespace qm::http {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])));
      i += 2;
    } else if (plus_is_space && text[i] == '+') {
      out.push_back(' ');
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace

void Headers::set(std::string_view name, std::string value) {
  for (auto& [have, old] : list_) {
    if (same_name(have, name)) {
      old = std::move(value);
      return;
    }
  }
  list_.emplace_back(std::string(name), std::move(value));
}

std::string_view Headers::get(std::string_view name) const {
  for (const auto& [have, value] : list_) {
    if (same_name(have, name)) return value;
  }
  return {};
}

std::string Request::path() const { return url_decode(target.substr(0, target.find('?'))); }

std::map<std::string, std::string> Request::query() const {
  const auto mark = target.find('?');
  if (mark == std::string::npos) return {};
  return parse_form(std::string_view(target).substr(mark + 1));
}

Response text(int status, std::string body) {
  Response response{status, {}, std::move(body)};
  response.headers.set("Content-Type", "text/plain; charset=utf-8");
  return response;
}

Response json(int status, std::string body) {
  Response response{status, {}, std::move(body)};
  response.headers.set("Content-Type", "application/json");
  return response;
}

std::string url_encode(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const unsigned char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out.push_back(static_cast<char>(c));
    } else {
      out.push_back('%');
      out.push_back(kDigits[c >> 4]);
      out.push_back(kDigits[c & 15]);
    }
  }
  return out;
}

std::string url_decode(std::string_view text) { return decode(text, false); }

std::map<std::string, std::string> parse_form(std::string_view text) {
  std::map<std::string, std::string> out;
  while (!text.empty()) {
    const auto amp = text.find('&');
    const auto pair = text.substr(0, amp);
    text = amp == std::string_view::npos ? std::string_view() : text.substr(amp + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    const auto value = equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1);
    out.insert_or_assign(decode(pair.substr(0, equals), true), decode(value, true));
  }
  return out;
}

}  // namespace qm::http
