#include "qm/cloud/instants.hpp"

#include <ctime>
#include <string_view>

namespace qm::cloud {

std::optional<Instant> instant_of(const std::string& text) {
  if (const auto parsed = from_rfc3339(text)) return *parsed;
  for (const char* form : {"%a, %d %b %Y %H:%M:%S", "%d %b %Y %H:%M:%S"}) {
    std::tm time{};
    const char* end = ::strptime(text.c_str(), form, &time);
    if (end == nullptr) continue;
    const std::string_view zone(end);
    if (zone != " GMT" && zone != " UTC") return std::nullopt;
    return from_micros(static_cast<std::int64_t>(::timegm(&time)) * 1'000'000);
  }
  return std::nullopt;
}

}  // namespace qm::cloud
