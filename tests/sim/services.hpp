#pragma once
#include "chaos_bus.hpp"
#include "qm/admission/codec.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/cost/shell.hpp"
#include "qm/placement/shell.hpp"
#include "qm/service/host.hpp"
#include "qm/telemetry/shell.hpp"
#include "replicas.hpp"
#include "sim.hpp"
#include "world.hpp"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::sim {

/// Thrown at a crash point: the process that passes it crashes.
struct Crash {};

/// A batch with this in its journal is rejected by the database.
inline constexpr std::string_view kUnwritable = "cannot be written";

/// One of the five services: two processes that lead alternately, each a Host over the service's own shell while it
/// leads, and a disk that outlives them. A crash destroys the Host at any point; the next leader reads the disk.
class Service {
 public:
  struct Parts {
    service::HostOptions options;
    std::function<std::unique_ptr<service::Shell>()> shell;
    service::Executor* executor = nullptr;
    std::shared_ptr<bus::Bus> bus;
    std::function<void(const std::string&)> broken;
    std::function<void(std::string)> note = [](const std::string&) {};  ///< for the trace
    std::function<void(Service&)> opened = [](Service&) {};             ///< another process leads, and its host is open
    std::function<void(Service&)> in_call = [](Service&) {};            ///< an external call is in progress
    std::function<void(Service&, Process&)> blocked = {};               ///< a process waits for its database
    Bug bug = Bug::kNone;
    Random* random = nullptr;
  };
  Service(Parts parts, const DomainClock& clock);
  ~Service();

  /// A process leads, and it is running.
  [[nodiscard]] bool up() const;
  /// A process leads, even if it is stopped.
  [[nodiscard]] bool has_leader() const;
  [[nodiscard]] service::Host& host() { return *leader().host; }
  [[nodiscard]] store::MemoryDisk& disk() { return *disk_; }
  [[nodiscard]] const std::string& name() const { return parts_.options.service; }
  [[nodiscard]] const service::HostOptions& options() const { return parts_.options; }
  [[nodiscard]] Process& leader() { return *processes_[leader_]; }
  [[nodiscard]] Process& other() { return *processes_[1 - leader_]; }

  /// Runs the lease threads until now: polls, renewals, claims; and ends processes that lost their lead.
  void pass();
  /// One step of the schedule: killed processes are started, stopped ones continue.
  void turn();
  enum class Step { kConsume, kPump, kRelay, kExecute };
  /// True if it did anything. A crash point that fires leaves the process down.
  bool step(Step what);
  /// One step of a deposed process that does not know it yet, if there is one.
  void step_deposed(Step what);
  /// True if no work is in progress.
  [[nodiscard]] bool idle();

  // Faults.
  void kill(Process& process, int turns);
  void cut(Process& process, SteadyDuration for_how_long, bool session_ends);
  /// The answer of the leader's next commit is lost, and with it the connection to the database.
  void cut_in_commit(SteadyDuration for_how_long, bool really_committed);
  /// The database is restored to one of its copies.
  void restore(std::size_t copy);

  [[nodiscard]] Counts counts() const;  ///< of all processes so far

  template <class Fn>
  void read(Fn&& fn) {
    host().read([&](const service::Shell& shell) { fn(unwrapped(shell)); });
  }

  [[nodiscard]] std::vector<store::Store::JournalRow> journal() const;
  [[nodiscard]] std::uint64_t lost_events() const { return counts_.lost_events; }  ///< by restores
  /// Replays the journal with a new shell: the same inputs at the same times must give the same states.
  void replay(std::uint64_t* hash);

 private:
  friend class FaultyStore;
  friend class GuardedCalls;
  void begin(Process& process);
  void beat(Process& process, SteadyInstant at);
  void look(Process& process, SteadyInstant at);
  void open_host(Process& process, bool begins = true);
  void end(Process& process);  ///< like a process restart: its memory is lost
  void check_leaders(SteadyInstant at);
  bool guarded(Process& process, const std::function<bool(service::Host&)>& fn);
  [[nodiscard]] bool quiet() const;
  [[nodiscard]] bool cut_off(const Process& process) const;
  [[nodiscard]] static const service::Shell& unwrapped(const service::Shell& shell);

  const DomainClock& truth_;  ///< the clock of the database's host
  Instant since_;
  Parts parts_;
  std::shared_ptr<store::MemoryDisk> disk_;
  std::array<std::unique_ptr<Process>, 2> processes_;
  std::size_t leader_ = 0;  ///< the last process that claimed the lease
  SteadyInstant passed_ = std::chrono::steady_clock::now();
  SteadyDuration cut_at_commit_{};
  std::uint64_t sent_ = 0;  ///< of the outbox, in any history; for Bug::kRelayAhead
  Counts counts_;
};

}  // namespace qm::sim
