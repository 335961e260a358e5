#include "qm/admission/webhook/review.hpp"

#include <array>
#include <cstdint>

namespace qm::admission::webhook {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

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
      out += i + j > bytes.size() ? '=' : kLetters[three >> (18 - 6 * j) & 63U];
    }
  }
  return out;
}

Result<std::string> from_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=' || c == '\n' || c == '\r') continue;
    const auto at = kLetters.find(c);
    if (at == std::string_view::npos) return fail(Code::kInvalid, "'{}' does not belong in base64", c);
    bits = bits << 6U | static_cast<std::uint32_t>(at);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> static_cast<unsigned>(have) & 255U);
  }
  return out;
}

}  // namespace qm::admission::webhook
