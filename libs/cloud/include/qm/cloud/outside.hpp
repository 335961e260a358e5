#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/http/http.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace qm::cloud {

/// The external dependencies of a client, each replaceable, so that a test of retries neither sleeps nor uses random
/// numbers. Empty members use the real implementation. Steady time controls the waits; UTC time only dates
/// signatures and expires keys. Domain time is never used, because the service checks the signature's date against its
/// own wall clock.
struct Outside {
  /// Sends one request to an origin. The real implementation keeps connections open and applies the time limit of
  /// the call.
  std::function<Result<http::Response>(const std::string& origin, const http::Request& request,
                                       std::chrono::milliseconds timeout)>
      send;
  std::function<SteadyInstant()> now;
  std::function<void(SteadyDuration)> sleep;
  std::function<double()> jitter;  ///< in [0, 1)
  std::function<std::int64_t()> utc_seconds;
};

/// The value of an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char* name)>;
[[nodiscard]] Environment process_environment();

}  // namespace qm::cloud
