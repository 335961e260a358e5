#pragma once
#include "qm/base/time.hpp"

#include <chrono>
#include <cstdio>
#include <string>

namespace qm::demo {

/// The progress output: permanent lines, and a status line that is overwritten.
class Progress {
 public:
  explicit Progress(bool terminal) : terminal_(terminal) {}
  void line(const std::string& text) {
    std::printf("%s%s\n", terminal_ ? "\r\033[K" : "", text.c_str());
    std::fflush(stdout);
  }
  /// Overwrites the line on a terminal; elsewhere prints a new line every five seconds.
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
