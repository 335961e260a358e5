#pragma once
#include "qm/clock/clock.hpp"
#include "qm/service/host.hpp"
#include "qm/store/memory.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace qm::sim {

/// The clocks of one machine: its UTC jumps, and both run at a rate of their own. A process of the machine reads them
/// through qm::SystemClock, as in production.
class MachineClock final : public DomainClock {
 public:
  static constexpr int kFastest = 20'000;  ///< per million
  explicit MachineClock(const DomainClock& truth);
  [[nodiscard]] Instant now() const override { return process_->now(); }
  [[nodiscard]] SteadyDuration until(Instant t) const override;
  void confirm(Instant reference) const override;
  [[nodiscard]] Duration rejected() const override { return process_->rejected(); }
  [[nodiscard]] std::uint64_t rejections() const { return rejections_; }  ///< comparisons with the database
  [[nodiscard]] Duration ahead() const;                                   ///< of the true time
  void jump(Duration by) { offset_ += by; }
  void run_at(int per_million);
  void correct();          ///< to the true time, as NTP does it
  void restart_process();  ///< a new process has read no time yet
  /// Steady time of this machine at a moment of the schedule's.
  [[nodiscard]] SteadyInstant steady(SteadyInstant at) const;

 private:
  [[nodiscard]] Duration gained() const;  ///< since `since_`, by the rate

  const DomainClock& truth_;
  Instant since_;      ///< of the rate
  Duration offset_{};  ///< of UTC, at `since_`
  Instant boot_;       ///< of the clock that counts from the machine's start, at `since_`
  SteadyInstant steady_since_ = std::chrono::steady_clock::now();
  SteadyDuration steady_offset_{};
  int per_million_ = 0;
  mutable std::uint64_t rejections_ = 0;
  std::unique_ptr<SystemClock> process_;
};

/// One process of a service on its machine: a standby that looks at the lease, or the leader with its host. It runs as
/// replica::Leadership and replica::Replica do, single-stepped, at the moments that it is given.
struct Process {
  Process(int which, const DomainClock& truth) : number(which), clock(truth) {}
  [[nodiscard]] bool running() const { return state != nullptr; }
  [[nodiscard]] bool leads(SteadyInstant at) const { return running() && state->leads(clock.steady(at)); }

  int number;
  MachineClock clock;
  int lives = 0;
  std::string holder;
  std::unique_ptr<store::LeaseState> state;  ///< null: it was killed
  std::unique_ptr<store::Lease> lease;       ///< null: no session, as while it is cut off
  std::unique_ptr<service::Host> host;
  std::unique_ptr<service::Executor> executor;
  bool claimed = false;       ///< the lease, in this life
  bool lost = false;          ///< the host lost the shard
  bool rolled_back = false;   ///< because the database lost commits
  int down_for = 0;           ///< turns until it is started
  int stopped_for = 0;        ///< turns of SIGSTOP that are left
  SteadyInstant cut_until{};  ///< it cannot reach its database
  int in_host = 0;            ///< depth of its calls on the stack
};

}  // namespace qm::sim
