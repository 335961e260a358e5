#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/store/store.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace qm::store {

/// Who leads a shard, as the database tells it.
struct LeaseView {
  std::string holder;       ///< empty: no replica has led yet
  std::string address;      ///< where the holder serves gRPC; empty while it does not
  std::uint64_t beat = 0;   ///< grows with every claim and renewal
  std::uint64_t terms = 0;  ///< claims so far
  bool released = false;    ///< the holder has ended by itself
  bool session = false;     ///< the holder's session with the database lives
};

/// One row by which the replicas of a shard agree on their leader. A second leader can write nothing: every commit checks the
/// epoch, which only the holder of the lease can raise (PgOptions::fenced).
///
/// Threads  one at a time. Connects by itself, and again after a loss; a renewal is not waited for on disk.
/// Fails    kUnavailable, kDeadlineExceeded: the database is away or slow. kFailedPrecondition of ready(): the schema is
///          not the one that this program knows.
class Lease {
 public:
  virtual ~Lease() = default;
  virtual Result<LeaseView> look() = 0;
  /// Becomes the holder if nothing has changed since the look; false: another was quicker.
  virtual Result<bool> claim(std::uint64_t seen_beat, const std::string& holder) = 0;
  /// Says that the holder lives, and where it serves. False: it is not the holder any more.
  virtual Result<bool> renew(const std::string& holder, const std::string& address) = 0;
  /// The holder ends by itself: who waits may take the lead at once.
  virtual Status release(const std::string& holder) = 0;
  /// Waits until a holder may have released, or the timeout.
  virtual void wait(SteadyDuration timeout) = 0;
  /// Whether this program can read the schema as it is now.
  virtual Status ready() = 0;
};

/// On the same database, service and shard as open_postgres, which must have been called before.
Result<std::unique_ptr<Lease>> open_lease(PgOptions options);

struct LeaseTiming {
  SteadyDuration lease = std::chrono::seconds(3);         ///< a holder that is silent so long is gone
  SteadyDuration renew = std::chrono::milliseconds(250);  ///< between two beats
  SteadyDuration look = std::chrono::milliseconds(200);   ///< between two looks of a standby
  /// An answered renewal proves the lead for so long, from the moment before it was sent.
  SteadyDuration proof = std::chrono::milliseconds(1500);
  /// A holder whose session has ended is gone after so long: time to connect again if it was the session alone.
  SteadyDuration without_session = std::chrono::milliseconds(1750);

  /// No standby may claim while a proof of the holder can be valid. A proof begins before the beat that it is of reaches the
  /// database, and a standby counts from the moment after it saw this beat.
  [[nodiscard]] constexpr bool exclusive() const { return proof < without_session && without_session <= lease; }
};
static_assert(LeaseTiming{}.exclusive());

/// Judges from looks whether the holder is gone. Instants of different machines are never compared: a beat is old when it
/// was seen unchanged for so long by the steady time of the standby.
class LeaseJudge {
 public:
  /// Asserts that the timing is exclusive().
  explicit LeaseJudge(LeaseTiming timing);
  /// To be called at every look, with the moment after it. True: the lead may be claimed.
  bool free(const LeaseView& view, SteadyInstant now);
  /// After the last look: somebody leads and serves.
  [[nodiscard]] bool served() const { return served_; }

 private:
  LeaseTiming timing_;
  std::optional<std::uint64_t> beat_;
  SteadyInstant since_{}, looked_{};
  bool served_ = false;
};

/// The decisions of one replica about its lease, without threads or IO: looks, claims and renewals go in with the moment before
/// they were sent and after they were answered; what the replica may do follows. replica::Leadership runs it on a Lease.
///
/// Laws     a proof is an answered renewal or claim; it counts from the moment before it was sent, for LeaseTiming::proof.
///          A replica that had no proof for so long that another could claim acts again after LeaseTiming::without_session:
///          the database may have been restored to a copy that has not seen the claim.
/// Threads  one at a time.
class LeaseState {
 public:
  explicit LeaseState(LeaseTiming timing) : timing_(timing), judge_(timing) {}
  /// After a look. True: the lease may be claimed; with `at_once` also from a holder that may live.
  bool looked(const Result<LeaseView>& view, SteadyInstant now, bool at_once = false);
  /// After a claim that succeeded, of the lease as it was at the last look.
  void claimed(const std::string& holder, SteadyInstant before, SteadyInstant after);
  void renewed(const Result<bool>& answer, SteadyInstant before, SteadyInstant after);
  /// The replica ends its lead. False: there is none to end.
  bool release();

  [[nodiscard]] bool leads(SteadyInstant now) const;  ///< proven: effects on the outside world are allowed
  /// Answers from memory are allowed: proven; or the database is away, so that no replica can have claimed the lease since.
  [[nodiscard]] bool may_answer(SteadyInstant now) const;
  [[nodiscard]] bool served(SteadyInstant now) const;  ///< another replica leads and serves, by a look that is not old
  [[nodiscard]] bool lost() const { return lost_; }    ///< another replica claimed it, for ever
  [[nodiscard]] bool away() const { return bool(away_); }        ///< the last call failed
  [[nodiscard]] bool known() const { return bool(looked_); }     ///< there was a look
  [[nodiscard]] const LeaseView& view() const { return view_; }  ///< of the last look, or of its own claim

 private:
  LeaseTiming timing_;
  LeaseJudge judge_;
  LeaseView view_;
  std::optional<SteadyInstant> looked_, proven_, away_;
  SteadyInstant acts_from_{};  ///< when the last proof of another replica that may lead has ended
  bool gone_ = false, served_ = false, lost_ = false;
};

/// Steady time that goes on while the machine sleeps.
[[nodiscard]] SteadyInstant boot_now();

}  // namespace qm::store
