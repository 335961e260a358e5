#pragma once
#include "qm/base/time.hpp"

#include <functional>
#include <thread>

namespace qm::fleet {

/// A thread that calls a function at every period of steady time, from start() to stop().
///
/// For what belongs to readers, who live in steady time. Domain time has the world's timers.
class Ticker {
 public:
  ~Ticker() { stop(); }
  void start(SteadyDuration every, std::function<void()> fn);
  void stop();  ///< joins; fn runs no more

 private:
  std::jthread thread_;
};

}  // namespace qm::fleet
