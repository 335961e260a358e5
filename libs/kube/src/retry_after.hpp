#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/http/http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace qm::kube {

/// Calls that the API server delayed (Retry-After of 429 and 503): until that time they fail without
/// being sent. A call is its method and target, so a disruption budget that delays one eviction does not delay
/// another.
///
/// Bounds   1,024 calls; beyond it the call that is due first is removed. At most 60 s each.
/// Threads  any.
class RetryAfter {
 public:
  /// Returns the last error of the call, if it is too early to retry it.
  std::optional<Error> too_early(const std::string& call, SteadyInstant now) {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(call);
    if (found == calls_.end()) return std::nullopt;
    if (found->second.until <= now) {
      calls_.erase(found);
      return std::nullopt;
    }
    Error error = found->second.error;
    const auto left = std::chrono::ceil<std::chrono::seconds>(found->second.until - now).count();
    error.message += fmt::format(" (repeated in {} s, by Retry-After of the API server)", left);
    return error;
  }

  void note(const std::string& call, const http::Response& answer, const Error& error, SteadyInstant now) {
    if (answer.status != 429 && answer.status != 503) return;
    const auto text = answer.headers.get("Retry-After");
    int seconds = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (ec != std::errc() || end != text.data() + text.size() || seconds <= 0) return;
    const std::lock_guard lock(mutex_);
    if (calls_.size() >= kMostCalls) {
      calls_.erase(std::ranges::min_element(calls_, {}, [](const auto& one) { return one.second.until; }));
    }
    calls_.insert_or_assign(call, Held{now + std::chrono::seconds(std::min(seconds, kLongestSeconds)), error});
  }

 private:
  static constexpr std::size_t kMostCalls = 1024;
  static constexpr int kLongestSeconds = 60;
  struct Held {
    SteadyInstant until;
    Error error;
  };
  std::mutex mutex_;
  std::map<std::string, Held> calls_;
};

}  // namespace qm::kube
