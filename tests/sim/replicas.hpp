#pragma once
#include "qm/clock/clock.hpp"
#include "qm/service/host.hpp"
#include "qm/store/memory.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace qm::sim {

/// The clocks of one host: its UTC jumps, and both clocks run at a rate of their own. A process on the host reads them
/// through qm::SystemClock, as in production.
class HostClock final : public DomainClock {
 public:
  static constexpr int kFastest = 20'000;  ///< per million
  explicit HostClock(const DomainClock& truth);
  [[nodiscard]] Instant now() const override { return process_->now(); }
  [[nodiscard]] SteadyDuration until(Instant t) const override;
  void confirm(Instant reference) const override;
  [[nodiscard]] Duration rejected() const override { return process_->rejected(); }
  [[nodiscard]] std::uint64_t rejections() const { return rejections_; }  ///< rejected by comparison with the database
  [[nodiscard]] Duration ahead() const;                                   ///< of the true time
  void jump(Duration by) { offset_ += by; }
  void run_at(int per_million);
  void correct();          ///< sets the true time, as NTP does
  void restart_process();  ///< a new process has not read the time yet
  /// Steady time of this host at an instant of the schedule.
  [[nodiscard]] SteadyInstant steady(SteadyInstant at) const;

 private:
  [[nodiscard]] Duration gained() const;  ///< since `since_`, by the rate

  const DomainClock& truth_;
  Instant since_;      ///< of the rate
  Duration offset_{};  ///< of UTC, at `since_`
  Instant boot_;       ///< of the clock since the host's boot, at `since_`
  SteadyInstant steady_since_ = std::chrono::steady_clock::now();
  SteadyDuration steady_offset_{};
  int per_million_ = 0;
  mutable std::uint64_t rejections_ = 0;
  std::unique_ptr<SystemClock> process_;
};

/// One process of a service on its host: a standby that polls the lease, or the leader with its service host. It runs
/// like replica::Leadership and replica::Replica, single-stepped, at the given instants.
struct Process {
  Process(int which, const DomainClock& truth) : number(which), clock(truth) {}
  [[nodiscard]] bool running() const { return state != nullptr; }
  [[nodiscard]] bool leads(SteadyInstant at) const { return running() && state->leads(clock.steady(at)); }

  int number;
  HostClock clock;
  int lives = 0;
  std::string holder;
  std::unique_ptr<store::LeaseState> state;  ///< null: it was killed
  std::unique_ptr<store::Lease> lease;       ///< null: no session, as during a partition
  std::unique_ptr<service::Host> host;
  std::unique_ptr<service::Executor> executor;
  bool claimed = false;       ///< the lease, since its start
  bool lost = false;          ///< the host lost the shard
  bool rolled_back = false;   ///< because the database lost commits
  int down_for = 0;           ///< steps until it is started
  int stopped_for = 0;        ///< remaining steps of SIGSTOP
  SteadyInstant cut_until{};  ///< it cannot reach its database until then
  int in_host = 0;            ///< depth of its calls on the stack
};

}  // namespace qm::sim
