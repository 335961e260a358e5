#pragma once
#include "qm/base/time.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace qm {

/// UTC that does not go back when the host's clock is set back: it continues at half the rate until the host's clock
/// has caught up. So timers that use it continue, and successive times still differ.
///
/// Threads  any. `steady` is called under a lock, only while the host's clock is behind.
class ForwardClock {
 public:
  template <class Steady>
  std::int64_t now(std::int64_t system_us, Steady&& steady) {
    std::int64_t seen = newest_.load(std::memory_order_relaxed);
    while (seen <= system_us) {
      if (newest_.compare_exchange_weak(seen, system_us, std::memory_order_relaxed)) return system_us;
    }
    const std::lock_guard lock(mutex_);
    const SteadyInstant at = steady();
    seen = newest_.load(std::memory_order_relaxed);
    // Not the previous lag: since then time continued at the full rate.
    if (seen != published_) from_ = seen, since_ = at;
    published_ = from_ + std::chrono::duration_cast<Duration>(at - since_).count() / 2;
    while (seen < published_ && !newest_.compare_exchange_weak(seen, published_, std::memory_order_relaxed)) {
    }
    return seen < published_ ? published_ : seen;
  }

 private:
  std::atomic<std::int64_t> newest_{INT64_MIN};
  std::mutex mutex_;
  std::int64_t published_ = INT64_MIN, from_ = 0;
  SteadyInstant since_{};
};

}  // namespace qm
