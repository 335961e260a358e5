#pragma once
#include "qm/base/time.hpp"

#include <optional>
#include <string>

namespace qm::cloud {

/// An instant as clouds write it in events: "2026-11-21T09:14:29Z", or "Sat, 21 Nov 2026 09:14:29 GMT" (RFC 1123);
/// "21 Nov 2026 09:14:29 GMT" as the metadata of EC2 has it. nullopt for any other text.
[[nodiscard]] std::optional<Instant> instant_of(const std::string& text);

}  // namespace qm::cloud
