#include "text.hpp"

#include <array>
#include <fstream>
#include <iterator>

namespace qm::kube {

Result<std::string> read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(Error{Code::kNotFound, path + " cannot be read", path, "check that it is there and its permissions"});
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kBlank) - first + 1));
}

Result<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned int bits = 0;
  int held = 0;  // bits not yet emitted
  std::size_t digits = 0, padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    ++digits;
    if (c == '=') {
      ++padding;
      continue;
    }
    const auto value = kDigits.find(c);
    if (value == std::string_view::npos || padding > 0) return fail(Code::kInvalid, "not valid base64");
    bits = (bits << 6U | static_cast<unsigned int>(value)) & 0xFFFFFU;
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>(bits >> static_cast<unsigned int>(held) & 0xFFU);
    }
  }
  if (digits % 4 != 0 || padding > 2) return fail(Code::kInvalid, "not valid base64, or only a part of it");
  return out;
}

}  // namespace qm::kube
