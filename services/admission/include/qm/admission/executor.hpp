#pragma once
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"
#include "qm/service/shell.hpp"

#include <functional>
#include <string>

namespace qm::admission {

/// Does the intents of admission on Jobs and other kinds that are suspended as a whole: create (Jobs only), un-suspend,
/// suspend, delete, and the odd warning event. Where the
/// workload is pods, to un-suspend is to lift their gate, and to suspend is to evict them: a disruption budget puts that
/// off until the order's deadline, in domain time.
///
/// Each looks at the job first and does only what is still missing, so doing it twice changes nothing: a job that is
/// gone or another of the same name counts as done, one that has ended is reported so, and a template that carries a
/// later attempt is left alone. Writes carry the resource version that was looked at; a conflict is tried again.
///
/// Threads  any; intents of one job come one after the other.
class JobExecutor final : public service::Executor {
 public:
  /// Without a clock every deadline lies ahead.
  explicit JobExecutor(kube::Client& client, const DomainClock* clock = nullptr) : client_(client), clock_(clock) {}
  /// `awaited` says whether the job of a submission (namespace, name, intent) has still to show. One that has been seen
  /// and deleted, while the answer to its creation was lost, is then not brought back. Set before the host starts.
  void ask_first(
      std::function<bool(const std::string& ns, const std::string& name, const std::string& intent)> awaited) {
    awaited_ = std::move(awaited);
  }
  /// `url` says by which URL the ranks of a Job or pod save that does not say so itself; empty where nobody knows. Set
  /// before the host starts.
  void save_by(std::function<std::string(const Json& object)> url) { url_ = std::move(url); }
  Result<service::Outcome> execute(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;

 private:
  kube::Client& client_;
  const DomainClock* clock_;
  std::function<bool(const std::string&, const std::string&, const std::string&)> awaited_;
  std::function<std::string(const Json&)> url_;
};

/// Marks a job with the submission that made it, so that a repeated create knows its own.
inline constexpr const char* kSubmissionAnnotation = "quartermaster.dev/submission";

}  // namespace qm::admission
