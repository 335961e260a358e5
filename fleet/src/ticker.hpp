#pragma once
#include "qm/base/time.hpp"

#include <functional>
#include <thread>

namespace qm::fleet {

/// A thread that calls a function at every period of steady time, from start() to stop().
///
/// For tasks that depend on clients, which use steady time. Tasks in domain time use the world's timers.
class Ticker {
 public:
  ~Ticker() { stop(); }
  void start(SteadyDuration every, std::function<void()> fn);
  void stop();  ///< joins; fn does not run afterwards

 private:
  std::jthread thread_;
};

}  // namespace qm::fleet
