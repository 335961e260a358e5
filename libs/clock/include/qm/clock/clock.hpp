#pragma once
#include "qm/base/time.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace qm {

/// The clock of the domain: jobs, notices, prices, budgets, sampling.
///
/// Threads  any.
/// Order    now() never goes back within one process.
class DomainClock {
 public:
  virtual ~DomainClock() = default;
  [[nodiscard]] virtual Instant now() const = 0;
  /// How long to wait in steady time until `t`, as things stand; zero where it has passed. A scaled clock may change
  /// its factor, so callers wait at most `max_slice` and look again.
  [[nodiscard]] virtual SteadyDuration until(Instant t) const = 0;
  static constexpr SteadyDuration max_slice = std::chrono::milliseconds(20);

  /// Tells a clock that follows the machine's what another machine's clock reads now: see SystemClock. Others ignore it.
  virtual void confirm(Instant /*reference*/) const {}
  /// By how much the machine's clock is ahead of this one, because a jump forward was rejected; zero otherwise.
  [[nodiscard]] virtual Duration rejected() const { return {}; }
};

/// The machine's UTC time. Where that is set back, this one goes on at half the pace until it is reached.
///
/// Bounds   from the first confirm() on, a step forward of more than kMaxJump is rejected: the clock goes on at the pace of
///          CLOCK_BOOTTIME. confirm() with a reference that is at most kMaxJump behind the machine's clock accepts it.
class SystemClock final : public DomainClock {
 public:
  static constexpr Duration kMaxJump = std::chrono::seconds(10);
  /// Microseconds since the epoch, and since the machine was started, suspended time included.
  struct Sources {
    std::function<std::int64_t()> system_us, boot_us;
  };

  SystemClock();  ///< the machine's; all of one process agree
  explicit SystemClock(Sources sources);
  ~SystemClock() override;
  [[nodiscard]] Instant now() const override;
  [[nodiscard]] SteadyDuration until(Instant t) const override;
  void confirm(Instant reference) const override;
  [[nodiscard]] Duration rejected() const override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Moves only when told to; for tests and simulation.
class ManualClock final : public DomainClock {
 public:
  explicit ManualClock(Instant start) : now_(start) {}
  [[nodiscard]] Instant now() const override;
  [[nodiscard]] SteadyDuration until(Instant t) const override;
  void set(Instant t);  ///< asserts that t is not before now()
  void advance(Duration d) { set(now() + d); }

 private:
  mutable std::mutex mutex_;
  Instant now_;
};

/// Follows a mapped file of segments (steady start, domain start, factor) that one writer extends.
///
/// domain = segment.domain_start + (steady - segment.steady_start) * factor, of the newest segment. A factor of zero
/// stops domain time. Readers never block: the file carries a sequence counter that is odd while it is written.
/// Steady time here is CLOCK_MONOTONIC, shared by all processes of one machine.
class ScaledClock final : public DomainClock {
 public:
  /// Maps the file for reading. kNotFound where it does not exist, kInvalid where it is no clock file.
  static Result<std::unique_ptr<ScaledClock>> open(const std::string& path);
  ~ScaledClock() override;
  [[nodiscard]] Instant now() const override;
  [[nodiscard]] SteadyDuration until(Instant t) const override;
  [[nodiscard]] double factor() const;

 private:
  struct Mapping;
  explicit ScaledClock(std::unique_ptr<Mapping> mapping);
  std::unique_ptr<Mapping> mapping_;
};

/// The writing side of a ScaledClock file; one per file. `set_factor` appends a segment that starts now.
class ScaledClockWriter {
 public:
  static Result<std::unique_ptr<ScaledClockWriter>> create(const std::string& path, Instant start, double factor);
  ~ScaledClockWriter();
  [[nodiscard]] Instant now() const;
  [[nodiscard]] double factor() const;
  void set_factor(double factor);  ///< asserts factor >= 0

 private:
  struct Mapping;
  explicit ScaledClockWriter(std::unique_ptr<Mapping> mapping);
  std::unique_ptr<Mapping> mapping_;
};

/// The clock that a process is configured for: "system", or "scaled:PATH".
Result<std::unique_ptr<DomainClock>> make_clock(std::string_view setting);

}  // namespace qm
