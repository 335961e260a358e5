#pragma once
#include "qm/base/time.hpp"

#include <chrono>
#include <cstdio>
#include <string>

namespace qm::demo {

/// What the user sees on the way: lines that stay, and one that is written over.
class Progress {
 public:
  explicit Progress(bool terminal) : terminal_(terminal) {}
  void line(const std::string& text) {
    std::printf("%s%s\n", terminal_ ? "\r\033[K" : "", text.c_str());
    std::fflush(stdout);
  }
  /// On a terminal in place; elsewhere a line of its own every five seconds.
  void status(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    if (terminal_) {
      std::printf("\r\033[K%s", text.c_str());
    } else if (now >= next_) {
      std::printf("%s\n", text.c_str());
      next_ = now + std::chrono::seconds(5);
    }
    std::fflush(stdout);
  }
  void end() {
    if (terminal_) std::printf("\r\033[K");
  }

 private:
  bool terminal_;
  SteadyInstant next_{};
};

}  // namespace qm::demo
