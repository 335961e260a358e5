#pragma once
#include "qm/base/result.hpp"
#include "qm/store/lease.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace qm::replica {

/// Waits until this process may lead its shard, and then keeps the lead as long as it can prove that it lives.
///
/// Laws     those of store::LeaseState, which decides, in steady time that goes on while the machine sleeps. So a process
///          that was stopped for longer than a proof is valid knows, at the first look at the clock after it wakes, that it must
///          prove itself again.
/// Threads  any, but for wait().
class Leadership {
 public:
  Leadership(std::unique_ptr<store::Lease> lease, store::LeaseTiming timing, std::string holder);
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  /// Returns once this process leads, or with kCancelled once `give_up` says so; `stand_by` is called once where it has to
  /// wait. With `at_once` it claims from a holder that may live, and leads() once the last proof of that one has ended. A database that is
  /// away is waited for; with a schema that this program cannot read it does not claim, and logs why.
  Status wait(const std::function<bool()>& give_up, const std::function<Status()>& stand_by = {}, bool at_once = false);
  /// Where this process serves, for the other replicas; told with the next renewal.
  void serves_at(std::string address);
  /// Ends the lead, so that another may take it at once. Safe to call twice.
  void release();

  [[nodiscard]] bool leads() const;  ///< proven: effects on the outside world are allowed
  /// Answers from memory are allowed: proven; or the database is away, so that nobody can have taken the lead since.
  [[nodiscard]] bool may_answer() const;
  [[nodiscard]] bool lost() const;  ///< another took it, for ever
  [[nodiscard]] bool waiting() const;
  /// While waiting: somebody else leads and serves, as the last look said, not long ago.
  [[nodiscard]] bool served() const;
  [[nodiscard]] store::LeaseView view() const;  ///< of the last look while waiting, or of its own claim
  [[nodiscard]] const std::string& holder() const { return holder_; }

 private:
  void keep(const std::stop_token& stop);
  bool look_again(bool at_once);  ///< true: claimed

  const std::unique_ptr<store::Lease> lease_;
  const store::LeaseTiming timing_;
  const std::string holder_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  store::LeaseState state_;
  std::string address_;
  bool waiting_ = false, released_ = false, unfit_ = false, poke_ = false;
  std::jthread thread_;
};

}  // namespace qm::replica
