#pragma once
#include "qm/base/result.hpp"

#include <string>

namespace qm {

/// Reads a whole file, and decompresses it if it is in gzip format: recorded cases and traces of tests and tools.
///
/// Fails    kNotFound: the file does not exist or cannot be read to its end; the error has the path and the
///          `remedy`.
[[nodiscard]] Result<std::string> read_unpacked(const std::string& path, const std::string& remedy);

}  // namespace qm
