#pragma once
#include "qm/base/result.hpp"

#include <string>

namespace qm {

/// The whole text of a file, unpacked where gzip has packed it: recorded cases and traces of tests and tools.
///
/// Fails    kNotFound: the file is not there or cannot be read to its end; the error names it and says `remedy`.
[[nodiscard]] Result<std::string> read_unpacked(const std::string& path, const std::string& remedy);

}  // namespace qm
