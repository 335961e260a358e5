#pragma once
#include "qm/base/time.hpp"

#include <stop_token>

namespace qm {

/// Ends waits on descriptors early. descriptor() is readable from a call of notify() on, until take().
///
/// Threads  any; one waits.
class Wake {
 public:
  Wake();
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;

  void notify() const;
  /// Whether notify() was called since the last take().
  bool take() const;
  /// Waits until notify() was called, at most this long. An interrupted wait ends early. Does not take it.
  void wait(SteadyDuration timeout) const;
  [[nodiscard]] int descriptor() const { return fd_; }

 private:
  int fd_;
};

/// Returns after `time`, or as soon as a stop is requested. Threads: any.
void sleep_unless_stopped(SteadyDuration time, const std::stop_token& stop);

}  // namespace qm
