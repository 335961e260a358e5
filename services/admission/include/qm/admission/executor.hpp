#pragma once
#include "qm/kube/client.hpp"
#include "qm/service/shell.hpp"

namespace qm::admission {

/// Does the intents of admission on Jobs: create, un-suspend, suspend, delete, and the odd warning event.
///
/// Each looks at the job first and does only what is still missing, so doing it twice changes nothing: a job that is
/// gone or another of the same name counts as done, one that has ended is reported so, and a template that carries a
/// later attempt is left alone. Writes carry the resource version that was looked at; a conflict is tried again.
///
/// Threads  any; intents of one job come one after the other.
class JobExecutor final : public service::Executor {
 public:
  explicit JobExecutor(kube::Client& client) : client_(client) {}
  Result<service::Outcome> execute(const store::IntentRow& intent) override;
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override;

 private:
  kube::Client& client_;
};

/// Marks a job with the submission that made it, so that a repeated create knows its own.
inline constexpr const char* kSubmissionAnnotation = "quartermaster.dev/submission";

}  // namespace qm::admission
