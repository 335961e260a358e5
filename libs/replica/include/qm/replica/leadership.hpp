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

/// Waits until this process may lead its shard, and then keeps the lead as long as it can renew its proof.
///
/// Laws     those of store::LeaseState, which decides, in steady time that includes the suspension of the host. So a
///          process that was stopped for longer than a proof is valid must renew its proof. It detects this at the
///          first clock reading after it resumes.
/// Threads  any, except for wait().
class Leadership {
 public:
  Leadership(std::unique_ptr<store::Lease> lease, store::LeaseTiming timing, std::string holder);
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  /// Returns once this process leads, or with kCancelled once `give_up` returns true; `stand_by` is called once if
  /// it has to wait. With `at_once` it claims the lease even from a holder that may be alive. Then leads() is true
  /// once the last proof of that holder has expired. It waits for an unavailable database; with an incompatible
  /// schema it does not claim, and logs the reason.
  Status wait(const std::function<bool()>& give_up, const std::function<Status()>& stand_by = {}, bool at_once = false);
  /// The address of this process for the other replicas; published with the next renewal.
  void serves_at(std::string address);
  /// Ends the lead, so that another process may take it at once. Safe to call twice.
  void release();

  /// Proven: effects on the external world are allowed. A lead that rests (LeaseState::rests) is proven now, which
  /// waits for a renewal.
  [[nodiscard]] bool leads() const;
  /// Responses from memory are allowed: proven; or the database is unavailable, so that no other process can have
  /// taken the lead since. Waits as leads() does.
  [[nodiscard]] bool may_answer() const;
  /// For reports: the results that leads() and may_answer() would have, without a proof.
  [[nodiscard]] bool holds() const;
  [[nodiscard]] bool would_answer() const;
  [[nodiscard]] bool lost() const;  ///< another process took it, permanently
  [[nodiscard]] bool waiting() const;
  /// While waiting: another process leads and serves, by a recent read.
  [[nodiscard]] bool served() const;
  [[nodiscard]] store::LeaseView view() const;  ///< of the last read while waiting, or of its own claim
  [[nodiscard]] const std::string& holder() const { return holder_; }

 private:
  void keep(const std::stop_token& stop);
  void renew_until(const std::stop_token& stop);
  bool look_again(bool at_once);  ///< true: claimed
  bool proves(bool (store::LeaseState::*condition)(SteadyInstant) const) const;

  const std::unique_ptr<store::Lease> lease_;
  const store::LeaseTiming timing_;
  const std::string holder_;

  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;  ///< for the renewals
  mutable std::condition_variable renewed_;      ///< for those who wait for one
  mutable bool used_ = false, asked_ = false;    ///< since the last renewal: the proof was needed; is waited for
  store::LeaseState state_;
  std::string address_;
  bool waiting_ = false, released_ = false, unfit_ = false, poke_ = false, keeps_ = false;
  std::jthread thread_;
};

}  // namespace qm::replica
