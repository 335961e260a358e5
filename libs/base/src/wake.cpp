#include "qm/base/wake.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace qm {

Wake::Wake() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  QM_ASSERT(fd_ >= 0, "eventfd: {}", std::strerror(errno));
}
Wake::~Wake() { ::close(fd_); }

void Wake::notify() const {
  const std::uint64_t one = 1;
  (void)!::write(fd_, &one, sizeof one);
}

bool Wake::take() const {
  std::uint64_t count = 0;
  return ::read(fd_, &count, sizeof count) == sizeof count;
}

void Wake::wait(SteadyDuration timeout) const {
  pollfd entry{fd_, POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  (void)::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(ms, 0, INT_MAX)));
}

void sleep_unless_stopped(SteadyDuration time, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, time, [] { return false; });
}

}  // namespace qm
