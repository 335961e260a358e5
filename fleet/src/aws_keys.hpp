#pragma once
#include "qm/base/json.hpp"
#include "refusal.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace qm::fleet {

/// The one key that calls are signed with unless they use session keys: its name and its secret.
inline constexpr const char* kAwsKey = "test";

/// The keys of a role for some time. They are derived from role and expiry, so that every part of the fleet can issue
/// and verify them without common state; as in a simulation, nothing about them is secret.
struct SessionKeys {
  std::string access_key, secret_key, token, role;
  std::int64_t expires_utc_s = 0;
};
[[nodiscard]] SessionKeys session_keys(std::string_view role, std::int64_t expires_utc_s);

/// The secret that signs with this access key and session token (empty = none), as of wall time.
///
/// Refuses  InvalidClientTokenId for unknown ones; ExpiredToken for keys whose time is over.
[[nodiscard]] Answered<std::string> secret_of(const std::string& access_key, const std::string& token,
                                              std::int64_t utc_seconds);

/// The keys as the instance metadata service and the container agents answer them.
[[nodiscard]] Json agent_answer(const SessionKeys& keys, std::int64_t utc_seconds);

[[nodiscard]] std::int64_t host_utc();  ///< seconds of the system clock

}  // namespace qm::fleet
