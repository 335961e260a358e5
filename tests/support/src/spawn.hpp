#pragma once
#include "qm/base/result.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace qm::testing {

/// The parameters of a child; the user is "" for the current one, or an account's name if the test runs as root.
struct Spawn {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::string output;
  std::string user;
};

/// A child in its own process group that is killed when the thread that started it ends (so start servers from the main
/// thread). It inherits no descriptor except its output. kInvalid if the program cannot be executed.
class Child {
 public:
  static Result<Child> start(const Spawn& spawn);
  Child() = default;
  explicit Child(pid_t pid) : pid_(pid) {}

  [[nodiscard]] pid_t pid() const { return pid_; }
  bool running() { return pid_ > 0 && !wait(std::chrono::milliseconds(0)); }
  std::optional<int> wait(std::chrono::milliseconds timeout);
  void signal(int number);        ///< to the process, if it has not been waited for
  void signal_group(int number);  ///< to the whole group
  /// Sends SIGKILL to the group, and waits.
  void kill9();

 private:
  bool reap();

  pid_t pid_ = -1;
  std::optional<int> status_;
};

/// Runs a program to its end; returns its output if it fails.
Status run_program(Spawn spawn, const std::string& output, std::chrono::milliseconds timeout);

/// Processes whose parent is `pid`.
std::vector<pid_t> children_of(pid_t pid);

}  // namespace qm::testing
