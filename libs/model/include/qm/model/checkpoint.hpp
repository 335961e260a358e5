#pragma once
#include "qm/base/result.hpp"

#include <cstddef>
#include <string_view>

namespace qm {

inline constexpr std::size_t kMaxResumeUri = 1024;  ///< bytes

/// kInvalid unless the text is a URI or an absolute path that a pod may be given to resume from: at most kMaxResumeUri bytes, the
/// characters of RFC 3986 and no others. Empty = the rank names none. The text comes from a container, and ends in an annotation.
Status check_resume_uri(std::string_view uri);

}  // namespace qm
