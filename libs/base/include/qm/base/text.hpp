#pragma once
#include "qm/base/result.hpp"

#include <cstddef>
#include <string_view>

namespace qm {

/// Bounds of identifiers that come from outside, and what they may consist of. Whatever passes fits into a column of text
/// and into an index of PostgreSQL, and into a line of the log. Each is checked once, where it enters.
inline constexpr std::size_t kMaxRequestId = 128;  ///< bytes
inline constexpr std::size_t kMaxKey = 1 << 10;    ///< bytes, of anything that becomes a key of a row or of the bus

/// kInvalid unless it is 0 to 128 printable ASCII characters: what a client chose to find its answer again.
Status check_request_id(std::string_view id);

/// kInvalid unless it is UTF-8 of at most kMaxKey bytes without control characters. `what` begins the message.
Status check_key(std::string_view what, std::string_view key);

/// False where no column of text takes it: it holds a NUL.
[[nodiscard]] inline bool is_text(std::string_view value) { return value.find('\0') == std::string_view::npos; }

/// True where a string of a JSON document holds U+0000, which JSON writes as an escape. Linear; the document is not parsed.
[[nodiscard]] bool json_has_nul(std::string_view document);

}  // namespace qm
