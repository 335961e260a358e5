#pragma once
#include "qm/admission/watch/observed_jobs.hpp"
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"
#include "qm/service/call_limit.hpp"
#include "qm/service/shell.hpp"

#include <functional>
#include <optional>
#include <string>

namespace qm::admission {

/// The outcome of a command about a job that `later` makes obsolete: an unsuspend by any later command about the job, a
/// suspend by another one of its attempt. After an outage of the API server no job is started whose quota was released
/// meanwhile.
[[nodiscard]] std::optional<service::Outcome> superseded_command(const store::IntentRow& intent,
                                                                 const store::IntentRow& later);

/// Executes the intents of admission on Jobs and other suspendable kinds: create (Jobs only), unsuspend, suspend,
/// delete, and warning events. For a workload of pods, unsuspend removes their scheduling gate and suspend evicts
/// them: a disruption budget delays an eviction until the deadline of the order, in domain time.
///
/// Each intent reads the job first and does only what is missing, so executing it twice changes nothing. To unsuspend,
/// the object that the watch delivered last is used instead where there is one; it is read if the write fails. A deleted
/// job, or another one of the same name, counts as done. A finished job is reported as such. A template with a later
/// attempt is not changed. Writes carry the resource version that was read; a conflict is retried.
///
/// Threads  any; intents of one job run one after the other.
class JobExecutor final : public service::Executor {
 public:
  /// Without a clock every deadline is in the future.
  explicit JobExecutor(kube::Client& client, const DomainClock* clock = nullptr) : client_(client), clock_(clock) {}
  /// `awaited` returns whether the job of a submission (namespace, name, intent) has not been observed yet. A job
  /// that was observed and deleted, while the result of its creation was lost, is then not created again. Set
  /// before the host starts.
  void authorize_first(
      std::function<bool(const std::string& ns, const std::string& name, const std::string& intent)> awaited) {
    awaited_ = std::move(awaited);
  }
  /// `url` returns the checkpoint URL for the ranks of a Job or pod that does not declare one; empty if unknown. Set
  /// before the host starts.
  void save_by(std::function<std::string(const Json& object)> url) { url_ = std::move(url); }
  /// Objects that need not be read. Set before the host starts.
  void start_from(ObservedJobs& observed) { observed_ = &observed; }
  /// At most `most` intents at once, fewer while the API server is busy: the clients that create Jobs are served first.
  /// Set before the host starts.
  void limit_calls(int most) { limit_.emplace(most); }
  [[nodiscard]] int most_at_once(SteadyDuration waited) const override {
    return limit_ ? limit_->calls(waited) : Executor::most_at_once(waited);
  }
  Result<service::Outcome> execute(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;
  [[nodiscard]] std::optional<service::Outcome> superseded(const store::IntentRow& intent,
                                                           const store::IntentRow& later) const override {
    return superseded_command(intent, later);
  }

 private:
  kube::Client& client_;
  const DomainClock* clock_;
  ObservedJobs* observed_ = nullptr;
  std::optional<service::CallLimit> limit_;
  std::function<bool(const std::string&, const std::string&, const std::string&)> awaited_;
  std::function<std::string(const Json&)> url_;
};

/// Marks a job with the submission that created it, so that a repeated create recognizes its own job.
inline constexpr const char* kSubmissionAnnotation = "quartermaster.dev/submission";

}  // namespace qm::admission
