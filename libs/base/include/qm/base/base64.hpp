#pragma once
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm {

/// Base64 of RFC 4648, with padding and without line breaks.
[[nodiscard]] std::string base64(std::string_view bytes);

/// The bytes of such a text; line breaks are ignored. Fails: kInvalid for any other text, also for a part of one.
[[nodiscard]] Result<std::string> from_base64(std::string_view text);

}  // namespace qm
