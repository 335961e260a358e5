#pragma once
#include "qm/service/shell.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace qm::service {

/// Executes committed intents: those of one key one after the other in order, different keys concurrently. The key
/// with the longest wait is first, so that with a backlog no key is starved by the order of names; Executor::turn_of()
/// changes that order. Executor::most_at_once() may limit how many are executed concurrently to fewer than the threads.
/// An intent that a later one of its key makes obsolete (Executor::superseded()) is reported without being executed:
/// after an outage of what the intents are sent to, only the present ones are.
///
/// A retryable failure is retried after a back-off of 50 ms to 5 s in steady time; the key waits meanwhile.
class IntentPool {
 public:
  /// Called with the outcome of an intent, from an executor thread.
  using Report = std::function<void(const store::IntentRow&, Outcome)>;
  /// If `may_act` is set and returns false, no intent is started.
  IntentPool(Executor* executor, Report report, std::function<bool()> may_act = {})
      : executor_(executor), report_(std::move(report)), may_act_(std::move(may_act)) {}
  ~IntentPool() { stop(); }

  void add(std::vector<store::IntentRow> intents);
  void start(int threads);
  void stop();
  /// Executes one intent that may run now, and reports it. False if there is none.
  bool once();
  [[nodiscard]] std::size_t open() const;
  /// Intents that may be executed at once now; 0 without threads.
  [[nodiscard]] int most_at_once() const;
  /// Keys whose first intent failed and is retried: their number, the earliest failure among them, and its error.
  struct Retrying {
    std::size_t keys = 0;
    SteadyInstant since{};
    std::string error;
  };
  [[nodiscard]] std::optional<Retrying> retrying() const;
  /// Discards all intents. Calls in progress are not awaited: new intents with their keys wait for their end.
  void clear();

 private:
  struct Pending {
    store::IntentRow intent;
    std::string group;
    SteadyDuration yields{};
  };
  struct Queue {
    std::deque<Pending> intents;
    int failures = 0;
    SteadyInstant since{};  ///< time of the first of these failures
    std::string error;      ///< the last error
  };
  /// A time, and the order among equal times.
  using Turn = std::pair<SteadyInstant, std::uint64_t>;
  struct Group {
    Turn turn;             ///< of its oldest intent
    std::size_t open = 0;  ///< intents
  };
  /// Its first intent may be executed now, and became due then.
  void line_up(const std::string& key, SteadyInstant due);
  [[nodiscard]] bool due() const;   ///< an intent may run now
  [[nodiscard]] int limit() const;  ///< of the executor; requires the mutex, as busy() does
  [[nodiscard]] bool busy() const;  ///< as many as may be are executed
  struct Taken {
    store::IntentRow intent;
    std::optional<Outcome> outcome;  ///< of an intent that is superseded, and is not executed
  };
  std::optional<Taken> take();
  void give_back(const store::IntentRow& intent, std::uint64_t generation);  ///< not started
  enum class Executed : std::uint8_t { kNo, kYes };
  void finish(const store::IntentRow& intent, std::uint64_t generation, Result<Outcome> result, Executed executed);
  void loop(const std::stop_token& stop);

  Executor* executor_;
  Report report_;
  std::function<bool()> may_act_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Queue> queues_;
  // Each key with intents and without a call in progress is in one of both.
  std::map<std::pair<Turn, std::uint64_t>, std::string> ready_;  ///< by the turn of their first intent's group
  std::map<Turn, std::string> retries_;                          ///< by the end of their back-off
  std::map<std::string, Group> groups_;                          ///< with open intents
  std::set<std::string> running_;  ///< keys with a call in progress, of this or an earlier generation
  std::uint64_t next_turn_ = 0;
  std::size_t open_ = 0;
  std::uint64_t generation_ = 0;
  std::atomic<int> threads_started_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace qm::service
