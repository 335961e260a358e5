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

/// The folder of reference data (QM_SHARED, default ../shared next to the sources); nullopt if it is absent; the test
/// then calls GTEST_SKIP() << qm::testing::no_shared().
std::optional<std::string> shared_dir();
std::string no_shared();
/// The folder of the project's own test data (tests/data of the sources), which always exists.
std::string data_dir();
/// The existing folders with test data of one name ("manifests"), for tests that check all of it. The project's own
/// folder is first, then that of the reference data if present.
std::vector<std::string> data_folders(const std::string& name);
std::string read_file(const std::string& path);

/// A folder that is deleted at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A private PostgreSQL server on a unix socket and a loopback port, one per test binary, in a temporary folder. Runs
/// as the postgres user if the test runs as root. nullopt with the reason if no server binaries are installed.
class Postgres {
 public:
  static Postgres* shared(std::string* why_not);
  /// Creates an empty database and returns its conninfo.
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
    std::map<std::string, std::string> env;  ///< added to the test's environment
    std::string output;                      ///< file for stdout and stderr; empty = /dev/null
  };
  static Result<std::unique_ptr<Process>> start(Options options);
  ~Process();  ///< SIGKILL if it is still running
  [[nodiscard]] pid_t pid() const;
  void signal(int number);
  /// Exit status, or nullopt after the timeout; a signal gives 128 + number.
  std::optional<int> wait(std::chrono::milliseconds timeout);
  [[nodiscard]] bool running();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Waits for a condition, which it polls every few milliseconds; false after the timeout.
bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds timeout = std::chrono::seconds(90));
/// A TCP port that is free now, and that this function gives to no other process while this one runs; uses a file
/// descriptor.
int free_port();
/// True if the libraries of this binary are instrumented by the address sanitizer. Its test files never are:
/// __SANITIZE_ADDRESS__ is not defined in them.
bool address_sanitizer();

}  // namespace qm::testing
