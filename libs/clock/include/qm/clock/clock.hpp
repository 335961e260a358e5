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
  /// The steady time to wait until `t`, by the current rate; zero if it has passed. The rate may change, so callers
  /// wait at most slice() and call again.
  [[nodiscard]] virtual SteadyDuration until(Instant t) const = 0;
  [[nodiscard]] virtual SteadyDuration slice() const { return kSlice; }
  static constexpr SteadyDuration kSlice = std::chrono::milliseconds(20);

  /// Passes the current reading of another host's clock to a clock that follows this host's: see SystemClock. Other
  /// clocks ignore it.
  virtual void confirm(Instant /*reference*/) const {}
  /// How far the host's clock is ahead of this clock because a forward jump was rejected; zero otherwise.
  [[nodiscard]] virtual Duration rejected() const { return {}; }
};

/// The host's UTC time. When the host's clock is set back, this clock continues at half the rate until the host's
/// clock has caught up.
///
/// Bounds   from the first confirm() on, a forward step of more than kMaxJump is rejected: the clock continues at
///          the rate of CLOCK_BOOTTIME. confirm() with a reference that is at most kMaxJump behind the host's clock
///          accepts it.
class SystemClock final : public DomainClock {
 public:
  static constexpr Duration kMaxJump = std::chrono::seconds(10);
  /// Microseconds since the epoch, and since the boot of the host, suspended time included.
  struct Sources {
    std::function<std::int64_t()> system_us, boot_us;
  };

  SystemClock();  ///< reads the host's clock; all instances of one process agree
  explicit SystemClock(Sources sources);
  ~SystemClock() override;
  [[nodiscard]] Instant now() const override;
  [[nodiscard]] SteadyDuration until(Instant t) const override;
  /// The rate is that of steady time; an instant is late by at most this if the host's clock is set forward meanwhile.
  [[nodiscard]] SteadyDuration slice() const override { return std::chrono::seconds(1); }
  void confirm(Instant reference) const override;
  [[nodiscard]] Duration rejected() const override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A clock that moves only when set; for tests and simulation.
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

/// Reads domain time from a mapped file of segments (steady start, domain start, factor) that one writer extends.
///
/// domain = segment.domain_start + (steady - segment.steady_start) * factor, of the newest segment. A factor of zero
/// stops domain time. Readers never block: the file has a sequence counter that is odd while it is written.
/// Steady time here is CLOCK_MONOTONIC, shared by all processes of one host.
class ScaledClock final : public DomainClock {
 public:
  /// Maps the file for reading. kNotFound if it does not exist, kInvalid if it is not a clock file.
  static Result<std::unique_ptr<ScaledClock>> open(const std::string& path);
  ~ScaledClock() override;
  [[nodiscard]] Instant now() const override;
  [[nodiscard]] SteadyDuration until(Instant t) const override;
  /// Longer at the rate of steady time, so that a suite of which only the fleet is simulated is idle between its timers.
  [[nodiscard]] SteadyDuration slice() const override { return factor() == 1.0 ? kSliceAtSteadyRate : kSlice; }
  static constexpr SteadyDuration kSliceAtSteadyRate = std::chrono::milliseconds(250);
  [[nodiscard]] double factor() const;

 private:
  struct Mapping;
  explicit ScaledClock(std::unique_ptr<Mapping> mapping);
  std::unique_ptr<Mapping> mapping_;
};

/// The writer of a ScaledClock file; one per file. `set_factor` appends a segment that starts now.
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

/// Creates the clock of a setting: "system", or "scaled:PATH".
Result<std::unique_ptr<DomainClock>> make_clock(std::string_view setting);

}  // namespace qm
