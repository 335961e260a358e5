#pragma once
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm::kube {

/// Reads a small file completely; kNotFound with its path if it cannot be read.
Result<std::string> read_text(const std::string& path);
std::string trimmed(std::string_view text);
/// RFC 4648 with padding; line breaks are ignored. kInvalid for any other text.
Result<std::string> from_base64(std::string_view text);

}  // namespace qm::kube
