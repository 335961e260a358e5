#include "ticker.hpp"

#include <condition_variable>
#include <mutex>

namespace qm::fleet {

void Ticker::start(SteadyDuration every, std::function<void()> fn) {
  thread_ = std::jthread([every, fn = std::move(fn)](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any tick;
    std::unique_lock waiting(mutex);
    while (!tick.wait_for(waiting, stop, every, [&] { return stop.stop_requested(); })) fn();
  });
}

void Ticker::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace qm::fleet
