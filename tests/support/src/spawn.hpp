#pragma once
#include "qm/base/result.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace qm::testing {

/// How a child starts; its user is "" for ours, or an account's name where we are root.
struct Spawn {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::string output;
  std::string user;
};

/// A child in its own process group that is killed when the thread that started it ends (so start servers from the main
/// thread), holding no descriptor of ours but its output. kInvalid where the program cannot be executed.
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
  /// SIGKILL to the group, and waits.
  void kill9();

 private:
  bool reap();

  pid_t pid_ = -1;
  std::optional<int> status_;
};

/// Runs a program to its end; its output where it fails.
Status run_program(Spawn spawn, const std::string& output, std::chrono::milliseconds timeout);

/// Processes whose parent is `pid`.
std::vector<pid_t> children_of(pid_t pid);

}  // namespace qm::testing
