#pragma once
#include "process.hpp"
#include "qm/admission/codec.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/placement/shell.hpp"

#include <fmt/format.h>

#include <functional>
#include <memory>

namespace qm::testing {

/// A suspended Job of one pod, in the queue team/q.
struct JobShape {
  std::string name, priority;
  std::string resource = "nvidia.com/gpu";
  int amount = 1;
  std::string node = {};  ///< the value of label `host` that it selects; empty = any
  bool complete = false;
};
/// The Job as a watch delivers it.
inline std::string json_of(const JobShape& job) {
  const auto limits = fmt::format(R"({{"{}":"{}"}})", job.resource, job.amount);
  return fmt::format(
      R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"namespace":"team","name":"{0}","uid":"{0}",
        "labels":{{"kueue.x-k8s.io/queue-name":"q","kueue.x-k8s.io/priority-class":"{1}"}}}},"spec":{{"suspend":true,
        "parallelism":1,"completions":1,"template":{{"spec":{{"schedulerName":"quartermaster",{2}"containers":[{{"name":
        "main","image":"x","resources":{{"requests":{3},"limits":{3}}}}}]}}}}}},"status":{4}}})",
      job.name, job.priority, job.node.empty() ? "" : fmt::format(R"("nodeSelector":{{"host":"{}"}},)", job.node),
      limits, job.complete ? R"({"conditions":[{"type":"Complete","status":"True"}]})" : "{}");
}

/// Admission and placement, which read each other's events from one bus, under a manual clock and in one thread.
///
/// With a victim, that process crashes at `crash_at` once while each input is handled, and restarts at once.
class Pair {
 public:
  enum class Killed { kNone, kAdmission, kPlacement };
  explicit Pair(const placement::Options& rules = {}, Killed killed = Killed::kNone, std::string crash_at = {})
      : killed_(killed), crash_at_(std::move(crash_at)) {
    static int n = 0;
    bus_ = std::make_shared<Prompt>(*bus::make_bus("memory:pair-" + std::to_string(++n)));
    service::HostOptions options;
    options.service = "admission";
    options.consumes = {"qm.placement"};
    options.produces = {qm::admission::kTopic};
    const auto admission = [] {
      return std::make_unique<qm::admission::AdmissionShell>(std::make_unique<qm::admission::Engine>(),
                                                             qm::admission::Codec{});
    };
    admission_ = std::make_unique<ServiceProcess>(ServiceProcess{options, admission, bus_, clock_});
    options = placement::host_options("default");
    options.consumes = {"qm.workload"};
    const auto placement = [rules] {
      return std::make_unique<placement::Shell>(std::make_unique<placement::Engine>(rules), placement::Codec());
    };
    placement_ = std::make_unique<ServiceProcess>(ServiceProcess{options, placement, bus_, clock_});
    admission_->start();
    placement_->start();
  }
  ~Pair() { disarm_crash_points(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void apply(const std::string& manifest) { submit(*admission_, apply_input(manifest)); }
  void job(const std::string& json) { submit(*admission_, watch_input("job", json)); }
  void watched(const std::string& name, std::string bytes) { submit(*placement_, watch_input(name, std::move(bytes))); }
  /// Second by second; `each` is called after each of them.
  void pass(
      Duration time, const std::function<void()>& each = [] {}) {
    for (const Instant end = clock_.now() + time; clock_.now() < end;) {
      clock_.advance(std::chrono::seconds(1));
      run_until_idle();
      each();
    }
  }
  /// Advances until placement's state fulfills `reached`; placement then pauses while admission handles its events.
  [[nodiscard]] bool pass_until(const std::function<bool(const placement::Engine&)>& reached, Duration most) {
    for (const Instant end = clock_.now() + most; clock_.now() < end;) {
      clock_.advance(std::chrono::seconds(1));
      while (admission_->turn()) {
      }
      while (placement_->turn()) {
        with_placement([&](const placement::Engine& engine) { paused_ = paused_ || reached(engine); });
        if (!paused_) continue;
        run_until_idle();
        return true;
      }
    }
    return false;
  }
  void resume() {
    paused_ = false;
    run_until_idle();
  }
  void run_until_idle(bool may_be_killed = true) {
    auto& victim = killed_ == Killed::kAdmission ? *admission_ : *placement_;
    const int lives = victim.lives;
    for (bool busy = true; busy;) {
      busy = false;
      for (auto* process : {admission_.get(), placement_.get()}) {
        if (paused_ && process == placement_.get()) continue;
        if (may_be_killed && killed_ != Killed::kNone && process == &victim && victim.lives == lives)
          arm_crash_point(crash_at_, 1, [](std::string_view) { throw Crash{}; });
        busy = process->turn() || busy;
        disarm_crash_points();
      }
    }
  }

  template <class Fn>
  void with_admission(Fn&& fn) {
    admission_->host->read(
        [&](const service::Shell& shell) { fn(static_cast<const qm::admission::AdmissionShell&>(shell).engine()); });
  }
  template <class Fn>
  void with_placement(Fn&& fn) {
    placement_->host->read([&](const service::Shell& shell) { fn(placement::engine_of(shell)); });
  }
  [[nodiscard]] Instant now() const { return clock_.now(); }
  [[nodiscard]] int kills() const { return admission_->lives + placement_->lives - 2; }

 private:
  /// At least once: after a crash the input is submitted again.
  void submit(ServiceProcess& process, const service::Input& input) {
    const int lives = process.lives;
    ASSERT_TRUE(process.host->submit(service::Input(input)));
    run_until_idle();
    if (process.lives == lives) return;
    ASSERT_TRUE(process.host->submit(service::Input(input)));
    run_until_idle(false);
  }

  Killed killed_;
  std::string crash_at_;
  bool paused_ = false;
  ManualClock clock_{*from_rfc3339("2026-11-21T08:00:00Z")};
  std::shared_ptr<bus::Bus> bus_;
  std::unique_ptr<ServiceProcess> admission_, placement_;
};

}  // namespace qm::testing
