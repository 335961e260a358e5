#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace qm::cli {

/// How values are displayed. For the words of enum values see qm/wire/words.hpp.
///
/// Ages      as in kubectl: "45s", "5m30s", "3h10m", "2d4h", "12d"; a future instant is "0s".
/// Amounts   CPU and GPU in thousandths, memory in bytes, all else in units.
std::string age(Duration since);
std::string age(std::int64_t at_us, Instant now);  ///< empty if at_us is 0
std::string instant(std::int64_t at_us);           ///< RFC 3339; empty if it is 0
std::string thousandths(std::int64_t milli);       ///< "2", "0.25"
std::string bytes(std::int64_t n);                 ///< "96Gi", "1.5Gi", "200Mi"
std::string percent(double share);                 ///< 0..1 -> "87%"; empty if it is negative
std::string amount(std::string_view resource, std::int64_t n);
std::string gpu_hours(std::int64_t gpu_micros);  ///< three decimals, rounded half up

}  // namespace qm::cli
