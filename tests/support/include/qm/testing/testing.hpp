#pragma once
#include "qm/base/result.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace qm::testing {

/// The folder of reference data (QM_SHARED, default ../shared beside the sources); nullopt where it is absent, and the
/// test then says GTEST_SKIP() << qm::testing::no_shared().
std::optional<std::string> shared_dir();
std::string no_shared();
/// The folder of the project's own test data (tests/data of the sources), which is always there.
std::string data_dir();
/// The existing folders with test data of one name ("manifests"), for tests that judge all of it. The project's own
/// folder comes first, then the one of the reference data where that is present.
std::vector<std::string> data_folders(const std::string& name);
std::string read_file(const std::string& path);

/// A folder that is removed at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A private PostgreSQL server on a unix socket and a loopback port, one per test binary, in a temp folder. Runs as the
/// postgres user when we are root. nullopt with the reason where the machine has no server binaries.
class Postgres {
 public:
  static Postgres* shared(std::string* why_not);
  /// A fresh empty database; its conninfo.
  std::string fresh_database();
  void kill9();  ///< SIGKILL of the postmaster and its children
  Status restart();
  ~Postgres();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A private redis-server on a loopback port.
class Redis {
 public:
  static std::unique_ptr<Redis> start(std::string* why_not);
  ~Redis();
  [[nodiscard]] int port() const;
  void kill9();
  Status restart();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A child process in its own group, its output in a file.
class Process {
 public:
  struct Options {
    std::vector<std::string> argv;
    std::map<std::string, std::string> env;  ///< added to ours
    std::string output;                      ///< file for stdout and stderr; empty = /dev/null
  };
  static Result<std::unique_ptr<Process>> start(Options options);
  ~Process();  ///< SIGKILL if it still runs
  [[nodiscard]] pid_t pid() const;
  void signal(int number);
  /// Exit status, or nullopt after the timeout; a signal gives 128 + number.
  std::optional<int> wait(std::chrono::milliseconds timeout);
  [[nodiscard]] bool running();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Waits for a named point: looks every few milliseconds until the condition holds; false after the timeout.
bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds timeout = std::chrono::seconds(90));
/// A TCP port that is free now, and that no other process gets from here while this one lives; takes a file descriptor.
int free_port();
/// The libraries of this binary are instrumented by the address sanitizer. Its test files never are:
/// __SANITIZE_ADDRESS__ is not defined in them.
bool address_sanitizer();

}  // namespace qm::testing
