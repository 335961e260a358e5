#pragma once
#include <cstdint>

namespace qm::placement::bound {

inline constexpr std::int64_t kMebi = 1 << 20;  ///< bytes; the library counts memory in MiB

}  // namespace qm::placement::bound
