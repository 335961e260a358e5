#pragma once
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm::kube {

/// Reads a small file completely; kNotFound with its path if it cannot be read.
Result<std::string> read_text(const std::string& path);
std::string trimmed(std::string_view text);

}  // namespace qm::kube
