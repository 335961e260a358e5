#pragma once
#include "forward_clock.hpp"
#include "qm/clock/clock.hpp"
#include "qm/service/host.hpp"
#include "qm/store/memory.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace qm::sim {

/// The clock of one machine: it jumps, and runs at a rate of its own. A process of the machine reads it as SystemClock does: where
/// it is set back, the process's time goes on at half the pace.
class MachineClock final : public DomainClock {
 public:
  explicit MachineClock(const DomainClock& truth) : truth_(truth), since_(truth.now()) {}
  [[nodiscard]] Instant now() const override;
  [[nodiscard]] SteadyDuration until(Instant t) const override;
  void jump(Duration by) { offset_ += by; }
  void run_at(int per_million);
  void correct();          ///< to the true time, as NTP does it
  void restart_process();  ///< a new process has read no time yet
  /// Steady time of this machine at a moment of the schedule's.
  [[nodiscard]] SteadyInstant steady(SteadyInstant at) const;

 private:
  [[nodiscard]] Instant raw() const;

  const DomainClock& truth_;
  Instant since_;  ///< of the rate
  Duration offset_{};
  SteadyInstant steady_since_ = std::chrono::steady_clock::now();
  SteadyDuration steady_offset_{};
  int per_million_ = 0;
  std::unique_ptr<ForwardClock> forward_ = std::make_unique<ForwardClock>();
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
