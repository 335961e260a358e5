#include "qm/base/wake.hpp"

#include "qm/base/assert.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
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

}  // namespace qm
