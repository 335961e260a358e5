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

/// The leader of a shard, as stored in the database.
struct LeaseView {
  std::string holder;       ///< empty: no replica has led yet
  std::string address;      ///< gRPC address of the holder; empty while it does not serve
  std::uint64_t beat = 0;   ///< increases with every claim and renewal
  std::uint64_t terms = 0;  ///< claims so far
  bool released = false;    ///< the holder has released it
  bool session = false;     ///< the holder's session with the database is alive
};

/// The result of a renewal.
struct Renewal {
  bool holds = false;         ///< false: it is no longer the holder
  bool watched = true;        ///< another session with the lease exists: a standby may count the time since this beat
  bool same_session = false;  ///< as at the previous renewal, so the database was not replaced between them
};

/// A row in the database by which the replicas of a shard elect their leader. A second leader cannot write: every
/// commit checks the epoch, which only the holder of the lease can raise (PgOptions::fenced).
///
/// Threads  one at a time. Connects and reconnects by itself; a renewal does not wait for the disk.
/// Fails    kUnavailable, kDeadlineExceeded: the database is unavailable or slow. kFailedPrecondition of ready():
///          this program does not support the schema.
class Lease {
 public:
  virtual ~Lease() = default;
  virtual Result<LeaseView> look() = 0;
  /// Becomes the holder if nothing has changed since the last read; false: another replica was faster.
  virtual Result<bool> claim(std::uint64_t seen_beat, const std::string& holder) = 0;
  /// Publishes that the holder is alive, and its address.
  virtual Result<Renewal> renew(const std::string& holder, const std::string& address) = 0;
  /// Whether the session of the last call is open and no other session of the lease has begun since. Sends no
  /// statement.
  virtual bool quiet() = 0;
  /// The holder releases the lease: a standby may claim it at once.
  virtual Status release(const std::string& holder) = 0;
  /// Waits until a holder may have released, or the timeout.
  virtual void wait(SteadyDuration timeout) = 0;
  /// Whether this program supports the current schema.
  virtual Status ready() = 0;
};

/// Opens the lease in the same database, service and shard as open_postgres, which must have been called before.
Result<std::unique_ptr<Lease>> open_lease(PgOptions options);

struct LeaseTiming {
  SteadyDuration lease = std::chrono::seconds(3);         ///< a holder without a beat for this long is gone
  SteadyDuration renew = std::chrono::milliseconds(250);  ///< between two beats
  /// Between two beats while no standby exists and nothing needs the proof. A standby that comes notifies the holder,
  /// which looks every two `renew`; without that it sees it at the next beat, before the standby may claim.
  SteadyDuration renew_alone = std::chrono::seconds(2);
  SteadyDuration look = std::chrono::milliseconds(200);  ///< between two reads of a standby
  /// A successful renewal proves the lead for this long, from the moment before it was sent.
  SteadyDuration proof = std::chrono::milliseconds(1500);
  /// A holder whose session has ended is gone after this time: enough to reconnect if only the session was lost.
  SteadyDuration without_session = std::chrono::milliseconds(1750);

  /// No standby may claim while a proof of the holder can be valid. A proof begins before its beat reaches the
  /// database, and a standby counts from the moment after it read this beat.
  [[nodiscard]] constexpr bool exclusive() const {
    return proof < without_session && without_session <= lease && renew_alone + 2 * renew < lease;
  }
};
static_assert(LeaseTiming{}.exclusive());

/// Decides from repeated reads whether the holder is gone. Times of different hosts are never compared: a beat is
/// old when it was unchanged for long enough by the steady time of the standby.
class LeaseJudge {
 public:
  /// Asserts that the timing is exclusive().
  explicit LeaseJudge(LeaseTiming timing);
  /// Must be called at every read, with the moment after it. True: the lead may be claimed.
  bool free(const LeaseView& view, SteadyInstant now);
  /// Whether, by the last read, another replica leads and serves.
  [[nodiscard]] bool served() const { return served_; }

 private:
  LeaseTiming timing_;
  std::optional<std::uint64_t> beat_;
  SteadyInstant since_{}, looked_{};
  bool served_ = false;
};

/// The decisions of one replica about its lease, without threads or IO. Inputs are reads, claims and renewals with
/// the moments before they were sent and after their results; the result is what the replica may do.
/// replica::Leadership runs it on a Lease.
///
/// Laws     a proof is a successful renewal or claim; it counts from the moment before it was sent, for
///          LeaseTiming::proof. A replica that had no proof for so long that another could claim acts again after
///          LeaseTiming::without_session:
///          the database may have been restored to a copy from before that claim. Not so if its session is the same:
///          a restore ends it.
/// Threads  one at a time.
class LeaseState {
 public:
  explicit LeaseState(LeaseTiming timing) : timing_(timing), judge_(timing) {}
  /// After a read. True: the lease may be claimed; with `at_once` also from a holder that may be alive.
  bool looked(const Result<LeaseView>& view, SteadyInstant now, bool at_once = false);
  /// After a successful claim, of the lease as it was at the last read.
  void claimed(const std::string& holder, SteadyInstant before, SteadyInstant after);
  void renewed(const Result<Renewal>& answer, SteadyInstant before, SteadyInstant after);
  /// The time after which to ask whether a beat is due.
  [[nodiscard]] SteadyDuration tick() const { return watched_ || away_ ? timing_.renew : 2 * timing_.renew; }
  /// Whether the next beat is due. `used`: the proof was needed since the previous one.
  [[nodiscard]] bool due(SteadyInstant now, bool used) const;
  /// The lead has no proof only because nothing needed one: a renewal makes it.
  [[nodiscard]] bool rests(SteadyInstant now) const;
  /// The replica ends its lead. False: it has no lead.
  bool release();

  [[nodiscard]] bool leads(SteadyInstant now) const;  ///< proven: effects on the external world are allowed
  /// Responses from memory are allowed: proven; or the database is unavailable, so that no replica can have claimed
  /// the lease since.
  [[nodiscard]] bool may_answer(SteadyInstant now) const;
  [[nodiscard]] bool holds(SteadyInstant now) const;             ///< leads, or rests
  [[nodiscard]] bool served(SteadyInstant now) const;            ///< another replica leads and serves, by a recent read
  [[nodiscard]] bool lost() const { return lost_; }              ///< another replica claimed it, permanently
  [[nodiscard]] bool away() const { return bool(away_); }        ///< the last call failed
  [[nodiscard]] bool known() const { return bool(looked_); }     ///< there was a read
  [[nodiscard]] const LeaseView& view() const { return view_; }  ///< of the last read, or of its own claim

 private:
  LeaseTiming timing_;
  LeaseJudge judge_;
  LeaseView view_;
  std::optional<SteadyInstant> looked_, proven_, away_;
  SteadyInstant acts_from_{};  ///< when the last proof of another replica that may lead has expired
  bool gone_ = false, served_ = false, lost_ = false, watched_ = true;
};

/// Steady time that includes the suspension of the host.
[[nodiscard]] SteadyInstant boot_now();

}  // namespace qm::store
