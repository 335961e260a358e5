#pragma once
#include "qm/base/result.hpp"

#include <cstddef>
#include <string_view>

namespace qm {

inline constexpr std::size_t kMaxResumeUri = 1024;  ///< bytes

/// kInvalid unless the text is a URI or an absolute path from which a pod may resume: at most kMaxResumeUri bytes,
/// only characters of RFC 3986. Empty = the rank has none. The text comes from a container, and is written to an
/// annotation.
Status check_resume_uri(std::string_view uri);

}  // namespace qm
