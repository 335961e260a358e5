#pragma once
#include "qm/clock/clock.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace qm::agent {

/// A few threads that run what is posted, in order. The poster bounds what can wait.
class Workers {
 public:
  explicit Workers(int threads);
  ~Workers();
  void post(std::function<void()> task);
  /// Drops what waits and joins; running tasks end first.
  void stop();

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

/// Runs named tasks once a period of domain time on a few threads.
///
/// Phase    the first run is at once; the later ones at instants that the name spreads over the period.
/// Late     what could not run in time runs once, not once for each period that passed.
/// Bound    a task is in hand once at most, so nothing piles up.
/// Threads  any may call, the tasks too.
class Pacer {
 public:
  using Task = std::function<bool()>;  ///< false = never again
  Pacer(const DomainClock& clock, int threads);
  ~Pacer();
  void add(const std::string& name, Duration period, Task task);
  /// A run under way ends by itself.
  void remove(const std::string& name);
  void stop();
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t idle() const;  ///< those that wait for their time

 private:
  struct Entry {
    Task task;
    Duration period{}, phase{};
    Instant due{};
    std::uint64_t id = 0;  // tells an entry from a later one of the same name
  };
  void keep_time();
  void finished(const std::string& name, std::uint64_t id, bool again);

  const DomainClock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Entry> entries_;
  std::set<std::pair<Instant, std::string>> queue_;  // entries that are not in hand
  std::uint64_t next_id_ = 1;
  bool stopping_ = false;
  Workers workers_;
  std::thread timer_;
};

}  // namespace qm::agent
