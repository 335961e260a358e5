#include "qm/admission/watch/periodic.hpp"

namespace qm::admission {

void Periodic::start() {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, period_, [this] { return stopping_; })) {
      lock.unlock();
      fn_();
      lock.lock();
    }
  });
}

void Periodic::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace qm::admission
