#pragma once
#include "qm/base/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace qm {

/// Bounds of external values, in bytes. An identifier within its bound fits a text column, a PostgreSQL index (also
/// combined with other columns) and a log line. Each value is checked once, where it enters the process.
inline constexpr std::size_t kMaxRequestId = 128;
inline constexpr std::size_t kMaxName =
    512;  ///< of a name or a uid in a message; a Kubernetes label key has 317 at most
inline constexpr std::size_t kMaxKey = 1 << 10;        ///< of a key on the bus
inline constexpr std::size_t kMaxText = 1 << 20;       ///< of a message, a URI, or the value of a label or annotation
inline constexpr std::size_t kMaxDocument = 16 << 20;  ///< of a manifest, and of a message on the bus
inline constexpr std::size_t kMaxRowKey = 2 << 10;     ///< of an indexed column that combines several of the above

/// kInvalid unless the id, which a client chose for its retries, is 0 to 128 printable ASCII characters.
Status check_request_id(std::string_view id);

/// kInvalid unless it is UTF-8 of at most kMaxKey bytes without control characters. `what` begins the message.
Status check_key(std::string_view what, std::string_view key);

/// False for a value with a NUL byte, which no text column can hold.
[[nodiscard]] inline bool is_text(std::string_view value) { return value.find('\0') == std::string_view::npos; }

/// Returns the JSON document with each U+0000 in its strings replaced by U+FFFD; nullopt if it has none. Linear; the
/// document is not parsed.
[[nodiscard]] std::optional<std::string> without_nul(std::string_view document);

}  // namespace qm
