#pragma once
#include "qm/base/time.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace qm {

/// Bounds how far the host's clock may step forward: domain time that is too far ahead cannot be corrected later.
///
///   offset    host UTC minus boot time, as last accepted; domain time is boot time plus offset
///   baseline  the offset from which a step is measured; it follows the accepted offset by at most 1 ms a second, so
///             that many small steps together also count as a jump
///
/// A reading more than `bound` beyond the baseline is rejected: time continues from the last accepted offset at the
/// rate of boot time, which includes suspended time. A reference, another host's clock, accepts a reading that it
/// confirms; otherwise it advances domain time to the reference.
///
/// Threads  any.
class JumpGuard {
 public:
  explicit JumpGuard(Duration bound) : bound_(bound.count()) {}

  /// Domain time in microseconds. Before the first reference every reading is accepted.
  std::int64_t now(std::int64_t system_us, std::int64_t boot_us) {
    const std::lock_guard lock(mutex_);
    const auto read = system_us - boot_us;
    if (!guarding_ || read <= baseline_ + bound_) {
      offset_ = read;
      rejected_ = 0;
      follow(boot_us);
    } else {
      rejected_ = read - offset_;
    }
    return boot_us + offset_;
  }

  /// The reading of another host's clock at the same moment.
  void confirm(std::int64_t system_us, std::int64_t boot_us, std::int64_t reference_us) {
    const std::lock_guard lock(mutex_);
    const auto read = system_us - boot_us;
    const auto reference = reference_us - boot_us;
    if (read <= reference + bound_) {
      offset_ = read;
      rejected_ = 0;
    } else {
      offset_ = guarding_ ? std::max(offset_, reference) : reference;
      rejected_ = read - offset_;
    }
    // Not the accepted offset: a lead within the bound, or from before a rejection, would allow a larger next step.
    baseline_ = std::min(offset_, guarding_ ? std::max(baseline_, reference) : reference);
    followed_at_ = boot_us;
    guarding_ = true;
  }

  [[nodiscard]] Duration rejected() const {
    const std::lock_guard lock(mutex_);
    return Duration(rejected_);
  }

 private:
  void follow(std::int64_t boot_us) {
    const auto most = std::max<std::int64_t>(0, boot_us - followed_at_) / 1000;
    // The remainder of the division is kept: time counts from the last whole step.
    if (offset_ > baseline_ && most == 0) return;
    baseline_ = std::min(offset_, baseline_ + most);
    followed_at_ = boot_us;
  }

  const std::int64_t bound_;
  mutable std::mutex mutex_;
  bool guarding_ = false;
  std::int64_t offset_ = 0, baseline_ = 0, followed_at_ = 0, rejected_ = 0;
};

}  // namespace qm
