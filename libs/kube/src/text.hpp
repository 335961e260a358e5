#pragma once
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm::kube {

/// The whole of a small file; kNotFound with its path where it cannot be read.
Result<std::string> read_text(const std::string& path);
std::string trimmed(std::string_view text);
/// RFC 4648 with padding; line breaks are passed over. kInvalid where it is something else.
Result<std::string> from_base64(std::string_view text);

}  // namespace qm::kube
