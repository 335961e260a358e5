#pragma once
#include "chaos_bus.hpp"
#include "qm/admission/codec.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/cost/shell.hpp"
#include "qm/placement/shell.hpp"
#include "qm/service/host.hpp"
#include "qm/telemetry/shell.hpp"
#include "world.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::sim {

/// Thrown at a crash point: the process that passes it is no more.
struct Crash {};

/// One of the five, as a process would be: a Host over the service's own shell, a disk that outlives it, and a place
/// in the schedule. A crash destroys the Host wherever it stands; what comes back reads the disk.
class Service {
 public:
  struct Parts {
    service::HostOptions options;
    std::function<std::unique_ptr<service::Shell>()> shell;
    service::Executor* executor = nullptr;
    std::shared_ptr<bus::Bus> bus;
    std::function<void(const std::string&)> broken;
    Bug bug = Bug::kNone;
    Random* random = nullptr;
  };
  Service(Parts parts, const DomainClock& clock);

  void start();
  void crash();
  [[nodiscard]] bool up() const { return host_ != nullptr; }
  [[nodiscard]] service::Host& host() { return *host_; }
  [[nodiscard]] store::MemoryDisk& disk() { return *disk_; }
  [[nodiscard]] const std::string& name() const { return parts_.options.service; }
  [[nodiscard]] int lives() const { return lives_; }

  enum class Step { kConsume, kPump, kRelay, kExecute };
  /// Whether it did anything. A crash point that fires leaves the service down.
  bool step(Step what);
  /// Nothing is under way.
  [[nodiscard]] bool idle();

  template <class Fn>
  void read(Fn&& fn) {
    host_->read([&](const service::Shell& shell) { fn(unwrapped(shell)); });
  }

  /// Replays the journal with a new shell: the same inputs at the same times must give the same states.
  void replay(std::uint64_t* hash);

 private:
  [[nodiscard]] std::uint64_t digest();
  [[nodiscard]] static const service::Shell& unwrapped(const service::Shell& shell);

  Parts parts_;
  const DomainClock& clock_;
  std::shared_ptr<store::MemoryDisk> disk_;
  std::unique_ptr<service::Host> host_;
  int lives_ = 0;
};

}  // namespace qm::sim
