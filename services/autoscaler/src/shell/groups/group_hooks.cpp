// Answers to lifecycle hooks of Auto Scaling groups.
#include "qm/autoscaler/shell.hpp"

namespace qm::autoscaler {

// A repetition is harmless: an instance that does not wait anymore is refused, which is the wanted state.
Result<service::Outcome> Executor::answer_hook(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string &group = want["group"].string(), &hook = want["hook"].string();
  const std::string& instance = want["instance"].string();
  const auto done = want["done"].boolean() ? aws_.complete_lifecycle_action(group, hook, instance)
                                           : aws_.record_lifecycle_heartbeat(group, hook, instance);
  if (done || done.error().code == Code::kInvalid || done.error().code == Code::kNotFound)
    return service::Outcome{"{}"};
  const bool again = done.error().retryable() || done.error().code == Code::kUnknown;
  return fail(Error{again ? Code::kUnavailable : done.error().code,
                    fmt::format("hook {} of {}: {}", hook, instance, done.error().message),
                    {},
                    {}});
}

}  // namespace qm::autoscaler
