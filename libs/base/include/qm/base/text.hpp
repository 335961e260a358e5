#pragma once
#include "qm/base/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace qm {

/// Bounds of identifiers that come from outside, in bytes. Whatever passes fits into a column of text and into an index of
/// PostgreSQL, alone or composed with others, and into a line of the log. Each is checked once, where it enters.
inline constexpr std::size_t kMaxRequestId = 128;
inline constexpr std::size_t kMaxName =
    512;  ///< of a name or a uid in a message; a label key of Kubernetes has 317 at most
inline constexpr std::size_t kMaxKey = 1 << 10;     ///< of a key on the bus
inline constexpr std::size_t kMaxRowKey = 2 << 10;  ///< of an indexed column, composed of several of the above

/// kInvalid unless it is 0 to 128 printable ASCII characters: what a client chose to find its answer again.
Status check_request_id(std::string_view id);

/// kInvalid unless it is UTF-8 of at most kMaxKey bytes without control characters. `what` begins the message.
Status check_key(std::string_view what, std::string_view key);

/// False where no column of text takes it: it holds a NUL.
[[nodiscard]] inline bool is_text(std::string_view value) { return value.find('\0') == std::string_view::npos; }

/// A JSON document with U+FFFD in the place of each U+0000 in its strings, which no column of text takes. Null where there is
/// none. Linear; the document is not parsed.
[[nodiscard]] std::optional<std::string> without_nul(std::string_view document);

}  // namespace qm
