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

/// A few threads that run posted tasks in order. The caller of post() bounds the queue.
class Workers {
 public:
  explicit Workers(int threads);
  ~Workers();
  void post(std::function<void()> task);
  /// Drops queued tasks and joins; running tasks finish first.
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
/// Phase    the first run is immediate; later runs are one period apart, from an offset that is derived from the name.
/// Late     a delayed task runs once, not once for each missed period.
/// Bound    each task is queued or running at most once.
/// Threads  any may call, including the tasks.
class Pacer {
 public:
  using Task = std::function<bool()>;  ///< false = never again
  Pacer(const DomainClock& clock, int threads);
  ~Pacer();
  void add(const std::string& name, Duration period, Task task);
  /// A run in progress finishes.
  void remove(const std::string& name);
  void stop();
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t idle() const;  ///< tasks that wait for their next time

 private:
  struct Entry {
    Task task;
    Duration period{}, phase{};
    Instant due{};
    std::uint64_t id = 0;  // distinguishes an entry from a later one with the same name
  };
  void keep_time();
  void finished(const std::string& name, std::uint64_t id, bool again);

  const DomainClock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Entry> entries_;
  std::set<std::pair<Instant, std::string>> queue_;  // entries that are neither queued nor running
  std::uint64_t next_id_ = 1;
  bool stopping_ = false;
  Workers workers_;
  std::thread timer_;
};

}  // namespace qm::agent
