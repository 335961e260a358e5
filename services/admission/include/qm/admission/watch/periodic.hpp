#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace qm::admission {

/// Calls a function on a thread of its own, with a pause of one period before each call.
///
/// Threads  start and stop: one. stop() returns after a call in progress, and ends the pause at once.
class Periodic {
 public:
  Periodic(std::chrono::milliseconds period, std::function<void()> fn) : period_(period), fn_(std::move(fn)) {}
  ~Periodic() { stop(); }
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;
  void start();
  void stop();

 private:
  const std::chrono::milliseconds period_;
  const std::function<void()> fn_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace qm::admission
