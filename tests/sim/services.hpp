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

/// Thrown at a crash point: the process that passes it is no more.
struct Crash {};

/// A batch with this in its journal is rejected by the database.
inline constexpr std::string_view kUnwritable = "cannot be written";

/// One of the five: two processes that lead in turns, each a Host over the service's own shell as long as it leads,
/// and a disk that outlives them. A crash destroys the Host wherever it is; what leads next reads the disk.
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
    std::function<void(Service&)> in_call = [](Service&) {};            ///< a call to the outside is under way
    std::function<void(Service&, Process&)> blocked = {};  ///< a process waits until it reaches its database
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

  /// What the threads of the leases do until now: looks, renewals, claims; and the ends of processes that lost their
  /// lead.
  void pass();
  /// One turn of the schedule: processes that were killed are started, those that were stopped go on.
  void turn();
  enum class Step { kConsume, kPump, kRelay, kExecute };
  /// Whether it did anything. A crash point that fires leaves the process down.
  bool step(Step what);
  /// One step of the process that does not lead any more and does not know it yet, if there is one.
  void step_deposed(Step what);
  /// Nothing is under way.
  [[nodiscard]] bool idle();

  // Faults.
  void kill(Process& process, int turns);
  void cut(Process& process, SteadyDuration for_how_long, bool session_ends);
  /// The answer of the next commit of the leader is lost, and with it the connection to the database.
  void cut_in_commit(SteadyDuration for_how_long, bool really_committed);
  /// The database is restored to a copy of it.
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
  void end(Process& process);  ///< as a process that begins again: nothing is left of what it held
  void check_leaders(SteadyInstant at);
  bool guarded(Process& process, const std::function<bool(service::Host&)>& fn);
  [[nodiscard]] bool quiet() const;
  [[nodiscard]] bool cut_off(const Process& process) const;
  [[nodiscard]] static const service::Shell& unwrapped(const service::Shell& shell);

  const DomainClock& truth_;  ///< which the database's machine has
  Instant since_;
  Parts parts_;
  std::shared_ptr<store::MemoryDisk> disk_;
  std::array<std::unique_ptr<Process>, 2> processes_;
  std::size_t leader_ = 0;  ///< claimed last
  SteadyInstant passed_ = std::chrono::steady_clock::now();
  SteadyDuration cut_at_commit_{};
  std::uint64_t sent_ = 0;  ///< of the outbox, in any history; for Bug::kRelayAhead
  Counts counts_;
};

}  // namespace qm::sim
