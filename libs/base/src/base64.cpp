#include "qm/base/base64.hpp"

#include <cstdint>

namespace qm {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      three = three << 8U | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j > bytes.size() ? '=' : kDigits[three >> (18 - 6 * j) & 63U];
    }
  }
  return out;
}

Result<std::string> from_base64(std::string_view text) {
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

}  // namespace qm
